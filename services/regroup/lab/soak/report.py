"""What a soak came to: tables for people, JSON for programs, and the complaints that fail it.

Owns: the words. Refuses to know: how it was measured.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.table import Table

from regroup.lab.audit.wording import plural
from regroup.lab.bench.machine import Machine
from regroup.lab.soak.flat import ENOUGH, Verdict, judge
from regroup.lab.soak.run import PERIOD, SURVIVOR, Half, Outcome
from regroup.lab.soak.sampling import Series, series

NOTES = (
    "Measured whenever all workers train again after a regroup. The first quarter is warm-up. Flat: from there to the "
    "end the Theil-Sen line, and the last tenth over the first, rise by at most a twentieth of the level, or a floor.",
    f"{SURVIVOR} is never touched in the first half: its agent and its trainer live throughout. Memory is what the "
    "processes made themselves (PSS), without pages of files.",
    "The floors of the store and of all processes leave room for the timeline and the losses, which are capped and "
    "fill up. The records grow with the steps: they are the evidence, and not judged; their files are.",
)

KILLED = 1 / 5  # of the regroups, that a SIGKILL must have begun at least: 200 of 1 000
STORMY = 1 / 2  # of the faults that a storm has time for, that it must have done


def verdicts(outcome: Outcome) -> list[tuple[Series, Verdict]]:
    if not outcome.samples:
        return []
    return [
        (one, judge([(count, values[one.name]) for count, values in outcome.samples if one.name in values], one.floor))
        for one in series(SURVIVOR)
        if any(one.name in values for _, values in outcome.samples)
    ]


def complaints(outcome: Outcome) -> list[str]:
    """Why the soak is no success; empty: it is one."""
    found = [
        f"{one.name} is not flat: from {verdict.level:.1f} to {verdict.end:.1f} {one.unit}".rstrip()
        for one, verdict in verdicts(outcome)
        if one.judged and not verdict.flat
    ]
    for name, half in _halves(outcome).items():
        if half.audit is None:
            found.append(f"{name}: it did not come to the audit, so nothing is known of its samples")
        elif not half.audit.ok:
            first = half.audit.faults[0]
            found.append(f"{name}: {half.audit.lost} samples lost, {half.audit.doubled} doubled; {first}")
    if outcome.regroups.restarts:
        found.append(f"all state was lost, and the job began again, {outcome.regroups.restarts} times")
    half = outcome.regroups
    if len(outcome.samples) >= ENOUGH and half.kills < int(KILLED * half.regroups):
        found.append(f"SIGKILL began {half.kills} of {half.regroups} regroups: it must be a fifth at least")
    wanted = int(STORMY * outcome.storm.seconds / (sum(PERIOD) / 2))
    if outcome.storm.seconds and (done := outcome.storm.deeds.total()) < wanted:
        found.append(
            f"the storm did {done} faults in {outcome.storm.seconds / 60:.1f} minutes: there must be {wanted} at least"
        )
    return found


def tables(outcome: Outcome) -> list[Table]:
    found = []
    for name, half in _halves(outcome).items():
        table = Table(title=name, title_justify="left")
        table.add_column("what was done")
        table.add_column("times", justify="right")
        for deed, times in sorted(half.deeds.items()):
            table.add_row(deed, str(times))
        found.append(table)
    if shown := verdicts(outcome):
        found.append(_flatness(shown))
    return found


def _flatness(shown: list[tuple[Series, Verdict]]) -> Table:
    table = Table(title="What the cluster takes", title_justify="left")
    table.add_column("")
    for name in ("after warm-up", "at the end", "per 1000 regroups", "may rise by", "flat"):
        table.add_column(name, justify="right")
    for one, verdict in shown:
        flat = "yes" if verdict.flat else "NO"
        table.add_row(
            f"{one.name}, {one.unit}" if one.unit else one.name,
            f"{verdict.level:.1f}",
            f"{verdict.end:.1f}",
            f"{verdict.slope * 1000:+.2f}",
            f"{verdict.bound:.1f}" if one.judged else "-",
            flat if one.judged and verdict.judged else "not judged",
        )
    return table


def summary(outcome: Outcome) -> list[str]:
    """A line for each half, and one that says if there is too little to judge."""
    found = []
    for name, half in _halves(outcome).items():
        restarts = f", {half.restarts} from a checkpoint or the seed" if half.restarts else ""
        storm = half is outcome.storm
        faults = plural(half.deeds.total(), "fault") if storm else f"{half.kills} of them begun by SIGKILL"
        found.append(
            f"{name}: {half.regroups} regroups{restarts}, {faults}, {half.steps} steps "
            f"in {half.seconds / 60:.1f} minutes"
            + (f"; {half.audit.lost} samples lost, {half.audit.doubled} doubled" if half.audit else "; no audit")
        )
    if 0 < len(outcome.samples) < ENOUGH:
        found.append(f"{len(outcome.samples)} measurements are too few to say what is flat: {ENOUGH} are needed")
    return found


def figures(outcome: Outcome, seed: int, machine: Machine, interrupted: bool) -> Mapping[str, Any]:
    return {
        "halves": {name: {**asdict(half), "deeds": dict(half.deeds)} for name, half in _halves(outcome).items()},
        "series": {
            one.name: {"unit": one.unit, **asdict(verdict), "flat": verdict.flat if one.judged else None}
            for one, verdict in verdicts(outcome)
        },
        "complaints": complaints(outcome),
        "samples": [{"regroups": count, **values} for count, values in outcome.samples],
        "seed": seed,
        "interrupted": interrupted,
        "machine": asdict(machine),
        "notes": list(NOTES),
    }


def _halves(outcome: Outcome) -> dict[str, Half]:
    """Those that were begun."""
    halves = {"regroups": outcome.regroups, "storm": outcome.storm}
    return {name: half for name, half in halves.items() if half.seconds}
