"""How much of its speed a job keeps while its trainers are killed, one after the other, every few seconds.

Owns: the stretches of one job that alternate, calm and disturbed, and what of each is taken from the workers' own
records. Of a disturbed stretch everything counts: to notice, to regroup, to do the broken step again, to prepare the
next trainer beside the others, to hand it the state, to regroup again.
Refuses to know: how the cluster recovers.
Does not measure: several machines, GPUs, jobs that wait for a first trainer to start cold.
"""

import os
import random
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import monotonic_ns, sleep

from regroup.client.sdk import Client
from regroup.core.spec import JobSpec
from regroup.lab.audit import Audit, audit_job
from regroup.lab.bench.failing import BenchFailed, expect_alive
from regroup.lab.bench.figures import Interval, bootstrap
from regroup.lab.bench.following import LIMIT, Applied, Following, newest
from regroup.lab.bench.recovery import SETTINGS, STEPS, interruptible
from regroup.lab.footprint import processor_seconds
from regroup.lab.local import LocalCluster
from regroup.lab.trainers import trainer_of

WORKERS = 3
SETTLED = 3  # steps that all workers committed together: before a stretch, and at the end of one
PAUSE = 0.05  # seconds between two looks; no figure depends on it, because the lines carry their own time
HORIZON = 5.0  # seconds after a kill in which its cost is sought; the next kill ends it, too
JITTER = (0.3, 0.7)  # where in its period a kill falls
MODEL = "gpt, 3.2 million parameters, 12 samples of 64 bytes a step"
OPTIONS = {"sequence": 64}
GLOBAL_BATCH = 12


@dataclass(frozen=True, slots=True)
class Stretch:
    """Between two commits. `steps`: committed and not done again, so what a user has of it."""

    seconds: float
    steps: int
    processor: float  # seconds, of all processes of the cluster

    @property
    def rate(self) -> float:
        return self.steps / self.seconds


@dataclass(frozen=True, slots=True)
class Cost:
    """What one kill took, in ms of training at the calm speed."""

    lost: float  # in all
    stood: float  # at the loss: until the survivors committed their first step, less a step
    returned: float | None  # at the return: the same for the step with the new trainer; None: not within the horizon

    @property
    def slowed(self) -> float:
        """The rest: what the new trainer's start took away from the others, and all that is noise."""
        return self.lost - self.stood - (self.returned or 0.0)


@dataclass(frozen=True, slots=True)
class Round:
    calm: Stretch
    disturbed: Stretch
    costs: tuple[Cost, ...]

    @property
    def goodput(self) -> float:
        return self.disturbed.rate / self.calm.rate

    @property
    def respawn(self) -> float:
        """Processor seconds per kill beyond what the steps would have taken in calm."""
        calm = self.calm.processor / self.calm.steps * self.disturbed.steps
        return (self.disturbed.processor - calm) / len(self.costs)


@dataclass(slots=True)
class Outcome:
    """One period's measurements; filled as it goes, so that an interrupted one tells what it has."""

    every: float
    rounds: list[Round] = field(default_factory=list)

    @property
    def kills(self) -> int:
        return sum(len(each.costs) for each in self.rounds)

    @property
    def goodput(self) -> Interval | None:
        """Median of the rounds' own ratios."""
        return bootstrap([each.goodput for each in self.rounds])

    @property
    def total(self) -> float | None:
        """Of all rounds together: nothing that happens rarely is hidden in it."""
        if not self.rounds:
            return None
        disturbed, calm = (
            sum(stretch.steps for stretch in side) / sum(stretch.seconds for stretch in side)
            for side in ([each.disturbed for each in self.rounds], [each.calm for each in self.rounds])
        )
        return disturbed / calm

    def costs(self, of: Callable[[Cost], float | None]) -> list[float]:
        return [told for each in self.rounds for cost in each.costs if (told := of(cost)) is not None]


@dataclass(slots=True)
class Ending:
    """What the job that all were measured on came to."""

    audit: Audit | None = None  # None: it did not come to that
    restarts: int = 0

    @property
    def faults(self) -> list[str]:
        """What must not happen: any of it fails the benchmark."""
        found = list(self.audit.faults) if self.audit else []
        if self.restarts:
            found.append(f"all state was lost, and the job began again, {self.restarts} times")
        return found


def measure(
    outcomes: Sequence[Outcome],
    ending: Ending,
    rounds: int,
    seconds: float,
    data_dir: Path,
    *,
    seed: int = 0,
    on_round: Callable[[], None] = lambda: None,
) -> None:
    """Run a cluster in `data_dir` and one job on it: for each outcome so many rounds of two stretches, then the audit.

    Ctrl-C ends the rounds; the audit still follows. Raises BenchFailed, ClusterFailed, RegroupError.
    """
    with (
        LocalCluster(data_dir, WORKERS, isolated=True, threads=1, settings=SETTINGS) as cluster,
        cluster.client() as client,
    ):
        job = client.submit(spec()).id
        run = Run(cluster, client, job, random.Random(seed))
        with interruptible() as interrupted:
            run.calm(5.0)  # not counted: whatever is slow at first
            for number in range(rounds):
                for outcome in outcomes:
                    outcome.rounds.append(run.round(outcome.every, seconds, calm_first=number % 2 == 0))
                    on_round()
        client.stop(job)
        ending.restarts = client.wait(job, timeout=60).restarts
        ending.audit = audit_job(client, job, run.folder)
    if interrupted:
        raise KeyboardInterrupt


def spec() -> JobSpec:
    return JobSpec(
        task="gpt", options=OPTIONS, steps=STEPS, global_batch=GLOBAL_BATCH, min_workers=1, max_workers=WORKERS
    )


class Run:
    """One job on a cluster, in calm and disturbed stretches."""

    def __init__(self, cluster: LocalCluster, client: Client, job: str, draw: random.Random) -> None:
        self._cluster, self._client, self._job, self._draw = cluster, client, job, draw
        self.folder = cluster.data_dir / "records" / job
        self._records = Following(self.folder)

    def round(self, every: float, seconds: float, calm_first: bool) -> Round:
        """A disturbed stretch has at least one kill. It ends when all train together again, so that nothing of it
        spills over."""
        if calm_first:
            calm = self.calm(seconds)
            disturbed, kills, commits = self._disturbed(every, seconds)
        else:
            disturbed, kills, commits = self._disturbed(every, seconds)
            calm = self.calm(seconds)
        costs = tuple(
            cost(commits, at, min([at + int(HORIZON * 1e9), *kills[number + 1 : number + 2]]), 1e3 / calm.rate)
            for number, at in enumerate(kills)
        )
        return Round(calm, disturbed, costs)

    def calm(self, seconds: float) -> Stretch:
        first, used = self._begin()
        self._look_until(first.at + int(seconds * 1e9))
        return self._end(first, used)

    def _disturbed(self, every: float, seconds: float) -> tuple[Stretch, list[int], list[Applied]]:
        """The stretch, when its kills were (ns), and the commits of it."""
        first, used = self._begin()
        kills: list[int] = []
        for number in range(max(1, int(seconds / every))):
            self._look_until(first.at + int((number + self._draw.uniform(*JITTER)) * every * 1e9))
            self._await_all()
            victim = self._draw.choice(sorted(self._cluster.agents))
            trainer = trainer_of(self._cluster.data_dir, victim)
            if trainer is None:
                raise BenchFailed(f"no trainer of {victim} was found")
            kills.append(monotonic_ns())
            os.kill(trainer, signal.SIGKILL)
            self._records.until(
                lambda at=kills[-1], victim=victim: self._survived(at, victim),  # type: ignore[misc]
                f"a survivor of {victim} commits a step",
                self._check,
            )
        self._look_until(first.at + int(max(seconds, every) * 1e9))
        self._await_all()
        return self._end(first, used), kills, surviving(self._records.seen)

    def _begin(self) -> tuple[Applied, float]:
        """The commit that a stretch begins with, and the processor time that was used until then."""
        self._await_all()
        self._records.forget()
        self._await_all()
        return surviving(self._records.seen)[-1], processor_seconds(self._cluster)

    def _end(self, first: Applied, used: float) -> Stretch:
        self._records.look()
        last = surviving(self._records.seen)[-1]
        used = processor_seconds(self._cluster) - used
        return Stretch((last.at - first.at) / 1e9, last.step - first.step, used)

    def _look_until(self, at: int) -> None:
        while monotonic_ns() < at:
            sleep(PAUSE)
            self._records.look()
        self._check()

    def _await_all(self) -> None:
        began = monotonic_ns()
        while not self._settled():
            if monotonic_ns() - began > LIMIT * 1e9:
                raise BenchFailed(f"all workers train together: this did not happen in {LIMIT:g} s")
            sleep(PAUSE)
            self._records.look()

    def _settled(self) -> bool:
        """All workers committed a few steps of the newest generation, with the trainers that live now."""
        seen = self._records.seen
        generation = newest(seen)
        return all(
            sum(one.generation == generation and one.worker == name for one in seen) >= SETTLED
            for name in self._cluster.agents
        )

    def _survived(self, at: int, victim: str) -> bool | None:
        return any(one.at > at and one.worker != victim for one in self._records.seen) or None

    def _check(self) -> None:
        expect_alive(self._client, self._job)


def surviving(seen: Sequence[Applied]) -> list[Applied]:
    """The first commit of each step, by step, in the line that goes on: what was done again counts as it was last."""
    first: dict[int, Applied] = {}
    for one in sorted(seen, key=lambda one: (-one.generation, one.at)):
        kept = first.get(one.step)
        if kept is None or (kept.generation == one.generation and one.at < kept.at):
            first[one.step] = one
    return [first[step] for step in sorted(first)]


def cost(commits: Sequence[Applied], kill: int, until: int, step: float) -> Cost:
    """Of a kill, from the last commit before it to the last one until `until` (ns); `step`: ms of one in calm."""
    before = [one for one in commits if one.at <= kill][-1]
    within = [before, *(one for one in commits if kill < one.at <= until)]
    lost = (within[-1].at - before.at) / 1e6 - (within[-1].step - before.step) * step
    borders = [
        (after.at - former.at) / 1e6 - (after.step - former.step) * step
        for former, after in pairwise(within)
        if after.generation != former.generation
    ]
    return Cost(lost, borders[0] if borders else lost, borders[1] if len(borders) > 1 else None)
