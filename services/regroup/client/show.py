"""How jobs, workers and events look in a terminal. Pure: a view in, something that rich can print out.

Owns: columns, units, colours, wording for people.
Refuses to know: where views come from; `now` is passed in, in seconds since the epoch.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from regroup.client.printable import one_line
from regroup.client.tracebacks import helps
from regroup.core.jobs import Checkpoint, JobPhase, Struck
from regroup.wire.rest import GONE, ClusterView, EventView, JobView, TelemetryView, WorkerView

WIDE = 110  # characters, in which all columns of the jobs have room

_STYLES = {
    JobPhase.RUNNING: "green",
    JobPhase.COMPLETED: "bold green",
    JobPhase.REGROUPING: "yellow",
    JobPhase.WAITING: "yellow",
    JobPhase.PAUSED: "cyan",
    JobPhase.FAILED: "bold red",
    JobPhase.STOPPED: "magenta",
}


def jobs_table(jobs: Sequence[JobView], now: float) -> RenderableType:
    """One line a job; its sheet tells what is cut off."""
    return _Jobs(jobs, now) if jobs else "no jobs; submit one with `regroup submit`"


@dataclass(frozen=True, slots=True)
class _Jobs:
    """A table as wide as there is room: of a narrow one, ids and steps are whole, and the reason is there."""

    jobs: Sequence[JobView]
    now: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns: dict[str, Callable[[JobView], str | Text]] = {
            "job": lambda job: job.id,
            "name": lambda job: _ending(_cut(job.name or "-")),
            "task": lambda job: _cut(job.task),
            "phase": lambda job: phase_text(job.phase),
            "step": steps,
            "workers": workers_text,
            "steps/s": lambda job: rate_text(job.rate),
            "age": lambda job: duration(self.now - job.submitted),
            "reason": lambda job: _ending(one_line(job.reason)),
        }
        if options.max_width < WIDE:
            telling = "task" if any(job.name for job in self.jobs) else "name"
            columns = {name: told for name, told in columns.items() if name not in (telling, "steps/s", "age")}
        table = plain_table()
        for name in columns:
            table.add_column(name, no_wrap=name not in ("name", "reason"), overflow="fold")
        for job in self.jobs:
            table.add_row(*(told(job) for told in columns.values()))
        yield table


def _ending(text: str) -> Text:
    """On one line, and what has no room is seen to be missing."""
    return Text(text, no_wrap=True, overflow="ellipsis")


def job_sheet(job: JobView, now: float) -> RenderableType:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    pace = [steps(job)]
    if job.progress is not None:
        pace.append(f"{job.progress:.0%}")
    if job.rate is not None:
        pace.append(f"{rate_text(job.rate)} steps/s")
    pace.extend(loss_text(job))
    generation = job.history[-1].generation if job.history else "-"
    rows: list[tuple[str, str | Text]] = [
        ("task", job.task),
        ("phase", phase_text(job.phase)),
        ("reason", job.reason),
        ("progress", ", ".join(pace)),
        ("samples", f"{job.samples:,}".replace(",", " ")),
        ("generation", f"{generation}, restarts {job.restarts} of {job.spec.max_restarts}"),
        ("batch", f"{job.spec.global_batch} samples in {job.shards} shards"),
        ("submitted", f"{clock(job.submitted)}, {duration(now - job.submitted)} ago"),
    ]
    if job.beginning is not None:
        rows.append(("begins", f"at step {job.beginning.step}, from job {job.beginning.job}: {job.beginning.path}"))
    if (kept := job.checkpoint) is not None:
        told = f"{size(kept.bytes)}, step {kept.version.step}, sha256 {kept.checksum[:16]}..."
        rows.append(("checkpoint", told))
    if job.error:
        rows.append(("logs", f"logs/{job.id} in the data directory of its workers"))
    rows.extend((f"refused {name}", why) for name, why in job.refused.items())
    for name, value in rows:
        facts.add_row(name, value)
    parts: list[RenderableType] = [
        Text(f"{job.id}  {job.name}".rstrip(), style="bold"),
        Padding(facts, (0, 0, 0, 2), expand=False),
    ]
    if kept is not None:  # on one line, however long it is: it is there to be copied
        label = f"{'file':<{max(len(name) for name, _ in rows)}}"
        line = Text.assemble("  ", (label, "dim"), "  ", one_line(kept.path), no_wrap=True, overflow="ignore")
        parts.append(line)
    if job.members:
        parts.append(Padding(_members(job), (1, 0, 0, 2), expand=False))
    if job.result:
        parts.append(Text("\nresult", style="bold"))
        parts.extend(Text(f"  {name}: {value}") for name, value in job.result.items())
    if error := error_text(job):
        parts.append(Text(f"\n{error}", style="red"))
    return Group(*parts)


def _members(job: JobView) -> Table:
    doing = {lent.worker: lent.doing for lent in job.workers}
    table = _table("rank", "worker", "doing", "step", "shards", "ms/sample")
    for member in job.members:
        step = "-" if member.step is None else str(member.step)
        shards = ranges(member.shards) or "none (spare)"
        pace = "-" if member.pace is None else f"{member.pace * 1e3:.3g}"
        doing_now = doing.pop(member.worker, "gone")
        doing_now = f"hangs in {member.hang}" if member.hang is not None else doing_now
        pace += ", straggler" if member.straggler else ""
        table.add_row(str(member.rank), member.worker, doing_now, step, shards, pace)
    for worker, what in doing.items():
        table.add_row("-", worker, what, "-", "-", "-")
    return table


def checkpoints_table(kept: Sequence[Checkpoint], struck: Sequence[Struck] = ()) -> RenderableType:
    """The files one to a line, however long they are: they are there to be copied."""
    if not kept and not struck:
        return "no checkpoints"
    table = _table("step", "generation", "size", "score", "written by", "sha256", "")
    bad = [each.checkpoint for each in struck]
    for one in (*kept, *bad):
        version = one.version
        table.add_row(
            str(version.step),
            str(version.generation),
            size(one.bytes),
            "-" if one.score is None else f"{one.score:.6g}",
            one.worker or "-",
            f"{one.checksum[:16]}...",
            "damaged" if one in bad else "",
        )
    files = [Text(one_line(one.path), no_wrap=True, overflow="ignore") for one in kept]
    told = [Text(one_line(f"damaged: {each.damage}"), style="red", no_wrap=True, overflow="ignore") for each in struck]
    return Group(table, Text(), *files, *told)


def workers_table(workers: Sequence[WorkerView]) -> RenderableType:
    if not workers:
        return "no workers"
    table = _table("worker", "device", "health", "job", "doing", "errors", "memory", "heard")
    for worker in workers:
        table.add_row(
            worker.name,
            worker.device,
            health_text(worker),
            worker.job or "-",
            worker.doing,
            str(worker.errors),
            memory(worker.telemetry),
            "-" if worker.heartbeat_age is None else f"{worker.heartbeat_age:.1f} s",
        )
    return table


def worker_sheet(worker: WorkerView) -> RenderableType:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    heard = "not since the coordinator began" if worker.heartbeat_age is None else f"{worker.heartbeat_age:.1f} s ago"
    for name, value in (
        ("device", f"{worker.device} on {worker.host}, agent's pid {worker.pid}, version {worker.version}"),
        ("health", health_text(worker)),
        ("heard", heard),
        ("job", f"{worker.job or 'none'}, {worker.doing}"),
        ("trainer", "none" if worker.trainer is None else f"pid {worker.trainer}"),
        ("errors", str(worker.errors)),
        ("reason", worker.reason),
        ("memory", memory(worker.telemetry)),
        ("utilization", utilization(worker.telemetry)),
    ):
        facts.add_row(name, value)
    return Group(Text(worker.name, style="bold"), Padding(facts, (0, 0, 0, 2), expand=False))


def cluster_sheet(cluster: ClusterView, url: str) -> RenderableType:
    """`url` is where the answer came from: the one that leads."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    left = f", {cluster.gone} left in good order" if cluster.gone else ""
    fit = f"{cluster.healthy} healthy, {cluster.idle} of them idle, {cluster.failed} failed{left}"
    phases = ", ".join(f"{count} {phase}" for phase, count in cluster.jobs.items() if count)
    rows = [
        ("leader", cluster.leader or "the store does not say"),
        ("leads", f"at {url} for {duration(cluster.uptime)}"),
        *(("standby", f"{standby.holder}, at {standby.url}") for standby in cluster.standbys),
        *([("standby", "none")] if not cluster.standbys and cluster.trouble is None else []),
        *([("trouble", cluster.trouble)] if cluster.trouble is not None else []),
        ("version", cluster.version),
        ("workers", f"{cluster.workers}: {fit}"),
        ("jobs", phases or "none"),
    ]
    for name, value in rows:
        facts.add_row(name, one_line(value))
    return facts


def event_line(event: EventView) -> Text:
    """One line: when, which job and worker, what, and why."""
    return Text.assemble(
        (clock(event.at), "dim"),
        "  ",
        (f"{event.job or '':<12}", "cyan"),
        "  ",
        (f"{event.worker or '':<4}", "cyan"),
        "  ",
        (f"{event.kind:<12}", "bold"),
        "  ",
        one_line(event.reason),
    )


def stacks_text(event: EventView) -> Text | None:
    """Where the threads of a trainer that hung were, below its line; None: the event tells no stacks."""
    stacks = event.data.get("stacks")
    if not isinstance(stacks, str):
        return None
    return Text("\n".join(f"    {one_line(line)}" for line in stacks.splitlines()), style="dim")


def phase_text(phase: JobPhase) -> Text:
    return Text(phase.value, style=_STYLES.get(phase, ""))


def health_text(worker: WorkerView) -> Text:
    if worker.quarantined:
        return Text("quarantined", style="bold red")
    if worker.doing == GONE:
        return Text(GONE, style="dim")
    if worker.healthy and (worker.leaving or worker.drained):
        return Text("leaving" if worker.leaving else "draining" if worker.job else "drained", style="yellow")
    return Text("healthy", style="green") if worker.healthy else Text("unhealthy", style="red")


def error_text(job: JobView) -> str | None:
    """What a failed job's error says beyond its reason; None: nothing."""
    error = (job.error or "").strip()
    return error if error and error != job.reason.strip() and helps(error) else None


def reason_text(job: JobView) -> str:
    """Why it is in its phase, to be read behind the phase: "paused", "at step 39"."""
    return one_line(job.reason).removeprefix(f"{job.phase} ")


def loss_text(job: JobView) -> list[str]:
    """The last loss, also one that is no number; nothing where none was measured."""
    if job.loss is not None:
        return [f"loss {job.loss:.4g}"]
    return [f"loss {job.diverged}"] if job.diverged is not None else []


def steps(job: JobView) -> str:
    return f"{job.step}/{job.steps}" if job.steps else str(job.step)


def workers_text(job: JobView) -> str:
    """Members of all that it may have, such as 2/3."""
    return "-" if job.ended else f"{len(job.members)}/{job.spec.max_workers}"


def rate_text(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.3g}"


def size(count: int) -> str:
    """Of a file of so many bytes, in MB; in kB where that would say nothing."""
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"


def memory(telemetry: TelemetryView | None) -> str:
    if telemetry is None or telemetry.memory_used is None:
        return "-"
    total = "" if telemetry.memory_total is None else f" of {telemetry.memory_total / 2**30:.1f}"
    return f"{telemetry.memory_used / 2**30:.1f}{total} GiB"


def utilization(telemetry: TelemetryView | None) -> str:
    return "-" if telemetry is None or telemetry.utilization is None else f"{telemetry.utilization:.0%}"


def duration(seconds: float) -> str:
    """In the largest unit that leaves at least one: 42 s, 7 min, 3.5 h, 12 d."""
    seconds = max(0.0, seconds)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 129_600 else f"{seconds / 86_400:.0f} d"


def clock(at: float) -> str:
    """Local time of day to the millisecond."""
    return datetime.fromtimestamp(at).strftime("%H:%M:%S.%f")[:-3]


def ranges(numbers: Iterable[int]) -> str:
    """0-3, 8: runs of numbers, ascending."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _cut(name: str) -> str:
    return name if len(name) <= 24 else name[:23] + "…"


def plain_table(title: str | None = None) -> Table:
    """Without lines, and without columns so far."""
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", title=title, title_justify="left")


def _table(*columns: str) -> Table:
    table = plain_table()
    for column in columns:
        table.add_column(column, no_wrap=column != "reason", overflow="fold")
    return table
