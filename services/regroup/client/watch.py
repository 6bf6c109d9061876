"""Watching one job until it ends: a live bar in a terminal, lines where it is none.

Owns: what is worth a line, and the exit code that the job's end means.
Refuses to know: how the job is asked for (the SDK's `wait`).
"""

import time
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from regroup.client import show
from regroup.client.printable import one_line
from regroup.client.sdk import Client
from regroup.client.terminal import FAILED, OK, console
from regroup.core.jobs import JobPhase
from regroup.wire.rest import JobView


def watch(client: Client, id: str, *, quiet: bool, paused: bool = False) -> JobView:
    """The job once it has ended; `paused`: also once it rests. `quiet`: show nothing on the way."""
    out = console()
    if quiet:
        return client.wait(id, paused=paused)
    if out.is_terminal:
        job = _draw(client, id, out, paused)
    else:
        job = client.wait(id, on_change=Lines(out).show, paused=paused)
    if job.error and "Traceback" in job.error:
        out.print(Text(f"`regroup job {job.id}` shows the error in full, with its traceback", style="dim"))
    return job


def _draw(client: Client, id: str, out: Console, paused: bool) -> JobView:
    with Progress(
        TextColumn("{task.description}"),
        _Phase(),
        BarColumn(bar_width=None),
        _Facts(),
        TimeElapsedColumn(),
        console=out,
        expand=True,
    ) as progress:
        bar = progress.add_task(id, total=None, job=None)
        last: list[tuple[JobPhase, str]] = []

        def draw(job: JobView) -> None:
            progress.update(bar, completed=job.step, total=job.steps, job=job)
            if last[-1:] != [(job.phase, job.reason)]:
                last.append((job.phase, job.reason))
                progress.console.print(_line(job))

        return client.wait(id, on_change=draw, interval=0.25, paused=paused)


def exit_code(job: JobView, *wanted: JobPhase) -> int:
    """Whether the job ended as it was asked to."""
    return OK if job.phase in wanted else FAILED


@dataclass(slots=True)
class Lines:
    """A line whenever the phase, its reason or the members change, and at every tenth of the way."""

    out: Console
    last: tuple[object, ...] = field(default=())

    def show(self, job: JobView) -> None:
        tenth = int((job.progress or 0) * 10)
        now = (job.phase, job.reason, job.generation, len(job.members), tenth)
        if now != self.last:
            self.last = now
            self.out.print(_line(job))


def _line(job: JobView) -> Text:
    return Text.assemble(
        (show.clock(time.time()), "dim"),
        "  ",
        show.phase_text(job.phase),
        f"  {_facts(job)}  ",
        (one_line(job.reason), "dim"),
    )


def _facts(job: JobView) -> str:
    facts = [f"step {show.steps(job)}"]
    if not job.ended:
        facts.append(f"{show.workers_text(job)} workers")
    if job.rate is not None:
        facts.append(f"{show.rate_text(job.rate)} steps/s")
    if job.loss is not None:
        facts.append(f"loss {job.loss:.4g}")
    return ", ".join(facts)


class _Phase(ProgressColumn):
    max_refresh = None

    def render(self, task: Task) -> Text:
        job: JobView | None = task.fields["job"]
        return show.phase_text(job.phase) if job else Text("")


class _Facts(ProgressColumn):
    max_refresh = None

    def render(self, task: Task) -> Text:
        job: JobView | None = task.fields["job"]
        return Text(_facts(job) if job else "")
