"""What is seen while it plays: lines that stay, and in a terminal a picture of the job below them.

Owns: the layout, the clock in the left margin (seconds since the beginning; within a regroup, since the kill).
Refuses to know: what happens next, and whether it was right. In a pipe there are lines only, one at each tenth.
"""

import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from regroup.client import show
from regroup.lab.demo.facts import Plan
from regroup.wire.rest import EventView, JobView

DULL = frozenset(
    {"registered", "submitted", "preparing", "waiting", "lent", "halt", "form"}
)  # unless a regroup is told
_STYLES = {
    "killed": "bold red",
    "halt": "yellow",
    "regrouped": "bold green",
    "committed": "bold green",
    "started": "green",
    "completed": "bold green",
    "failed": "bold red",
}


class Screen:
    def __init__(self, out: Console) -> None:
        self._out = out
        self._began = time.time()
        self._zero: float | None = None  # what the margin's clock counts from; None: the beginning
        self._fine = False  # milliseconds instead of seconds
        self._dead: set[str] = set()
        self._seen: tuple[object, ...] = ()
        self._blocks = out.encoding.startswith("utf")
        self._live = Live(console=out, transient=True, refresh_per_second=8) if out.is_terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def title(self, plan: Plan) -> None:
        self._out.print(
            Text.assemble(
                ("Regroup", "bold"),
                f": {plan.workers} workers train a small GPT on the source of Python's standard library.",
                "\nOne of them is killed in the middle of a step, the others go on; then a new one joins.\n",
            )
        )

    # ----- lines that stay

    def say(self, kind: str, text: str) -> None:
        """Of this moment; the clock counts from the beginning again."""
        self._zero = None
        self._line(time.time(), kind, text)

    def told(self, event: EventView) -> None:
        """An entry of the cluster's timeline; outside of a regroup only what people want to know."""
        if self._zero is not None or event.kind not in DULL:
            self._line(event.at, event.kind, event.reason.removeprefix(event.kind).strip())

    def moment(self, at: float, kind: str, text: str) -> None:
        self._line(at, kind, text)

    def killed(self, worker: str, at: float, text: str) -> None:
        """From here on the clock counts milliseconds since the kill."""
        self._dead.add(worker)
        self.gap()
        self._line(at, "killed", text)
        self._zero, self._fine = at, True

    def joins(self, worker: str, at: float) -> None:
        """From here on the clock counts seconds since this."""
        self.gap()
        self._line(at, "new worker", f"an agent named {worker} is started")
        self._zero, self._fine = at, False

    def gap(self) -> None:
        """An empty line; the clock counts from the beginning again."""
        self._zero = None
        self._out.print()

    def _line(self, at: float, kind: str, text: str) -> None:
        if self._zero is None:
            clock = f"{at - self._began:8.1f} s "
        elif self._fine:
            clock = f"{(at - self._zero) * 1e3:+8.0f} ms"
        else:
            clock = f"{at - self._zero:+8.1f} s "
        line = Table.grid(padding=(0, 2, 0, 0))
        for width in (len(clock), 10):
            line.add_column(no_wrap=True, min_width=width)
        line.add_column(overflow="fold")
        line.add_row(Text(clock, "dim"), Text(kind, _STYLES.get(kind, "bold")), Text(text))
        self._out.print(line)

    # ----- the picture

    def show(self, job: JobView) -> None:
        if self._live:
            self._live.update(self._picture(job))
            return
        tenth = int((job.progress or 0) * 10)
        if tenth and (job.id, tenth) != self._seen and not job.ended:
            self._seen = (job.id, tenth)
            self._line(time.time(), "training", _progress(job))

    def _picture(self, job: JobView) -> RenderableType:
        bar = Table.grid(padding=(0, 2), expand=True)
        bar.add_column(no_wrap=True)
        bar.add_column(ratio=1)
        bar.add_column(no_wrap=True)
        line = ProgressBar(total=job.steps or 1, completed=job.step)
        bar.add_row(show.phase_text(job.phase), line, Text(_progress(job)))
        return Padding(Group(bar, self._workers(job)), (1, 2, 0, 2))

    def _workers(self, job: JobView) -> Table:
        doing = {lent.worker: lent.doing for lent in job.workers} | dict.fromkeys(self._dead, "killed")
        members = {member.worker: member for member in job.members if member.worker not in self._dead}
        table = Table.grid(padding=(0, 2, 0, 0))
        for name in sorted(doing.keys() | members.keys()):
            member = members.get(name)
            shards = member.shards if member else ()
            style = "red" if name in self._dead else "green" if member else "yellow"
            table.add_row(
                Text(name, "bold"),
                Text(f"{doing.get(name, 'gone'):<10}", style),
                Text(f"rank {member.rank}" if member else ""),
                self._strip(job.shards, shards, style),
                Text(f"{len(shards)} of {job.shards} shards" if member else "", "dim"),
            )
        return table

    def _strip(self, count: int, owned: tuple[int, ...], style: str) -> Text:
        """The job's shards as a row of cells, with a worker's own filled."""
        full, empty = ("■", "·") if self._blocks else ("#", ".")
        strip = Text()
        for shard in range(count):
            strip.append(full if shard in owned else empty, style if shard in owned else "dim")
        return strip


def _progress(job: JobView) -> str:
    facts = [f"step {show.steps(job)}", f"{len(job.members)} worker{'' if len(job.members) == 1 else 's'}"]
    if job.rate is not None:
        facts.append(f"{job.rate:.1f} steps/s")
    if job.loss is not None:
        facts.append(f"loss {job.loss:.2f}")
    return ", ".join(facts)
