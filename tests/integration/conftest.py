"""Whole clusters for the tests, the jobs that are disturbed on them, and what their workers wrote down.

Owns: one cluster of three workers that many tests share, waiting with a deadline, kills from outside, and reading the
loss curve, the witnesses and the audit out of the workers' own records.
Refuses to know: which faults a test plants (`tasks/disturbed.py` does them) and what it claims.
"""

import fcntl
import json
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest

from regroup.client.errors import Unavailable, Unreachable
from regroup.client.sdk import Client
from regroup.core.jobs import JobPhase
from regroup.lab.audit import Audit, audit_job
from regroup.lab.bench.following import Applied, Following
from regroup.lab.local import LocalCluster
from regroup.lab.trainers import trainer_of
from regroup.wire.rest import EventView, JobView

TASKS = Path(__file__).parent / "tasks"
LIMIT = 90.0  # seconds until what is awaited counts as never happening; far above what anything takes
PAUSE = 0.01  # seconds between two looks
UNREADY = ("idle", "starting", "preparing", "disconnected")  # what a worker does that could not train now

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Witness:
    """What a trainer held when it was about to commit a step."""

    incarnation: str
    step: int
    state: str
    gradient: str
    at: int


class Bed:
    """A running cluster, as tests use it."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.client: Client = cluster.client()

    def trial(self, folder: Path) -> "Trial":
        return Trial(self, folder)

    def until(self, met: Callable[[], Found | None], what: str, limit: float = LIMIT) -> Found:
        """The first answer that is neither None nor False. Fails when it takes longer than `limit` seconds."""
        deadline = time.monotonic() + limit
        while True:
            found = met()
            if found is not None and found is not False:
                return found
            if time.monotonic() > deadline:
                told = [f"{event.at:.3f} {event.job} {event.kind} {event.reason}" for event in self.client.events()]
                pytest.fail("\n".join([f"{what}: this did not happen in {limit:g} s", *told[-40:]]))
            time.sleep(PAUSE)

    def rest(self) -> None:
        """Wait until every worker is free."""
        self.until(lambda: self.client.cluster().idle == len(self.cluster.agents), "all workers are free")

    def kill_trainers(self, *workers: str) -> None:
        """SIGKILL to the trainers of these workers, one right after the other."""
        folder = self.cluster.data_dir
        found = [self.until(partial(trainer_of, folder, worker), f"{worker} has a trainer") for worker in workers]
        for pid in found:
            os.kill(pid, signal.SIGKILL)


class Trial:
    """One job: submitted with its faults and gates, followed, and judged by its records."""

    def __init__(self, bed: Bed, folder: Path) -> None:
        self.bed, self.client, self._folder = bed, bed.client, folder
        self._gates: dict[int, int] = {}  # step -> the locked file, while it is shut
        self.id = ""

    def submit(
        self,
        task: str = "disturbed:Curve",
        *,
        faults: tuple[dict[str, Any], ...] = (),
        gates: tuple[int, ...] = (),
        options: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> "Trial":
        """Submit one of the disturbed tasks. Each gate holds the job at about its step until it is opened."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for step in gates:
            self._gates[step] = os.open(self._folder / f"gate-{step}", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._gates[step], fcntl.LOCK_EX)
        ours = {"folder": str(self._folder), "faults": list(faults), "gates": list(gates), **(options or {})}
        usual = {"min_workers": 1, "max_workers": 3, "step_timeout": 120.0}
        self.id = self.client.submit(task=task, options=ours, **{**usual, **spec}).id
        self._following = Following(self.records)
        return self

    def open(self, step: int) -> None:
        os.close(self._gates.pop(step))

    @property
    def now(self) -> JobView:
        return self.client.job(self.id)

    def pause(self, hold: bool = False) -> JobView:
        self.client.pause(self.id, hold)
        return self.client.wait(self.id, timeout=LIMIT, interval=PAUSE, paused=True)

    def until(self, met: Callable[[JobView], Found | None], what: str) -> Found:
        """Look at the job until it is as awaited. Fails at once when it ends before."""

        def look() -> Found | None:
            job = self.now
            found = met(job)
            if job.ended and not found:
                pytest.fail(f"{what}: not in time; the job is {job.phase}: {job.reason}\n{self.story()}")
            return found

        return self.bed.until(look, what)

    def until_committed(self, steps: int) -> None:
        """Wait until somebody wrote to have committed so many steps."""
        self.until_records(lambda seen: any(one.step + 1 >= steps for one in seen), f"{steps} steps are committed")

    def until_records(self, met: Callable[[list[Applied]], bool], what: str) -> None:
        self.bed.until(lambda: met(self.applied()), what)

    def until_all(self, workers: int, deaths: int = 0) -> None:
        """Wait until so many trainers have died in all, and so many workers take part or are prepared to."""
        self.bed.until(lambda: len(self.events("exited")) >= deaths, f"{deaths} deaths were noticed")
        self.until(
            lambda job: sum(each.doing not in UNREADY for each in job.workers) == workers,
            f"{workers} workers take part or are prepared",
        )

    def until_regrouped(self, generation: int) -> JobView:
        """Wait until it runs in a generation above this one."""
        return self.until(
            lambda job: job if job.generation > generation and job.phase is JobPhase.RUNNING else None,
            f"it runs in a generation above {generation}",
        )

    def until_back(self) -> JobView:
        """Wait until a coordinator answers again, and has heard of everybody."""

        def look() -> JobView | None:
            with suppress(Unreachable, Unavailable):
                workers = self.client.workers()
                job = self.now
                return job if all(worker.healthy for worker in workers) else None
            return None

        return self.bed.until(look, "the coordinator is back")

    def finish(self) -> JobView:
        """Open what is still shut, wait until the job has completed, and check that its audit is exact."""
        for step in list(self._gates):
            self.open(step)
        for _ in self.client.events(self.id, follow=True):
            pass  # the stream ends with the job
        job = self.now
        assert job.phase is JobPhase.COMPLETED, f"{job.reason}\n{job.error}\n{self.story()}"
        found = self.audit()
        assert found.ok, f"{found.summary}: {found.faults}\n{self.story()}"
        counted = (found.lost, found.doubled, found.missing_records, found.steps)
        assert counted == (0, 0, 0, job.step - self.begins)
        return job

    def points_are_complete(self) -> None:
        """Check that REST shows of each step what the workers wrote down of it, whoever of them died."""
        curve = dict(enumerate(self.curve()))

        def same() -> bool:  # the coordinator writes points down at its leisure
            return {point.step: point.loss for point in self.client.points(self.id)} == curve

        self.bed.until(same, "the points over REST are the curve", limit=10.0)

    def close(self) -> None:
        """Leave no gate shut and no job running."""
        for step in list(self._gates):
            self.open(step)
        if self.id and not self.now.ended:
            self.client.stop(self.id)
            self.client.wait(self.id, timeout=LIMIT, interval=0.05)

    # --- What was told

    def events(self, *kinds: str) -> list[EventView]:
        return [event for event in self.client.events(self.id) if not kinds or event.kind in kinds]

    def story(self) -> str:
        return "\n".join(f"{event.at:.3f} {event.kind} {event.reason}" for event in self.events())

    def done(self, number: int = 0) -> dict[str, Any] | None:
        """Who did a fault, and at which step; None if it was not done."""
        mark = self._folder / f"fault-{number}"
        return json.loads(mark.read_text() or "{}") if mark.exists() else None

    def metrics(self) -> dict[int, dict[str, float]]:
        """What was measured at each evaluation, by the steps committed until then."""
        return {point.step + 1: dict(point.metrics) for point in self.client.points(self.id) if point.metrics}

    # --- What the workers wrote down

    @property
    def begins(self) -> int:
        """The first step of its own."""
        beginning = self.now.beginning
        return beginning.step if beginning is not None else 0

    @property
    def records(self) -> Path:
        return self.bed.cluster.data_dir / "records" / self.id

    def audit(self) -> Audit:
        return audit_job(self.client, self.id, self.records)

    def applied(self) -> list[Applied]:
        """What anybody wrote to have committed, by time."""
        self._following.look()
        return sorted(self._following.seen, key=lambda one: one.at)

    def surviving(self) -> dict[int, range]:
        """The steps that each generation contributed to the final state."""
        links = {link.generation: link for link in self.now.history}
        checkpoint = self.now.checkpoint
        assert checkpoint is not None
        generation, end, spans = checkpoint.version.generation, checkpoint.version.step, {}
        while generation:
            spans[generation] = range(links[generation].base_step, end)
            generation, end = links[generation].parent, links[generation].base_step
        assert end == self.begins
        return spans

    def curve(self) -> list[float]:
        """The loss of each step of the surviving history; all who wrote one down must have written the same."""
        spans, losses = self.surviving(), defaultdict[int, set[float]](set)
        for one in self.applied():
            if one.step in spans.get(one.generation, ()):
                losses[one.step].add(one.loss)
        assert sorted(losses) == list(range(self.begins, self.now.step))
        assert all(len(told) == 1 for told in losses.values()), "members differ in the loss of a step"
        return [losses[step].pop() for step in sorted(losses)]

    def identical(self) -> int:
        """Check that members of a generation held the same bits at each step. How many pairs were compared.

        Compared are the model's parameters and buffers, the optimizer's state, and the reduced gradient, as each
        trainer held them when it was about to commit; at a generation's first step everybody must have been there.
        """
        witnesses, seen = self._witnesses(), self.applied()
        told = defaultdict[tuple[int, int], dict[str, Witness]](dict)
        for one in seen:
            mine = [each for each in witnesses[one.incarnation] if each.step == one.step and each.at < one.at]
            told[one.generation, one.step][one.incarnation] = mine[-1]
        pairs = 0
        for (generation, step), members in told.items():
            for one, other in pairwise(members.values()):
                here = f"generation {generation}, step {step}: {one} and {other}"
                assert (one.state, one.gradient) == (other.state, other.gradient), here
                pairs += 1
        for event in self.events("form", "rolled_back"):
            generation, first = event.data["generation"], event.data["base_step"]
            later = [step for one, step in told if one == generation]
            if len(later) > 1:  # all got beyond the first step
                assert len(told[generation, first]) == len(event.data["workers"])
        return pairs

    def _witnesses(self) -> dict[str, list[Witness]]:
        found = defaultdict[str, list[Witness]](list)
        for path in (self.bed.cluster.data_dir / "logs" / self.id).glob("*.log"):
            incarnation = path.stem.rpartition("-")[2]
            for line in path.read_text().splitlines():
                if line.startswith('{"witness"') and line.endswith("}"):
                    told = json.loads(line)
                    one = (told["witness"], told["state"], told["gradient"], told["at_ns"])
                    found[incarnation].append(Witness(incarnation, *one))
        return found


@pytest.fixture(scope="module")
def make_bed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., AbstractContextManager[Bed]]:
    """Three workers that start again whenever they die, however often. What a test leaves behind is its own affair."""

    @contextmanager
    def make(**settings: str) -> Iterator[Bed]:
        folder = tmp_path_factory.mktemp("bed")
        usual = {"error_limit": "1000000", "leader_lease": "1", "hang_floor": "120"}  # gates hold trainers for long
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(TASKS), os.environ.get("PYTHONPATH")))))
            cluster = LocalCluster(folder, 3, threads=1, settings={**usual, **settings}, isolated=True)
        with cluster:
            made = Bed(cluster, folder)
            with made.client:
                yield made

    return make


@pytest.fixture(scope="module")
def bed(make_bed: Callable[..., AbstractContextManager[Bed]]) -> Iterator[Bed]:
    with make_bed() as made:
        yield made


@pytest.fixture
def trial(bed: Bed, tmp_path: Path) -> Iterator[Trial]:
    """A job to come, on the shared cluster, with all its workers free."""
    bed.rest()
    made = bed.trial(tmp_path / "trial")
    yield made
    made.close()
