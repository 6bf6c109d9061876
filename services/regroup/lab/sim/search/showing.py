"""What searches found, for a terminal and as facts.

Owns: the bars while they run, the table at the end, the path to a broken rule.
Refuses to know: how a search is done.
"""

from collections.abc import Mapping
from dataclasses import asdict

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from regroup.client.show import plain_table
from regroup.lab.sim.lives.ledger import code_under_test
from regroup.lab.sim.search.bounds import Bounds
from regroup.lab.sim.search.breadth import Searched
from regroup.lab.sim.search.runs import Telling, searches


def exhaust(
    out: Console, named: Mapping[str, Bounds], *, seconds: float, memory: float, processes: int
) -> tuple[bool, dict[str, object]]:
    """Search all of these; `memory` in bytes, for each. Whether every rule held, and the facts."""
    found: dict[str, Searched] = {}
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True) as progress:
        bars = {name: progress.add_task(f"{name}: waits", total=None) for name in named}

        def show(told: Telling) -> None:
            far = f"{told.states:,} states, depth {told.depth}, {told.waiting:,} wait"
            if told.name in bars:  # it may be told later than that the search is over
                progress.update(bars[told.name], description=f"{told.name}: {far}")

        for name, one in searches(named, seconds, memory, processes, show):
            found[name] = one
            progress.remove_task(bars.pop(name))
            _tell(out, name, one)
            if not out.is_terminal:
                out.print(f"{name}: {one.states:,} states, {_verdict(one)}", soft_wrap=True)
    out.print(_table(found))
    out.print(
        "complete: no state within the bounds is left. led: so many of those beyond them went to their end by one fair"
        " schedule. stuck: no end and no bound can be reached without another fault.",
        style="dim",
    )
    facts = {name: asdict(one) for name, one in found.items()}
    return all(one.sound for one in found.values()), {"code": code_under_test(), **facts}


def _tell(out: Console, name: str, one: Searched) -> None:
    if one.error is None:
        return
    out.print(f"{name}: {one.error}", style="red", soft_wrap=True)
    for number, step in enumerate(one.path, start=1):
        out.print(f"  {number:>3}  {step}", soft_wrap=True)


def _verdict(one: Searched) -> str:
    return "BROKEN" if one.error is not None else "complete" if one.complete else f"to depth {one.depth}"


def _table(found: Mapping[str, Searched]) -> Table:
    table = plain_table()
    table.add_column("cluster")
    for column in ("states", "moves", "depth", "CPU s", "ended", "beyond", "led", "stuck"):
        table.add_column(column, justify="right")
    table.add_column("")
    for name, one in found.items():
        counts = (f"{one.states:,}", f"{one.moves:,}", str(one.depth), f"{one.seconds:.0f}", f"{one.ends:,}")
        checked = (f"{one.cut:,}", f"{one.led:,}", f"{one.stuck:,}" if one.complete else "-")
        cluster = Text.assemble(name, "\n", (str(one.bounds), "dim"))
        table.add_row(cluster, *counts, *checked, _verdict(one))
    return table
