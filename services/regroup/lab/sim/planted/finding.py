"""All planted bugs, each looked for by lives in a process of its own, several at once.

Owns: the processes. Refuses to know: how a bug is planted (`planting`), and whether it matters that one is not found.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from regroup.lab.sim.planted.bugs import BUGS
from regroup.lab.sim.planted.planting import Bug

PATIENCE = 300  # seconds for one of them


@dataclass(frozen=True, slots=True)
class Found:
    """What became of a planted bug."""

    bug: Bug
    seed: int | None  # that found it; None: no one did
    lives: int  # that were lived
    error: str | None


def find_planted(count: int, processes: int, known: Mapping[str, int] = {}) -> Iterator[Found]:
    """Each planted bug, and the first of `count` lives that finds it, where `known` seeds, by the names of bugs, are
    lived before all others. Raises RuntimeError if a process fails."""
    with ThreadPoolExecutor(processes) as pool:
        yield from pool.map(partial(_find, count, known), BUGS)


def _find(count: int, known: Mapping[str, int], bug: Bug) -> Found:
    command = [sys.executable, "-m", "regroup.lab.sim.planted", bug.name, "--count", str(count)]
    if bug.name in known:
        command += ["--first", str(known[bug.name])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{bug.name}: {done.stderr.strip().splitlines()[-1:]}")
    told = json.loads(done.stdout)
    return Found(bug, told["seed"], told["lives"], told["error"])
