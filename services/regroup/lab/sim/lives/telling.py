"""One life told as a story; one that goes wrong, with as few faults as still make it go wrong.

Owns: what of it a reader is shown. Refuses to know: how a life is lived, and how faults are left out (`outcome`).
"""

from typing import Any

from rich.console import Console

from regroup.lab.audit.wording import plural
from regroup.lab.bench.machine import Machine
from regroup.lab.sim.lives.code import as_code
from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.outcome import cut, live
from regroup.lab.sim.lives.story import QUIET


def tell_life(out: Console, seed: int, machine: Machine) -> tuple[bool, dict[str, Any]]:
    """Whether every rule held, and the facts."""
    plan = draw(seed)
    outcome = live(plan, keep=True)
    if outcome.error is not None:
        plan = cut(plan)
        outcome = live(plan, keep=True)
    commit = f", commit {machine.commit}" if machine.commit else ""
    size = f"{plural(plan.workers, 'worker')}, {plural(len(plan.jobs), 'job')}"
    out.print(f"seed {seed}, regroup {machine.regroup}{commit}: {size}")
    for fault in plan.faults:
        out.print(f"  {fault}", soft_wrap=True)
    for line in outcome.lines:
        if not any(word in line for word in QUIET):
            out.print(line, soft_wrap=True)
    out.print(f"digest {outcome.digest}; " + (outcome.error or "every rule held, and every job ended"), soft_wrap=True)
    if outcome.error is not None:
        out.print("\nKeep this plan in tests/simulation/kept_plans.py, because what its seed draws may change:")
        out.print(as_code(plan), soft_wrap=True)
    return outcome.error is None, {
        "seed": seed,
        "digest": outcome.digest,
        "error": outcome.error,
        "faults": [str(fault) for fault in plan.faults],
        "plan": as_code(plan),
        "story": list(outcome.lines),
    }
