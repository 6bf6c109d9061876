"""The shell while its store fails: memory and store never part, nobody waits without an end, nothing void is shown."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from regroup.coordinator.memory_store import MemoryStore
from regroup.coordinator.persistence import CameLate, Saved, StoreUnavailable, Unconfirmed
from regroup.coordinator.shell import STREAK, Leadership, LeadershipLost, Shell, _stamped, _void_from
from regroup.core.cluster import Policy, Watch
from regroup.core.decide import Decision
from regroup.core.jobs import (
    ORIGIN,
    Checkpoint,
    Fingerprint,
    Formation,
    Job,
    JobPhase,
    Link,
    Member,
    Seat,
    StepPoint,
    Version,
    Wanted,
)
from regroup.core.messages.agent_reports import AgentRegistered, Heartbeat
from regroup.core.messages.commands import StopJob, SubmitJob
from regroup.core.messages.trainer_reports import StateSaved, StepsCommitted
from regroup.core.notes import Note
from regroup.core.spec import JobSpec
from regroup.core.workers import TrainerPhase, TrainerStatus, Worker
from regroup.wire.keys import server_keys
from regroup.wire.link import Hub

SPEC = JobSpec(task="digits", steps=10)
LEASE = 3600.0  # nothing here renews it
REGISTERED = AgentRegistered(boot="b1", device="cpu", host="here", pid=1, version="0")
PRINT = Fingerprint("c", "d", 1797)
MEMBER = Member("w0", "i1")


class Failing(MemoryStore):
    """The in-memory store, in trouble."""

    down = False  # it does nothing and says so
    mute = False  # it saves, and the answer is lost
    deaf = False  # it takes no points
    held: asyncio.Event | None = None  # saves wait for this
    slow: asyncio.Event | None = None  # points wait for this
    taken = 0  # points
    overtaken = 0  # calls that brought points

    async def save(self, *given: object, **more: object) -> object:  # type: ignore[override]
        if self.held is not None:
            await self.held.wait()
        saved = None if self.down else await super().save(*given, **more)  # type: ignore[arg-type]
        if self.down or self.mute:
            raise StoreUnavailable("the store is down: start it")
        return saved

    async def append_points(self, fence: int, job: str, points: Sequence[StepPoint]) -> None:
        if self.deaf:
            raise StoreUnavailable("the store is down: start it")
        arriving = super().append_points(fence, job, points)
        if self.slow is not None:
            await self.slow.wait()
        try:
            await arriving
        except CameLate:
            self.overtaken += 1
            raise
        self.taken += len(points)


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    """Leads an empty cluster."""
    async with leading(tmp_path, Failing()) as shell:
        yield shell


@contextlib.asynccontextmanager
async def leading(folder: Path, store: Failing, saved: Saved | None = None, **policy: float) -> AsyncIterator[Shell]:
    async with started(folder, store, saved, **policy) as (shell, _):
        yield shell


@contextlib.asynccontextmanager
async def started(
    folder: Path, store: Failing, saved: Saved | None = None, **policy: float
) -> AsyncIterator[tuple[Shell, "asyncio.Task[None]"]]:
    fence = await store.acquire("me", LEASE)
    assert fence is not None
    keys = server_keys(folder / "keys")
    hub = Hub(public=keys.public, secret=keys.secret, allowed=[])
    shell = Shell(store, hub, Policy(**policy), Leadership("me", fence, LEASE), saved or Saved({}, {}))
    task = asyncio.create_task(shell.run())
    try:
        yield shell, task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup):
            await task
        hub.close()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while True:
            if true():
                return
            await asyncio.sleep(0.01)


def store_of(shell: Shell) -> Failing:
    assert isinstance(shell.store, Failing)
    return shell.store


async def agree(shell: Shell) -> bool:
    saved = await shell.store.load()
    return (saved.jobs, saved.workers) == (shell.cluster.jobs, shell.cluster.workers)


async def test_a_command_whose_answer_the_store_lost_is_carried_out_and_said_to_be_uncertain(shell: Shell) -> None:
    store = store_of(shell)
    for command in (SubmitJob("j", SPEC, at=1.0), StopJob("j")):
        store.mute = True
        with pytest.raises(Unconfirmed, match="it may have been taken: the store is down"):
            await shell.command(command)
        assert shell.ready == "the store is down: start it"
        store.mute = False
        await until(lambda: shell.ready is None)
        assert await agree(shell)
    assert shell.cluster.jobs["j"].phase is JobPhase.STOPPED


async def test_while_one_decision_waits_for_the_store_the_next_command_is_refused_at_once(shell: Shell) -> None:
    store = store_of(shell)
    store.down = True
    with pytest.raises(Unconfirmed):
        await shell.command(SubmitJob("j", SPEC, at=1.0))
    with pytest.raises(StoreUnavailable) as refused:
        await shell.command(SubmitJob("k", SPEC, at=1.0))
    assert not isinstance(refused.value, Unconfirmed)
    store.down = False
    await until(lambda: "j" in shell.cluster.jobs)
    await shell.command(SubmitJob("l", SPEC, at=1.0))
    assert list(shell.cluster.jobs) == ["j", "l"]
    assert await agree(shell)


async def test_a_command_that_waits_when_the_trouble_begins_is_refused_and_never_carried_out(shell: Shell) -> None:
    store = store_of(shell)
    store.held = asyncio.Event()
    shell._reported("w0", REGISTERED)
    given_up = asyncio.create_task(shell.command(SubmitJob("i", SPEC, at=1.0)))
    waiting = asyncio.create_task(shell.command(SubmitJob("j", SPEC, at=1.0)))
    await until(lambda: shell._events.qsize() >= 2)
    given_up.cancel()
    store.down = True
    store.held.set()
    async with asyncio.timeout(10):
        with pytest.raises(StoreUnavailable) as refused:
            await waiting
    assert not isinstance(refused.value, Unconfirmed)
    store.down = False
    await until(lambda: "w0" in shell.cluster.workers)
    await shell.command(SubmitJob("k", SPEC, at=1.0))
    assert list(shell.cluster.jobs) == ["k"]
    assert await agree(shell)


async def test_a_long_queue_leaves_turns_to_all_others(shell: Shell) -> None:
    await until(lambda: shell._events.empty())
    shell._reported("w0", REGISTERED)
    for number in range(50 * STREAK):
        shell._reported("w0", Heartbeat(boot="b1", sequence=number + 1))
    turns = 0
    while not shell._events.empty():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 40


def training(step: int) -> tuple[Job, Worker, Watch]:
    """A job that its only worker trains, known to have committed `step` steps; five of them are persisted."""
    formation = Formation(1, (Seat(MEMBER, None),), 0, ORIGIN, (0, 0, 0, 0), "127.0.0.1:1/x")
    job = Job(
        id="j",
        spec=SPEC,
        submitted=1.0,
        phase=JobPhase.RUNNING,
        generation=1,
        formation=formation,
        history=(Link(1, 0, 0),),
        fingerprint=PRINT,
        step=5,
    )
    worker = Worker(name="w0", boot="b1", device="cpu", host="here", pid=1, version="0", job="j")
    watch = Watch(since=0.0, progressed=1e9, formed=frozenset({MEMBER}), committed={MEMBER: step})
    return job, worker, watch


async def test_steps_that_cannot_be_kept_hold_nobody_up_and_are_kept_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regroup.coordinator.shell.KEEP_STEPS", 0.02)
    job, worker, watch = training(8)
    store = Failing()
    async with leading(tmp_path, store, Saved({"j": job}, {"w0": worker})) as shell:
        shell._reported("w0", REGISTERED)
        await until(lambda: "w0" in shell.cluster.sightings)
        store.down = True
        shell.cluster = replace(shell.cluster, watches={"j": watch})
        await until(lambda: shell.ready is not None)
        shell._reported("w0", Heartbeat(boot="b1", sequence=1, trainer=status(TrainerPhase.TRAINING, 1, (1, 8))))
        await until(lambda: shell.cluster.sightings["w0"].sequence == 1)
        assert shell.cluster.jobs["j"].step == 5
        store.down = False
        shell._trouble = None  # as the next renewal of the leadership finds
        await until(lambda: shell.cluster.jobs["j"].step == 8)
        assert (await store.load()).jobs["j"].step == 8


def status(
    phase: TrainerPhase, promised: int, version: tuple[int, int] | None, incarnation: str = "i1"
) -> TrainerStatus:
    return TrainerStatus(
        job="j",
        incarnation=incarnation,
        phase=phase,
        promised=promised,
        generation=version[0] if version else 0,
        version=Version(*version) if version else None,
        store="127.0.0.1:1/x",
        fingerprint=PRINT,
    )


def point(step: int, loss: float) -> StepPoint:
    return StepPoint(step, loss, 64.0, 64, 0.1, 0.02)


async def test_points_that_the_store_refused_are_written_when_it_takes_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regroup.coordinator.shell.POINTS_INTERVAL", 0.01)
    job, worker, _ = training(6)
    store = Failing()
    async with leading(tmp_path, store, Saved({"j": job}, {"w0": worker})) as shell:
        refused = asyncio.Event()

        async def refuse(*given: object) -> None:
            refused.set()
            raise StoreUnavailable("the store is down: start it")

        taking = store.append_points
        monkeypatch.setattr(store, "append_points", refuse)
        shell._points["j"].append(point(5, 0.5))
        async with asyncio.timeout(10):
            await refused.wait()
        monkeypatch.setattr(store, "append_points", taking)
        await until(lambda: store.taken == 1)
        assert await store.points("j") == [point(5, 0.5)]


async def test_points_that_a_save_overtook_and_left_to_count_are_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regroup.coordinator.shell.POINTS_INTERVAL", 0.01)
    monkeypatch.setattr("regroup.coordinator.shell.KEEP_STEPS", LEASE)
    job, worker, _ = training(6)
    store = Failing()
    async with leading(tmp_path, store, Saved({"j": job}, {"w0": worker}), tick=LEASE) as shell:
        store.held = asyncio.Event()
        store.slow = asyncio.Event()
        rolled_back = replace(shell.cluster, jobs={"j": replace(job, step=3)})
        points = ("j", (point(2, 0.5), point(4, 0.5)))
        told = Note("rolled_back", "all is lost", job="j", data={"base_step": 3})
        saving = asyncio.create_task(shell._persist(Decision(rolled_back, (), (told,), (points,)), None, patient=True))
        await until(shell._writing.locked)  # the one that stays is on its way
        store.held.set()
        await saving
        assert await store.points("j") == []
        store.slow.set()
        await until(lambda: store.taken == 1)
        assert await store.points("j") == [point(2, 0.5)]
        assert store.overtaken == 1


async def test_whoever_sees_that_a_job_ended_finds_all_that_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regroup.coordinator.shell.POINTS_INTERVAL", 3600)
    job, worker, watch = training(6)
    store = Failing()
    async with leading(
        tmp_path, store, Saved({"j": replace(job, wanted=Wanted.STOP, generation=2)}, {"w0": worker})
    ) as shell:
        shell.cluster = replace(shell.cluster, watches={"j": replace(watch, since=1e9)})
        saver = replace(shell.cluster.jobs["j"], saver=MEMBER)
        shell.cluster = replace(shell.cluster, jobs={"j": saver})
        shell._reported("w0", REGISTERED)
        shell._reported("w0", Heartbeat(boot="b1", sequence=1, trainer=status(TrainerPhase.SAVING, 2, (1, 6))))
        told = {"job": "j", "incarnation": "i1"}
        shell._reported("w0", StepsCommitted(**told, generation=1, step=6, points=(point(5, 0.5),)))
        checkpoint = Checkpoint(Version(1, 6), "/c/j", "sum", 1)
        shell._reported("w0", StateSaved(**told, generation=2, checkpoint=checkpoint))
        await until(lambda: shell.cluster.jobs["j"].ended)
        assert await store.points("j") == [point(5, 0.5)]
        durable = (await store.load()).jobs["j"].checkpoint
        assert durable is not None
        assert durable.at == pytest.approx(time.time(), abs=60), "what is durable has its time"


def test_a_checkpoint_keeps_the_time_at_which_it_was_first_known_to_be_durable() -> None:
    job, _, _ = training(6)
    new = replace(job, checkpoint=Checkpoint(Version(1, 3), "/c/3", "sum", 1))
    stamped = _stamped(new, job, 5.0)
    assert stamped.checkpoint is not None
    assert (stamped.checkpoint.at, stamped.since) == (5.0, job.since)
    newer = replace(stamped, checkpoint=Checkpoint(Version(1, 6), "/c/6", "sum", 1), older=(stamped.checkpoint,))
    struck = replace(_stamped(newer, stamped, 9.0), checkpoint=stamped.checkpoint, older=())
    assert _stamped(struck, newer, 11.0) is struck
    assert _stamped(replace(new, reason="another"), new, 5.0).checkpoint is new.checkpoint, "of before: it is unknown"


def test_measurements_are_void_from_where_the_lost_line_parted() -> None:
    """Generation 3 began at step 6 of generation 2, and was lost; what is left is generation 2 at step 8."""
    job, _, _ = training(6)
    history = (Link(1, 0, 0), Link(2, 1, 4), Link(3, 2, 6))
    before = replace(job, generation=4, step=6, history=history)
    formation = replace(job.formation, generation=4, base=Version(2, 8))
    after = replace(before, formation=formation, history=(*history, Link(4, 2, 8)))
    assert _void_from(after, before) == [6]
    ordinary = replace(before, formation=replace(formation, base=Version(3, 9)), history=(*history, Link(4, 3, 9)))
    assert _void_from(ordinary, before) == [9]
    saved = replace(before, checkpoint=Checkpoint(Version(2, 8), "/c/j", "sum", 1))
    assert _void_from(saved, replace(before, saver=MEMBER)) == [6]
    assert _void_from(replace(saved, saver=MEMBER), replace(before, saver=MEMBER)) == []  # so was this, before the end
    assert _void_from(saved, before) == []  # it was written beside the training, which goes on beyond it
    assert _void_from(replace(before, reason="told"), before) == []


def test_measurements_are_void_from_where_the_line_parted_that_is_gone_back_to() -> None:
    """Generation 3 began at step 3 of generation 2, and 4 at step 4 of it, which a member cut off had made. Both are
    lost to each other in turn: what is gone back to is generation 3 at step 13, whose step 3 is its own."""
    job, _, _ = training(6)
    history = (Link(1, 0, 0), Link(2, 1, 1), Link(3, 2, 3), Link(4, 2, 4), Link(5, 4, 27))
    before = replace(job, generation=6, step=27, history=history)
    formation = replace(job.formation, generation=6, base=Version(3, 13))
    after = replace(before, formation=formation, history=(*history, Link(6, 3, 13)))
    assert _void_from(after, before) == [3]


def test_measurements_beyond_the_state_that_a_job_rests_or_stops_at_are_void() -> None:
    job, _, _ = training(3)
    paused = replace(job, history=(Link(1, 0, 0),), checkpoint=Checkpoint(Version(1, 3), "/c/j", "sum", 1))
    assert _void_from(replace(paused, formation=None), paused) == [3]
    assert _void_from(replace(paused, phase=JobPhase.STOPPED), paused) == [3]
    assert _void_from(replace(paused, phase=JobPhase.FAILED), paused) == []
    unsaved = replace(paused, checkpoint=None)
    assert _void_from(replace(unsaved, formation=None), unsaved) == [0]
    assert _void_from(replace(unsaved, phase=JobPhase.STOPPED), unsaved) == [], "what it reached is still worth knowing"


def test_measurements_of_what_was_gone_back_behind_are_void_though_no_step_was_kept_of_it() -> None:
    """All that held the state of a job that is held are dead: the last step was measured, and not shown yet."""
    held = replace(training(0)[0], wanted=Wanted.HOLD, phase=JobPhase.WAITING)
    rests = replace(held, phase=JobPhase.PAUSED)
    assert _void_from(rests, held, 0) == [0]
    assert _void_from(rests, held) == []


async def test_what_a_total_loss_made_void_is_shown_no_longer(tmp_path: Path) -> None:
    job, worker, watch = training(6)
    store = Failing()
    async with leading(tmp_path, store, Saved({"j": job}, {"w0": worker})) as shell:
        shell.cluster = replace(shell.cluster, watches={"j": watch})
        await store.append_points(1, "j", [point(step, 0.5) for step in range(5)])
        store.deaf = True  # the last one does not get there in time
        shell._reported("w0", REGISTERED)
        shell._reported("w0", Heartbeat(boot="b1", sequence=1, trainer=status(TrainerPhase.TRAINING, 1, (1, 6))))
        last = StepsCommitted(job="j", incarnation="i1", generation=1, step=6, points=(point(5, 0.5),))
        shell._reported("w0", last)
        await until(lambda: shell._points["j"] == [point(5, 0.5)])

        shell._reported("w0", replace(REGISTERED, boot="b2"))  # all that its old agent had is gone
        prepared = status(TrainerPhase.PREPARED, 0, None, "i2")
        shell._reported("w0", Heartbeat(boot="b2", sequence=1, trainer=prepared))
        await until(lambda: (asked := shell.cluster.jobs["j"].round) is not None and bool(asked.participants))
        n = shell.cluster.jobs["j"].generation
        shell._reported("w0", Heartbeat(boot="b2", sequence=2, trainer=status(TrainerPhase.HALTED, n, None, "i2")))
        await until(lambda: shell.cluster.jobs["j"].round is None)
        issued = shell.cluster.jobs["j"].formation
        assert issued is not None
        assert (issued.generation, issued.base) == (n, ORIGIN)
        assert await store.points("j") == []

        store.deaf = False
        trains = status(TrainerPhase.TRAINING, n, (n, 0), "i2")
        shell._reported("w0", Heartbeat(boot="b2", sequence=3, trainer=trains))
        shell._reported("w0", replace(last, incarnation="i2", generation=n, step=1, points=(point(0, 0.9),)))
        await until(lambda: store.taken > 5)
        assert await store.points("j") == [point(0, 0.9)]


async def test_a_coordinator_that_was_overtaken_writes_no_points_and_stops(tmp_path: Path) -> None:
    store = Failing()
    async with started(tmp_path, store) as (shell, task):
        await until(lambda: store._lease.renewals == 1)  # it asks no more about its leadership for long
        await store.release("me", 1)
        assert await store.acquire("other", LEASE) is not None
        shell._points["j"].append(point(1, 0.5))
        async with asyncio.timeout(10):
            with pytest.raises(ExceptionGroup) as stopped:
                await task
    assert isinstance(stopped.value.exceptions[0], LeadershipLost)
    assert "this one stops" in str(stopped.value.exceptions[0])
    assert await store.points("j") == []


async def test_a_worker_that_is_forgotten_leaves_the_store(tmp_path: Path) -> None:
    _, worker, _ = training(0)
    gone, store = replace(worker, job=None), Failing()
    fence = await store.acquire("before", LEASE)
    assert fence is not None
    await store.save(fence, workers=[gone])
    await store.release("before", fence)
    async with leading(tmp_path, store, await store.load(), forget_limit=0.1) as shell:
        await until(lambda: not shell.cluster.workers)
        assert await agree(shell)
        assert [event.note.kind for event in await store.events()] == ["forgotten"]


async def test_a_coordinator_that_stood_still_says_so_to_its_decisions(tmp_path: Path) -> None:
    """Else what it slept through would look like the silence of everybody else."""
    async with leading(tmp_path, Failing()) as shell:
        await until(lambda: shell._heard > shell.cluster.started)
        assert shell.cluster.awake <= shell.cluster.started
        real = shell._clock
        shell._clock = lambda: real() + 2 * LEASE
        await until(lambda: shell.cluster.awake > shell.cluster.started + LEASE)
        awake = shell.cluster.awake
        await until(lambda: shell._heard > awake)
        assert shell.cluster.awake == awake, "once"


async def test_what_is_refused_while_the_store_is_away_is_not_said_to_be_taken(tmp_path: Path) -> None:
    store = Failing()
    async with leading(tmp_path, store) as shell:
        await until(lambda: shell.ready is None)
        store.down = True
        with pytest.raises(StoreUnavailable) as told:
            await shell.command(StopJob("nosuch"))
        assert not isinstance(told.value, Unconfirmed)
