"""`regroup audit JOB`: was each sample trained exactly once? The workers' own records say.

Owns: the command: which claim is held against which records, and the exit code (1 unless exact).
Refuses to know: how it is counted (`audit`).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from regroup.client import terminal
from regroup.client.commands import JobArgument
from regroup.client.printable import one_line
from regroup.client.sdk import Client
from regroup.client.terminal import AsJson
from regroup.lab.audit.claim import Claim
from regroup.lab.audit.count import Audit
from regroup.lab.audit.count import audit as count
from regroup.wire.rest import EventView, JobView

PIECE = 1 << 20  # characters read from a file at once


def audit(
    context: typer.Context,
    job: JobArgument,
    folder: Annotated[
        Path | None, typer.Option(help="Read the records in this folder instead of asking the workers for them.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count from the workers' own records whether each sample was trained exactly once."""
    with terminal.connected(context) as client:
        id = terminal.job_id(client, job)
        if folder is not None:
            folder = _records_in(folder, id)
        found = audit_job(client, id, folder)
    if as_json:
        terminal.write_json(found)
    else:
        terminal.write(f"{id}: {found.summary}")
        for fault in found.faults:
            terminal.write(f"  {one_line(fault)}")
    raise typer.Exit(terminal.OK if found.ok else terminal.FAILED)


def audit_job(client: Client, job: str, folder: Path | None = None) -> Audit:
    """The audit of a job: its records as the agents send them, or as they lie in `folder`."""
    view = client.job(job)  # before its records: they then hold at least what it claims
    claim = claim_of(view, client.events(job))
    if folder is not None:
        return count(claim, pieces_in(folder))
    return count(claim, ((piece.file, piece.text) for piece in client.records(job)))


def claim_of(job: JobView, events: Iterable[EventView] = ()) -> Claim:
    """What the coordinator says of a job. `events` add who formed which generation."""
    last = job.history[-1].generation if job.history else None
    final = job.checkpoint
    return Claim(
        history=job.history,
        tip=final.version.generation if final else last,
        steps=final.version.step if final else job.step,
        final=final is not None,
        dataset=job.dataset,
        global_batch=job.spec.global_batch,
        shards=job.shards,
        workers={
            event.data["generation"]: frozenset(event.data["workers"])
            for event in events
            if event.kind in ("form", "rolled_back")
        },
    )


def pieces_in(folder: Path) -> Iterator[tuple[str, str]]:
    """(file, text) of all records in a folder, in the order of their names. Raises OSError."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open() as file:
            while text := file.read(PIECE):
                yield path.name, text


def _records_in(folder: Path, job: str) -> Path:
    """The folder itself, or the job's below it. Ends the command if neither has records."""
    for each in (folder / job, folder / "records" / job, folder):
        if any(each.glob("*.jsonl")):
            return each
    terminal.give_up(f"there are no records (*.jsonl) in {folder}", terminal.USAGE)
