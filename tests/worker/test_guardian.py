"""The guardian of a trainer, with real processes that play one: what it hears, passes on and tells of its end."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from regroup.core.jobs import Checkpoint, Version
from regroup.core.messages.agent_reports import StacksTaken, TrainerExited
from regroup.core.messages.events import Report
from regroup.core.messages.orders import Prepare
from regroup.core.messages.trainer_reports import PrepareFailed
from regroup.core.spec import JobSpec
from regroup.core.workers import Hang, LoopPhase, TrainerPhase, TrainerStatus
from regroup.wire.codec import decode_order, encode, encode_value
from regroup.worker.control import REPORT, STATUS
from regroup.worker.guardian import Guardian
from regroup.worker.nursery import Birth, Nursery, Trainer

pytestmark = pytest.mark.cluster

LIMIT = 30.0  # seconds; what is awaited here takes a fraction of one
FLOOR = 4.0
FILE = Checkpoint(Version(1, 4), "/c/j", "sum", 1)
LAST_WORDS = tuple(letter * 20_000 for letter in "abcde")  # as much as a pipe holds, and more than one read


def play(pipe: Connection, birth: Birth) -> None:
    """A trainer without torch: it is prepared, and then ends or waits, as the name of its job says."""
    order = decode_order(pipe.recv_bytes())
    assert isinstance(order, Prepare)
    status = TrainerStatus(job=order.job, incarnation=birth.incarnation, phase=TrainerPhase.PREPARED, pid=os.getpid())
    pipe.send_bytes(STATUS + encode_value(status))
    if order.job == "waits":
        pipe.recv_bytes()
    if order.job == "says-nonsense-and-ends":
        pipe.send_bytes(STATUS + b"nonsense")
        pipe.send_bytes(REPORT + b"nonsense")
    if order.job == "saves-and-ends":
        pipe.send_bytes(STATUS + encode_value(replace(status, written=(FILE,))))
        os._exit(3)
    for words in LAST_WORDS:
        report = PrepareFailed(job=order.job, incarnation=birth.incarnation, field="task", message=words, traceback="")
        pipe.send_bytes(REPORT + encode(report))
    os._exit(3)


def prepare(job: str) -> Prepare:
    return Prepare(job, JobSpec(task="digits", steps=1))


class Guarded:
    """A guardian, and all that it told."""

    def __init__(self, folder: Path) -> None:
        nursery = Nursery("w0", "127.0.0.1", folder, 1, "test_guardian:play")
        self.reports: list[Report] = []
        self.news = asyncio.Event()
        self.guardian = Guardian(nursery, self.reports.append, self.news.set, self.barren)

    def barren(self, job: str, error: BaseException) -> None:
        raise error

    async def until(self, phase: TrainerPhase) -> TrainerStatus:
        async with asyncio.timeout(LIMIT):
            while (status := self.guardian.status) is None or status.phase is not phase:
                self.news.clear()
                await self.news.wait()
            return status

    async def told(self) -> TrainerExited:
        """The end of its trainer."""
        async with asyncio.timeout(LIMIT):
            while not (ends := [report for report in self.reports if isinstance(report, TrainerExited)]):
                self.news.clear()
                await self.news.wait()
            return ends[0]


@pytest.fixture
async def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Guarded]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    one = Guarded(tmp_path)
    yield one
    await one.guardian.close()


@pytest.mark.parametrize("job", ["says-much-and-ends", "says-nonsense-and-ends"])
async def test_all_that_a_trainer_said_is_passed_on_before_its_end(guarded: Guarded, job: str) -> None:
    """Also if the agent notices the end first: here its loop stands still until then. What it cannot read is left out,
    and keeps it from nothing."""
    guardian = guarded.guardian
    await guardian._start(prepare(job), FLOOR)
    assert guardian._trainer is not None
    guardian._trainer.process.join(LIMIT)
    guardian._ended(guardian._trainer)
    *said, ended = guarded.reports
    assert [report.message for report in said if isinstance(report, PrepareFailed)] == list(LAST_WORDS)
    assert isinstance(ended, TrainerExited)
    assert ended.cause == "exit status 3"


async def test_a_trainer_works_for_its_job_alone_and_a_second_one_is_not_started_beside_it(guarded: Guarded) -> None:
    guarded.guardian.start(prepare("waits"), FLOOR)
    guarded.guardian.start(prepare("another"), FLOOR)
    status = await guarded.until(TrainerPhase.PREPARED)
    guarded.guardian.start(prepare("another"), FLOOR)
    assert (status.job, guarded.guardian.incarnation) == ("waits", status.incarnation)
    assert guarded.guardian.works_for("waits")
    assert not guarded.guardian.works_for("another")
    assert (guarded.guardian.memory or 0) > 1 << 20


async def test_whoever_is_ended_was_asked_to_and_leaves_room_for_the_next(guarded: Guarded) -> None:
    guarded.guardian.start(prepare("waits"), FLOOR)
    former = await guarded.until(TrainerPhase.PREPARED)
    guarded.guardian.end()
    ended = await guarded.told()
    assert (ended.incarnation, ended.cause, ended.asked) == (former.incarnation, "killed by SIGKILL", True)
    assert (guarded.guardian.status, guarded.guardian.incarnation, guarded.guardian.memory) == (None, None, None)
    guarded.guardian.start(prepare("waits"), FLOOR)
    assert (await guarded.until(TrainerPhase.PREPARED)).incarnation != former.incarnation


@pytest.mark.parametrize("asked", ["to end its trainer", "to close"])
async def test_who_hangs_is_killed_once_its_stacks_are_told_and_at_once_where_nobody_stays_to_hear_them(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    looks, looked = asyncio.Event(), asyncio.Event()

    async def take(pid: int, most: int) -> str:
        looks.set()
        await looked.wait()
        return "where it hangs"

    monkeypatch.setattr("regroup.worker.guardian.stacks_of", take)
    guarded.guardian.start(prepare("waits"), FLOOR)
    await guarded.until(TrainerPhase.PREPARED)
    guarded.guardian._hangs(Hang(phase=LoopPhase.COMPUTE, lasts=5.0, limit=4.0))
    await asyncio.wait_for(looks.wait(), LIMIT)
    if asked == "to close":
        await asyncio.wait_for(guarded.guardian.close(), LIMIT)
    else:
        guarded.guardian.end()
        trainer = guarded.guardian._trainer
        assert trainer is not None
        assert not trainer.gone(0.3)  # where it is killed it is gone in a hundredth of that
        looked.set()
    ended = await guarded.told()
    assert (ended.cause, ended.asked) == ("killed by SIGKILL", True)
    stacks = [report.stacks for report in guarded.reports if isinstance(report, StacksTaken)]
    assert stacks == ([] if asked == "to close" else ["where it hangs"])
    assert guarded.reports[-1] is ended


async def test_who_is_killed_and_not_gone_is_waited_for_by_nobody_and_has_no_successor_beside_it(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a dead disk keeps it in the kernel."""
    guarded.guardian.start(prepare("waits"), FLOOR)
    status = await guarded.until(TrainerPhase.PREPARED)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "kill", lambda trainer: None)
        guarded.guardian.end()
    guarded.guardian.start(prepare("another"), FLOOR)
    assert guarded.guardian.incarnation == status.incarnation
    assert guarded.reports == []
    os.kill(status.pid, signal.SIGKILL)
    ended = await guarded.told()
    assert (ended.incarnation, ended.asked) == (status.incarnation, True)


async def test_what_a_trainer_wrote_before_it_ended_is_kept_until_a_coordinator_knows_it(guarded: Guarded) -> None:
    guarded.guardian.start(prepare("saves-and-ends"), FLOOR)
    ended = await guarded.told()
    (left,) = guarded.guardian.untold
    assert (left.job, left.incarnation, left.written) == ("saves-and-ends", ended.incarnation, (FILE,))
    guarded.guardian.answered(["/c/other"])
    assert guarded.guardian.untold == (left,)
    guarded.guardian.answered([FILE.path])
    assert guarded.guardian.untold == ()


async def test_a_trainer_that_a_signal_without_a_name_ended_is_told_of(guarded: Guarded) -> None:
    """Python has names for the first and the last of the real-time signals only."""
    guarded.guardian.start(prepare("waits"), FLOOR)
    status = await guarded.until(TrainerPhase.PREPARED)
    os.kill(status.pid, signal.SIGRTMIN + 3)
    assert (await guarded.told()).cause == f"killed by signal {signal.SIGRTMIN + 3}"
