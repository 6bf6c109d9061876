"""One contract, kept by the store on a real Redis and by its twin in memory."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

from regroup.coordinator import embedded
from regroup.coordinator.memory_store import MemoryStore
from regroup.coordinator.persistence import CameLate, Fenced, SharedStore, Standby, Store, StoreUnavailable
from regroup.coordinator.store import RedisStore
from regroup.core.commands import next_moment
from regroup.core.jobs import Fingerprint, Formation, Job, JobPhase, Link, Member, Round, Seat, StepPoint, Version
from regroup.core.notes import Note
from regroup.core.spec import JobSpec
from regroup.core.workers import Worker
from regroup.wire.codec import Undecodable, decode_value

LEASE = 30.0  # seconds; nothing here waits for it
EVENTS_KEPT, POINTS_KEPT, ALL_POINTS_KEPT = 50, 20, 50

member = Member("w1", "i1")
job = Job(
    id="j1",
    spec=JobSpec(task="digits", steps=100, options={"lr": 0.01, "layers": [8, 8]}, max_workers=2),
    submitted=1.5,
    phase=JobPhase.REGROUPING,
    generation=3,
    round=Round(3, False, (member,), "w2 was killed"),
    formation=Formation(2, (Seat(member, Version(1, 7)),), 0, Version(1, 7), (0, 0), "127.0.0.1:1/x", 8),
    history=(Link(1, 0, 0), Link(2, 1, 7)),
    fingerprint=Fingerprint("c", "d", 1797),
    result={"accuracy": 0.9},
    refused={"w3": "other code"},
)
worker = Worker(name="w1", boot="b", device="cpu", host="here", pid=1, version="0", job="j1")


@pytest.fixture(params=["redis", "memory"])
async def store(request: pytest.FixtureRequest, key_prefix: str) -> AsyncIterator[SharedStore]:
    limits = {"events_kept": EVENTS_KEPT, "points_kept": POINTS_KEPT, "all_points_kept": ALL_POINTS_KEPT}
    if request.param == "redis":
        one: SharedStore = RedisStore(request.getfixturevalue("redis_url"), key_prefix, **limits)
    else:
        one = MemoryStore(**limits)
    yield one
    await one.close()


async def first_fence(store: Store) -> int:
    fence = await store.acquire("a", LEASE)
    assert fence is not None
    return fence


async def test_a_new_store_is_empty_and_led_by_nobody(store: Store) -> None:
    saved = await store.load()
    assert (dict(saved.jobs), dict(saved.workers)) == ({}, {})
    assert await store.events() == []
    assert await store.points("j1") == []
    assert await store.lease() is None


async def test_what_is_saved_is_loaded_as_it_was(store: Store) -> None:
    fence = await first_fence(store)
    await store.save(fence, [job], [worker])
    saved = await store.load()
    assert saved.jobs == {"j1": job}
    assert saved.workers == {"w1": worker}


async def test_saving_replaces_what_is_given_and_leaves_the_rest(store: Store) -> None:
    fence = await first_fence(store)
    other, gone = replace(job, id="j2"), replace(worker, name="w2")
    await store.save(fence, [job, other], [worker, gone])
    await store.save(fence, [replace(job, step=9)], [replace(worker, errors=1)], ["w2", "never there"])
    saved = await store.load()
    assert saved.jobs == {"j1": replace(job, step=9), "j2": other}
    assert saved.workers == {"w1": replace(worker, errors=1)}


async def test_jobs_are_loaded_in_the_order_of_their_submission(store: Store) -> None:
    fence = await first_fence(store)
    many = [replace(job, id=f"j{number * 37 % 200}", submitted=float(number // 2)) for number in range(200)]
    await store.save(fence, list(reversed(many)))
    expected = sorted(many, key=lambda one: (one.submitted, one.id))
    assert list((await store.load()).jobs.values()) == expected


async def test_a_job_comes_after_those_of_a_coordinator_whose_clock_was_ahead(store: Store) -> None:
    """An hour: the machine that led before, and another one that leads now."""
    fence = await first_fence(store)
    earlier = replace(job, id="zzz", submitted=next_moment({}, 10_000.0))
    later = replace(job, id="aaa", submitted=next_moment({"zzz": earlier}, 6_400.0))
    await store.save(fence, [later, earlier])
    assert list((await store.load()).jobs) == ["zzz", "aaa"]
    assert next_moment({"zzz": earlier}, 10_001.0) == 10_001.0


async def test_thousands_of_workers_are_saved_at_once(store: Store) -> None:
    fence = await first_fence(store)
    many = [replace(worker, name=f"w{number}") for number in range(5000)]
    await store.save(fence, workers=many)
    assert len((await store.load()).workers) == 5000


async def test_others_have_their_turn_while_very_many_jobs_are_read(
    redis_url: str, key_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among them whoever renews the lease of the coordinator that reads them."""
    store = RedisStore(redis_url, key_prefix)
    fence = await first_fence(store)
    many = {f"j{number}": replace(job, id=f"j{number}") for number in range(5000)}
    await store.save(fence, list(many.values()))
    read, seen = 0, [0]

    def counted(*what: Any) -> Any:
        nonlocal read
        read += 1
        return decode_value(*what)

    async def others() -> None:
        while True:
            seen.append(read)
            await asyncio.sleep(0)

    monkeypatch.setattr("regroup.coordinator.store.decode_value", counted)
    beside = asyncio.create_task(others())
    loaded = await store.load()
    beside.cancel()
    await store.close()
    assert loaded.jobs == many
    assert read == 5000
    assert max(after - before for before, after in pairwise([*seen, read])) <= 500


async def test_a_held_leadership_is_not_given_out_again(store: Store) -> None:
    fence = await first_fence(store)
    assert await store.acquire("b", LEASE) is None
    assert await store.acquire("a", LEASE) is None
    held = await store.lease()
    assert held is not None
    assert (held.holder, held.fence, held.renewals) == ("a", fence, 0)
    assert LEASE - 5 < held.remaining <= LEASE


async def test_only_one_of_many_starters_leads(store: Store) -> None:
    fences = await asyncio.gather(*(store.acquire(f"c{number}", LEASE) for number in range(20)))
    assert sum(fence is not None for fence in fences) == 1


async def test_renewing_is_seen_by_others(store: Store) -> None:
    fence = await first_fence(store)
    for renewals in (1, 2):
        assert await store.renew("a", fence, LEASE)
        held = await store.lease()
        assert held is not None
        assert held.renewals == renewals


async def test_a_released_leadership_is_free_at_once_and_its_fence_is_used_up(store: Store) -> None:
    fence = await first_fence(store)
    await store.release("a", fence)
    assert await store.lease() is None
    assert not await store.renew("a", fence, LEASE)
    with pytest.raises(Fenced):
        await store.save(fence, [job])
    newer = await store.acquire("b", LEASE)
    assert newer is not None
    assert newer > fence


async def test_nobody_releases_or_renews_what_another_holds(store: Store) -> None:
    fence = await first_fence(store)
    for holder, number in (("b", fence), ("a", fence + 1), ("a", fence - 1)):
        await store.release(holder, number)
        assert not await store.renew(holder, number, LEASE)
    held = await store.lease()
    assert held is not None
    assert held.renewals == 0
    await store.save(fence, [job])


async def ran_out(store: Store) -> None:
    held = await store.lease()
    if held is not None:
        await asyncio.sleep(held.remaining)
        await ran_out(store)


async def test_a_lease_that_ran_out_is_taken_by_another_and_the_old_fence_writes_nothing(store: Store) -> None:
    old = await store.acquire("a", 0.05)
    assert old is not None
    await ran_out(store)
    new = await store.acquire("b", LEASE)
    assert new is not None
    assert new > old
    assert not await store.renew("a", old, LEASE)
    with pytest.raises(Fenced, match=f"fence {old} is not the last one given out, which is {new}"):
        await store.save(old, [job], [worker], [], [Note("kind", "reason")])
    saved = await store.load()
    assert not saved.jobs
    assert not saved.workers
    assert await store.events() == []


async def test_a_lease_that_ran_out_untaken_can_be_taken_up_again(store: Store) -> None:
    fence = await store.acquire("a", 0.05)
    assert fence is not None
    await ran_out(store)
    await store.save(fence, [job])
    assert await store.renew("a", fence, LEASE)
    assert await store.acquire("b", LEASE) is None


async def test_who_waits_is_known_to_all_until_it_says_no_more_or_nothing(store: SharedStore) -> None:
    assert await store.standbys() == []
    b, c = Standby("host b, pid 1, keys k", "http://b:8787"), Standby("host c, pid 2, keys k", "http://c:8787")
    for standby in (c, b, c):
        await store.stand_by(standby, LEASE)
    assert await store.standbys() == [b, c]
    await store.stand_by(b, 0)
    await store.stand_by(c, 0.05)
    async with asyncio.timeout(10):
        while True:
            if not await store.standbys():
                break
            await asyncio.sleep(0.01)


async def test_a_fence_that_was_never_given_out_writes_nothing(store: Store) -> None:
    with pytest.raises(Fenced):
        await store.save(7, [job])
    assert not (await store.load()).jobs


async def test_notes_become_events_in_their_order(store: Store) -> None:
    fence = await first_fence(store)
    notes = [Note("regrouping", "w2 was killed", "j1", "w2", {"generation": 3}), Note("registered", "w3 came")]
    saved = await store.save(fence, notes=notes, at=12.25)
    assert [(event.note, event.at) for event in saved] == [(note, 12.25) for note in notes]
    assert await store.events() == list(saved)


async def test_events_are_read_on_from_any_of_them(store: Store) -> None:
    fence = await first_fence(store)
    events = []
    for number in range(10):
        events += await store.save(fence, notes=[Note("count", str(number), job=f"j{number % 2}")], at=float(number))
    assert await store.events(events[3].id) == events[4:]
    assert await store.events(events[-1].id) == []
    assert await store.events(limit=3) == events[:3]
    assert await store.events(events[3].id, limit=2) == events[4:6]
    assert await store.events(job="j1") == events[1::2]
    assert await store.events(events[3].id, "j1", 2) == [events[5], events[7]]


async def test_the_timeline_is_capped_and_reading_on_from_a_lost_event_goes_on_with_the_oldest(
    store: Store,
) -> None:
    fence = await first_fence(store)
    events = await store.save(fence, notes=[Note("count", str(number)) for number in range(3 * EVENTS_KEPT)])
    assert await store.events() == list(events[-EVENTS_KEPT:])
    assert await store.events(events[0].id) == list(events[-EVENTS_KEPT:])


@pytest.mark.parametrize("after", ["x", "1", "1-", "-1", "1-x", "1-2-3", "99999999999999999999-0", "٣-١", " 1-1"])
async def test_what_is_no_event_id_is_refused(store: Store, after: str) -> None:
    with pytest.raises(ValueError, match="is no event's id"):
        await store.events(after)


def point(step: int, loss: float | None = 0.5) -> StepPoint:
    return StepPoint(step, loss, 64.0, 64, 0.1, 0.02, {"accuracy": 0.5})


async def test_points_come_back_by_step(store: Store) -> None:
    fence = await first_fence(store)
    await store.append_points(fence, "j1", [point(2), point(1)])
    await store.append_points(fence, "j1", [point(3)])
    await store.append_points(fence, "j2", [point(9)])
    await store.append_points(fence, "j1", [])
    assert await store.points("j1") == [point(1), point(2), point(3)]
    assert await store.points("j1", after_step=1) == [point(2), point(3)]
    assert await store.points("j1", after_step=0, limit=1) == [point(1)]
    assert await store.points("j2") == [point(9)]


async def test_a_later_point_of_a_step_replaces_the_earlier_one(store: Store) -> None:
    fence = await first_fence(store)
    await store.append_points(fence, "j1", [point(1), point(2, 0.5), point(2, 0.4)])
    await store.append_points(fence, "j1", [point(2, 0.3)])
    assert await store.points("j1") == [point(1), point(2, 0.3)]


async def test_a_loss_history_is_capped_at_its_newest_steps(store: Store) -> None:
    fence = await first_fence(store)
    await store.append_points(fence, "j1", [point(step) for step in range(3 * POINTS_KEPT)])
    assert [one.step for one in await store.points("j1")] == list(range(2 * POINTS_KEPT, 3 * POINTS_KEPT))


async def test_all_histories_together_are_capped_and_the_one_that_grew_longest_ago_is_thinned(store: Store) -> None:
    fence = await first_fence(store)

    async def steps_of(id: str) -> list[int]:
        return [one.step for one in await store.points(id)]

    for id in ("j1", "j2", "j1", "j3"):
        await store.append_points(fence, id, [point(step) for step in range(POINTS_KEPT)])
    assert await steps_of("j2") == list(range(1, POINTS_KEPT, 2)), "every other step, and the last"
    assert await steps_of("j1") == await steps_of("j3") == list(range(POINTS_KEPT))
    await store.append_points(fence, "j4", [point(step) for step in range(POINTS_KEPT)])
    assert await steps_of("j2") == [], "what would be left is no curve any more"
    assert await steps_of("j1") == list(range(1, POINTS_KEPT, 2))
    assert await steps_of("j3") == await steps_of("j4") == list(range(POINTS_KEPT))
    await store.save(fence, void_points=[("j1", 0), ("j3", 0)])
    for id in ("j2", "j1"):
        await store.append_points(fence, id, [point(step) for step in range(9)])
    assert (await steps_of("j2"), await steps_of("j1")) == (list(range(9)), list(range(9)))
    assert await steps_of("j4") == list(range(POINTS_KEPT)), "what is void or gone counts no more"


async def test_void_points_go_with_the_save_that_makes_them_void_and_those_that_follow_stay(store: Store) -> None:
    fence = await first_fence(store)
    await store.append_points(fence, "j1", [point(step) for step in range(3 * POINTS_KEPT)])
    await store.append_points(fence, "j2", [point(step) for step in range(5)])
    await store.save(fence, [job], void_points=[("j1", 0), ("j2", 3), ("never there", 0)])
    assert await store.points("j1") == []
    assert [one.step for one in await store.points("j2")] == [0, 1, 2]
    await store.append_points(fence, "j1", [point(0), point(1)])
    assert [one.step for one in await store.points("j1")] == [0, 1]


async def test_points_that_come_after_a_save_sent_later_made_some_void_are_refused(store: Store) -> None:
    """Whole: the store cannot know which of them still count. Other saves do not overtake them, nor other jobs'."""
    fence = await first_fence(store)
    await store.append_points(fence, "j1", [point(6)])
    void, again, others = (store.append_points(fence, id, [point(6), point(7)]) for id in ("j1", "j1", "j2"))
    await store.save(fence, [job])
    await void
    await store.save(fence, [job], void_points=[("j1", 7)])
    with pytest.raises(CameLate, match="of job j1 void meanwhile"):
        await again
    await others
    assert [one.step for one in await store.points("j1")] == [6]
    assert [one.step for one in await store.points("j2")] == [6, 7]
    await store.append_points(fence, "j1", [point(7, 0.4)])
    assert await store.points("j1") == [point(6), point(7, 0.4)]


async def test_an_old_fence_lengthens_no_loss_history(store: Store) -> None:
    old = await first_fence(store)
    await store.append_points(old, "j1", [point(1)])
    await store.release("a", old)
    with pytest.raises(Fenced):
        await store.append_points(old, "j1", [point(2)])
    assert await store.points("j1") == [point(1)]


async def test_a_loss_that_is_not_finite_is_kept(store: Store) -> None:
    await store.append_points(await first_fence(store), "j1", [point(1, nan), point(2, inf), point(3, None)])
    first, *others = await store.points("j1")
    assert first.loss is not None
    assert isnan(first.loss)
    assert [one.loss for one in others] == [inf, None]


async def test_two_prefixes_are_two_clusters(redis_url: str, key_prefix: str) -> None:
    one, other = RedisStore(redis_url, key_prefix + "one:"), RedisStore(redis_url, key_prefix + "other:")
    assert await one.acquire("a", LEASE) == 1
    await one.save(1, [job], notes=[Note("kind", "reason")])
    assert await other.acquire("b", LEASE) == 1
    assert not (await other.load()).jobs
    assert await other.events() == []
    for store in (one, other):
        await store.close()


async def test_every_key_stands_in_the_scripts_header(redis_url: str, key_prefix: str) -> None:
    store, client = RedisStore(redis_url, key_prefix), redis.asyncio.Redis.from_url(redis_url)
    fence = await first_fence(store)
    await store.save(fence, [job], [worker], [], [Note("kind", "reason")], void_points=[("j1", 0)])
    await store.append_points(fence, "j1", [point(1)])
    await store.stand_by(Standby("b", "http://b"), LEASE)
    keys = {key.decode().removeprefix(key_prefix) for key in await client.keys(key_prefix + "*")}
    assert keys == {
        "fence",
        "leader",
        "saves",
        "jobs",
        "workers",
        "events",
        "points:j1",
        "histories",
        "measured",
        "standbys",
        "voided",
    }
    assert await client.ttl(key_prefix + "fence") == -1
    await store.close()
    await client.aclose()


def remembered(store: RedisStore) -> tuple[Any, list[tuple[object, object]]]:
    """Its script, and what is sent to it from now on: so that it can be sent once more, later."""
    sent: list[tuple[object, object]] = []
    script = store._script

    async def remembering(keys: list[str], arguments: list[object]) -> object:
        sent.append((keys, arguments))
        return await script(keys, arguments)

    store._script = remembering  # type: ignore[assignment]
    return script, sent


async def test_a_save_that_comes_late_undoes_no_later_one(redis_url: str, key_prefix: str) -> None:
    store = RedisStore(redis_url, key_prefix)
    fence = await first_fence(store)
    script, sent = remembered(store)
    await store.save(fence, [replace(job, step=1)], notes=[Note("kind", "first")])
    await store.save(fence, [replace(job, step=2)])
    late = await script(*sent[0])  # given up after its time-out, and still under way in the network
    assert late[0] == 0
    assert (await store.load()).jobs["j1"].step == 2
    assert len(await store.events()) == 1
    await store.release("a", fence)
    successor = RedisStore(redis_url, key_prefix)
    newer = await successor.acquire("b", LEASE)
    assert newer is not None
    await successor.save(newer, [replace(job, step=3)])  # it counts anew
    assert (await store.load()).jobs["j1"].step == 3
    for one in (store, successor):
        await one.close()


async def test_points_that_come_late_bring_nothing_void_back(redis_url: str, key_prefix: str) -> None:
    store = RedisStore(redis_url, key_prefix)
    fence = await first_fence(store)
    script, sent = remembered(store)
    await store.append_points(fence, "j1", [point(7), point(8)])
    await store.save(fence, [job])
    assert await script(*sent[0]) == 1, "what a save left as it was may come twice"
    await store.save(fence, [job], void_points=[("j1", 7)])
    late = await script(*sent[0])  # given up after its time-out, and still under way in the network
    assert await store.points("j1") == []
    assert late == -1
    await store.release("a", fence)
    successor = RedisStore(redis_url, key_prefix)
    newer = await successor.acquire("b", LEASE)
    assert newer is not None
    await successor.append_points(newer, "j1", [point(7, 0.4)])  # it counts anew
    assert await successor.points("j1") == [point(7, 0.4)]
    for one in (store, successor):
        await one.close()


async def test_whoever_is_cancelled_in_a_call_is_cancelled_whenever_that_comes(redis_url: str, key_prefix: str) -> None:
    store = RedisStore(redis_url, key_prefix)
    kept_on = 0
    for number in range(300):
        calls = asyncio.create_task(store.lease() if number % 2 else store.acquire("a", LEASE))  # type: ignore[arg-type]
        for _ in range(number % 20):
            await asyncio.sleep(0)
        if not calls.cancel():
            continue
        await asyncio.wait([calls])
        kept_on += not calls.cancelled()
    await store.close()
    assert kept_on == 0


async def test_whoever_is_cancelled_as_a_call_fails_is_cancelled(redis_url: str, key_prefix: str) -> None:
    """Else it would take the store for away, and try again for ever."""
    for rounds in range(8):
        store = RedisStore(redis_url, f"{key_prefix}{rounds}")
        fence = await first_fence(store)
        pool = store._redis.connection_pool
        connection = await pool.get_connection()
        await pool.release(connection)
        connection._writer.drain = connection_lost
        call = asyncio.create_task(store.renew("a", fence, LEASE))
        for _ in range(rounds):
            await asyncio.sleep(0)
        if call.cancel():
            await asyncio.wait([call])
            assert call.cancelled(), f"after {rounds} rounds"
        else:
            assert isinstance(call.exception(), StoreUnavailable)
        await store.close()


async def connection_lost() -> None:
    """As asyncio drains what it cannot send any more."""
    await asyncio.sleep(0)
    raise ConnectionResetError("Connection lost")


async def test_any_number_of_readers_leave_the_store_to_whoever_leads(redis_url: str, key_prefix: str) -> None:
    store = RedisStore(redis_url, key_prefix)
    fence = await first_fence(store)
    events = [asyncio.create_task(store.events()) for _ in range(150)]  # more than a client has connections
    points = [asyncio.create_task(store.points("j1")) for _ in range(150)]
    renewed = asyncio.create_task(store.renew("a", fence, LEASE))
    assert await asyncio.gather(*events, *points) == [[]] * 300
    assert await renewed
    await store.close()


async def test_a_redis_that_may_lose_what_it_answered_is_told_in_one_line(tmp_path: Path) -> None:
    with embedded.start(tmp_path) as server:
        store, client = RedisStore(server.url), redis.asyncio.Redis.from_url(server.url)
        assert await store.weakness() is None
        await client.config_set("appendfsync", "everysec")
        assert "(appendfsync everysec): configure appendfsync always" in str(await store.weakness())
        await client.config_set("appendonly", "no")
        told = str(await store.weakness())
        assert "appendonly no and appendfsync everysec" in told
        assert "\n" not in told
        await client.acl_setuser("guest", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-config"])
        guest = RedisStore(server.url.replace("unix://", "unix://guest:any@"))
        assert await guest.weakness() is None, "nothing can be known"
        for one in (store, guest):
            await one.close()
        await client.aclose()


async def test_a_stored_value_that_cannot_be_read_is_named(redis_url: str, key_prefix: str) -> None:
    store, client = RedisStore(redis_url, key_prefix), redis.asyncio.Redis.from_url(redis_url)
    await client.hset(key_prefix + "jobs", "j9", b'{"v":2,"type":"Job","body":{}}')
    with pytest.raises(
        Undecodable,
        match=r"job j9 in the store cannot be read: version 2 .* only version 1; start the version of Regroup",
    ):
        await store.load()
    await store.close()
    await client.aclose()


@pytest.mark.parametrize(
    "url", ["redis://user:hunter2@127.0.0.1:1/0", "unix://user:hunter2@/nowhere/redis.sock?db=0"], ids=["tcp", "unix"]
)
async def test_an_unreachable_redis_is_said_in_one_line_without_its_password(url: str) -> None:
    store = RedisStore(url)
    with pytest.raises(StoreUnavailable, match="start it, or set REGROUP_REDIS_URL") as caught:
        await store.load()
    with pytest.raises(StoreUnavailable):
        await store.acquire("a", LEASE)
    await store.close()
    message = str(caught.value)
    assert "hunter2" not in message
    assert "\n" not in message
    assert "127.0.0.1:1" in message or "/nowhere/redis.sock" in message


def test_an_address_that_is_none_is_said_in_one_line_without_its_password() -> None:
    with pytest.raises(StoreUnavailable, match="looks like redis://") as caught:
        RedisStore("http://user:hunter2@host")
    assert "hunter2" not in str(caught.value)


async def test_jobs_that_take_long_to_read_and_keep_coming_are_read_to_their_end(
    redis_url: str, key_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is for a silence. Here it is a twentieth of what it is, and so are the jobs: 10,000 of 20 KB."""
    writer = RedisStore(redis_url, key_prefix)
    fence = await writer.acquire("a", 60.0)
    job = Job(id="j", spec=JobSpec(task="digits", steps=1), submitted=0.0, phase=JobPhase.FAILED, error="x" * 20_000)
    for first in range(0, 10_000, 100):
        await writer.save(fence, [replace(job, id=f"j{n}") for n in range(first, first + 100)])
    await writer.close()
    monkeypatch.setattr("regroup.coordinator.store.ANSWER", 0.25)
    store = RedisStore(redis_url, key_prefix)
    try:
        assert len((await store.load()).jobs) == 10_000
    finally:
        await store.close()
