"""What it costs to save the state every so many steps: how long the step loop stands still, and the speed that is lost.

Owns: two jobs of one model that take turns behind gates, one that saves and one that does not; each round has exactly
one checkpoint in it, begun near its start, so that what the writing takes from the steps falls into the same round.
How long the copy and the writing took is in the log of the trainer that did it.
Refuses to know: how a state is copied and written.
Does not measure: several machines, GPUs, storage behind a URL.
"""

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from regroup.client.sdk import Client
from regroup.core.spec import JobSpec
from regroup.lab.bench.failing import BenchFailed, expect_alive
from regroup.lab.bench.figures import Interval, bootstrap
from regroup.lab.bench.following import LIMIT, Applied, Following
from regroup.lab.bench.gate import TAKES_TURNS, Gate
from regroup.lab.bench.overhead import RANKS, SKIPPED, STEPS, Model
from regroup.lab.bench.overhead import spec as gated_spec
from regroup.lab.local import LocalCluster

BEGIN = 5  # timed steps of a round before its checkpoint
LAYERS = 3  # hidden ones
OUTSIDE = 64 + 10  # inputs and outputs of the perceptron
TOLD = re.compile(r"^checkpoint of step (\d+): (copied|written) in ([0-9.]+) s$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds; each side did as many steps."""

    plain: float
    saving: float
    copied: float  # the step loop stood still for so long
    written: float  # beside the steps
    outlasted: bool  # the writing went on after the round's last step: some of its cost is not in the figures


@dataclass(slots=True)
class Outcome:
    """The measurements; filled as it goes, so that an interrupted one tells what it has."""

    parameters: int
    every: int  # steps
    bytes: int | None = None  # of a checkpoint
    first: float | None = None  # seconds that the first checkpoint of all was copied for; no other figure has it in it
    rounds: list[Round] = field(default_factory=list)

    @property
    def step_ms(self) -> float | None:
        return median(each.plain for each in self.rounds) / self.every * 1e3 if self.rounds else None

    @property
    def wait(self) -> Interval | None:
        """The share of the step time that the step loop stood still: median of the rounds' own."""
        return bootstrap([each.copied / each.plain for each in self.rounds])

    @property
    def ratio(self) -> Interval | None:
        """Time with checkpoints over time without: median of the rounds' own ratios."""
        return bootstrap([each.saving / each.plain for each in self.rounds])

    @property
    def ratio_of_totals(self) -> float | None:
        total = sum(each.plain for each in self.rounds)
        return sum(each.saving for each in self.rounds) / total if total else None


def measure(outcome: Outcome, rounds: int, data_dir: Path, *, on_round: Callable[[], None] = lambda: None) -> None:
    """Run a cluster in `data_dir` with both jobs, and put so many rounds of each into `outcome`.

    Raises BenchFailed, ClusterFailed, RegroupError; KeyboardInterrupt leaves what is there.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    with (
        LocalCluster(data_dir / "cluster", 2 * RANKS, isolated=True, threads=1, settings=TAKES_TURNS) as cluster,
        cluster.client() as client,
    ):
        plain, saving = (
            Side(client, cluster.data_dir, data_dir / name, spec(outcome, data_dir / name, saves))
            for name, saves in (("gate-plain", False), ("gate-saving", True))
        )
        plain.run(SKIPPED + outcome.every)  # not counted: whatever is slow at first
        saving.run(-(saving.done + SKIPPED + BEGIN) % (SKIPPED + outcome.every) or SKIPPED)
        for number in range(1 + rounds):
            first, second = (plain, saving) if number % 2 else (saving, plain)
            times = {side: side.round(outcome.every) for side in (first, second)}
            if number:
                outcome.rounds.append(Round(times[plain], times[saving], *saving.checkpoint()))
                on_round()
            else:
                outcome.first = saving.checkpoint()[0]  # it meets memory and files that are new
        saved = client.job(saving.job).checkpoint
        outcome.bytes = saved.bytes if saved else None
        for side in (plain, saving):
            client.stop(side.job)
            side.gate.admit(STEPS)  # so that it reaches a step's end, where it stops
            client.wait(side.job, timeout=LIMIT)


def spec(outcome: Outcome, gate: Path, saves: bool) -> JobSpec:
    """The round of a job that saves has a checkpoint each, wherever it began: that is one in `every` timed steps."""
    hidden = [width(outcome.parameters)] * LAYERS
    task = "regroup.lab.bench.gated:GatedDigits"
    model = Model("mlp", "digits", task, {"hidden": hidden, "holdout": 325}, 64)
    every = SKIPPED + outcome.every if saves else None
    return replace(gated_spec(model, gate, independent=True), checkpoint_every=every, keep_last=1)


def width(parameters: int) -> int:
    """Of the hidden layers of a perceptron with about so many parameters: the root of the sum of its layers."""
    squares, linear = LAYERS - 1, OUTSIDE + LAYERS
    return max(1, round((math.sqrt(linear**2 + 4 * squares * parameters) - linear) / (2 * squares)))


class Side:
    """A job behind its gate. Two of them are alive, and one at a time trains."""

    def __init__(self, client: Client, data_dir: Path, gate: Path, wanted: JobSpec) -> None:
        self._client = client
        self.gate = Gate(gate, owner=True)
        self.job = client.submit(wanted).id
        self._logs = data_dir / "logs" / self.job
        self._records = Following(data_dir / "records" / self.job)
        self._wanted: int | None = None  # the step whose checkpoint this round has
        self._last = 0  # ns, of the last commit
        self.done = 0  # steps
        self.gate.admit(5)  # preparing takes a pass or two
        self._until(lambda mine: bool(mine), "the first step is committed")
        time.sleep(1.0)  # whatever it may still complete
        self._until(lambda mine: bool(mine), "the first step is committed")

    def run(self, steps: int) -> list[Applied]:
        """Let it do so many steps; its commits, by one of its workers."""
        self._records.forget()
        self.gate.admit(steps)
        mine = self._until(lambda mine: len(mine) >= steps, f"{steps} steps are committed")
        time.sleep(0.1)  # the other worker ends the last step
        return mine

    def round(self, every: int) -> float:
        """Seconds that so many steps took, one checkpoint among them if this side saves any."""
        self._wanted = self.done + SKIPPED + BEGIN
        mine = self.run(SKIPPED + every)
        self._last = mine[-1].at
        if len({one.generation for one in mine}) > 1 or any(b.step != a.step + 1 for a, b in pairwise(mine)):
            raise BenchFailed("the job regrouped in the middle of the measurement")
        return (mine[-1].at - mine[SKIPPED - 1].at) / 1e9

    def checkpoint(self) -> tuple[float, float, bool]:
        """How long the copy and the writing of the round's checkpoint took, and whether that outlasted the round."""
        outlasted = False
        began = time.monotonic()
        while True:
            told = {
                what: float(seconds)
                for log in self._logs.glob("*.log")
                for step, what, seconds in TOLD.findall(log.read_text(errors="replace"))
                if int(step) == self._wanted
            }
            if "written" in told:
                return told["copied"], told["written"], outlasted
            outlasted = True
            if time.monotonic() - began > LIMIT:
                raise BenchFailed(f"the checkpoint of step {self._wanted} is not written after {LIMIT:g} s")
            time.sleep(0.05)

    def _until(self, met: Callable[[list[Applied]], bool], what: str) -> list[Applied]:
        def look() -> list[Applied] | None:
            seen = self._records.seen
            worker = min((one.worker for one in seen), default="")
            mine = sorted((one for one in seen if one.worker == worker), key=lambda one: one.at)
            return mine if met(mine) else None

        mine = self._records.until(look, what, lambda: expect_alive(self._client, self.job))
        self.done = mine[-1].step + 1
        return mine
