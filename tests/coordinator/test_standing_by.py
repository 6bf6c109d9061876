"""A standby waits, says so, and leads when its turn comes, with either store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from regroup.coordinator.memory_store import MemoryStore
from regroup.coordinator.persistence import Lease, SharedStore, Standby, StoreUnavailable
from regroup.coordinator.serving import HttpServer, listen
from regroup.coordinator.standing_by import StandingBy, create_standby_app
from regroup.coordinator.store import RedisStore

LEASE = 0.4  # seconds


@pytest.fixture(params=["redis", "memory"])
async def store(request: pytest.FixtureRequest, key_prefix: str) -> AsyncIterator[SharedStore]:
    one = RedisStore(request.getfixturevalue("redis_url"), key_prefix) if request.param == "redis" else MemoryStore()
    yield one
    await one.close()


async def until(true: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(20):
        while True:
            if await true():
                return
            await asyncio.sleep(0.01)


async def keep_renewing(store: SharedStore, holder: str, fence: int) -> None:
    while True:
        assert await store.renew(holder, fence, LEASE)
        await asyncio.sleep(LEASE / 4)


async def test_a_standby_waits_while_the_leader_lives_and_leads_within_its_lease_once_it_died(
    store: SharedStore,
) -> None:
    assert await store.acquire("a", LEASE) == 1
    living = asyncio.create_task(keep_renewing(store, "a", 1))
    waiting = asyncio.create_task(StandingBy(store, "b", "a", LEASE).until_it_leads("http://b"))
    await until(store.standbys)
    assert await store.standbys() == [Standby("b", "http://b")]
    await asyncio.sleep(3 * LEASE)
    assert not waiting.done()
    assert await store.standbys() == [Standby("b", "http://b")], "it says so again and again"
    living.cancel()
    async with asyncio.timeout(LEASE + 1.0):
        assert await waiting == 2
    assert await store.standbys() == []


async def test_of_two_standbys_one_leads_and_the_other_waits_for_that_one(store: SharedStore) -> None:
    assert await store.acquire("a", LEASE) == 1
    standing = {name: StandingBy(store, name, "a", LEASE) for name in ("b", "c")}
    waiting = {name: asyncio.create_task(one.until_it_leads(f"http://{name}")) for name, one in standing.items()}
    await asyncio.wait(waiting.values(), return_when=asyncio.FIRST_COMPLETED)
    [leader] = [name for name, task in waiting.items() if task.done()]
    [other] = waiting.keys() - {leader}
    living = asyncio.create_task(keep_renewing(store, leader, waiting[leader].result()))

    async def seen() -> bool:
        return standing[other].leader == leader

    await until(seen)
    assert not waiting[other].done()
    for task in (living, waiting[other]):
        task.cancel()
    await asyncio.wait([waiting[other]])
    assert await store.standbys() == [], "one that is stopped is counted no more"


class Away(MemoryStore):
    away = False

    async def lease(self) -> Lease | None:
        if self.away:
            raise StoreUnavailable("the store is down: start it")
        return await super().lease()


async def test_a_store_that_is_away_for_a_while_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    store = Away()
    assert await store.acquire("a", LEASE) == 1
    standing = StandingBy(store, "b", "a", LEASE)
    waiting = asyncio.create_task(standing.until_it_leads("http://b"))
    store.away = True

    async def told() -> bool:
        return "trying on: the store is down" in caplog.text

    await until(told)
    assert not waiting.done()
    assert not standing.reachable
    store.away = False
    async with asyncio.timeout(20):
        assert await waiting == 2
    assert caplog.text.count("the store is down") == 1


async def test_what_answers_on_its_port_changes_while_connections_stay() -> None:
    leader = ["a"]
    server = HttpServer(create_standby_app("secret", lambda: leader[0], lambda: True), listen("127.0.0.1", 0))
    serving = asyncio.create_task(server.run_until_stopped())
    headers = {"Authorization": "Bearer secret"}
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
        assert (await http.get("/health")).json() == {"status": "standby"}
        assert (await http.get("/v1/jobs")).status_code == 401
        assert "the one that leads: a" in (await http.delete("/v1/jobs/x", headers=headers)).json()["detail"]
        leader[0] = "c"
        assert "the one that leads: c" in (await http.get("/v1/cluster", headers=headers)).json()["detail"]
        server.app = create_standby_app("another", lambda: "d", lambda: True)
        assert (await http.get("/v1/cluster", headers=headers)).status_code == 401
    server.stop()
    async with asyncio.timeout(20):
        await serving
