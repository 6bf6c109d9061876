"""`regroup soak`: the command, its progress and its exit code.

Owns: the options, the folder that it works in, and that Ctrl-C leaves what was found so far.
Refuses to know: what is done to the cluster, and what is flat.
"""

import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from regroup.client import terminal
from regroup.client.errors import RegroupError
from regroup.client.printable import PlainConsole
from regroup.lab.bench.machine import this_machine
from regroup.lab.chaos.bed import ChaosFailed
from regroup.lab.local import ClusterFailed
from regroup.lab.result_file import JsonFile, result_file
from regroup.lab.soak import report
from regroup.lab.soak.run import Outcome, regroup, soaking, weather
from regroup.lab.work_folder import leave, work_folder

TELL_EVERY = 60.0  # seconds between two lines where there is no terminal


def soak(
    regroups: Annotated[int, typer.Option(min=0, help="At least so many, and the footprint after each.")] = 1000,
    minutes: Annotated[float, typer.Option(min=0.0, help="Of faults, one about every five seconds.")] = 30.0,
    seed: Annotated[int, typer.Option(help="Of the faults, their victims and their instants.")] = 0,
    json_file: JsonFile = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep records, logs and state in a new folder in here. Default: removed if all is well."),
    ] = None,
) -> None:
    """Regroup a thousand times, and show that nothing grows.

    In a cluster of its own on this machine; then half an hour of faults. The audit must be exact.
    """
    if not regroups and not minutes:
        terminal.give_up("there is nothing to do: give --regroups, --minutes, or both", terminal.USAGE)
    outcome, machine, code = Outcome(), this_machine(), terminal.OK
    with result_file(json_file) as save:
        folder = work_folder(data_dir, "soak")
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started is stopped
        try:
            with soaking(folder / "cluster") as bed:
                if regroups:
                    with _progress("regroups", regroups) as advance:
                        regroup(bed, outcome, regroups, random.Random(f"{seed} regroups"), advance)
                if minutes:
                    with _progress("seconds of faults", minutes * 60) as advance:
                        weather(bed, outcome.storm, minutes * 60, random.Random(f"{seed} storm"), advance)
        except KeyboardInterrupt:
            code = terminal.INTERRUPTED
            terminal.complain("interrupted: the figures are of what was found until then")
        except (ChaosFailed, ClusterFailed, RegroupError, OSError) as error:
            code = terminal.FAILED
            terminal.complain(f"soak: {error}")
        found = report.complaints(outcome)
        for table in report.tables(outcome):
            terminal.write(table)
        terminal.write("\n" + "\n".join(report.summary(outcome)) + f"\n{machine}\n")
        for note in report.NOTES:
            terminal.write(f"- {note}")
        for complaint in found:
            terminal.complain(complaint)
            code = terminal.FAILED
        terminal.write("\n" + ("sound" if code == terminal.OK else "not proved sound"))
        save(report.figures(outcome, seed, machine, code == terminal.INTERRUPTED))
    leave(folder, keep=data_dir is not None or code != terminal.OK)
    raise typer.Exit(code)


@contextmanager
def _progress(what: str, total: float) -> Iterator[Callable[[float], None]]:
    """A bar with rate and remaining time on a terminal, a line a minute elsewhere. Both on standard error."""
    console = PlainConsole(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f}"))
    rate = TextColumn("{task.speed:.2f}/s") if what == "regroups" else TextColumn("")
    times = (TimeElapsedColumn(), TimeRemainingColumn(elapsed_when_finished=True))
    with Progress(*columns, rate, *times, console=console, disable=not console.is_terminal) as bar:
        task, began, told = bar.add_task(what, total=total), time.monotonic(), time.monotonic()

        def advance(done: float) -> None:
            nonlocal told
            bar.update(task, completed=min(done, total))
            if not console.is_terminal and time.monotonic() > told + TELL_EVERY:
                told = time.monotonic()
                left = (total - done) / done * (told - began) if done else 0.0
                print(f"{done:.0f} of {total:.0f} {what}, {left / 60:.0f} minutes left", file=sys.stderr, flush=True)

        yield advance
