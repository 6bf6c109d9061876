"""Ranks of a group, and trainers with a test for an agent, as real processes: forked from a server that imported torch,
killed at the end of each test. And places where files are kept, as a test looks into them behind the worker's back."""

import multiprocessing
import runpy
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from fsspec.core import url_to_fs

from regroup.core.jobs import ORIGIN, Checkpoint, Formation, Member, Seat, Version
from regroup.core.messages.orders import Form, Halt, Order, Prepare, RenewLease, Save
from regroup.core.messages.trainer_reports import Halted, Prepared, TrainerReport
from regroup.core.spec import JobSpec
from regroup.core.workers import TrainerPhase, TrainerStatus
from regroup.wire.codec import decode_report, decode_value, encode
from regroup.wire.lease_clock import lease_clock
from regroup.worker.control import REPORT, STATUS
from regroup.worker.nursery import Nursery
from regroup.worker.position import last_position
from regroup.worker.storage import Storage

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["torch", "pytest", "regroup.worker.process"])

T = TypeVar("T")


class Rank:
    """A process that runs a function of the test's own file, which gets a pipe to the test as its first argument."""

    def __init__(self, file: Path, body: str, args: tuple[Any, ...]) -> None:
        self.pipe, far = processes.Pipe()
        start = {"BODY": body, "ARGS": (far, *args)}
        # The test's module has no name that another process could import, so it is run by its path.
        self.process = processes.Process(target=runpy.run_path, args=(str(file), start, "__rank__"), daemon=True)
        self.process.start()
        far.close()

    def says(self, seconds: float = 30.0) -> Any:
        """What it sends next. Fails the test when it says nothing in time, or died (EOFError)."""
        assert self.pipe.poll(seconds), "the rank said nothing"
        return self.pipe.recv()

    def tell(self, word: Any) -> None:
        self.pipe.send(word)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


@pytest.fixture
def start_rank(request: pytest.FixtureRequest) -> Iterator[Callable[..., Rank]]:
    """`start_rank("body", *args)` runs body(pipe, *args) in a process; the file ends in `if __name__ == "__rank__"`."""
    started: list[Rank] = []

    def start(body: str, *args: Any) -> Rank:
        started.append(Rank(request.path, body, args))
        return started[-1]

    yield start
    for rank in started:
        rank.kill()
        rank.pipe.close()
        rank.process.close()


class Driven:
    """A trainer process, and the test as its agent and coordinator: it trains alone."""

    def __init__(self, nursery: Nursery, tasks: str) -> None:
        self.trainer = nursery.take()
        self.birth = self.trainer.birth
        self.tasks = tasks  # the module that they are in
        self.status: TrainerStatus | None = None
        self.version: Version | None = None  # of its last answer to a Halt
        self.spec: JobSpec | None = None

    def tell(self, order: Order) -> None:
        self.trainer.pipe.send_bytes(encode(order))

    def hears(self, kind: type[T], seconds: float = 30.0) -> T:
        """Its next report of this kind. Fails the test when there is none in time, or it died (EOFError)."""
        deadline = time.monotonic() + seconds
        while self.trainer.pipe.poll(max(0.0, deadline - time.monotonic())):
            report = self._next()
            if isinstance(report, kind):
                return report
        raise AssertionError(f"it never said {kind.__name__}; it is at {self.status}")

    def until(self, phase: TrainerPhase) -> None:
        while self.status is None or self.status.phase is not phase:
            assert self.trainer.pipe.poll(30), f"it never was {phase}; it is at {self.status}"
            self._next()

    def hears_any(self) -> None:
        """Its next word, a status or a report."""
        assert self.trainer.pipe.poll(30), f"it says nothing; it is at {self.status}"
        self._next()

    def _next(self) -> TrainerReport | None:
        message = self.trainer.pipe.recv_bytes()
        if message[:1] == STATUS:
            self.status = decode_value(TrainerStatus, message[1:])
            return None
        assert message[:1] == REPORT
        return decode_report(message[1:])  # type: ignore[return-value]

    def prepare(self, task: str, **fields: Any) -> None:
        self.spec = JobSpec(task=f"{self.tasks}:{task}", **{"steps": 4, "global_batch": 4, "shards": 2, **fields})
        self.tell(Prepare("j", self.spec))

    def halt(self, generation: int) -> Halted:
        self.tell(Halt("j", generation))
        answer = self.hears(Halted)
        self.version = answer.version
        return answer

    def train(self, generation: int, checkpoint: Checkpoint | None = None, leased: bool = True) -> None:
        """A Halt, and then alone from whatever it answered, or from a checkpoint."""
        assert self.spec is not None
        assert self.spec.steps is not None
        answer = self.halt(generation)
        seat = Seat(Member(self.birth.worker, self.birth.incarnation), answer.version)
        owners = (0,) * self.spec.shard_count
        base = checkpoint.version if checkpoint is not None else answer.version or ORIGIN
        given = {"checkpoint": checkpoint, "detached_limit": 60.0}
        formation = Formation(generation, (seat,), 0, base, owners, answer.store, **given)
        self.tell(Form("j", formation, self.spec.steps))
        if leased:
            self.tell(RenewLease(generation, lease_clock()))

    def lead(self, other: "Driven", generation: int) -> None:
        """A Halt of both, and then together from whatever this one holds."""
        assert self.spec is not None
        answers = [each.halt(generation) for each in (self, other)]
        members = [Member(each.birth.worker, each.birth.incarnation) for each in (self, other)]
        seats = tuple(Seat(member, answer.version) for member, answer in zip(members, answers, strict=True))
        owners = tuple(shard % 2 for shard in range(self.spec.shard_count))
        base = answers[0].version or ORIGIN
        formation = Formation(generation, seats, 0, base, owners, answers[0].store, detached_limit=60.0)
        for each in (self, other):
            each.tell(Form("j", formation, self.spec.steps))
            each.tell(RenewLease(generation, lease_clock()))

    def finish(self, task: str, **fields: Any) -> None:
        """All steps of a job, in generation 1."""
        self.prepare(task, **fields)
        self.hears(Prepared)
        self.train(1)
        self.until(TrainerPhase.FINISHED)

    def save(self, generation: int, final: bool = True) -> None:
        self.halt(generation)
        assert self.version is not None
        self.tell(Save("j", generation, self.version, final))

    @property
    def position(self) -> tuple[int, int] | None:
        return last_position(self.birth.position)

    @property
    def log(self) -> str:
        return (self.birth.logs / "j" / f"{self.birth.worker}-{self.birth.incarnation}.log").read_text()

    @property
    def records(self) -> Path:
        return self.birth.records / "j" / f"{self.birth.worker}-{self.birth.incarnation}.jsonl"

    def end(self) -> str:
        self.trainer.kill()
        return self.trainer.bury()


@pytest.fixture
def driven(start_driven: Callable[[str], Driven]) -> Driven:
    """A trainer that waits for its job; tasks are classes of the test's own file."""
    return start_driven("w0")


@pytest.fixture
def start_driven(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Driven]]:
    monkeypatch.syspath_prepend(str(request.path.parent))
    with ExitStack() as ending:

        def start(worker: str) -> Driven:
            nursery = Nursery(worker, "127.0.0.1", tmp_path, 1, "regroup.worker.process:main")
            ending.callback(nursery.close)
            started = Driven(nursery, request.path.stem)
            ending.callback(lambda: None if started.trainer.pipe.closed else started.end())
            return started

        yield start


class Kept:
    """A place with a storage that keeps files there."""

    def __init__(self, place: str, scratch: Path) -> None:
        self.place = place
        self.storage = Storage(place, scratch, patience=60)
        self._system, self._root = url_to_fs(place, use_listings_cache=False)

    @property
    def names(self) -> list[str]:
        """All files below the place, also half ones."""
        return [path.removeprefix(f"{self._root}/") for path in self._system.find(self._root)]

    def content(self, path: str) -> bytes:
        return bytes(self._system.cat_file(path))

    def replace(self, path: str, content: bytes) -> None:
        self._system.pipe_file(path, content)

    def remove(self, path: str) -> None:
        self._system.rm_file(path)


@pytest.fixture(params=["folder", "memory", "s3"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    """Object stores publish what is complete; the memory's file system, as many others, shows files as they grow."""
    match request.param:
        case "folder":
            place = str(tmp_path / "kept")
        case "memory":
            place = f"memory://{uuid4().hex}"
        case _:
            place = f"{request.getfixturevalue('bucket')}/some/prefix"
    return Kept(place, tmp_path / "scratch")


@pytest.fixture
def make_kept(tmp_path: Path) -> Callable[[str], Kept]:
    return lambda place: Kept(place, tmp_path)


__all__ = ["Connection", "Driven", "Kept", "Rank"]
