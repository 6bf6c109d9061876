"""Many lives: lived over all cores, shown as they come, added to a record.

Owns: the progress bar, what is said in the end, and that what was lived before an interruption is told and recorded.
Refuses to know: what a life is (`runs`), and how outcomes are counted (`tally`) and put (`showing`).
"""

import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from regroup.client.terminal import FAILED, INTERRUPTED, OK, complain
from regroup.lab.audit.wording import plural
from regroup.lab.bench.machine import Machine, this_machine
from regroup.lab.sim.lives.code import as_code
from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.ledger import Ledger
from regroup.lab.sim.lives.outcome import cut
from regroup.lab.sim.lives.record import NoRecord, Record
from regroup.lab.sim.lives.runs import ANOTHER, lives
from regroup.lab.sim.lives.showing import tell_reach
from regroup.lab.sim.lives.tally import Tally
from regroup.lab.sim.lives.telling import tell_plan

SHOWN = 5  # failing seeds that are told
RECORDED = 5_000  # lives after which a record is written, so that a night that is cut short was not in vain
KILLED = "one of its processes was killed, as happens where memory is short: fewer --processes take less of it"


def live_many(
    out: Console, first: int, count: int, processes: int, record: Record | None, show: Callable[[Console, Tally], None]
) -> tuple[int, dict[str, Any]]:
    """The exit code, and the facts."""
    tally, code, machine = Tally(), OK, this_machine()  # now: its commit may be another one in the morning
    began = time.monotonic()
    try:
        _live(out, first, count, processes, tally, record, machine)
    except KeyboardInterrupt:
        code = INTERRUPTED
        complain("interrupted: the figures are of the lives until then")
    except BrokenProcessPool:
        code = FAILED
        complain(KILLED)
    except NoRecord as error:
        code = FAILED
        complain(f"{error}: no more is lived")
    took = time.monotonic() - began
    if tally.lives:
        kept = _recorded(first, tally, record, machine) if record is not None else None
        _sum_up(out, first, tally, took, show)
        if tally.broken:
            _tell_broken(out, tally, machine)
        if record is not None and kept is not None:
            _tell_record(out, tally, record, kept)
        elif record is not None:
            code = FAILED
    facts = {"first": first, "asked": count, "lives_per_second": tally.lives / took, **tally.facts()}
    facts["plans"] = {one.seed: as_code(draw(one.seed)) for one in tally.broken[:SHOWN]}
    return code or (FAILED if tally.broken else OK), facts


def _live(
    out: Console, first: int, count: int, processes: int, tally: Tally, record: Record | None, machine: Machine
) -> None:
    began = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True) as progress, closing(lives(first, count, processes)) as chunks:
        bar = progress.add_task("lives", total=count, rate="")
        for chunk in chunks:
            for one in chunk:
                tally.add(one)
                if one.error is not None:
                    out.print(f"seed {one.seed}: {one.error}", soft_wrap=True)
            rate = f"{tally.lives / (time.monotonic() - began):.0f} lives/s, {len(tally.broken)} broken"
            progress.update(bar, advance=len(chunk), rate=rate)
            if record is not None and tally.lives % RECORDED < len(chunk) and tally.lives < count:
                record.add(first, tally, machine.commit)


def _sum_up(out: Console, first: int, tally: Tally, took: float, show: Callable[[Console, Tally], None]) -> None:
    show(out, tally)
    size, hours = f"{tally.events / tally.lives:.0f} events", f"{tally.seconds / 3600:.1f} h of virtual time"
    lived = plural(tally.lives, "life", "lives")
    out.print(f"\n{lived} of {size} in {took:.0f} s: {tally.lives / took:.0f}/s; {hours}")
    seeds = f"seed {first}" if tally.lives == 1 else f"seeds {first} to {first + tally.lives - 1}"
    out.print(f"{seeds}: {len(tally.broken)} broke a rule")


def _tell_broken(out: Console, tally: Tally, machine: Machine) -> None:
    """The plan of the first of them: what a seed draws may be another life in the morning."""
    for one in tally.broken[:SHOWN]:
        out.print(f"regroup sim --seed {one.seed} tells its story")
    first, plan = tally.broken[0], draw(tally.broken[0].seed)
    tell_plan(out, plan if first.error == ANOTHER else cut(plan), machine)


def _recorded(first: int, tally: Tally, record: Record, machine: Machine) -> Ledger | None:
    """All that is in the file now; None: it cannot be written."""
    try:
        return record.add(first, tally, machine.commit)
    except NoRecord as error:
        complain(f"not recorded: {error}")
        return None


def _tell_record(out: Console, tally: Tally, record: Record, now: Ledger) -> None:
    broken = f"{len(now.broken)} broke a rule"
    lived = plural(now.lives, "life", "lives")
    out.print(f"\n{record.path}: {lived} on this code ({now.code}), {broken}", soft_wrap=True)
    for told in lived_by(now, record.simulator):
        out.print(f"  {told}", soft_wrap=True)
    tell_reach(out, {sort: one.within(now.never[sort].names) for sort, one in tally.reach.items()})


def lived_by(ledger: Ledger, simulator: str) -> list[str]:
    """A line for each simulator that lived some of them. What a later one draws or asks more, the earlier ones did
    not."""
    told = []
    for (which, commit), count in ledger.simulators.items():
        tree = f", commit {commit}" if commit else ""
        by = "this simulator" if which == simulator else "another simulator" if which else "an unknown simulator"
        told.append(f"{plural(count, 'life', 'lives')} by {by}" + (f" ({which}{tree})" if which else ""))
    return told
