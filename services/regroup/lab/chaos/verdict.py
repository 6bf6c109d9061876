"""When a cell passes. Pure.

Owns: the rules, and the sentence for each that is broken. Refuses to know: how what it judges was seen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from regroup.lab.chaos.cells import Aftermath, Cell, Phase
from regroup.wire.rest import EventView

BREAKING = 3.0  # seconds beyond its limit until a hang must be broken
TOLERANCE = 1e-9  # largest difference of a weight in float64 after the whole job; rounding gives about 1e-15


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"  # this machine does not allow it
    IMPOSSIBLE = "impossible"  # the fault makes no sense in the phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a cell's job came to."""

    phase: str  # of the job at its end
    reason: str
    difference: float | None  # the largest of all weights to an undisturbed run's; None: there is no final state
    lost: int  # samples, by the audit
    doubled: int
    audit_faults: tuple[str, ...]
    restarts: int
    regroups: int  # generations that were formed after the fault
    noticed: float | None  # ms from the fault to the event that names it; None: none does
    recovered: float | None  # ms from the fault to the next step that counts, or to the state on disk in a checkpoint
    limit: float | None = None  # seconds that the phase in which somebody hung was allowed; None: nobody did
    remark: str = ""  # which event it was
    unwanted: tuple[str, ...] = ()  # events after the fault that must not follow it


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    cell: Cell
    outcome: Outcome
    complaints: tuple[str, ...] = ()
    observed: Observed | None = None
    seconds: float = 0.0
    story: tuple[str, ...] = ()  # the timeline, where it failed


def judge(cell: Cell, seen: Observed) -> tuple[str, ...]:
    """What is wrong; empty: the cell passes."""
    found: list[str] = []
    fault = cell.fault
    if seen.phase != "completed":
        found.append(f"the job is {seen.phase}, not completed: {seen.reason}")
    if seen.difference is None:
        found.append("there are no final weights to compare")
    elif not seen.difference <= TOLERANCE:  # a NaN is no match either
        found.append(f"weights differ from an undisturbed run's by {seen.difference:.2g}, more than {TOLERANCE:.0e}")
    if seen.lost or seen.doubled or seen.audit_faults:
        first = f": {seen.audit_faults[0]}" if seen.audit_faults else ""
        found.append(f"the audit is not exact, {seen.lost} samples lost, {seen.doubled} doubled{first}")
    if seen.restarts > (cell.aftermath is Aftermath.RESTARTS):
        found.append(f"the job began again {seen.restarts} times, though its state was not lost")
    if cell.noticed and seen.noticed is None:
        found.append(f"nothing in the timeline names it: none of {', '.join(sorted(cell.noticed))}")
    if seen.unwanted:
        found.append(f"this must not follow it: {seen.unwanted[0]}")
    if seen.recovered is None:
        found.append("no step was committed after it")
    quiet = cell.phase in (Phase.FORWARD, Phase.EXCHANGE, Phase.OPTIMIZER, Phase.BESIDE)
    if fault.within is not None and quiet and seen.noticed is not None and seen.noticed > fault.within * 1e3:
        found.append(f"it was noticed after {seen.noticed / 1e3:.1f} s, and {fault.within:g} s is the limit")
    if seen.limit is not None and cell.noticed and seen.noticed and seen.noticed > (seen.limit + BREAKING) * 1e3:
        found.append(f"a hang of which {seen.limit:g} s were allowed was broken after {seen.noticed / 1e3:.1f} s")
    if cell.aftermath is Aftermath.GOES_ON and quiet and seen.regroups:
        found.append(f"{seen.regroups} regroups followed, though nobody was lost")
    return tuple(found)


def unwanted(cell: Cell, events: Iterable[EventView], since: float) -> tuple[str, ...]:
    """What the timeline tells since the fault that must not follow it."""
    return tuple(f"{each.kind}: {each.reason}" for each in events if each.kind in cell.fault.never and each.at >= since)


def tally(results: Sequence[Result]) -> dict[Outcome, int]:
    return {outcome: sum(result.outcome is outcome for result in results) for outcome in Outcome}
