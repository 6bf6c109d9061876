"""What the cells came to, as people and programs read it: lines, a table, figures as JSON.

Owns: the words. Refuses to know: how a cell is run and judged. `page` tells the same as HTML.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from regroup.lab.bench.machine import Machine
from regroup.lab.chaos.bed import SETTINGS
from regroup.lab.chaos.cells import Cell, Phase
from regroup.lab.chaos.verdict import Observed, Outcome, Result, tally

MARKS = {Outcome.PASSED: "ok", Outcome.FAILED: "FAILED", Outcome.SKIPPED: "skipped", Outcome.IMPOSSIBLE: "–"}
COLOURS = {Outcome.PASSED: "green", Outcome.FAILED: "bold red", Outcome.SKIPPED: "yellow", Outcome.IMPOSSIBLE: "dim"}


def milliseconds(time: float | None) -> str:
    """A time as short as it can be read: 83 ms, 2.4 s; – for none."""
    if time is None:
        return "–"
    return f"{time:.0f} ms" if time < 1000 else f"{time / 1000:.1f} s"


def line(result: Result) -> str:
    """One cell, while it runs."""
    text = f"{MARKS[result.outcome]:<8} {result.cell.name:<32} {result.seconds:5.1f} s"
    if result.observed is not None:
        text += f"  {told(result.observed)}"
    return "; ".join([text, *result.complaints])


def alone(cell: Cell) -> str:
    """The command that runs this cell and no other."""
    return f"regroup chaos --fault {cell.fault.name} --phase {cell.phase}"


def failures(results: Sequence[Result]) -> str:
    """Each cell that failed, why, and how to see it again; nothing, if none did."""
    failed = [result for result in results if result.outcome is Outcome.FAILED]
    return "".join(
        f"\n{result.cell.name} FAILED: {'; '.join(result.complaints)}\n    {alone(result.cell)}" for result in failed
    )


def told(seen: Observed) -> str:
    weights = "no weights" if seen.difference is None else f"weights differ by {seen.difference:.1e}"
    audit = f"{seen.lost} lost, {seen.doubled} doubled"
    return f"noticed {milliseconds(seen.noticed)}, recovered {milliseconds(seen.recovered)}; {weights}; {audit}"


def listing(cells: Sequence[Cell]) -> Table:
    """The cells there are, and why there are not the others."""
    table = Table(box=None, pad_edge=False)
    for name in ("cell", "what is done", "noticed by", "comes to"):
        table.add_column(name, overflow="fold")
    for cell in cells:
        fault = cell.fault
        if cell.impossible:
            table.add_row(cell.name, f"not there: {cell.impossible}", "", "")
        else:
            table.add_row(cell.name, fault.what, ", ".join(sorted(cell.noticed)) or "–", fault.aftermath)
    return table


def table(results: Sequence[Result]) -> Table:
    """Faults by phases: the time until it was noticed / until the next committed step."""
    out = Table(box=None, pad_edge=False)
    phases = [phase for phase in Phase if any(result.cell.phase is phase for result in results)]
    out.add_column("noticed / next step after")
    for phase in phases:
        out.add_column(phase)
    for name in dict.fromkeys(result.cell.fault.name for result in results):
        row = {result.cell.phase: result for result in results if result.cell.fault.name == name}
        out.add_row(name, *(_short(row.get(phase)) for phase in phases))
    return out


def _short(result: Result | None) -> Text:
    if result is None:
        return Text()
    text, seen = MARKS[result.outcome], result.observed
    if result.outcome is Outcome.PASSED and seen is not None:
        text = f"{milliseconds(seen.noticed)} / {milliseconds(seen.recovered)}"
    return Text(text, COLOURS[result.outcome])


def summary(results: Sequence[Result]) -> str:
    count = tally(results)
    seen = [result.observed for result in results if result.observed is not None]
    differences = [each.difference for each in seen if each.difference is not None]
    text = f"{count[Outcome.PASSED]} cells passed, {count[Outcome.FAILED]} failed, {count[Outcome.SKIPPED]} skipped"
    text += f", {count[Outcome.IMPOSSIBLE]} cannot be"
    if differences:
        text += f"; largest difference of a weight {max(differences):.1e}"
        text += f"; {sum(each.lost for each in seen)} samples lost, {sum(each.doubled for each in seen)} doubled"
    return text


def figures(results: Sequence[Result], machine: Machine) -> Mapping[str, Any]:
    return {
        "machine": asdict(machine),
        "settings": SETTINGS,
        "summary": summary(results),
        "cells": [
            {
                "fault": result.cell.fault.name,
                "phase": str(result.cell.phase),
                "outcome": str(result.outcome),
                "complaints": list(result.complaints),
                "seconds": round(result.seconds, 2),
                "observed": asdict(result.observed) if result.observed else None,
                "story": list(result.story),
            }
            for result in results
        ],
    }
