"""`regroup sim`: thousands of lives, one of them told as a story, every schedule of small clusters, or planted bugs.

Owns: the options, the exit code (1: a rule was broken, or a planted bug was not found), and how a failing seed is told.
Refuses to know: what a life is, how outcomes are counted (`tally`) and shown (`showing`), and how to search (`search`).
"""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from regroup.client.terminal import console
from regroup.lab.bench.machine import Machine, this_machine
from regroup.lab.result_file import JsonFile, result_file
from regroup.lab.sim.lives.code import as_code
from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.ledger import Ledger, read, write
from regroup.lab.sim.lives.outcome import cut, live
from regroup.lab.sim.lives.runs import lives
from regroup.lab.sim.lives.showing import show
from regroup.lab.sim.lives.story import QUIET
from regroup.lab.sim.lives.tally import Tally
from regroup.lab.sim.planted.finding import find_planted
from regroup.lab.sim.search.bounds import GREAT, SMALL
from regroup.lab.sim.search.showing import exhaust

SHOWN = 5  # failing seeds that are told
KEPT = 5_000  # lives after which a record is written, so that a night that is cut short was not in vain


def sim(
    first: Annotated[int | None, typer.Option("--from", min=0, help="The first seed; default: 0.")] = None,
    count: Annotated[int, typer.Option(min=1, help="How many seeds, one life each.")] = 10_000,
    record: Annotated[Path | None, typer.Option(help="Add these seeds to this file, and begin after its last.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="One life alone, told as a story.")] = None,
    exhaustive: Annotated[bool, typer.Option("--exhaustive", help="Every schedule of small clusters.")] = False,
    minutes: Annotated[float, typer.Option(min=0.0, help="For each of these clusters, of one core.")] = 60.0,
    memory: Annotated[float, typer.Option(min=0.5, help="GiB for each of them.")] = 8.0,
    plants: Annotated[bool, typer.Option("--plants", help="Plant each known bug; every one must be found.")] = False,
    processes: Annotated[int, typer.Option(min=1, help="Default: one per core.")] = os.cpu_count() or 1,
    facts: JsonFile = None,
) -> None:
    """Live through simulated clusters: the real decisions, sessions and shell, in virtual time, under faults."""
    if seed is not None and (first is not None or record is not None):
        raise typer.BadParameter("tells one life alone: leave --from and --record out", param_hint="--seed")
    out, machine = console(), this_machine()
    with result_file(facts) as save:
        if seed is not None:
            sound, told = _tell(out, seed, machine)
        elif exhaustive:
            limits = {"seconds": minutes * 60, "memory": memory * 2**30}
            sound, told = exhaust(out, {**SMALL, **GREAT}, processes=processes, **limits)
        elif plants:
            sound, told = _plant(out, count=min(count, 500), processes=processes)
        else:
            kept = _read(record) if record is not None else None
            start = first if first is not None else kept.next if kept is not None else 0
            keep = partial(_keep, out, record, kept) if record is not None and kept is not None else None
            sound, told = _live(out, start, count, processes, keep)
        save({"version": machine.regroup, "commit": machine.commit, **told})
    raise typer.Exit(0 if sound else 1)


def _tell(out: Console, seed: int, machine: Machine) -> tuple[bool, dict[str, Any]]:
    """One life. If it goes wrong, with as few faults as still make it go wrong."""
    plan = draw(seed)
    outcome = live(plan, keep=True)
    if outcome.error is not None:
        plan = cut(plan)
        outcome = live(plan, keep=True)
    commit = f", commit {machine.commit}" if machine.commit else ""
    out.print(f"seed {seed}, regroup {machine.regroup}{commit}: {plan.workers} workers, {len(plan.jobs)} jobs")
    for fault in plan.faults:
        out.print(f"  {fault}")
    for line in outcome.lines:
        if not any(word in line for word in QUIET):
            out.print(line, soft_wrap=True)
    out.print(f"digest {outcome.digest}; " + (outcome.error or "every rule held, and every job ended"), soft_wrap=True)
    if outcome.error is not None:
        out.print("\nKeep this plan in tests/simulation/test_kept.py, because what its seed draws may change:")
        out.print(as_code(plan), soft_wrap=True)
    return outcome.error is None, {
        "seed": seed,
        "digest": outcome.digest,
        "error": outcome.error,
        "faults": [str(fault) for fault in plan.faults],
        "plan": as_code(plan),
        "story": list(outcome.lines),
    }


def _live(
    out: Console, first: int, count: int, processes: int, keep: Callable[[int, Tally, bool], None] | None
) -> tuple[bool, dict[str, Any]]:
    """`keep` is given the first seed and what came of those so far, from time to time and at the end."""
    began = time.monotonic()
    tally = Tally()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True) as progress:
        bar = progress.add_task("lives", total=count, rate="")
        for chunk in lives(first, count, processes):
            for one in chunk:
                tally.add(one)
                if one.error is not None:
                    out.print(f"seed {one.seed}: {one.error}", soft_wrap=True)
            rate = f"{tally.lives / (time.monotonic() - began):.0f} lives/s, {len(tally.broken)} broken"
            progress.update(bar, advance=len(chunk), rate=rate)
            if keep is not None and (tally.lives % KEPT < len(chunk) or tally.lives == count):
                keep(first, tally, tally.lives == count)
    took = time.monotonic() - began
    show(out, tally)
    rate, hours = f"{count / took:.0f}/s", f"{tally.seconds / 3600:.1f} h of virtual time"
    out.print(f"\n{count} lives of {tally.events / count:.0f} events in {took:.0f} s: {rate}; {hours}")
    out.print(f"seeds {first} to {first + count - 1}: {len(tally.broken)} broke a rule")
    for one in tally.broken[:SHOWN]:
        out.print(f"regroup sim --seed {one.seed} tells its story")
    return not tally.broken, {"first": first, "lives_per_second": count / took, **tally.facts()}


def _read(record: Path) -> Ledger:
    try:
        return read(record)
    except ValueError as error:
        raise typer.BadParameter(f"{error}; name another file, or remove it", param_hint="--record") from error


def _keep(out: Console, record: Path, before: Ledger, first: int, tally: Tally, over: bool) -> None:
    now = before.add(first, tally.lives, [one.seed for one in tally.broken])
    write(record, now)
    if over:
        out.print(f"{record}: {now.lives:,} lives on this code ({now.code}), {len(now.broken)} broke a rule")


def _plant(out: Console, count: int, processes: int) -> tuple[bool, dict[str, Any]]:
    found = {}
    for one in find_planted(count, processes):
        found[one.bug.name] = one.seed
        where = f"seed {one.seed}" if one.seed is not None else f"NOT FOUND in {count} seeds"
        out.print(f"{one.bug.name:<62}  {where}  {(one.error or '')[:80]}", soft_wrap=True)
    seeds = [seed + 1 for seed in found.values() if seed is not None]
    middle = median(seeds) if seeds else 0
    out.print(f"\n{len(seeds)} of {len(found)} planted bugs found; lives until then: median {middle:.0f}")
    return len(seeds) == len(found), {"planted": found, "median": middle}
