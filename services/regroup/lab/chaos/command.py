"""`regroup chaos`: the command, its progress and its exit code.

Owns: the options, the folder that it works in, and that Ctrl-C leaves what was found so far.
Refuses to know: what a cell does, and how results are shown.
"""

import signal
import sys
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from regroup.client import terminal
from regroup.client.errors import RegroupError
from regroup.lab.bench.machine import this_machine
from regroup.lab.chaos import report
from regroup.lab.chaos.bed import ChaosFailed, bed
from regroup.lab.chaos.cells import CI, FAULTS, Cell, Phase, cells, subset
from regroup.lab.chaos.faults import not_allowed
from regroup.lab.chaos.page import page
from regroup.lab.chaos.trial import try_cell
from regroup.lab.chaos.verdict import Outcome, Result
from regroup.lab.local import ClusterFailed
from regroup.lab.result_file import JsonFile, result_file, text_file
from regroup.lab.work_folder import leave, work_folder

SUBSETS = {"ci": CI}


def chaos(
    faults: Annotated[list[str] | None, typer.Option("--fault", help="Only this one; again for more.")] = None,
    phases: Annotated[list[Phase] | None, typer.Option("--phase", help="Only this one; again for more.")] = None,
    named: Annotated[str | None, typer.Option("--subset", help="A named part of the matrix: ci.")] = None,
    listing: Annotated[bool, typer.Option("--list", help="Show the cells and the reasons, and run none.")] = False,
    json_file: JsonFile = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write the matrix as a page.")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep records, logs and state in a new folder in here. Default: removed if all is well."),
    ] = None,
) -> None:
    """Do real faults to real processes, and judge what comes.

    In a cluster of its own on this machine: each fault in each phase of a job, held there. The final weights must be
    those of an undisturbed run, and the audit exact.
    """
    chosen = _chosen(faults or [], phases or [], named)
    if listing:
        terminal.write(report.listing(chosen))
        return
    machine, results, code = this_machine(), list[Result](), terminal.OK
    with result_file(json_file) as save, text_file(html) as draw:
        folder = work_folder(data_dir, "chaos")
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started is stopped
        try:
            _run(chosen, folder, results)
        except KeyboardInterrupt:
            code = terminal.INTERRUPTED
            terminal.complain("interrupted: the figures are of what was found until then")
        except (ChaosFailed, ClusterFailed, RegroupError, OSError) as error:
            code = terminal.FAILED
            terminal.complain(f"chaos: {error}")
        results.sort(key=lambda result: chosen.index(result.cell))
        if any(result.outcome is Outcome.FAILED for result in results):
            code = terminal.FAILED
        terminal.write(report.table(results))
        terminal.write(f"\n{report.summary(results)}\n{machine}{report.failures(results)}")
        save(report.figures(results, machine))
        draw(page(results, str(machine)))
    leave(folder, keep=data_dir is not None or code != terminal.OK)
    raise typer.Exit(code)


def _chosen(faults: list[str], phases: list[Phase], named: str | None) -> list[Cell]:
    known = [fault.name for fault in FAULTS]
    for name in faults:
        if name not in known:
            terminal.give_up(f"there is no fault {name}; there are {', '.join(known)}", terminal.USAGE)
    if named is None:
        return cells(faults, phases)
    if faults or phases:
        terminal.give_up("--subset says which cells: leave --fault and --phase out", terminal.USAGE)
    if named not in SUBSETS:
        terminal.give_up(f"there is no subset {named}; there are {', '.join(SUBSETS)}", terminal.USAGE)
    return subset(SUBSETS[named])


def _run(chosen: list[Cell], folder: Path, results: list[Result]) -> None:
    """One cell after another on a shared cluster; what needs cables, on one that has them."""
    allowed = cache(not_allowed)  # asking makes a network
    results += [
        Result(cell=cell, outcome=Outcome.IMPOSSIBLE, complaints=(cell.impossible,))
        for cell in chosen
        if cell.impossible
    ]
    due: list[Cell] = []
    for cell in chosen:
        if cell.impossible:
            continue
        if reason := allowed(cell):
            results.append(Result(cell=cell, outcome=Outcome.SKIPPED, complaints=(reason,)))
            terminal.complain(f"{cell.name} is SKIPPED: {reason}")
        else:
            due.append(cell)
    done = 0
    for cables in (False, True):
        group = [cell for cell in due if cell.fault.network is cables]
        if not group:
            continue
        where = " with a network of its own" if cables else ""
        print(f"{len(group)} cells on a cluster{where}; first a job that nothing happens to", file=sys.stderr)
        with bed(folder / ("cables" if cables else "cluster"), cables=cables) as made:
            for cell in group:
                result = try_cell(made, cell, folder / cell.name.replace("/", "-"))
                results.append(result)
                done += 1
                print(f"{done:>3}/{len(due)}  {report.line(result)}", file=sys.stderr, flush=True)
                for each in result.story:
                    print(f"         {each}", file=sys.stderr, flush=True)
