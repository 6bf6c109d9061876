"""Watching one job until it ends: a live bar in a terminal, lines where it is none.

Owns: what is worth a line, and the exit code that the job's end means.
Refuses to know: how the job is asked for (the SDK's `wait`).
"""

import time
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from regroup.client import show
from regroup.client.printable import one_line
from regroup.client.sdk import Client
from regroup.client.terminal import FAILED, OK, console
from regroup.core.jobs import JobPhase
from regroup.wire.rest import JobView

_WIDEST = max(map(len, JobPhase))  # characters


def watch(client: Client, id: str, *, quiet: bool, paused: bool = False) -> JobView:
    """The job once it has ended; `paused`: also once it rests. `quiet`: show nothing on the way."""
    out = console()
    if quiet:
        return client.wait(id, paused=paused)
    if out.is_terminal:
        job = _draw(client, id, out, paused)
    else:
        job = client.wait(id, on_change=Lines(out).show, paused=paused)
    if "Traceback" in (show.error_text(job) or ""):
        out.print(Text(f"`regroup job {job.id}` shows the error in full, with its traceback", style="dim"))
    if job.diverged is not None:
        said = [event.reason for event in client.events(id) if event.kind == "diverged"]
        out.print(Text(one_line(said[-1]) if said else f"the last loss is {job.diverged}", style="yellow"))
    return job


def _draw(client: Client, id: str, out: Console, paused: bool) -> JobView:
    with bar(out) as progress:
        line = progress.add_task(id, total=None, job=None)
        last: list[tuple[JobPhase, str]] = []
        refused = Refused()

        def draw(job: JobView) -> None:
            progress.update(line, completed=job.step, total=job.steps, job=job)
            for told in refused.news(job):
                progress.console.print(told)
            if last[-1:] != [(job.phase, job.reason)]:
                last.append((job.phase, job.reason))
                progress.console.print(_line(job, Text(show.reason_text(job), "dim")))

        return client.wait(id, on_change=draw, interval=0.25, paused=paused)


def bar(out: Console) -> Progress:
    """One line that a terminal of 80 columns shows whole; whoever watches knows which job it is."""
    columns = (
        _Phase(Column(no_wrap=True, min_width=_WIDEST)),
        BarColumn(bar_width=None),
        _Facts(Column(no_wrap=True, overflow="ellipsis")),
        TimeElapsedColumn(Column(no_wrap=True, min_width=len("0:00:00"))),
    )
    return Progress(*columns, console=out, expand=True)


def exit_code(job: JobView, *wanted: JobPhase) -> int:
    """Whether the job ended as it was asked to."""
    return OK if job.phase in wanted else FAILED


@dataclass(slots=True)
class Refused:
    """A worker that may not take part is worth a line, once: the job trains on without it, and slower."""

    known: frozenset[str] = frozenset()

    def news(self, job: JobView) -> list[Text]:
        new = {name: why for name, why in job.refused.items() if name not in self.known}
        self.known |= new.keys()
        return [_line(job, Text(one_line(f"without {name}: {why}"), "yellow")) for name, why in new.items()]


@dataclass(slots=True)
class Lines:
    """A line with the facts at every tenth of the way, and one with the reason whenever it or the phase changes."""

    out: Console
    tenth: int = 0
    why: tuple[JobPhase, str] | None = None
    refused: Refused = field(default_factory=Refused)

    def show(self, job: JobView) -> None:
        for told in self.refused.news(job):
            self.out.print(told)
        tenth, why = int((job.progress or 0) * 10), (job.phase, job.reason)
        if tenth != self.tenth:
            self.tenth = tenth
            self.out.print(_line(job, Text(_facts(job))))
        if why != self.why:
            self.why = why
            self.out.print(_line(job, Text(show.reason_text(job), "dim")))


def _line(job: JobView, told: Text) -> Text:
    phase = show.phase_text(job.phase)
    phase.pad_right(_WIDEST - len(phase))
    return Text.assemble((show.clock(time.time()), "dim"), "  ", phase, "  ", told)


def _facts(job: JobView) -> str:
    facts = [f"step {show.steps(job)}"]
    if not job.ended:
        facts.append(f"{show.workers_text(job)} workers")
    if job.rate is not None:
        facts.append(f"{show.rate_text(job.rate)} steps/s")
    return ", ".join([*facts, *show.loss_text(job)])


class _Phase(ProgressColumn):
    max_refresh = None

    def render(self, task: Task) -> Text:
        job: JobView | None = task.fields["job"]
        return show.phase_text(job.phase) if job else Text("")


class _Facts(ProgressColumn):
    max_refresh = None

    def render(self, task: Task) -> Text:
        job: JobView | None = task.fields["job"]
        return Text(_facts(job).removeprefix("step ") if job else "")
