"""`regroup sim`: thousands of lives, one of them told as a story, every schedule of small clusters, or planted bugs.

Owns: the options, and the exit code (1: a rule was broken, or a planted bug was not found).
Refuses to know: how each of these is done and shown (`many`, `telling`, `search`, `planted`).
"""

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from regroup.client.terminal import FAILED, INTERRUPTED, OK, USAGE, console, give_up, write
from regroup.lab.bench.machine import this_machine
from regroup.lab.result_file import JsonFile, result_file
from regroup.lab.sim.computing import interruptible
from regroup.lab.sim.lives.many import live_many
from regroup.lab.sim.lives.record import NoRecord, Record, Unwritable, begin
from regroup.lab.sim.lives.showing import show, summarize
from regroup.lab.sim.lives.telling import tell_life
from regroup.lab.sim.planted.bugs import BUGS
from regroup.lab.sim.planted.finding import tell_planted
from regroup.lab.sim.planted.planting import Bug
from regroup.lab.sim.planted.showing import look_for
from regroup.lab.sim.search.bounds import GREAT, SMALL
from regroup.lab.sim.search.showing import exhaust

# What each of these options goes with; without any of them, lives are lived.
_TAKES: Mapping[str, Set[str]] = {
    "seed": {"bug"},
    "exhaustive": {"cluster", "minutes", "memory", "processes", "listing"},
    "plants": {"bug", "count", "processes", "listing"},
}
_LIVES = ("first", "count", "record", "anew", "coverage", "processes")
_ALWAYS = ("facts",)
NAMED = 12  # at most, where one is asked for that there is not
NEAR, VERY_NEAR = 0.75, 0.85  # so like must a word be to be meant by a misspelt one, and a whole name
_Named = TypeVar("_Named")


def sim(
    context: typer.Context,
    first: Annotated[
        int | None,
        typer.Option(
            "--from", min=0, help="The first seed; default: 0, or with --record the lowest that is not in its file."
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Seeds, one life each; with --plants lives, at most 500.")] = 10_000,
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Go on with the lowest seeds that are not in this file, and add them to it: every 5,000 lives, and "
            "in the end, or at Ctrl-C.",
        ),
    ] = None,
    anew: Annotated[
        bool,
        typer.Option("--anew", help="Begin the file anew if its lives were lived on other code; else that is refused."),
    ] = False,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Show all that was met, and what never was, as tables.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, help="One life alone, told as a story; with --bug as it is with that bug.")
    ] = None,
    exhaustive: Annotated[
        bool,
        typer.Option(
            "--exhaustive", help="Every schedule of small clusters; most take a minute, the three last hours."
        ),
    ] = False,
    cluster: Annotated[
        list[str] | None, typer.Option(help="Of these only those with this in their name; again for more.")
    ] = None,
    minutes: Annotated[
        float,
        typer.Option(min=0.0, help="Of one core, for each search; its first 500 states are searched in any case."),
    ] = 60.0,
    memory: Annotated[float, typer.Option(min=0.5, help="GiB for each of them.")] = 8.0,
    plants: Annotated[
        bool, typer.Option("--plants", help="Plant each known bug; every one must be found. Takes about 20 minutes.")
    ] = False,
    bug: Annotated[
        list[str] | None,
        typer.Option(help="Of these only those with this in their name, or of a rule ('rule 4'); again for more."),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Only name the clusters, or the bugs.")] = False,
    processes: Annotated[int, typer.Option(min=1, help="Default: one per core.")] = os.cpu_count() or 1,
    facts: JsonFile = None,
) -> None:
    """Live through simulated clusters under faults.

    The real decisions, sessions and shell, in virtual time; or one life told, every schedule of small clusters, or
    planted bugs. A core lives some ten lives a second. The exit code is 1 if a rule was broken, or a planted bug was
    not found; 2 if the options make no sense; 130 if it was interrupted; 141 if nobody reads what it prints any more.
    """
    _refuse_contradictions(context)
    if not __debug__:
        give_up("its rules are assertions, which python -O and PYTHONOPTIMIZE leave out: run it without them", USAGE)
    searched = _named("cluster", cluster, {**SMALL, **GREAT})
    planted = list(_named("bug", bug, {str(one): one for one in BUGS}).values())
    if listing:
        lines = [f"{name}: {one}" for name, one in searched.items()] if exhaustive else list(map(_described, planted))
        write("\n".join(lines))
        return
    if seed is not None and bug and len(planted) > 1:
        named = "; ".join(one.name for one in planted[:NAMED]) + ("; and others" if len(planted) > NAMED else "")
        give_up(f"--seed tells one life, and {len(planted)} bugs are named so: {named}", USAGE)
    out, machine = console(), this_machine()
    with result_file(facts) as save, interruptible():
        if seed is not None and bug:
            code, told = _with_bug(planted[0], seed)
        elif seed is not None:
            sound, told = tell_life(out, seed, machine)
            code = OK if sound else FAILED
        elif exhaustive:
            limits = {"seconds": minutes * 60, "memory": memory * 2**30}
            code, told = exhaust(out, searched, processes=processes, **limits)
        elif plants:
            code, told = look_for(out, planted, min(count, 500), processes)
        else:
            kept = _begin(record, anew) if record is not None else None
            start = first if first is not None else kept.next if kept is not None else 0
            code, told = live_many(out, start, count, processes, kept, show if coverage else summarize)
        save({"version": machine.regroup, "commit": machine.commit, "interrupted": code == INTERRUPTED, **told})
    raise typer.Exit(code)


def _with_bug(bug: Bug, seed: int) -> tuple[int, Mapping[str, Any]]:
    try:
        return tell_planted(bug, seed)
    except RuntimeError as error:
        give_up(str(error), FAILED)


def _described(bug: Bug) -> str:
    return f"{bug}: in {bug.module}"


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
        takers = [names[option] for option, takes in _TAKES.items() if not takes.isdisjoint(idle)]
        beside = f"beside {names[lone]}" if lone else f"without {' or '.join(takers)}"
        one, them = ("says", "it") if len(idle) == 1 else ("say", "them")
        give_up(f"{' and '.join(names[each] for each in idle)} {one} nothing {beside}: leave {them} out", USAGE)
    if "anew" in given and "record" not in given:
        give_up("--anew says nothing without --record: leave it out", USAGE)


def _named(option: str, parts: Sequence[str] | None, every: Mapping[str, _Named]) -> Mapping[str, _Named]:
    """Those that have one of these parts in their names. Ends the command if none has."""
    wanted = None if parts is None else [part.lower() for part in parts]
    for part in wanted or ():
        if not any(part in name.lower() for name in every):
            near = _near(part, every)
            names = "; ".join(list(every)[:NAMED]) + ("; and others: --list names all" if len(every) > NAMED else "")
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {names}"
            give_up(f"--{option} {part}: no {option} has that in its name; {hint}", USAGE)
    return {name: one for name, one in every.items() if not wanted or any(part in name.lower() for part in wanted)}


def _near(part: str, names: Iterable[str]) -> list[str]:
    """What it may have been meant to be: names that are like it, or one's words that are like a misspelt one of it."""
    words = {word.strip(",:()") for name in names for word in name.lower().split()}
    given = part.split()
    meant = [
        word if word in words else next(iter(get_close_matches(word, sorted(words), 1, NEAR)), "") for word in given
    ]
    mended = " ".join(meant)
    if all(meant) and any(mended in name.lower() for name in names):
        return [mended, *(one for one in get_close_matches(part, sorted(words), 3, NEAR) if one != mended)]
    return get_close_matches(part, [*names], 3, VERY_NEAR)


def _begin(path: Path, anew: bool) -> Record:
    """Ends the command if nothing can be added to this file."""
    try:
        return begin(path, anew)
    except NoRecord as error:
        give_up(str(error), FAILED if isinstance(error, Unwritable) else USAGE)
