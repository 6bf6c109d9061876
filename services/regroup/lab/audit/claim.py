"""What is audited: the coordinator's claim about a job, and which steps of which generation it makes up.

Owns: the walk along the chain of history, from the final state's generation to the seed, or to the other job's
checkpoint that the job begins from.
Refuses to know: records.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from regroup.core.jobs import Link
from regroup.lab.audit.wording import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What the coordinator says of a job, to be held against its workers' records."""

    history: tuple[Link, ...]
    tip: int | None  # the generation of the final state; None: nothing was formed
    steps: int  # committed
    begins: int = 0  # the first step of its own; what is before it, another job has trained
    final: bool  # that state is the last one: what lies beyond it is void, not under way
    dataset: int | None  # N; None: taken from the highest index read
    global_batch: int
    shards: int
    workers: Mapping[int, frozenset[str]] = field(
        default_factory=dict
    )  # who formed a generation, to name who is silent


def surviving(claim: Claim) -> tuple[dict[int, range], list[str]]:
    """The steps that each generation contributed to the final state, and where the history contradicts itself.

    A child takes its parent's state over at the child's base step: the parent's steps from there on are void.
    """
    links = {link.generation: link for link in claim.history}
    spans: dict[int, range] = {}
    generation, end = claim.tip or 0, claim.steps
    while generation != 0:
        link = links.get(generation)
        if link is None:
            return spans, [f"the history does not know generation {generation}, whose state was taken over"]
        if link.parent >= generation:
            return spans, [f"generation {generation} is said to descend from generation {link.parent}"]
        if link.base_step > end:
            return spans, [f"generation {generation} began at step {link.base_step}, beyond its state's step {end}"]
        spans[generation] = range(link.base_step, end)
        generation, end = link.parent, link.base_step
    if end == claim.begins:
        return spans, []
    if claim.begins:
        return spans, [f"the history leads back to step {end}, and the job is said to begin at step {claim.begins}"]
    return spans, [f"nothing in the history says where the first {plural(end, 'step')} came from"]
