"""Which replica is sound when members of a group hold different bits.

Owns: that one rule, which every member applies to the same digests, and the coordinator to the report of them.
Does not guarantee: that the sound one is right; of two replicas nobody can tell.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

Digest = TypeVar("Digest", int, str)


def sound(digests: Sequence[Digest], leader: int) -> Digest:
    """The digest that more than half of the members have; where there is none such, the leader's. Both by rank."""
    digest, count = Counter(digests).most_common(1)[0]
    return digest if 2 * count > len(digests) else digests[leader]
