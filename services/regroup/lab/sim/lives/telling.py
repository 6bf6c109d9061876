"""One life told as a story; one that goes wrong, with as few faults as still make it go wrong.

Owns: what of it a reader is shown. It is lived twice, with another life in between: a seed that is not the same life
every time reproduces nothing.
Refuses to know: how a life is lived, and how faults are left out (`outcome`).
"""

from itertools import zip_longest
from typing import Any

from rich.console import Console

from regroup.lab.audit.wording import plural
from regroup.lab.bench.machine import Machine
from regroup.lab.sim.lives.code import as_code
from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.outcome import Outcome, cut, live
from regroup.lab.sim.lives.plan import Plan
from regroup.lab.sim.lives.runs import ANOTHER
from regroup.lab.sim.lives.story import QUIET

LAST = 20  # lines of a story that are told whole
HELD = "every rule held, and every job ended"


def tell_life(out: Console, seed: int, machine: Machine) -> tuple[bool, dict[str, Any]]:
    """Whether every rule held, and the facts."""
    plan = draw(seed)
    outcome, _, again = (live(one, keep=True) for one in (plan, draw(seed + 1), plan))
    same = outcome.digest == again.digest
    if same and outcome.error is not None:
        plan = cut(plan)
        outcome = live(plan, keep=True)
    error = outcome.error if same else ANOTHER
    size = f"{plural(plan.workers, 'worker')}, {plural(len(plan.jobs), 'job')}"
    out.print(f"{_where(seed, machine)}: {size}")
    for fault in plan.faults:
        out.print(f"  {fault}", soft_wrap=True)
    _tell_story(out, outcome)
    if not same:
        _tell_difference(out, outcome, again)
    elif outcome.error is not None:
        _tell_breach(out, outcome)
    else:
        out.print(f"digest {outcome.digest}, lived twice; {HELD}", soft_wrap=True)
    if error is not None:
        tell_plan(out, plan, machine)
    return error is None, {
        "seed": seed,
        "digest": outcome.digest,
        "error": error,
        "where": outcome.where,
        "faults": [str(fault) for fault in plan.faults],
        "plan": as_code(plan),
        "story": list(outcome.lines),
    }


def _tell_story(out: Console, outcome: Outcome) -> None:
    """Without what repeats; but shortly before the end that may be what matters."""
    early, late = outcome.lines[:-LAST], outcome.lines[-LAST:]
    told = [line for line in early if not any(word in line for word in QUIET)]
    for line in told:
        out.print(line, soft_wrap=True)
    if len(told) < len(early):
        left_out = plural(len(early) - len(told), "heartbeat or answer to one", "heartbeats and answers to them")
        out.print(f"           ... of what is above, {left_out} left out; --json FILE has all ...", style="dim")
    for line in late:
        out.print(line, soft_wrap=True)


def _tell_breach(out: Console, outcome: Outcome) -> None:
    where = outcome.where or "the watch over all of it"
    out.print(f"\nBROKEN after {outcome.seconds:.3f} s: {outcome.error}", style="red", soft_wrap=True)
    out.print(f"as {where} says; digest {outcome.digest}, lived twice", soft_wrap=True)


def tell_plan(out: Console, plan: Plan, machine: Machine) -> None:
    """To be kept, with where it was drawn; cut to the faults that matter."""
    out.print(f"\n{_where(plan.seed, machine)}")
    out.print("Keep this plan in tests/simulation/kept_plans.py, because what its seed draws may change:")
    out.print(as_code(plan), soft_wrap=True)


def _where(seed: int, machine: Machine) -> str:
    return f"seed {seed}, regroup {machine.regroup}" + (f", commit {machine.commit}" if machine.commit else "")


def _tell_difference(out: Console, one: Outcome, other: Outcome) -> None:
    """Where two lives of one plan part."""
    pairs = zip_longest(one.lines, other.lines, fillvalue="it is over")
    first, second = next(pair for pair in pairs if pair[0] != pair[1])
    out.print(
        f"{ANOTHER}: digest {one.digest}, and {other.digest}. The first parts from the second with", soft_wrap=True
    )
    for line in (first, second):
        out.print(f"  {line}", soft_wrap=True)
    for outcome in (one, other):
        out.print(f"digest {outcome.digest}: {outcome.error or HELD}", soft_wrap=True)
