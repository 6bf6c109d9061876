"""A real agent process, and a hub that plays its coordinator: the agent finds it wherever it is, waits for no disk and
no trainer, comes back after whatever ended it, and leaves nothing behind. Some of its trainers only play one."""

import asyncio
import fcntl
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import pytest

from regroup.core.jobs import ORIGIN, Checkpoint, Version
from regroup.core.messages.agent_reports import (
    AgentLeft,
    AgentRegistered,
    Heartbeat,
    RecordsFailed,
    RecordsListed,
    TrainerExited,
)
from regroup.core.messages.events import Report
from regroup.core.messages.orders import (
    Discard,
    Halt,
    Heard,
    Kill,
    ListRecords,
    Prepare,
    ReadRecords,
    TurnAway,
    Welcome,
)
from regroup.core.messages.protocol import PROTOCOL
from regroup.core.messages.trainer_reports import PrepareFailed
from regroup.core.spec import JobSpec
from regroup.core.workers import TrainerPhase, TrainerStatus
from regroup.wire.codec import decode_order, encode, encode_value
from regroup.wire.join import join_token
from regroup.wire.keys import server_keys, worker_keys
from regroup.wire.link import Hub, new_secret
from regroup.wire.places import Places
from regroup.worker.control import REPORT, STATUS
from regroup.worker.nursery import Birth

pytestmark = pytest.mark.cluster

LIMIT = 30.0  # seconds; what is awaited here takes a fraction of one
Said = TypeVar("Said", bound=Report)


FILE = Checkpoint(Version(1, 4), "/c/j", "sum", 1)
MUCH = 5000  # of 5 kB each: more than the link between an agent and a coordinator that reads nothing holds
LAST_WORDS = tuple(letter * 20_000 for letter in "abcde")  # as much as a pipe holds, and more than one read


def play(pipe: Connection, birth: Birth) -> None:
    """A trainer without torch, which does what the name of its job says."""
    order = decode_order(pipe.recv_bytes())
    assert isinstance(order, Prepare)
    status = TrainerStatus(job=order.job, incarnation=birth.incarnation, phase=TrainerPhase.PREPARING, pid=os.getpid())
    pipe.send_bytes(STATUS + encode_value(status))
    if order.job == "stops-within-a-message":
        os.write(pipe.fileno(), struct.pack("!i", 20_000) + b"r" * 100)
        os.kill(os.getpid(), signal.SIGSTOP)
    while order.job == "never-stops-talking":
        pipe.send_bytes(STATUS + encode_value(status))
    if order.job == "saves-and-ends":
        pipe.send_bytes(STATUS + encode_value(replace(status, written=(FILE,))))
        os._exit(3)
    for words in LAST_WORDS if order.job != "says-much" else ("m" * 5_000 for _ in range(MUCH)):
        report = PrepareFailed(job=order.job, incarnation=birth.incarnation, field="task", message=words, traceback="")
        pipe.send_bytes(REPORT + encode(report))
    os._exit(3)


PLAYED = "import regroup.worker.serving as serving; serving.TRAINER = 'test_agent:play'; serving.main()"


@contextmanager
def agent(places: Places, *command: str, **more: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Of the name w0. Whatever it becomes, neither it nor its trainers are left."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("REGROUP_")}
    environ = {**clean, "REGROUP_DATA_DIR": str(places.root), "REGROUP_WORKER": "w0", **more}
    with (places.root / "agent.log").open("ab") as log:
        command = command or ("-m", "regroup.worker.serving")
        process = subprocess.Popen([sys.executable, *command], env=environ, stderr=log, start_new_session=True)
    with process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def make_places(root: Path) -> Places:
    """A data directory with a link where nobody listens any more."""
    places = Places(root)
    server_keys(places.keys)
    worker_keys(places.keys)
    hub = make_hub(places)
    places.link.write_text(hub.address)
    hub.close()
    return places


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """The data directory of an agent that runs."""
    places = make_places(tmp_path_factory.mktemp("agent"))
    with agent(places) as process:
        yield places
        process.terminate()
        assert process.wait(LIMIT) == 0


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """The data directory of an agent whose trainers `play`."""
    places = make_places(tmp_path_factory.mktemp("played"))
    with agent(places, "-c", PLAYED, PYTHONPATH=str(Path(__file__).parent)):
        yield places


def make_hub(places: Places) -> Hub:
    server = server_keys(places.keys)
    return Hub(public=server.public, secret=server.secret, allowed=[worker_keys(places.keys).public])


class Coordinator:
    """The hub, and what the agent said to it."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.said: asyncio.Queue[Report] = asyncio.Queue()
        self.busy: Callable[[Report], None] = lambda report: None  # with what it just read; it reads nothing meanwhile

    async def run(self) -> None:
        await self.hub.run(self._read, lambda _: None)

    def _read(self, _: str, report: Report) -> None:
        self.busy(report)
        self.said.put_nowait(report)

    async def hears(self, kind: type[Said]) -> Said:
        async with asyncio.timeout(LIMIT):
            while not isinstance(report := await self.said.get(), kind):
                pass
            return report

    async def hears_of_a_trainer(self) -> TrainerStatus:
        """What a heartbeat says of the next one that has a process."""
        while (trainer := (await self.hears(Heartbeat)).trainer) is None or not trainer.pid:
            pass
        return trainer


@asynccontextmanager
async def coordinator(places: Places) -> AsyncIterator[Coordinator]:
    """On a port of its own, which stands in the link file."""
    one = Coordinator(make_hub(places))
    running = asyncio.create_task(one.run())
    places.link.write_text(one.hub.address)
    try:
        yield one
    finally:
        running.cancel()
        await asyncio.wait([running])
        one.hub.close()


async def test_an_agent_finds_a_coordinator_that_comes_back_on_another_port(places: Places) -> None:
    addresses = set()
    for _ in range(2):
        async with coordinator(places) as one:
            addresses.add(one.hub.address)
            await one.hears(AgentRegistered)
    assert len(addresses) == 2


async def test_an_agent_obeys_while_its_trainer_is_stopped_and_reads_nothing(places: Places) -> None:
    async with coordinator(places) as one:
        await one.hears(AgentRegistered)
        assert one.hub.send("w0", Prepare("k", JobSpec(task="digits", steps=1)))
        trainer = await one.hears_of_a_trainer()
        assert trainer.pid is not None
        os.kill(trainer.pid, signal.SIGSTOP)
        for sent in range(20_000):  # far more than a pipe holds
            if not one.hub.send("w0", Halt("k", sent + 1)):
                await asyncio.sleep(0.01)  # the link is full: some are lost, and the next waits a little
        for _ in range(3_000):
            if one.hub.send("w0", Kill("k", trainer.incarnation, "it hangs")):
                break
            await asyncio.sleep(0.01)  # it may be full of them yet; a coordinator says it again, too
        ended = await one.hears(TrainerExited)
        assert (ended.incarnation, ended.asked) == (trainer.incarnation, True)


async def test_an_agent_obeys_while_a_file_of_records_is_read(places: Places) -> None:
    slow: Path = places.root / "records" / "j" / "w0-a.jsonl"
    slow.parent.mkdir(parents=True)
    os.mkfifo(slow)  # whoever opens it waits for a writer
    async with coordinator(places) as one:
        await one.hears(AgentRegistered)
        assert one.hub.send("w0", ReadRecords("r1", "j", slow.name, 0))
        assert one.hub.send("w0", ListRecords("r2", "j"))
        assert (await one.hears(RecordsListed)).files == (slow.name,)
        writer = await asyncio.to_thread(os.open, slow, os.O_WRONLY)
        assert (await one.hears(RecordsFailed)).request == "r1"  # it is no file
        os.close(writer)


async def test_an_agent_obeys_while_its_trainer_is_stopped_within_a_message(played: Places) -> None:
    job = "stops-within-a-message"
    async with coordinator(played) as one:
        await one.hears(AgentRegistered)
        assert one.hub.send("w0", Prepare(job, JobSpec(task="digits", steps=1)))
        trainer = await one.hears_of_a_trainer()
        for _ in range(3):
            await one.hears(Heartbeat)
        assert one.hub.send("w0", Kill(job, trainer.incarnation, "it hangs"))
        ended = await one.hears(TrainerExited)
        assert (ended.incarnation, ended.cause, ended.asked) == (trainer.incarnation, "killed by SIGKILL", True)


async def test_what_a_dead_trainer_said_is_not_taken_for_the_next_ones(played: Places) -> None:
    job = "never-stops-talking"
    order = Prepare(job, JobSpec(task="digits", steps=1))
    async with coordinator(played) as one:
        await one.hears(AgentRegistered)
        assert one.hub.send("w0", order)
        former = await one.hears_of_a_trainer()
        assert one.hub.send("w0", Kill(job, former.incarnation, "enough"))
        assert (await one.hears(TrainerExited)).incarnation == former.incarnation
        assert one.hub.send("w0", order)
        seen = [(await one.hears_of_a_trainer()).incarnation for _ in range(3)]
        assert former.incarnation not in seen
        assert one.hub.send("w0", Kill(job, seen[0], "enough"))
        await one.hears(TrainerExited)


async def test_what_a_coordinator_did_not_read_for_a_moment_is_told_once_it_reads_on(played: Places) -> None:
    log = played.root / "agent.log"

    def busy(report: Report) -> None:
        until = time.monotonic() + LIMIT
        while isinstance(report, PrepareFailed) and not re.search(b"job says-much: .* ended", log.read_bytes()):
            assert time.monotonic() < until
            time.sleep(0.01)

    async with coordinator(played) as one:
        await one.hears(AgentRegistered)
        one.busy = busy
        assert one.hub.send("w0", Prepare("says-much", JobSpec(task="digits", steps=1)))
        assert (await one.hears(TrainerExited)).job == "says-much"


async def test_what_a_dead_trainer_wrote_is_told_also_to_another_coordinator_until_one_answers(played: Places) -> None:
    async with coordinator(played) as one:
        await one.hears(AgentRegistered)
        assert one.hub.send("w0", Prepare("saves-and-ends", JobSpec(task="digits", steps=1)))
        await one.hears(TrainerExited)
    async with coordinator(played) as one:
        await one.hears(AgentRegistered)
        beat = await one.hears(Heartbeat)
        assert beat.trainer is None
        assert [last.written for last in beat.left] == [(FILE,)]
        assert one.hub.send("w0", Heard(beat.sequence, 0, (FILE.path,)))
        async with asyncio.timeout(LIMIT):
            while (await one.hears(Heartbeat)).left:
                pass


async def test_an_agent_that_is_killed_beside_a_stopped_trainer_comes_back_and_leaves_nothing(tmp_path: Path) -> None:
    places, temporary = make_places(tmp_path / "data"), tmp_path / ("t" * 100)
    temporary.mkdir()
    async with coordinator(places) as one:
        with agent(places, TMPDIR=str(temporary)) as process:
            await one.hears(AgentRegistered)
            assert one.hub.send("w0", Prepare("k", JobSpec(task="digits", steps=1)))
            former = None
            while former is None or former.phase is not TrainerPhase.PREPARED:  # it has opened all its files
                former = await one.hears_of_a_trainer()
            assert former.pid is not None
            os.kill(former.pid, signal.SIGSTOP)
            process.kill()
            await asyncio.to_thread(process.wait)
            with agent(places, TMPDIR=str(temporary)):
                await one.hears(AgentRegistered)
                assert {file.name for file in (places.root / "run").iterdir()} == {
                    "w0.agent.lock",
                    "w0.health",
                    "w0.trainer.lock",
                    "w0.sockets",
                }
                assert not list(temporary.glob("pymp-*"))


async def test_an_agent_that_waits_for_a_former_trainer_says_so(tmp_path: Path) -> None:
    places = make_places(tmp_path)
    lock = tmp_path / "run" / "w0.trainer.lock"
    lock.parent.mkdir()
    async with coordinator(places) as one:
        with lock.open("wb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with agent(places):
                await asyncio.to_thread(until_logged, tmp_path / "agent.log", f"a process holds {lock}")
                assert one.said.empty()
                fcntl.flock(held, fcntl.LOCK_UN)
                await one.hears(AgentRegistered)


async def test_an_agent_that_can_start_no_trainer_says_so_and_ends_when_it_needs_one(tmp_path: Path) -> None:
    places, job = make_places(tmp_path), "stops-within-a-message"
    order = Prepare(job, JobSpec(task="digits", steps=1))
    async with coordinator(places) as one:
        with agent(places, "-c", PLAYED, PYTHONPATH=str(Path(__file__).parent)) as process:
            await one.hears(AgentRegistered)
            await asyncio.to_thread(until_it_has_a_spare, process.pid)
            shutil.rmtree(tmp_path / "run" / "w0.sockets")  # the way to the fork server
            assert one.hub.send("w0", order)
            spare = await one.hears_of_a_trainer()
            await asyncio.to_thread(
                until_logged, tmp_path / "agent.log", "WARNING regroup.agent: no spare: cannot start"
            )
            assert one.hub.send("w0", Kill(job, spare.incarnation, "it hangs"))
            assert (await one.hears(TrainerExited)).asked
            assert one.hub.send("w0", order)
            ended = await one.hears(TrainerExited)
            assert (ended.job, ended.asked) == (job, False)
            assert ended.cause.startswith("cannot start a trainer: FileNotFoundError: ")
            assert await asyncio.to_thread(process.wait, LIMIT) == 1
    log = (tmp_path / "agent.log").read_text()
    assert log.splitlines()[-1] == f"regroup-agent: {ended.cause}"
    assert "Traceback" not in log


async def test_an_agent_that_cannot_tell_its_trainers_end_ends_and_says_why(tmp_path: Path) -> None:
    """Else it lived on, and told for ever of a trainer that is dead."""
    places, job = make_places(tmp_path), "says-its-last-words"
    broken = f"import regroup.worker.nursery as nursery; nursery.Trainer.bury = lambda trainer: 1 / 0; {PLAYED}"
    async with coordinator(places) as one:
        with agent(places, "-c", broken, PYTHONPATH=str(Path(__file__).parent)) as process:
            await one.hears(AgentRegistered)
            assert one.hub.send("w0", Prepare(job, JobSpec(task="digits", steps=1)))
            assert await asyncio.to_thread(process.wait, LIMIT) == 1
    log = (tmp_path / "agent.log").read_text()
    assert "regroup.agent: ends by an error of its own" in log
    assert "ZeroDivisionError: division by zero" in log


async def test_an_agent_that_is_turned_away_ends_with_the_reason(tmp_path: Path) -> None:
    places = make_places(tmp_path)
    async with coordinator(places) as one:
        with agent(places, "-c", PLAYED, PYTHONPATH=str(Path(__file__).parent)) as process:
            assert (await one.hears(AgentRegistered)).protocol == PROTOCOL
            assert one.hub.send("w0", TurnAway("w0 speaks protocol 1: update the coordinator"))
            assert await asyncio.to_thread(process.wait, LIMIT) == 1
    log = (tmp_path / "agent.log").read_text()
    assert log.splitlines()[-1] == (
        "regroup-agent: turned away by the coordinator: w0 speaks protocol 1: update the coordinator"
    )
    assert "Traceback" not in log


async def test_an_agent_that_is_turned_away_ends_only_when_its_trainer_does(tmp_path: Path) -> None:
    """A job trains on while a coordinator of another release stands there for a moment."""
    places, job = make_places(tmp_path), "stops-within-a-message"
    async with coordinator(places) as one:
        with agent(places, "-c", PLAYED, PYTHONPATH=str(Path(__file__).parent)) as process:
            await one.hears(AgentRegistered)
            assert one.hub.send("w0", Welcome(heartbeat_interval=0.1))
            assert one.hub.send("w0", Prepare(job, JobSpec(task="digits", steps=1)))
            trainer = await one.hears_of_a_trainer()
            assert one.hub.send("w0", TurnAway("other words"))
            await asyncio.to_thread(until_logged, tmp_path / "agent.log", "going on with what it trains: other words")
            while not one.said.empty():
                one.said.get_nowait()
            for _ in range(5):
                assert (await one.hears(Heartbeat)).trainer is not None
            assert process.poll() is None
            os.kill(trainer.pid, signal.SIGKILL)
            assert await asyncio.to_thread(process.wait, LIMIT) == 1
    assert "regroup-agent: turned away by the coordinator: other words" in (tmp_path / "agent.log").read_text()


async def test_an_agent_whose_key_is_unknown_ends_with_what_to_set(tmp_path: Path) -> None:
    places = make_places(tmp_path)
    stranger = join_token(server_keys(places.keys).public, new_secret())
    async with coordinator(places) as one:
        command = ("-c", PLAYED)
        with agent(places, *command, PYTHONPATH=str(Path(__file__).parent), REGROUP_JOIN=stranger) as process:
            assert await asyncio.to_thread(process.wait, LIMIT) == 1
        assert one.said.empty()
    last = (tmp_path / "agent.log").read_text().splitlines()[-1]
    assert last.startswith("regroup-agent: turned away by the coordinator: its key is not that of this cluster's")
    assert "set REGROUP_JOIN to what `regroup join-token` tells there" in last


async def test_an_agent_ends_although_discards_hang_and_its_trainer_does_not_die(tmp_path: Path) -> None:
    """It says goodbye only when its trainer is gone: that is what it means."""
    code = f"""if True:
        import time
        import regroup.worker.discarding as discarding, regroup.worker.guardian as guardian
        from regroup.worker.nursery import Trainer
        discarding.Storage.delete = lambda storage, path: time.sleep(600)
        Trainer.kill = lambda trainer: None
        guardian.EXIT_LIMIT = 0.5
        {PLAYED}
    """
    places = make_places(tmp_path)
    paths = tuple(f"{places.root}/checkpoints/j/checkpoint-g000001-s0000000{n}-0123abcd.safetensors" for n in range(2))
    async with coordinator(places) as one:
        with agent(places, "-c", code, PYTHONPATH=str(Path(__file__).parent)) as process:
            await one.hears(AgentRegistered)
            for n in range(40):  # more than a pool of threads has
                assert one.hub.send("w0", Discard(f"j{n}", paths, ORIGIN, ()))
                assert one.hub.send("w0", Discard("j", (paths[0],) * (n + 1), ORIGIN, ()))
            assert one.hub.send("w0", Prepare("stops-within-a-message", JobSpec(task="digits", steps=1)))
            await one.hears_of_a_trainer()
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(process.wait, LIMIT) == 0
        said = [one.said.get_nowait() for _ in range(one.said.qsize())]
        assert not [report for report in said if isinstance(report, AgentLeft)]
    assert "was killed, and is not gone in 0.5 s" in (tmp_path / "agent.log").read_text()


async def test_an_agent_that_nobody_answers_ends_in_time_wherever_else_it_looks_for_a_coordinator(
    tmp_path: Path,
) -> None:
    code = f"""if True:
        import regroup.worker.agent as agent, regroup.worker.departure as departure
        agent.UNANSWERED, departure.UNHEARD = 0.5, 2.0
        {PLAYED}
    """
    places = make_places(tmp_path)
    environ = {"PYTHONPATH": str(Path(__file__).parent), "REGROUP_LEAVE_LIMIT": "8"}
    with agent(places, "-c", code, **environ) as process:
        async with coordinator(places) as one:
            await one.hears(AgentRegistered)
            assert one.hub.send("w0", Welcome(heartbeat_interval=0.1))
            assert one.hub.send("w0", Prepare("stops-within-a-message", JobSpec(task="digits", steps=1)))
            await one.hears_of_a_trainer()
        process.terminate()
        assert await asyncio.to_thread(process.wait, LIMIT) == 0
    assert "no coordinator answered in 2 s" in (tmp_path / "agent.log").read_text()


def until_logged(log: Path, words: str) -> None:
    deadline = time.monotonic() + LIMIT
    while words not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)


def until_it_has_a_spare(agent: int) -> None:
    """A process that its fork server has forked."""

    def children(process: int) -> list[int]:
        found = []
        with suppress(FileNotFoundError):  # a thread that ended meanwhile, or the process
            for thread in Path(f"/proc/{process}/task").iterdir():
                found += [int(child) for child in (thread / "children").read_text().split()]
        return found

    deadline = time.monotonic() + LIMIT
    while not any(children(child) for child in children(agent)):
        assert time.monotonic() < deadline, "it has no spare"
        time.sleep(0.02)
