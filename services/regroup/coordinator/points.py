"""What is measured of the steps, made whole on its way to the store.

Owns: that an evaluation is added to what is known of its step, and takes nothing away. Whoever went on from a
checkpoint at that step measured nothing of it itself.
Refuses to know: when points are written, and which are void (`shell`).
"""

from collections.abc import Iterable
from dataclasses import replace

from regroup.coordinator.persistence import Store
from regroup.core.jobs import StepPoint


async def whole(store: Store, job: str, points: Iterable[StepPoint]) -> list[StepPoint]:
    """One of each step, with its evaluation. Raises StoreUnavailable."""
    known: dict[int, StepPoint] = {}
    for point in points:
        if not point.samples:  # all that is told of it is its evaluation
            before = known.get(point.step) or await _kept(store, job, point.step)
            point = point if before is None else replace(before, metrics=point.metrics)
        known[point.step] = point
    return list(known.values())


async def _kept(store: Store, job: str, step: int) -> StepPoint | None:
    kept = await store.points(job, after_step=step - 1, limit=1)
    return next((one for one in kept if one.step == step), None)
