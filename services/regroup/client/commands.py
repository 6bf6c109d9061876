"""The commands that look at the cluster and steer it; `submit` has a module of its own.

Owns: one function per command, each a call of the SDK and a way to show the answer.
Refuses to know: HTTP, and how things look (`show`).
"""

import time
from collections.abc import Iterable
from dataclasses import asdict
from itertools import chain
from typing import Annotated

import typer

from regroup.client import show, terminal
from regroup.client.sdk import Client
from regroup.client.terminal import AsJson
from regroup.client.watch import exit_code, watch
from regroup.core.jobs import JobPhase, Wanted
from regroup.wire.rest import EventView, JobView

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="A job's id, or enough of its beginning.")]
INTERVAL = 0.2  # seconds between two looks at a worker that is waited for
WorkerArgument = Annotated[str, typer.Argument(metavar="WORKER", help="A worker's name.")]


def jobs(context: typer.Context, as_json: AsJson = False) -> None:
    """List the jobs."""
    with terminal.connected(context) as client:
        found = client.jobs()
    terminal.write_json(found) if as_json else terminal.write(show.jobs_table(found, time.time()))


def job(context: typer.Context, job: JobArgument, as_json: AsJson = False) -> None:
    """Show a job: its phase and why, its members, its end."""
    with terminal.connected(context) as client:
        found = client.job(terminal.job_id(client, job))
    terminal.write_json(found) if as_json else terminal.write(show.job_sheet(found, time.time()))


def checkpoints(context: typer.Context, job: JobArgument, as_json: AsJson = False) -> None:
    """List a job's checkpoints, newest first; then damaged ones."""
    with terminal.connected(context) as client:
        found = client.job(terminal.job_id(client, job))
    kept = [one for one in (found.checkpoint, *found.older) if one is not None]
    if as_json:
        whole = [{**asdict(one), "damage": None} for one in kept]
        terminal.write_json([*whole, *({**asdict(one.checkpoint), "damage": one.damage} for one in found.struck)])
    else:
        terminal.write(show.checkpoints_table(kept, found.struck))


def events(
    context: typer.Context,
    job: Annotated[str | None, typer.Argument(metavar="JOB", help="Only this job's.", show_default=False)] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes; a job's end ends it.")] = False,
    last: Annotated[
        int | None, typer.Option("--last", "-n", min=0, help="Of what was, only so many.", show_default="all")
    ] = None,
    stacks: Annotated[bool, typer.Option("--stacks", help="With the stacks of trainers that hung.")] = False,
    as_json: AsJson = False,
) -> None:
    """The timeline: what happened, what was decided, and why."""
    with terminal.connected(context) as client:
        id = terminal.job_id(client, job) if job else None
        out = terminal.console()
        past = list(client.events(id)) if last is not None else []
        coming: Iterable[EventView] = ()  # what happens while the past is read is none of the last that were asked for
        if follow or last is None:
            coming = client.events(id, after=past[-1].id if past else None, follow=follow)
        for event in chain(past[-last:] if last else (), coming):
            terminal.write_json_line(event) if as_json else out.print(show.event_line(event), soft_wrap=True)
            if stacks and not as_json and (text := show.stacks_text(event)) is not None:
                out.print(text, soft_wrap=True)


Wait = Annotated[bool, typer.Option("--wait", "-w", help="Watch the job until it has ended.")]


def stop(
    context: typer.Context,
    job: JobArgument,
    now: Annotated[bool, typer.Option("--now", help="At once, with what is durable already.")] = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Stop a job at its next step, with a checkpoint.

    With --now it ends at once: what its workers hold beyond its newest checkpoint is given up, also where it was asked
    to stop before and its state cannot be saved.
    """
    with terminal.connected(context) as client:
        asked = client.stop(terminal.job_id(client, job), now)
        _follow(client, asked, wait, as_json, JobPhase.STOPPED, JobPhase.COMPLETED, under_way="asked to stop")


def pause(
    context: typer.Context,
    job: JobArgument,
    hold: Annotated[bool, typer.Option("--hold", help="Keep its workers, and its state in their memory.")] = False,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Watch the job until it rests.")] = False,
    as_json: AsJson = False,
) -> None:
    """Pause a job at its next step.

    Its state is saved, and its workers are free for other jobs; or, with --hold, it keeps both until it is resumed. A
    held state is in memory alone: before the cluster is stopped, pause the job without --hold.
    """
    with terminal.connected(context) as client:
        asked = client.pause(terminal.job_id(client, job), hold)
        under_way = f"asked to {'hold' if hold else 'pause'}"
        _follow(client, asked, wait, as_json, JobPhase.PAUSED, JobPhase.COMPLETED, under_way=under_way)


def resume(context: typer.Context, job: JobArgument, wait: Wait = False, as_json: AsJson = False) -> None:
    """Let a paused job go on where it rested."""
    with terminal.connected(context) as client:
        before = client.job(terminal.job_id(client, job))
        asked = client.resume(before.id)
        unpaused = before.wanted in (Wanted.RUN, Wanted.YIELD)
        if unpaused and wait and not as_json:
            terminal.write(f"{asked.id} was not paused")
        _follow(client, asked, wait, as_json, JobPhase.COMPLETED, under_way="it was not paused" if unpaused else None)


def _follow(
    client: Client, asked: JobView, wait: bool, as_json: bool, *wanted: JobPhase, under_way: str | None
) -> None:
    """Say where a job is, or watch it until it is where it was asked to be; `under_way` is said until it is there."""
    reached = watch(client, asked.id, quiet=as_json, paused=JobPhase.PAUSED in wanted) if wait else asked
    if as_json:
        terminal.write_json(reached)
    elif not wait:
        told = under_way if under_way is not None and asked.phase not in wanted else show.reason_text(asked)
        terminal.write(f"{asked.id} {asked.phase}: {told}")
    if wait:
        raise typer.Exit(exit_code(reached, *wanted))


def cluster(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the whole: who leads, who stands by, workers and jobs."""
    with terminal.connected(context) as client:
        found, url = client.cluster(), client.url
    terminal.write_json(found) if as_json else terminal.write(show.cluster_sheet(found, url))


def workers(context: typer.Context, as_json: AsJson = False) -> None:
    """List the workers."""
    with terminal.connected(context) as client:
        found = client.workers()
    terminal.write_json(found) if as_json else terminal.write(show.workers_table(found))


def worker(context: typer.Context, name: WorkerArgument, as_json: AsJson = False) -> None:
    """Show a worker: its health, its job, its errors."""
    with terminal.connected(context) as client:
        found = client.worker(name)
    terminal.write_json(found) if as_json else terminal.write(show.worker_sheet(found))


def drain(
    context: typer.Context,
    name: WorkerArgument,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Until others have what it had.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let others take over what a worker has, and spare it.

    That is done at the next step, and it gets nothing to do until it is admitted again. Its agent stays
    connected. A job that only it trains is saved first, and goes on once another worker is free.
    """
    with terminal.connected(context) as client:
        found = client.drain(name)
        while wait and found.drained and found.job is not None:
            time.sleep(INTERVAL)
            found = client.worker(name)
    goes_on = f"job {found.job} goes on without it after this step, or is saved first if nobody else has its state"
    busy = goes_on if found.job else "it has nothing to do any more"
    terminal.write_json(found) if as_json else terminal.write(f"{found.name} is drained: {busy}")


def admit(context: typer.Context, name: WorkerArgument, as_json: AsJson = False) -> None:
    """Give a drained worker something to do again."""
    with terminal.connected(context) as client:
        drained = client.worker(name).drained
        found = client.admit(name)
    told = f"is admitted: {found.reason}" if drained else "was not drained"
    terminal.write_json(found) if as_json else terminal.write(f"{found.name} {told}")


def clear(context: typer.Context, name: WorkerArgument, as_json: AsJson = False) -> None:
    """Forgive a worker's errors and lift its quarantine."""
    with terminal.connected(context) as client:
        found = client.clear(name)
    terminal.write_json(found) if as_json else terminal.write(f"{found.name} is cleared: {found.reason}")
