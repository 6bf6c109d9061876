"""The chain of history (rule 8 of docs/protocol.md): which states are of the line that goes on, and where lines part.

Owns: these questions. Refuses to know: who asks, and what becomes of a state that is not.
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


def shared_steps(history: Sequence[Link], one: Version, other: Version) -> int:
    """The steps that the lines of two states have in common. What a generation made of which history does not know,
    because the store lost it, goes on from all before."""
    links = {link.generation: link for link in history}
    while one.generation != other.generation:
        older, newer = sorted((one, other))
        if (link := links.get(newer.generation)) is None:
            break
        one, other = older, Version(link.parent, link.base_step)
    return min(one.step, other.step)
