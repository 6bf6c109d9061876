"""How long a job stands still when a worker is killed, and how long until the worker is back.

Owns: the scenarios, the kills, and what is taken from the workers' own records. The clock starts just before the
signal is sent, and stops at the first step that a survivor committed afterwards, in a newer generation, by the time
that the survivor wrote down. Where the time goes in between is told by the coordinator's timeline.
Refuses to know: how the cluster recovers.
Does not measure: machines that vanish without closing their connections, several machines, kills during a regroup.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from statistics import median

from regroup.client.sdk import Client
from regroup.core.spec import JobSpec
from regroup.lab.audit import Audit, audit_job
from regroup.lab.bench.failing import BenchFailed, expect_alive
from regroup.lab.bench.figures import Spread, spread
from regroup.lab.bench.following import Applied, Following, Found, newest, step_times
from regroup.lab.local import LocalCluster
from regroup.lab.trainers import trainer_of
from regroup.wire.rest import EventView

SETTLED = 3  # steps that all workers committed together before the next kill
CALM = 8  # steps that the survivors commit undisturbed, before the killed worker is started again
CALM_EVERY = 10  # kills of a trainer, which its agent replaces at once, between two such measurements
STEPS = 10_000_000  # of the job: more than any run of this benchmark
MODEL = "gpt, 3.2 million parameters, 6 samples of 64 bytes a step"
OPTIONS = {"sequence": 64}
SETTINGS = {"error_limit": "1000000"}  # a worker that dies a hundred times is what is wanted here
GLOBAL_BATCH = 6


class Whom(StrEnum):
    AGENT = "agent"  # and its trainer, with one signal to their process group
    TRAINER = "trainer"  # alone; its agent starts another one


@dataclass(frozen=True, slots=True)
class Scenario:
    workers: int
    whom: Whom

    @property
    def name(self) -> str:
        return f"{self.workers}_to_{self.workers - 1}_{self.whom}"


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill. Times are ms since just before the signal; None: the timeline does not say."""

    victim: str
    committed: float  # a survivor committed a step in a newer generation
    rejoined: float  # a step was committed that the victim took part in; ms since it was started again
    generations: int  # that were taken until then; above 1: a first try did not form
    noticed: float | None  # the coordinator halted the job
    formed: float | None  # it issued the formation of the survivors
    regrouped: float | None  # it heard from all of them that they had formed
    lost_steps: int  # that others had committed, and that were done again


@dataclass(slots=True)
class Outcome:
    """What a scenario gave; filled as it goes, so that an interrupted one tells what it has."""

    scenario: Scenario
    kills: list[Kill] = field(default_factory=list)
    step_times: list[float] = field(default_factory=list)  # ms, of the survivors alone and undisturbed
    lost_steps: int = 0  # after any kill, also one that no other figure counts
    audit: Audit | None = None  # None: it did not come to that
    restarts: int | None = None  # of the job, from the seed, because all state was lost

    @property
    def faults(self) -> list[str]:
        """What must not happen: any of it fails the benchmark."""
        found = list(self.audit.faults) if self.audit else []
        if self.lost_steps:
            found.append(f"{self.lost_steps} steps that survivors had committed were done again")
        if self.restarts:
            found.append(f"all state was lost, and the job began again, {self.restarts} times")
        return found

    @property
    def step_ms(self) -> float | None:
        return median(self.step_times) if self.step_times else None

    def times(self, of: Callable[[Kill], float | None]) -> Spread | None:
        return spread([told for kill in self.kills if (told := of(kill)) is not None])


def measure(
    outcome: Outcome,
    kills: int,
    data_dir: Path,
    *,
    seed: int = 0,
    on_kill: Callable[[Kill], None] = lambda kill: None,
) -> None:
    """Run a cluster in `data_dir`, kill `kills` times, audit, and put it all into `outcome`.

    Ctrl-C ends the killing; the audit still follows. Raises BenchFailed, ClusterFailed, RegroupError.
    """
    scenario = outcome.scenario
    with (
        LocalCluster(data_dir, scenario.workers, isolated=True, restart=False, threads=1, settings=SETTINGS) as cluster,
        cluster.client() as client,
    ):
        job = client.submit(spec(scenario.workers)).id
        run = Run(cluster, client, job, random.Random(seed))
        with interruptible() as interrupted:
            for number in range(kills):
                if scenario.whom is Whom.TRAINER and number % CALM_EVERY == 0:
                    outcome.lost_steps += run.kill(Whom.AGENT, outcome.step_times).lost_steps
                outcome.kills.append(run.kill(scenario.whom, outcome.step_times))
                outcome.lost_steps += outcome.kills[-1].lost_steps
                on_kill(outcome.kills[-1])
        client.stop(job)
        outcome.restarts = client.wait(job, timeout=60).restarts
        outcome.audit = audit_job(client, job, run.records)
    if interrupted:
        raise KeyboardInterrupt


def spec(workers: int) -> JobSpec:
    return JobSpec(
        task="gpt",
        options=OPTIONS,
        steps=STEPS,
        global_batch=GLOBAL_BATCH,
        min_workers=1,
        max_workers=workers,
    )


class Run:
    """One job on a cluster, disturbed again and again."""

    def __init__(self, cluster: LocalCluster, client: Client, job: str, draw: random.Random) -> None:
        self._cluster, self._client, self._job, self._draw = cluster, client, job, draw
        self.records = cluster.data_dir / "records" / job
        self._records = Following(self.records)
        self._last_event: str | None = None

    def kill(self, whom: Whom, calm: list[float]) -> Kill:
        """Wait until all train, kill one at a random instant, wait until it is back.

        With the agent gone nothing starts the worker again, so that the survivors' steps are undisturbed: their
        times in ms are added to `calm`. Then the worker is started.
        """
        workers = sorted(self._cluster.agents)
        self._records.forget()
        self._until(lambda: self._settled(workers), "all workers train together")
        victim = self._draw.choice(workers)
        trainer = trainer_of(self._cluster.data_dir, victim)
        if trainer is None:
            raise BenchFailed(f"no trainer of {victim} was found")
        time.sleep(self._draw.uniform(0, 2) * self._step_seconds(workers[0]))
        self._records.look()
        before = newest(self._records.seen)
        former = {one.incarnation for one in self._records.seen if one.worker == victim}

        wall, began = time.time(), time.monotonic_ns()
        if whom is Whom.AGENT:
            self._cluster.agents[victim].kill()
        else:
            os.kill(trainer, signal.SIGKILL)
        after = self._until(lambda: self._survived(before, victim), f"a survivor of {victim} commits a step")
        if whom is Whom.AGENT:
            calm += self._until(lambda: self._calm(after.generation, after.worker), "the survivors go on")
            started = time.monotonic_ns()
            self._cluster.start_worker(victim)
        else:
            started = began
        back = self._until(lambda: self._returned(victim, former), f"{victim} takes part again")

        first, joined = (begin(self._records.seen, one.generation) for one in (after, back))
        timeline = self._timeline(wall, before, after.generation)
        return Kill(
            victim=victim,
            committed=(first.at - began) / 1e6,
            rejoined=(joined.at - started) / 1e6,
            generations=after.generation - before,
            noticed=timeline.get("halt"),
            formed=timeline.get("form"),
            regrouped=timeline.get("regrouped"),
            lost_steps=sum(steps_lost(self._records.seen, one, victim) for one in {first, joined}),
        )

    def _until(self, met: Callable[[], Found | None], what: str) -> Found:
        return self._records.until(met, what, lambda: expect_alive(self._client, self._job))

    def _settled(self, workers: list[str]) -> bool | None:
        seen = self._records.seen
        generation = newest(seen)
        committed = [sum(one.generation == generation and one.worker == name for one in seen) for name in workers]
        return min(committed) >= SETTLED or None

    def _survived(self, before: int, victim: str) -> Applied | None:
        found = (one for one in self._records.seen if one.generation > before and one.worker != victim)
        return min(found, key=lambda one: one.at, default=None)

    def _calm(self, generation: int, worker: str) -> list[float] | None:
        times = step_times(self._records.seen, worker, generation)
        return times if len(times) >= CALM - 2 else None

    def _returned(self, victim: str, former: set[str]) -> Applied | None:
        found = (one for one in self._records.seen if one.worker == victim and one.incarnation not in former)
        return next(found, None)

    def _step_seconds(self, worker: str) -> float:
        return median(step_times(self._records.seen, worker, newest(self._records.seen)) or [100.0]) / 1e3

    def _timeline(self, wall: float, before: int, generation: int) -> dict[str, float]:
        """What the coordinator decided, by kind: ms since `wall` (seconds since the epoch)."""
        events = list(self._client.events(self._job, after=self._last_event))
        if events:
            self._last_event = events[-1].id
        return timeline(events, wall, before, generation)


def begin(seen: Sequence[Applied], generation: int) -> Applied:
    """The first commit of a generation that has one."""
    return min((one for one in seen if one.generation == generation), key=lambda one: one.at)


def steps_lost(seen: Sequence[Applied], first: Applied, victim: str) -> int:
    """How many steps that others than the victim had committed before were done again from `first` on."""
    done = (one.step for one in seen if one.generation < first.generation and one.worker != victim)
    return max(0, max(done, default=-1) + 1 - first.step)


def timeline(events: list[EventView], wall: float, before: int, generation: int) -> dict[str, float]:
    """When the first Halt above generation `before` was decided, and when `generation` was issued and heard formed."""
    told: dict[str, float] = {}
    for event in events:
        number = event.data.get("generation", 0)
        if (event.kind == "halt" and number > before) or (event.kind != "halt" and number == generation):
            told.setdefault(event.kind, (event.at - wall) * 1e3)
    return told


@contextmanager
def interruptible() -> Iterator[list[str]]:
    """Let Ctrl-C end the block, and say so by a word in the list."""
    interrupted: list[str] = []
    try:
        yield interrupted
    except KeyboardInterrupt:
        interrupted.append("interrupted")
