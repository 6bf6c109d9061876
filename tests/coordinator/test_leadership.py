"""A starter takes over from the dead and makes way for the living, with either store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from regroup.coordinator.leadership import AnotherLeads, lead
from regroup.coordinator.memory_store import MemoryStore
from regroup.coordinator.persistence import Store
from regroup.coordinator.store import RedisStore

LEASE = 0.3  # seconds


@pytest.fixture(params=["redis", "memory"])
async def store(request: pytest.FixtureRequest, key_prefix: str) -> AsyncIterator[Store]:
    one = RedisStore(request.getfixturevalue("redis_url"), key_prefix) if request.param == "redis" else MemoryStore()
    yield one
    await one.close()


async def test_the_first_leads_at_once(store: Store) -> None:
    async def never(seconds: float) -> None:
        raise AssertionError("it waited")

    assert await lead(store, "a", 60.0, never) == 1


async def test_a_dead_holders_lease_is_waited_out_and_the_fence_grows(store: Store) -> None:
    assert await store.acquire("dead", LEASE) == 1
    async with asyncio.timeout(20):
        assert await lead(store, "b", LEASE, asyncio.sleep) == 2


async def test_a_holder_that_renewed_before_it_died_is_dead_all_the_same(store: Store) -> None:
    assert await store.acquire("dead", LEASE) == 1
    assert await store.renew("dead", 1, LEASE)
    async with asyncio.timeout(20):
        assert await lead(store, "b", LEASE, asyncio.sleep) == 2


async def test_a_starter_with_a_shorter_lease_waits_out_the_longer_one(store: Store) -> None:
    assert await store.acquire("dead", LEASE) == 1
    async with asyncio.timeout(20):
        assert await lead(store, "b", LEASE / 10, asyncio.sleep) == 2


async def test_a_renewing_holder_makes_the_starter_give_up_in_one_line(store: Store) -> None:
    assert await store.acquire("alive", 60.0) == 1
    looked = 0

    async def meanwhile(seconds: float) -> None:
        nonlocal looked
        looked += 1
        assert looked == 1, "once was enough to see it"
        assert 0 < seconds <= 60.0
        assert await store.renew("alive", 1, 60.0)

    with pytest.raises(
        AnotherLeads, match=r"another coordinator leads this cluster \(alive\): stop it first"
    ) as caught:
        await lead(store, "b", 60.0, meanwhile)
    assert caught.value.holder == "alive"
    assert "\n" not in str(caught.value)
    assert await store.renew("alive", 1, 60.0)


async def test_of_two_starters_that_wait_for_the_same_dead_one_leads(store: Store) -> None:
    await store.acquire("dead", LEASE)
    ended, over = asyncio.Event(), asyncio.Event()

    async def start(holder: str) -> int:
        fence = await lead(store, holder, 60.0, lambda seconds: asyncio.sleep(min(seconds, LEASE / 10)))
        ended.set()
        return fence

    async def keep_renewing() -> None:
        """As who leads does: the other one may have looked for the first time after it renewed."""
        await ended.wait()
        while not over.is_set():
            held = await store.lease()
            assert held is not None
            assert await store.renew(held.holder, held.fence, 60.0)
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), LEASE / 10)

    renewing = asyncio.create_task(keep_renewing())
    async with asyncio.timeout(20):
        fences = await asyncio.gather(start("b"), start("c"), return_exceptions=True)
        over.set()
        await renewing
    assert sorted(type(one).__name__ for one in fences) == ["AnotherLeads", "int"]


async def test_a_dead_holders_lease_is_outlasted_by_a_thousandth_of_it_and_no_more() -> None:
    now = 100.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    store = MemoryStore(clock=lambda: now)
    await store.acquire("dead", 15.0)
    assert await lead(store, "b", 15.0, sleep) == 2
    assert 115.0 <= now < 115.016


async def test_a_starter_sees_within_a_third_of_the_lease_that_the_holder_lives() -> None:
    now, renewed = 100.0, 100.0

    async def sleep(seconds: float) -> None:
        """The holder renews each quarter of its lease, as `Shell` does."""
        nonlocal now, renewed
        now += seconds
        assert now < 105.0, "it has renewed, and was seen"
        while renewed + 15.0 / 4 <= now:
            renewed += 15.0 / 4
            assert await store.renew("alive", 1, 15.0)

    store = MemoryStore(clock=lambda: now)
    await store.acquire("alive", 15.0)
    with pytest.raises(AnotherLeads):
        await lead(store, "b", 15.0, sleep)
