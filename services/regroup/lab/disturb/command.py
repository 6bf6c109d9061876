"""`regroup disturb JOB`: the command, its lines, its table and its exit code.

Owns: the options and the words. Refuses to know: what is done, and what passes.
"""

import random
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Annotated, Any

import typer
from rich.table import Table

from regroup.client import terminal
from regroup.client.commands import JobArgument
from regroup.client.errors import RegroupError
from regroup.client.printable import one_line
from regroup.lab.audit.wording import plural
from regroup.lab.bench.machine import Machine, this_machine
from regroup.lab.chaos.report import milliseconds
from regroup.lab.disturb.deeds import DEEDS, NotAllowed
from regroup.lab.disturb.run import Outcome, Struck, Unfit
from regroup.lab.disturb.run import disturb as run
from regroup.lab.result_file import JsonFile, result_file


def disturb(
    context: typer.Context,
    job: JobArgument,
    faults: Annotated[
        list[str] | None, typer.Option("--fault", help="Only this one; again for more. Default: all but agent-killed.")
    ] = None,
    minutes: Annotated[float, typer.Option(min=0.01, help="For so long.")] = 5.0,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two faults, about.")] = 20.0,
    seed: Annotated[int, typer.Option(help="Of the faults, their victims and their instants.")] = 0,
    json_file: JsonFile = None,
) -> None:
    """Do faults to a job of your own cluster, and see it go on.

    To its trainers on this machine, while it trains; the job itself goes on. The audit must be exact.
    """
    chosen = _chosen(faults)
    outcome, machine, code = Outcome(), this_machine(), terminal.OK
    with result_file(json_file) as save, terminal.connected(context) as client:
        id = terminal.job_id(client, job)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nobody is left stopped or drained
        try:
            run(client, id, chosen, minutes * 60, every, random.Random(seed), outcome, _tell)
        except KeyboardInterrupt:
            code = terminal.INTERRUPTED
            terminal.complain("interrupted: the figures are of what was found until then")
        except Unfit as unfit:
            terminal.give_up(f"{id} cannot be disturbed: {unfit}", terminal.USAGE)
        except NotAllowed as error:
            terminal.give_up(str(error), terminal.FAILED)
        except RegroupError as error:
            code = terminal.report(error)
        terminal.write(_table(outcome.struck))
        terminal.write(f"\n{id}: {_summary(outcome)}\n{machine}")
        for complaint in outcome.complaints:
            terminal.complain(complaint)
            code = code or terminal.FAILED
        save(_figures(id, outcome, seed, machine))
    raise typer.Exit(code)


def _chosen(faults: list[str] | None) -> list[str]:
    for name in faults or ():
        if name not in DEEDS:
            terminal.give_up(f"there is no fault {name}; there are {', '.join(DEEDS)}", terminal.USAGE)
    return faults or [name for name, deed in DEEDS.items() if deed.drawn]


def _tell(one: Struck) -> None:
    times = f"next step {milliseconds(one.went_on)}, all back {milliseconds(one.whole)}"
    print(one_line(f"{one.deed:<16} {one.worker:<12} {times}  {one.said}"), file=sys.stderr, flush=True)


def _table(struck: Sequence[Struck]) -> Table:
    table = Table()
    table.add_column("what was done")
    for name in ("times", "next step: p50", "max", "all back: p50", "max"):
        table.add_column(name, justify="right")
    for name, deed in DEEDS.items():
        if of_it := [one for one in struck if one.deed == name]:
            times = [*_middle([one.went_on for one in of_it]), *_middle([one.whole for one in of_it])]
            table.add_row(deed.what, str(len(of_it)), *map(milliseconds, times))
    return table


def _middle(times: Sequence[float | None]) -> tuple[float | None, float | None]:
    known = [each for each in times if each is not None]
    return (median(known), max(known)) if known else (None, None)


def _summary(outcome: Outcome) -> str:
    samples = f"{outcome.audit.lost} samples lost, {outcome.audit.doubled} doubled" if outcome.audit else "no audit"
    ended = f"; it is {outcome.ended.phase}" if outcome.ended else "; it goes on"
    faults, steps = plural(len(outcome.struck), "fault"), plural(outcome.steps, "step")
    return f"{faults} in {outcome.seconds / 60:.1f} minutes, {steps}; {samples}{ended}"


def _figures(id: str, outcome: Outcome, seed: int, machine: Machine) -> Mapping[str, Any]:
    return {
        "job": id,
        "faults": [asdict(one) for one in outcome.struck],
        "steps": outcome.steps,
        "seconds": outcome.seconds,
        "restarts": outcome.restarts,
        "audit": asdict(outcome.audit) if outcome.audit else None,
        "complaints": outcome.complaints,
        "seed": seed,
        "machine": asdict(machine),
    }
