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
from regroup.core.jobs import JobPhase
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
    """Count whether each sample was trained exactly once.

    The workers' own records say so. Of a job that trains, the steps that are committed so far are counted.
    """
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
    last = job.history[-1] if job.history else None
    saved = job.checkpoint.version if job.checkpoint else None
    # A checkpoint may be that of an earlier rest: the job has trained on since, and what it has is in its members.
    if saved and last and job.members and saved.generation < last.generation:
        saved = None
    # All may hold the state that a generation begins with before they are known to have committed the steps up to it.
    under_way = max(job.step, last.base_step) if last else job.step
    return Claim(
        history=job.history,
        tip=saved.generation if saved else last.generation if last else None,
        steps=saved.step if saved else under_way,
        begins=job.beginning.step if job.beginning else 0,
        final=saved is not None and (job.ended or job.phase is JobPhase.PAUSED),
        dataset=job.dataset,
        global_batch=job.spec.global_batch,
        shards=job.shards,
        workers={
            event.data["generation"]: frozenset(event.data["workers"])
            for event in events
            if event.kind in ("form", "rolled_back") and "workers" in event.data  # what rests may roll back, unformed
        },
    )


def pieces_in(folder: Path) -> Iterator[tuple[str, str]]:
    """(file, text) of all records in a folder, in the order of their names. Raises OSError."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open() as file:
            while text := file.read(PIECE):
                yield path.name, text


def _records_in(folder: Path, job: str) -> Path:
    """The folder itself, or the job's below it. Ends the command if neither has records, or those of another job."""
    for each in (folder / job, folder / "records" / job, folder):
        if any(each.glob("*.jsonl")):
            break
    else:
        terminal.give_up(f"there are no records (*.jsonl) in {folder}", terminal.USAGE)
    name = each.resolve().name  # workers keep the records of a job in a folder that has its name
    if name.startswith("j-") and name != job:
        terminal.give_up(f"these records are of another job: {each} is of {name}, not of {job}", terminal.USAGE)
    return each
