"""Which replica is sound when members of a group hold different bits.

Owns: that one rule, which every member applies to the same digests, and the coordinator to the report of them.
Does not guarantee: that the sound one is right; of two replicas nobody can tell.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from regroup.core.jobs import Formation

Digest = TypeVar("Digest", int, str)


def sound(digests: Sequence[Digest], formation: Formation, step: int) -> Digest:
    """The digest that more than half of the witnesses have; where there is none such, the leader's. Both by rank."""
    copies = receivers(formation, step)
    witnesses = [digest for rank, digest in enumerate(digests) if rank not in copies]
    digest, count = Counter(witnesses).most_common(1)[0]
    return digest if 2 * count > len(witnesses) else digests[formation.leader]


def receivers(formation: Formation, step: int) -> Sequence[int]:
    """The ranks that at this step hold what the leader gave them a moment ago: of what it gave, no witnesses."""
    return formation.receivers if step == formation.base.step else ()
