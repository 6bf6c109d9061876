"""The shell over the in-memory store and a real link: persist first, answer as a leader only, stop when fenced."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from regroup.coordinator.memory_store import MemoryStore
from regroup.coordinator.persistence import Saved, StoreUnavailable, Unconfirmed
from regroup.coordinator.shell import Leadership, LeadershipLost, Shell
from regroup.core.cluster import JobEnded, NoSuchJob, Policy
from regroup.core.jobs import Job, JobPhase, Wanted
from regroup.core.messages.agent_reports import AgentRegistered, Heartbeat
from regroup.core.messages.commands import PauseJob, ResumeJob, StopJob, SubmitJob
from regroup.core.messages.orders import Go, Heard, ListRecords, Order, ReadRecords, Welcome
from regroup.core.spec import JobSpec
from regroup.wire.keys import server_keys, server_public, worker_keys
from regroup.wire.link import Hub, Line
from regroup.worker import archive

SPEC = JobSpec(task="digits", steps=10)
LEASE = 5.0
REGISTERED = AgentRegistered(boot="b1", device="cpu", host="here", pid=1, version="0")


@dataclass
class Running:
    shell: Shell
    store: MemoryStore
    line: Line
    task: "asyncio.Task[None]"

    async def hear(self, kind: type[Order]) -> Order:
        async with asyncio.timeout(10):
            while not isinstance(order := await self.line.receive(), kind):
                pass
            return order


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    store = MemoryStore()
    fence = await store.acquire("me", LEASE)
    assert fence is not None
    server, worker = server_keys(tmp_path / "keys"), worker_keys(tmp_path / "keys")
    hub = Hub(public=server.public, secret=server.secret, allowed=[worker.public])
    shell = Shell(store, hub, Policy(), Leadership("me", fence, LEASE), Saved({}, {}))
    keys = {"public": worker.public, "secret": worker.secret, "server": server.public}
    connected = asyncio.Event()
    line = Line(hub.address, worker="w0", on_connected=connected.set, **keys)
    task = asyncio.create_task(shell.run())
    connecting = asyncio.create_task(line.receive())
    async with asyncio.timeout(10):
        await connected.wait()
    assert line.send(REGISTERED)
    assert isinstance(await connecting, Welcome)
    yield Running(shell, store, line, task)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup):
        await task
    await line.close()
    hub.close()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while True:
            if true():
                return
            await asyncio.sleep(0.01)


async def test_a_command_is_durable_before_it_is_answered(running: Running) -> None:
    await running.shell.command(SubmitJob("j", SPEC, at=1.0))
    assert (await running.store.load()).jobs["j"].spec == SPEC
    assert [event.note.kind for event in await running.store.events(job="j")][:1] == ["submitted"]


async def test_a_refused_command_changes_nothing(running: Running) -> None:
    with pytest.raises(NoSuchJob):
        await running.shell.command(StopJob("none"))
    await running.shell.command(SubmitJob("j", SPEC, at=1.0))
    await running.shell.command(StopJob("j"))
    before = running.shell.cluster.jobs["j"]
    assert before.phase is JobPhase.STOPPED
    with pytest.raises(JobEnded):
        await running.shell.command(StopJob("j"))
    assert running.shell.cluster.jobs["j"] == before


async def test_a_heartbeat_is_answered_and_writes_nothing(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    saves = []
    monkeypatch.setattr(running.store, "save", lambda *given: saves.append(given))
    running.line.send(Heartbeat(boot="b1", sequence=1))
    heard = await running.hear(Heard)
    assert isinstance(heard, Heard)
    assert heard.sequence == 1
    assert saves == []


async def test_an_agent_whose_clock_is_off_is_told_of_when_it_registers(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "regroup.coordinator")
    for ahead in (0.0, 3600.0):
        running.line.send(replace(REGISTERED, wall=time.time() + ahead))
        await running.hear(Welcome)
    (told,) = [record.message for record in caplog.records]
    assert told.startswith("the clock of w0 on here is 3600 s ahead of this coordinator's")


async def test_no_lease_is_renewed_while_the_store_does_not_confirm_the_leadership_and_that_is_told_once(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Rule 7: another coordinator may lead by now, and count the workers' silence."""
    caplog.set_level("INFO", "regroup.coordinator")
    confirms = running.store.renew

    async def silent(*given: object) -> bool:
        raise StoreUnavailable("the store does not answer")

    monkeypatch.setattr(running.store, "renew", silent)
    await until(lambda: running.shell.ready is not None)
    running.shell._confirmed -= LEASE
    for sequence in (1, 2):
        running.line.send(Heartbeat(boot="b1", sequence=sequence))
        await until(lambda: running.shell.cluster.sightings["w0"].sequence == sequence)  # noqa: B023  # awaited here
    monkeypatch.setattr(running.store, "renew", confirms)
    await until(lambda: running.shell.ready is None)
    running.line.send(Heartbeat(boot="b1", sequence=3))
    heard = await running.hear(Heard)
    assert isinstance(heard, Heard)
    assert heard.sequence == 3
    assert [record.message for record in caplog.records if "answered" in record.message] == [
        f"no heartbeat is answered: the store did not confirm this coordinator's leadership within {LEASE:g} s",
        "heartbeats are answered again: the store confirmed this coordinator's leadership",
    ]


async def test_a_store_that_goes_away_and_comes_back_is_told_once_each(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "regroup.coordinator")
    tried = []

    async def silent(*given: object) -> None:
        tried.append(given)
        raise StoreUnavailable("it does not answer")

    with monkeypatch.context() as away:
        away.setattr(running.store, "save", silent)
        away.setattr(running.store, "renew", silent)
        with pytest.raises(Unconfirmed):
            await running.shell.command(SubmitJob("j", SPEC, at=1.0))
        await until(lambda: len(tried) > 3)
    await until(lambda: "j" in running.shell.cluster.jobs)
    assert [record.message for record in caplog.records if "store" in record.message] == [
        "nothing is decided until the store answers, and training goes on: it does not answer",
        "the store answers again",
    ]


async def test_a_coordinator_whose_machine_slept_renews_no_lease_before_the_store_confirms_it(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux's monotonic clock stands still in a sleep, and what the workers and the store count goes on."""
    await until(lambda: running.shell.ready is None)
    confirms, measured = running.store.renew, time.clock_gettime

    async def silent(*given: object) -> bool:
        raise StoreUnavailable("the store does not answer")

    monkeypatch.setattr(running.store, "renew", silent)
    hour = {time.CLOCK_BOOTTIME: 3600.0}
    monkeypatch.setattr(time, "clock_gettime", lambda clock: measured(clock) + hour.get(clock, 0.0))
    running.line.send(Heartbeat(boot="b1", sequence=1))
    await until(lambda: running.shell.cluster.sightings["w0"].sequence == 1)
    monkeypatch.setattr(running.store, "renew", confirms)
    await until(lambda: running.shell._clock() - running.shell._confirmed < LEASE)
    running.line.send(Heartbeat(boot="b1", sequence=2))
    heard = await running.hear(Heard)
    assert isinstance(heard, Heard)
    assert heard.sequence == 2
    assert running.shell.cluster.awake > running.shell.cluster.started + 3000  # nobody's silence


async def test_whoever_waits_for_events_wakes_when_one_was_written(running: Running) -> None:
    written = running.shell.new_events()
    await running.shell.command(SubmitJob("j", SPEC, at=1.0))
    async with asyncio.timeout(10):
        await written


async def test_a_coordinator_that_was_overtaken_stops(running: Running) -> None:
    await running.store.release("me", 1)
    assert await running.store.acquire("other", LEASE) is not None
    with pytest.raises((LeadershipLost, ExceptionGroup)) as stopped:
        await asyncio.gather(running.task, running.shell.command(SubmitJob("j", SPEC, at=1.0)))
    assert "stops" in str(stopped.value.exceptions[0] if isinstance(stopped.value, ExceptionGroup) else stopped.value)
    assert (await running.store.load()).jobs == {}


async def test_a_coordinator_that_was_overtaken_says_of_nothing_that_it_is_as_asked(running: Running) -> None:
    await running.shell.command(SubmitJob("j", SPEC, at=1.0))
    await running.store.release("me", 1)
    fence = await running.store.acquire("other", LEASE)
    assert fence is not None
    paused = replace(running.shell.cluster.jobs["j"], wanted=Wanted.PAUSE)
    await running.store.save(fence, [paused])
    asked = asyncio.create_task(running.shell.command(ResumeJob("j")))  # to the old one it runs as it is
    with pytest.raises((LeadershipLost, ExceptionGroup)):
        await running.task
    assert not asked.done()
    asked.cancel()


async def test_a_coordinator_that_was_overtaken_refuses_nothing(running: Running) -> None:
    await running.store.release("me", 1)
    fence = await running.store.acquire("other", LEASE)
    assert fence is not None
    await running.store.save(fence, [Job(id="j", spec=SPEC, submitted=1.0)])
    asked = asyncio.create_task(running.shell.command(PauseJob("j")))  # the old one knows of no such job
    with pytest.raises((LeadershipLost, ExceptionGroup)):
        await running.task
    assert not asked.done()
    asked.cancel()


async def serve_records(line: Line, folder: Path, answers: int = 1000) -> None:
    """What an agent does with its machine's records; it goes away when it is asked once more than so often."""
    while True:
        order = await line.receive()
        if isinstance(order, ListRecords | ReadRecords):
            if answers == 0:
                return await line.close()
            answers -= 1
            assert line.send(archive.answer(folder, order))


async def test_the_records_of_a_lost_agent_are_read_on_from_another_of_its_machine(
    running: Running, tmp_path: Path
) -> None:
    text = "".join(f"{number:015}\n" for number in range(archive.PIECE // 4))  # four pieces
    (tmp_path / "records" / "j").mkdir(parents=True)
    (tmp_path / "records" / "j" / "w0-a.jsonl").write_text(text)
    pair = worker_keys(tmp_path / "keys")
    keys = {"public": pair.public, "secret": pair.secret, "server": server_public(tmp_path / "keys")}
    other = Line(running.shell._hub.address, worker="w1", on_connected=lambda: other.send(REGISTERED), **keys)
    lost = asyncio.create_task(serve_records(running.line, tmp_path / "records", answers=3))
    stays = asyncio.create_task(serve_records(other, tmp_path / "records"))
    async with asyncio.timeout(10):
        while len(running.shell.cluster.sightings) < 2:
            await running.shell.new_events()
        pieces = [piece async for piece in running.shell.records("j")]
        await lost  # it went away
    assert {file for file, _ in pieces} == {"w0-a.jsonl"}
    assert "".join(text for _, text in pieces) == text
    stays.cancel()
    await other.close()


async def test_nobody_is_told_to_end_on_words_that_a_slow_write_made_old(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those on whose word it was decided may be gone by then. It is said again with the next heartbeat's answer."""
    monkeypatch.setattr(running.shell, "policy", replace(Policy(), halt_limit=2.0, heartbeat_interval=0.1))
    slow, kept = asyncio.Event(), running.store.save

    async def save(*given: Any, **more: Any) -> Any:
        slow.set()
        await asyncio.sleep(1.2)  # longer than one counts as heard
        return await kept(*given, **more)

    monkeypatch.setattr(running.store, "save", save)
    running.line.send(Heartbeat(boot="b1", sequence=1, leaving=True))
    async with asyncio.timeout(10):
        await slow.wait()
    assert isinstance(await running.hear(Heard), Heard)
    running.line.send(Heartbeat(boot="b1", sequence=2, leaving=True))
    orders = [await asyncio.wait_for(running.line.receive(), 10) for _ in range(2)]
    assert [type(order) for order in orders] == [Heard, Go]
