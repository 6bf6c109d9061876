"""What searches found, for a terminal and as facts.

Owns: the bars while they run, the figures at the end, the path to a broken rule.
Refuses to know: how a search is done.
"""

from collections.abc import Mapping
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import asdict

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from regroup.client.terminal import FAILED, INTERRUPTED, OK, complain
from regroup.lab.sim.lives.ledger import code_under_test
from regroup.lab.sim.search.bounds import Bounds
from regroup.lab.sim.search.breadth import NOT_CHECKED, Searched
from regroup.lab.sim.search.runs import Telling, searches

# Their widths, together no more than 80.
COLUMNS = {"states": 11, "moves": 11, "depth": 6, "CPU s": 7, "ended": 11, "beyond": 11, "led": 9, "stuck": 13}
LEGEND = (
    "ended: states in which all is over",
    "beyond: states outside the bounds, which are not looked at any further",
    "led: so many of those beyond went to their end by one fair schedule",
    "stuck: states from which no end and no bound is reached without another fault",
    "not checked: which are stuck is known once no state within the bounds is left",
    "complete: no state within the bounds is left",
)


def exhaust(
    out: Console, named: Mapping[str, Bounds], *, seconds: float, memory: float, processes: int
) -> tuple[int, dict[str, object]]:
    """Search all of these; `memory` in bytes, for each. The exit code, and the facts of those that ended."""
    found: dict[str, Searched] = {}
    running: dict[str, Telling] = {}  # how far each of the others came
    code = OK
    try:
        _search(out, named, seconds, memory, processes, found, running)
    except KeyboardInterrupt:
        code = INTERRUPTED
        complain(f"interrupted: {len(found)} of {len(named)} searches had ended")
    except BrokenProcessPool:
        code = FAILED
        complain("a search was killed, as happens where memory is short: give less --memory, or fewer --processes")
    if found:
        _show(out, found)
    for name, told in running.items():
        out.print(f"{name}: had come to {_far(told)}; no rule was broken in them", soft_wrap=True)
    facts: dict[str, object] = {name: asdict(one) | {"progress": one.progress} for name, one in found.items()}
    facts |= {"unfinished": {name: asdict(told) for name, told in running.items()}} if running else {}
    sound = all(one.sound for one in found.values())
    return code or (OK if sound else FAILED), {"code": code_under_test(), **facts}


def _search(
    out: Console,
    named: Mapping[str, Bounds],
    seconds: float,
    memory: float,
    processes: int,
    found: dict[str, Searched],
    running: dict[str, Telling],
) -> None:
    elapsed = TimeElapsedColumn(Column(min_width=len("0:00:00")))  # is not what a narrow terminal cuts
    columns = (SpinnerColumn(), elapsed, TextColumn("{task.description}"))
    with Progress(*columns, console=out, transient=True) as progress:
        bars = {name: progress.add_task(f"{name}: waits", start=False, total=None) for name in named}

        def show(told: Telling) -> None:
            if told.name in bars:  # it may be told later than that the search is over
                running[told.name] = told
                progress.start_task(bars[told.name])
                progress.update(bars[told.name], description=f"{_far(told)}: {told.name}")  # whose end may be cut off

        with closing(searches(named, seconds, memory, processes, show)) as results:
            for name, one in results:
                found[name] = one
                running.pop(name, None)
                progress.remove_task(bars.pop(name))
                _tell(out, name, one)
                if not out.is_terminal:
                    out.print(f"{name}: {one.states:,} states, {_verdict(one)}", soft_wrap=True)


def _far(told: Telling) -> str:
    return f"{told.states:,} states, depth {told.depth}"


def _tell(out: Console, name: str, one: Searched) -> None:
    if one.error is None:
        return
    out.print(f"{name}: {one.error}", style="red", soft_wrap=True)
    for number, step in enumerate(one.path, start=1):
        out.print(f"  {number:>3}  {step}", soft_wrap=True)


def _verdict(one: Searched) -> str:
    return "BROKEN" if one.error is not None else "complete" if one.complete else f"to depth {one.depth}"


def _show(out: Console, found: Mapping[str, Searched]) -> None:
    """Three lines each, which a terminal of 80 columns shows whole."""
    heads = "".join(f"{name:>{width}}" for name, width in COLUMNS.items())
    out.print(f"\n{heads}", style="dim", soft_wrap=True)
    for name, one in found.items():
        counts = (f"{one.states:,}", f"{one.moves:,}", str(one.depth), f"{one.seconds:.0f}", f"{one.ends:,}")
        checked = (f"{one.cut:,}", f"{one.led:,}", NOT_CHECKED if one.stuck is None else f"{one.stuck:,}")
        out.print(f"{name}: {_verdict(one)}", soft_wrap=True, style="red" if one.error is not None else "")
        out.print(f"  {one.bounds}", soft_wrap=True, style="dim")
        pairs = zip((*counts, *checked), COLUMNS.values(), strict=True)
        out.print("".join(f"{count:>{width}}" for count, width in pairs), soft_wrap=True)
    for line in ("", *LEGEND):
        out.print(line, soft_wrap=True, style="dim")
