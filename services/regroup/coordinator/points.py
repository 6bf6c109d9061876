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
        before = known.get(point.step)
        if not point.samples and before is None:  # all that is told of it is its evaluation
            kept = await store.points(job, after_step=point.step - 1, limit=1)
            before = next((one for one in kept if one.step == point.step), None)
        alone = not point.samples and before is not None
        known[point.step] = replace(before, metrics=point.metrics) if alone and before is not None else point
    return list(known.values())
