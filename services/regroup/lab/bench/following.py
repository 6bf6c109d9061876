"""Reading the workers' own records while they are written.

Owns: which lines are new since the last look, and only the `applied` ones: who committed which step, and when.
Refuses to know: what the cluster is doing. It opens files and asks nobody, so that looking disturbs little.
Does not guarantee: that lines of different files come in the order of their times; sort by `at`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

from regroup.lab.bench.failing import ASK_EVERY, BenchFailed

LIMIT = 120.0  # seconds until what is waited for counts as never happening
PAUSE = 0.005  # seconds between two looks; no figure depends on it, because the lines carry their own time

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Applied:
    """A step that a trainer committed. `at` is its CLOCK_MONOTONIC, which all processes of a machine share, in ns."""

    worker: str
    incarnation: str
    generation: int
    step: int
    loss: float | None  # the mean over the step's samples; None if they weigh nothing
    at: int


class Following:
    """The `applied` lines of one job, of all its trainers. `seen` are those since `forget` was called last."""

    def __init__(self, folder: Path) -> None:
        """`folder` is <data>/records/<job>; it need not exist yet."""
        self.folder = folder
        self._offsets: dict[Path, int] = {}
        self.seen: list[Applied] = []

    def look(self) -> None:
        """Take in what was written since the last look."""
        for path in sorted(self.folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]  # the rest of a line comes with the next look
            self._offsets[path] = self._offsets.get(path, 0) + len(whole)
            self.seen.extend(parse(path.stem.rpartition("-")[0], whole.decode().splitlines()))

    def forget(self) -> None:
        self.look()
        self.seen.clear()

    def until(self, met: Callable[[], Found | None], what: str, check: Callable[[], None]) -> Found:
        """Look until `met` finds something. Raises BenchFailed when it takes too long, and whatever `check` raises,
        which is called once in a while."""
        began = asked = monotonic()
        while True:
            self.look()
            found = met()
            if found is not None:
                return found
            now = monotonic()
            if now - began > LIMIT:
                raise BenchFailed(f"{what}: this did not happen in {LIMIT:g} s")
            if now - asked > ASK_EVERY:
                asked = now
                check()
            sleep(PAUSE)


def parse(worker: str, lines: Iterable[str]) -> Iterator[Applied]:
    """The `applied` lines among the lines of a worker's record."""
    for line in lines:
        if line.startswith('{"applied"'):
            told = json.loads(line)
            one = (told["incarnation"], told["generation"], told["applied"], told["loss"], told["monotonic_ns"])
            yield Applied(worker, *one)


def newest(seen: Iterable[Applied]) -> int:
    """The highest generation in which a step was committed; 0 if there is none."""
    return max((one.generation for one in seen), default=0)


def step_times(seen: Iterable[Applied], worker: str, generation: int) -> list[float]:
    """Milliseconds between a worker's consecutive commits in one generation, without its first step there."""
    times = [one.at for one in seen if one.worker == worker and one.generation == generation]
    return milliseconds(sorted(times)[1:])


def milliseconds(times: Sequence[int]) -> list[float]:
    """Between consecutive times in ns."""
    return [(after - before) / 1e6 for before, after in pairwise(times)]
