"""What elasticity costs while nothing fails: step time of a job of two workers against plain DDP under torchrun.

Owns: the models, the rounds, and their ratios. All sides stay alive for the whole measurement; gates let one run at a
time, in an order that turns from round to round, so that a machine that changes its speed changes it for all.
Ours runs with everything on: coordinator, store, agents, heartbeats, records, digests, progress reports.
Refuses to know: why a side is fast or slow.
Does not measure: several machines, GPUs, more than two workers, steps that evaluate.
"""

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from regroup.client.sdk import Client
from regroup.core.shards import default_shards
from regroup.core.spec import JobSpec
from regroup.lab.bench.failing import ASK_EVERY, BenchFailed, expect_alive
from regroup.lab.bench.figures import Interval, bootstrap
from regroup.lab.bench.following import Following, newest
from regroup.lab.bench.gate import TAKES_TURNS, Gate
from regroup.lab.local import LocalCluster

RANKS = 2
SKIPPED = 2  # steps at the start of a round: one was begun before it, one warms the caches again
LIMIT = 300.0  # seconds in which a side must have prepared, or ended its round
PAUSE = 0.02  # seconds between two looks
STEPS = 10_000_000  # of a job: more than any run of this benchmark

TORCHRUN = """
from regroup.worker.nursery import die_with_parent
die_with_parent()
from torch.distributed.run import main
main()
"""

OURS, SEPARATE, DDP = "regroup", "regroup, samples not declared independent", "torchrun + DDP"


@dataclass(frozen=True, slots=True)
class Model:
    """What is trained. `task` is the built-in one, `gated` the same behind a gate."""

    name: str
    task: str
    gated: str
    options: Mapping[str, Any]
    global_batch: int


MODELS = (
    Model("gpt, 3.3 million parameters", "gpt", "regroup.lab.bench.gated:GatedGpt", {}, 8),
    # 1472 images are 23 whole batches: the cluster trains the short last batch of an epoch, the rival would not
    Model(
        "mlp, 25 million parameters",
        "digits",
        "regroup.lab.bench.gated:GatedDigits",
        {"hidden": [3500, 3500, 3500], "holdout": 325},
        64,
    ),
)


@dataclass(frozen=True, slots=True)
class Side:
    """One contestant. `completed` gives the times in ns of the steps that it completed since it was asked last;
    `check` raises BenchFailed if no more will come."""

    name: str
    gate: Gate
    passes: int  # through its gate, of each of its processes in one step
    completed: Callable[[], list[int]]
    check: Callable[[], None]


@dataclass(slots=True)
class Duel:
    """One model's measurements; filled as it goes, so that an interrupted one tells what it has."""

    model: Model
    rounds: list[dict[str, float]] = field(default_factory=list)  # ms per step of each side
    exchange_share: dict[str, float | None] = field(default_factory=dict)  # of the step, of our sides

    def ratio(self, side: str = OURS) -> Interval | None:
        """The side's step time over the rival's: median of the rounds' own ratios."""
        return bootstrap([each[side] / each[DDP] for each in self.rounds])

    def ratio_of_totals(self, side: str = OURS) -> float | None:
        """Of all rounds together: nothing that happens rarely is hidden in it."""
        total = sum(each[DDP] for each in self.rounds)
        return sum(each[side] for each in self.rounds) / total if total else None

    def step_ms(self, side: str) -> float | None:
        return median(each[side] for each in self.rounds) if self.rounds else None


def measure(
    duel: Duel, rounds: int, steps: int, data_dir: Path, *, on_round: Callable[[], None] = lambda: None
) -> None:
    """Fight `rounds` rounds of `steps` steps a side, and put them into `duel`.

    Raises BenchFailed, ClusterFailed, RegroupError; KeyboardInterrupt leaves what is there.
    """
    model = duel.model
    data_dir.mkdir(parents=True, exist_ok=True)
    with (
        LocalCluster(data_dir / "cluster", 2 * RANKS, isolated=True, threads=1, settings=TAKES_TURNS) as cluster,
        cluster.client() as client,
        ExitStack() as ends,
    ):
        sides: list[Side] = []
        jobs: dict[str, str] = {}
        for name, independent in ((OURS, True), (SEPARATE, False)):
            path = data_dir / f"gate-{len(sides)}"
            gate, wanted = Gate(path, owner=True), spec(model, path, independent)
            jobs[name] = client.submit(wanted).id
            completed = Job(cluster.data_dir, jobs[name]).completed
            passes = 1 if independent else wanted.shard_count // RANKS  # each worker owns as many shards
            check = partial(expect_alive, client, jobs[name])
            sides.append(Side(name, gate, passes, completed, check))
            get_going(sides[-1])
        path = data_dir / "gate-ddp"
        gate = Gate(path, owner=True)
        sides.append(Side(DDP, gate, 1, *ends.enter_context(torchrun(model, path, data_dir))))
        get_going(sides[-1])
        for side in sides:
            time_steps(side, steps)  # not counted: whatever is slow at first
        try:
            for number in range(rounds):
                turn = number % len(sides)
                duel.rounds.append({side.name: time_steps(side, steps) for side in (*sides[turn:], *sides[:turn])})
                on_round()
        finally:
            for name, job in jobs.items():
                duel.exchange_share[name] = exchange_share(client, job)
        for side, job in zip(sides, jobs.values(), strict=False):  # the rival has none
            client.stop(job)
            side.gate.admit(STEPS)  # so that it reaches a step's end, where it stops
            client.wait(job, timeout=LIMIT)


def spec(model: Model, gate: Path, independent: bool) -> JobSpec:
    """The job; with independent samples a worker joins its shards in one pass, else each shard is a pass."""
    shards = default_shards(model.global_batch, RANKS)
    return JobSpec(
        task=model.gated,
        options={**model.options, "gate": str(gate), "independent": independent},
        steps=STEPS,
        global_batch=model.global_batch,
        shards=shards,
        micro_batch=None if independent else model.global_batch // shards,
        min_workers=RANKS,
        max_workers=RANKS,
        step_timeout=3600.0,  # to wait at a gate is no hang
    )


def get_going(side: Side) -> None:
    """Let it prepare (which takes a pass or two) and complete a step. Raises BenchFailed."""
    side.gate.admit(3 + 2 * side.passes)
    _await(side, 1)
    time.sleep(1.0)  # whatever it may still complete


def time_steps(side: Side, steps: int) -> float:
    """Let the side run a round; milliseconds per step of `steps` consecutive ones. Raises BenchFailed."""
    side.completed()
    side.gate.admit((SKIPPED + steps) * side.passes)
    times = _await(side, SKIPPED + steps)
    time.sleep(0.1)  # the other worker ends the last step
    return (times[SKIPPED + steps - 1] - times[SKIPPED - 1]) / steps / 1e6


def _await(side: Side, steps: int) -> list[int]:
    """The times of the steps that it completes, at least so many."""
    times: list[int] = []
    began = asked = time.monotonic()
    while len(times) < steps:
        time.sleep(PAUSE)
        new, now = side.completed(), time.monotonic()
        times += new
        if now - began > LIMIT:
            raise BenchFailed(f"{side.name} did not complete {steps} steps in {LIMIT:g} s")
        if new:
            asked = now
        elif now - asked > ASK_EVERY:
            asked = now
            side.check()
    return times


class Job:
    """A job of ours as a side: the commits of one of its workers, by that worker's records."""

    def __init__(self, data_dir: Path, job: str) -> None:
        self._records = Following(data_dir / "records" / job)
        self._generation = 0
        self._worker = ""

    def completed(self) -> list[int]:
        self._records.look()
        seen, generation = self._records.seen, newest(self._records.seen)
        if not seen:
            return []
        if self._generation not in (0, generation):
            raise BenchFailed("the job regrouped in the middle of the measurement")
        self._generation = generation
        self._worker = self._worker or min(one.worker for one in seen)
        times = [one.at for one in seen if one.worker == self._worker]
        seen.clear()
        return times


def exchange_share(client: Client, job: str) -> float | None:
    """The median share of a step that rank 0 waited in the exchange, after its own backward."""
    points = [point for point in client.points(job) if point.seconds and point.exchange_seconds is not None]
    shares = [(point.exchange_seconds or 0.0) / (point.seconds or 1.0) for point in points]
    return median(shares) if shares else None


@contextmanager
def torchrun(model: Model, gate: Path, data_dir: Path) -> Iterator[tuple[Callable[[], list[int]], Callable[[], None]]]:
    """The rival's processes; gives a Side's `completed` and `check`. They are killed at the end."""
    times, log = data_dir / "ddp.times", data_dir / "ddp.log"
    times.write_bytes(b"")
    options = ["--task", model.task, "--options", json.dumps(dict(model.options))]
    options += ["--global-batch", str(model.global_batch), "--gate", str(gate), "--times", str(times)]
    launcher = [sys.executable, "-c", TORCHRUN, "--standalone", "--nproc-per-node", str(RANKS)]
    with log.open("wb") as words:
        process = subprocess.Popen(
            [*launcher, "-m", "regroup.lab.bench.ddp", *options],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
        )

    def completed() -> list[int]:
        new = file.read()
        return [at for (at,) in struct.iter_unpack("q", new)]  # each is written in one call

    def check() -> None:
        if process.poll() is not None:
            raise BenchFailed(f"torchrun ended with status {process.returncode}; its words are in {log}")

    with times.open("rb") as file:
        try:
            yield completed, check
        finally:
            process.kill()  # its ranks die with it
            process.wait()
