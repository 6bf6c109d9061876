"""The lives in which a bug is looked for: all, or those with the kind of fault, or the sequence, that it takes.

Owns: which seeds these are. Refuses to know: the bugs, and how a life is lived.
"""

from collections.abc import Iterable, Iterator

from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.plan import Plan
from regroup.lab.sim.lives.sequences import SEQUENCES, drawn, may_have


def plans_with(among: str | None, seeds: Iterable[int]) -> Iterator[Plan]:
    """Of these seeds, in their order; `among`: the name of a kind of fault, or of a sequence."""
    for seed in seeds:
        if among in SEQUENCES and not may_have(among, seed):
            continue
        plan = draw(seed)
        kinds = {fault.kind.name for fault in plan.faults}
        if among is None or (drawn(among, seed, plan.workers) if among in SEQUENCES else among in kinds):
            yield plan
