"""The chain of history (rule 8 of docs/protocol.md): which states are part of the line that goes on.

Owns: that question. Refuses to know: who asks, and what becomes of a state that is not.
"""

from collections.abc import Sequence

from regroup.core.jobs import Link, Version


def survives(history: Sequence[Link], state: Version, committed: int) -> bool:
    """Whether this state is part of the line that ends in the last generation.

    `committed`: the steps that all members of the last generation have committed. Of an older generation, what lies
    beyond the base of the next one in the line is void.
    """
    links = {link.generation: link for link in history}
    generation, end = (history[-1].generation if history else 0), committed
    while generation > state.generation:
        if (link := links.get(generation)) is None or link.parent >= generation:
            return False  # what the store lost, or never had, says nothing
        generation, end = link.parent, link.base_step
    return generation == state.generation and state.step <= end
