"""Many lives, over all cores: ranges of seeds, and planted bugs.

Owns: the processes. Refuses to know: what a life is, and how outcomes are shown.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass

from regroup.lab.sim.lives.outcome import Outcome, live
from regroup.lab.sim.lives.themes import draw
from regroup.lab.sim.planted.bugs import BUGS, Bug

CHUNK = 50  # lives that a process is given at once
PATIENCE = 300  # seconds for a planted bug


@dataclass(frozen=True, slots=True)
class Found:
    """What became of a planted bug; `seed`: the first that found it, None if no one did."""

    bug: Bug
    seed: int | None
    error: str | None


def lives(first: int, count: int, processes: int) -> Iterator[list[Outcome]]:
    """The outcomes of these seeds, chunk by chunk, in the order of the seeds."""
    starts = range(first, first + count, CHUNK)
    chunks = [(start, min(start + CHUNK, first + count)) for start in starts]
    if processes == 1:
        yield from map(_chunk, chunks)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(_chunk, chunks)


def _chunk(seeds: tuple[int, int]) -> list[Outcome]:
    return [live(draw(seed)) for seed in range(*seeds)]


def find_planted(count: int, processes: int) -> Iterator[Found]:
    """Each planted bug, and the first of `count` seeds that finds it."""
    with ThreadPoolExecutor(processes) as pool:
        yield from pool.map(lambda bug: find(bug, count), BUGS)


def find(bug: Bug, count: int) -> Found:
    command = [sys.executable, "-m", "regroup.lab.sim.planted", bug.name, "--count", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{bug.name}: {done.stderr.strip().splitlines()[-1:]}")
    told = json.loads(done.stdout)
    return Found(bug, told["seed"], told["error"])
