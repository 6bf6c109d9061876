"""`regroup sim`: thousands of lives, or one of them told as a story, or the planted bugs.

Owns: the options, what is printed, the exit code (1: a rule was broken, or a planted bug was not found).
Refuses to know: what a life is.
"""

import os
import time
from collections import Counter
from importlib.metadata import version
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from regroup.client.terminal import console
from regroup.lab.result_file import JsonFile, result_file
from regroup.lab.sim.outcome import Outcome, cut, live
from regroup.lab.sim.plan import Kind
from regroup.lab.sim.reasons import EXPLAINED, sentences, unreached
from regroup.lab.sim.runs import find_planted, lives
from regroup.lab.sim.themes import draw

SHOWN = 5  # failing seeds that are told
QUIET = ("Heartbeat", "Heard")  # what repeats, and says nothing by itself


def sim(
    first: Annotated[int, typer.Option("--from", min=0, help="The first seed.")] = 0,
    count: Annotated[int, typer.Option(min=1, help="How many seeds, one life each.")] = 10_000,
    seed: Annotated[int | None, typer.Option(min=0, help="One life alone, told as a story.")] = None,
    plants: Annotated[bool, typer.Option("--plants", help="Plant each known bug; every one must be found.")] = False,
    processes: Annotated[int, typer.Option(min=1, help="Default: one per core.")] = os.cpu_count() or 1,
    facts: JsonFile = None,
) -> None:
    """Live through simulated clusters: the real decisions, sessions and shell, in virtual time, under faults."""
    out = console()
    with result_file(facts) as save:
        if seed is not None:
            sound = _tell(out, seed)
        elif plants:
            sound, told = _plant(out, count=min(count, 500), processes=processes)
            save(told)
        else:
            sound, told = _live(out, first, count, processes)
            save(told)
    raise typer.Exit(0 if sound else 1)


def _tell(out: Console, seed: int) -> bool:
    """One life. If it goes wrong, with as few faults as still make it go wrong."""
    plan = draw(seed)
    outcome = live(plan, keep=True)
    if outcome.error is not None:
        plan = cut(plan)
        outcome = live(plan, keep=True)
    out.print(f"seed {seed}, regroup {version('regroup')}: {plan.workers} workers, {len(plan.jobs)} jobs")
    for fault in plan.faults:
        out.print(f"  {fault}")
    for line in outcome.lines:
        if not any(word in line for word in QUIET):
            out.print(line, soft_wrap=True)
    out.print(f"digest {outcome.digest}; " + (outcome.error or "every rule held, and every job ended"), soft_wrap=True)
    return outcome.error is None


def _live(out: Console, first: int, count: int, processes: int) -> tuple[bool, dict[str, object]]:
    began = time.monotonic()
    wrong: list[Outcome] = []
    met: Counter[tuple[Kind, str]] = Counter()
    pairs: Counter[tuple[Kind, Kind]] = Counter()
    reasons: set[str] = set()
    events, seconds = 0, 0.0
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True) as progress:
        bar = progress.add_task("lives", total=count, rate="")
        for chunk in lives(first, count, processes):
            for one in chunk:
                events, seconds = events + one.events, seconds + one.seconds
                met, pairs = met + one.met, pairs + one.pairs
                reasons |= one.reasons
                if one.error is not None:
                    wrong.append(one)
                    out.print(f"seed {one.seed}: {one.error}", soft_wrap=True)
            progress.advance(bar, len(chunk))
            done = progress.tasks[0].completed
            progress.update(bar, rate=f"{done / (time.monotonic() - began):.0f} lives/s, {len(wrong)} broken")
    took = time.monotonic() - began
    _show_faults(out, met)
    missed = [name for name in unreached(reasons) if not any(each in name for each in EXPLAINED)]
    known = len(sentences())
    out.print(f"\nreasons of decisions: {known - len(missed)} of {known} reached or explained")
    for name in missed:
        out.print(f"  never: {name}", soft_wrap=True)
    alone = [f"{one} + {other}" for one in Kind for other in Kind if one < other and not pairs[one, other]]
    out.print(f"pairs of faults that overlapped: {len(pairs)}; the most frequent:")
    for (one_kind, other_kind), times in pairs.most_common(5):
        out.print(f"  {one_kind} during {other_kind}: {times} times")
    rate, each = count / took, events / count
    out.print(
        f"\n{count} lives of {each:.0f} events in {took:.0f} s: {rate:.0f}/s; {seconds / 3600:.1f} h of virtual time"
    )
    out.print(f"seeds {first} to {first + count - 1}: {len(wrong)} broke a rule")
    for one in wrong[:SHOWN]:
        out.print(f"\nregroup sim --seed {one.seed} tells its story")
    told: dict[str, object] = {
        "first": first,
        "count": count,
        "broken": [{"seed": one.seed, "error": one.error} for one in wrong],
        "lives_per_second": rate,
        "events_per_life": each,
        "virtual_hours": seconds / 3600,
        "faults": {f"{kind}, {phase}": times for (kind, phase), times in sorted(met.items())},
        "pairs": {f"{one} + {other}": times for (one, other), times in sorted(pairs.items())},
        "pairs_never": alone,
        "reasons_never": missed,
    }
    return not wrong, told


def _show_faults(out: Console, met: Counter[tuple[Kind, str]]) -> None:
    phases = sorted({phase for _, phase in met})
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", title="faults, by a job's phase")
    for column in ("fault", *phases):
        table.add_column(column, justify="left" if column == "fault" else "right")
    for kind in Kind:
        table.add_row(kind, *(str(met[kind, phase]) for phase in phases))
    out.print(table)


def _plant(out: Console, count: int, processes: int) -> tuple[bool, dict[str, object]]:
    found = {}
    for one in find_planted(count, processes):
        found[one.bug.name] = one.seed
        where = f"seed {one.seed}" if one.seed is not None else f"NOT FOUND in {count} seeds"
        out.print(f"{one.bug.name:<62}  {where}  {(one.error or '')[:80]}", soft_wrap=True)
    seeds = [seed + 1 for seed in found.values() if seed is not None]
    middle = median(seeds) if seeds else 0
    out.print(f"\n{len(seeds)} of {len(found)} planted bugs found; lives until then: median {middle:.0f}")
    return len(seeds) == len(found), {"planted": found, "median": middle}
