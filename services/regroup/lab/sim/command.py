"""`regroup sim`: thousands of lives, one of them told as a story, every schedule of small clusters, or planted bugs.

Owns: the options, the exit code (1: a rule was broken, or a planted bug was not found), and how a failing seed is told.
Refuses to know: what a life is, how outcomes are counted (`tally`) and shown (`showing`), and how to search (`search`).
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from regroup.client.terminal import USAGE, console, give_up
from regroup.lab.audit.wording import plural
from regroup.lab.bench.machine import Machine, this_machine
from regroup.lab.result_file import JsonFile, result_file
from regroup.lab.sim.lives.code import as_code
from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.ledger import Ledger, read, write
from regroup.lab.sim.lives.outcome import cut, live
from regroup.lab.sim.lives.runs import lives
from regroup.lab.sim.lives.showing import show, summarize, tell_reach
from regroup.lab.sim.lives.story import QUIET
from regroup.lab.sim.lives.tally import Tally
from regroup.lab.sim.planted.finding import find_planted
from regroup.lab.sim.search.bounds import GREAT, SMALL, Bounds
from regroup.lab.sim.search.showing import exhaust

# What each of these options goes with; without any of them, lives are lived.
_TAKES: Mapping[str, tuple[str, ...]] = {
    "seed": (),
    "exhaustive": ("cluster", "minutes", "memory", "processes"),
    "plants": ("count", "processes"),
}
_LIVES = ("first", "count", "record", "coverage", "processes")
_ALWAYS = ("facts",)

SHOWN = 5  # failing seeds that are told
KEPT = 5_000  # lives after which a record is written, so that a night that is cut short was not in vain


def sim(
    context: typer.Context,
    first: Annotated[int | None, typer.Option("--from", min=0, help="The first seed; default: 0.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Seeds, one life each; with --plants lives, at most 500.")] = 10_000,
    record: Annotated[
        Path | None,
        typer.Option(help="Add these seeds to this file, and go on with the first seeds that are not in it."),
    ] = None,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Show all that was met, and what never was, as tables.")
    ] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="One life alone, told as a story.")] = None,
    exhaustive: Annotated[bool, typer.Option("--exhaustive", help="Every schedule of small clusters.")] = False,
    cluster: Annotated[
        list[str] | None, typer.Option(help="Of these only those with this in their name; again for more.")
    ] = None,
    minutes: Annotated[
        float, typer.Option(min=0.0, help="For each of these, of one core; some thousand states are always searched.")
    ] = 60.0,
    memory: Annotated[float, typer.Option(min=0.5, help="GiB for each of them.")] = 8.0,
    plants: Annotated[bool, typer.Option("--plants", help="Plant each known bug; every one must be found.")] = False,
    processes: Annotated[int, typer.Option(min=1, help="Default: one per core.")] = os.cpu_count() or 1,
    facts: JsonFile = None,
) -> None:
    """Live through simulated clusters under faults.

    The real decisions, sessions and shell, in virtual time; or one life told, every schedule of small clusters, or
    planted bugs. The exit code is 1 if a rule was broken, or a planted bug was not found.
    """
    _refuse_contradictions(context)
    kept = _read(record) if record is not None else None
    out, machine = console(), this_machine()
    with result_file(facts) as save:
        if seed is not None:
            sound, told = _tell(out, seed, machine)
        elif exhaustive:
            limits = {"seconds": minutes * 60, "memory": memory * 2**30}
            sound, told = exhaust(out, _named(cluster or [""]), processes=processes, **limits)
        elif plants:
            sound, told = _plant(out, count=min(count, 500), processes=processes)
        else:
            start = first if first is not None else kept.next if kept is not None else 0
            keep = partial(_keep, out, record, kept) if record is not None and kept is not None else None
            sound, told = _live(out, start, count, processes, keep, show if coverage else summarize)
        save({"version": machine.regroup, "commit": machine.commit, **told})
    raise typer.Exit(0 if sound else 1)


def _refuse_contradictions(context: typer.Context) -> None:
    """Ends the command if an option was given that says nothing beside another one."""
    names = {option.name: option.opts[0] for option in context.command.params if option.name is not None}
    given = [name for name in names if (source := context.get_parameter_source(name)) and source.name != "DEFAULT"]
    chosen = [name for name in _TAKES if name in given]
    if len(chosen) > 1:
        give_up(f"{' and '.join(names[each] for each in chosen)} contradict each other: give one of them", USAGE)
    lone = chosen[0] if chosen else None
    idle = [name for name in given if name not in (lone, *_ALWAYS, *(_TAKES[lone] if lone else _LIVES))]
    if idle:
        beside = f"beside {names[lone]}" if lone else "without --exhaustive"
        one, them = ("says", "it") if len(idle) == 1 else ("say", "them")
        give_up(f"{' and '.join(names[each] for each in idle)} {one} nothing {beside}: leave {them} out", USAGE)


def _named(parts: Sequence[str]) -> Mapping[str, Bounds]:
    """The clusters to search. Ends the command if there is none with one of these parts in its name."""
    every = {**SMALL, **GREAT}
    for part in parts:
        if not any(part in name for name in every):
            give_up(f"--cluster {part}: no cluster has that in its name; there are: {'; '.join(every)}", USAGE)
    return {name: bounds for name, bounds in every.items() if any(part in name for part in parts)}


def _tell(out: Console, seed: int, machine: Machine) -> tuple[bool, dict[str, Any]]:
    """One life. If it goes wrong, with as few faults as still make it go wrong."""
    plan = draw(seed)
    outcome = live(plan, keep=True)
    if outcome.error is not None:
        plan = cut(plan)
        outcome = live(plan, keep=True)
    commit = f", commit {machine.commit}" if machine.commit else ""
    size = f"{plural(plan.workers, 'worker')}, {plural(len(plan.jobs), 'job')}"
    out.print(f"seed {seed}, regroup {machine.regroup}{commit}: {size}")
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
    out: Console,
    first: int,
    count: int,
    processes: int,
    keep: Callable[[int, Tally, bool], None] | None,
    show: Callable[[Console, Tally], None],
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
            if keep is not None and tally.lives % KEPT < len(chunk):
                keep(first, tally, False)
    took = time.monotonic() - began
    show(out, tally)
    rate, hours = f"{count / took:.0f}/s", f"{tally.seconds / 3600:.1f} h of virtual time"
    out.print(f"\n{count} lives of {tally.events / count:.0f} events in {took:.0f} s: {rate}; {hours}")
    out.print(f"seeds {first} to {first + count - 1}: {len(tally.broken)} broke a rule")
    for one in tally.broken[:SHOWN]:
        out.print(f"regroup sim --seed {one.seed} tells its story")
    if keep is not None:
        keep(first, tally, True)
    return not tally.broken, {"first": first, "lives_per_second": count / took, **tally.facts()}


def _read(record: Path) -> Ledger:
    """What the file says so far. Ends the command if it is no record, or could not be written in the end."""
    try:
        kept = read(record)
        with TemporaryFile(dir=record.absolute().parent):  # a record is written anew, beside the old one
            return kept
    except ValueError as error:
        give_up(f"{error}; name another file with --record, or remove it", USAGE)
    except OSError as error:
        give_up(f"cannot write {record}: {error.strerror}", USAGE)


def _keep(out: Console, record: Path, before: Ledger, first: int, tally: Tally, over: bool) -> None:
    reach = tally.reach
    now = before.add(
        first, tally.lives, [one.seed for one in tally.broken], {sort: one.never for sort, one in reach.items()}
    )
    write(record, now)
    if over:
        out.print(
            f"\n{record}: {now.lives:,} lives on this code ({now.code}), {len(now.broken)} broke a rule; all met:"
        )
        tell_reach(out, {sort: one.within(now.never[sort]) for sort, one in reach.items()})


def _plant(out: Console, count: int, processes: int) -> tuple[bool, dict[str, Any]]:
    found, lives = {}, []
    for one in find_planted(count, processes):
        found[one.bug.name] = one.seed
        lives += [one.lives] if one.seed is not None else []
        where = f"life {one.lives}, seed {one.seed}" if one.seed is not None else f"NOT FOUND in {count} lives"
        out.print(f"{one.bug.name:<62}  {where}  {(one.error or '')[:80]}", soft_wrap=True)
    middle = median(lives) if lives else 0
    out.print(f"\n{len(lives)} of {len(found)} planted bugs found; lives until then: median {middle:.0f}")
    return len(lives) == len(found), {"planted": found, "median": middle}
