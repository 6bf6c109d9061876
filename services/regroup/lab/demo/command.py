"""The command: a cluster in a directory of its own, the story in it, and a clean end however it ends.

Owns: the options, the data directory, Ctrl-C, the exit code (1: a claim did not come true).
Refuses to know: what is played.
"""

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from regroup.client.errors import RegroupError
from regroup.client.terminal import FAILED, INTERRUPTED, complain, console, write
from regroup.lab.demo.claims import ClaimFailed
from regroup.lab.demo.ending import ending
from regroup.lab.demo.facts import Facts, Plan
from regroup.lab.demo.screen import Screen
from regroup.lab.demo.story import Story
from regroup.lab.local import ClusterFailed, LocalCluster
from regroup.lab.result_file import JsonFile, result_file


def demo(
    workers: Annotated[int, typer.Option("--workers", "-n", min=2, max=16, help="CPU workers to begin with.")] = 3,
    steps: Annotated[int, typer.Option(min=300, help="Steps to train.")] = 800,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data directory, with the checkpoint in it.")] = False,
    facts: JsonFile = None,
) -> None:
    """Train, kill a worker in mid-step, watch the others go on.

    A small GPT is trained; a new worker is taken in, and at the end all is audited. It takes about two minutes.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a model writes anything; no terminal shall end the demo by that
    with result_file(facts) as save:
        folder = Path(tempfile.mkdtemp(prefix="regroup-demo-"))
        known = Facts(plan=Plan(workers=workers, steps=steps), data=str(folder))
        code, failed = _play(known, keep)
        if code == FAILED:
            complain(f"the demo failed: {failed}", f"logs are kept in {folder / 'logs'}")
        elif code == INTERRUPTED:
            complain("interrupted; everything that was started is stopped")
        kept = keep or code == FAILED
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
        save(asdict(known) | {"ok": code == 0, "failed": failed, "kept": kept})
    raise typer.Exit(code)


def _play(known: Facts, keep: bool) -> tuple[int, str | None]:
    """The exit code, and what went wrong."""
    with _interruptions() as interrupted:
        try:
            _stage(known, interrupted, keep)
        except KeyboardInterrupt:
            return INTERRUPTED, "interrupted"
        except (ClaimFailed, ClusterFailed, RegroupError, OSError) as error:
            return FAILED, str(error)
    return 0, None


def _stage(known: Facts, interrupted: threading.Event, keep: bool) -> None:
    out = console()
    with Screen(out) as screen:
        screen.title(known.plan)
        os.environ["TMPDIR"] = known.data  # torch makes a folder for its compiler's cache there: it goes with all else
        cluster = LocalCluster(Path(known.data), known.plan.workers, isolated=True, restart=False)
        with cluster, cluster.client() as client:
            screen.say("cluster", f"coordinator with its embedded store, {', '.join(cluster.agents)}; {client.url}")
            Story(cluster, client, screen, known, interrupted).play()
            screen.say("stopping", "all processes")
    write(ending(out, known, keep))


@contextmanager
def _interruptions() -> Iterator[threading.Event]:
    """Set by Ctrl-C or SIGTERM, looked at between two questions: no process is left half started or half stopped."""
    interrupted = threading.Event()
    former = {number: signal.signal(number, lambda *_: interrupted.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupted
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
