"""What is measured of a step is kept whole, whoever evaluates it, and when."""

from dataclasses import replace

from regroup.coordinator.memory_store import MemoryStore
from regroup.coordinator.points import whole
from regroup.core.jobs import StepPoint

TRAINED = StepPoint(step=3, loss=0.5, weight=8.0, samples=8, seconds=0.1, exchange_seconds=0.01)
EVALUATED = StepPoint(3, None, 0.0, 0, 0.0, 0.0, metrics={"accuracy": 0.9})  # by who went on from there
BOTH = replace(TRAINED, metrics={"accuracy": 0.9})


async def store_with(*points: StepPoint) -> MemoryStore:
    store = MemoryStore()
    fence = await store.acquire("c1", 3600.0)
    assert fence is not None
    await store.append_points(fence, "j", points)
    return store


async def test_an_evaluation_of_a_step_that_was_measured_before_takes_its_loss_from_nobody() -> None:
    assert await whole(await store_with(TRAINED), "j", [EVALUATED]) == [BOTH]


async def test_an_evaluation_that_comes_with_its_step_is_added_to_it() -> None:
    assert await whole(await store_with(), "j", [TRAINED, EVALUATED]) == [BOTH]


async def test_a_step_that_is_trained_again_is_measured_again() -> None:
    again = replace(TRAINED, loss=0.4)
    assert await whole(await store_with(BOTH), "j", [again]) == [again]


async def test_an_evaluation_of_a_step_that_nobody_measured_stands_alone() -> None:
    assert await whole(await store_with(replace(TRAINED, step=4)), "j", [EVALUATED]) == [EVALUATED]
