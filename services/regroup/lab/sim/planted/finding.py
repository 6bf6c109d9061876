"""Planted bugs, each looked for by lives in a process of its own, several at once.

Owns: the processes. Refuses to know: how a bug is planted (`planting`), and whether it matters that one is not found.
"""

import json
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

from regroup.lab.sim.planted.planting import Bug

PATIENCE = 300  # seconds for one of them


@dataclass(frozen=True, slots=True)
class Found:
    """What became of a planted bug."""

    bug: Bug
    seed: int | None  # that found it; None: no one did
    lives: int  # that were lived
    error: str | None


def find_planted(
    bugs: Sequence[Bug], count: int, processes: int, known: Mapping[str, int] = {}
) -> Generator[Found, None, None]:
    """Each of them, and the first of `count` lives that finds it, where `known` seeds, by the names of bugs, are lived
    before all others. Raises RuntimeError if a process fails, or takes very long. Whoever asks no more waits for none.
    """
    running: set[subprocess.Popen[str]] = set()
    over = Event()
    with ThreadPoolExecutor(processes) as pool:
        try:
            yield from pool.map(partial(_find, running, over, count, known), bugs)
        finally:
            over.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for one in list(running):
                one.kill()


def tell_planted(bug: Bug, seed: int) -> tuple[int, dict[str, Any]]:
    """One life with it, told on this process's standard output. The exit code, and the facts. Raises RuntimeError."""
    command = [sys.executable, "-m", "regroup.lab.sim.planted", bug.name, "--seed", str(seed)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    *_, facts = done.stderr.splitlines() or [""]
    if done.returncode not in (0, 1) or not facts.startswith("{"):
        raise RuntimeError(f"{bug.name}: {facts or 'its process was killed'}")
    return done.returncode, json.loads(facts)


def _find(running: set[subprocess.Popen[str]], over: Event, count: int, known: Mapping[str, int], bug: Bug) -> Found:
    command = [sys.executable, "-m", "regroup.lab.sim.planted", bug.name, "--count", str(count)]
    if bug.name in known:
        command += ["--first", str(known[bug.name])]
    # A session of its own: an interruption is the command's alone to hear.
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        running.add(process)
        try:
            out, complaints = process.communicate(timeout=0 if over.is_set() else PATIENCE)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{bug.name}: its lives took longer than {PATIENCE} s") from None
        finally:
            process.kill()
            running.discard(process)
    if process.returncode != 0:
        why = complaints.strip().splitlines()[-1:] or ["its process was killed"]
        raise RuntimeError(f"{bug.name}: {why[0]}")
    told = json.loads(out)
    return Found(bug, told["seed"], told["lives"], told["error"])
