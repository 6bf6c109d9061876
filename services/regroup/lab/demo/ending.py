"""The last page: what was learned, what the kill cost, what the audit found, where the state is.

Owns: the words and the layout. Refuses to know: how the facts were found; all that it shows was checked before.
"""

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from regroup.client.show import size
from regroup.lab.demo.chart import Mark, chart
from regroup.lab.demo.facts import MEAN_OF, Facts

WIDEST = 100  # characters


def ending(out: Console, facts: Facts, keep: bool) -> RenderableType:
    """The page, as `out` can show it. The facts must be complete."""
    width = min(out.width, WIDEST)
    curve = _curve(facts, width - 2, out.encoding.startswith("utf"))
    sheet = Table.grid(padding=(0, 2))
    sheet.add_column(style="bold", no_wrap=True)
    sheet.add_column(overflow="fold", max_width=width - 16)
    for name, text in _rows(facts, keep):
        sheet.add_row(name, text)
    title, sample = "what the model writes now", Text((facts.sample or "").rstrip())
    written: RenderableType = Group(f"{title}:", Padding(sample, (0, 0, 0, 2), expand=False))
    if out.is_terminal:
        written = Panel(sample, title=title, title_align="left", width=width - 4, border_style="dim")
    return Group("", *(Padding(part, (0, 0, 1, 2), expand=False) for part in (curve, sheet, written)))


def _curve(facts: Facts, width: int, blocks: bool) -> Text:
    assert facts.killed is not None
    assert facts.joined is not None
    marks = [
        Mark(facts.killed.in_step, f"{facts.killed.worker} killed in step {facts.killed.in_step}", "red"),
        Mark(facts.joined.from_step, f"{facts.joined.worker} joined in step {facts.joined.from_step}", "green"),
    ]
    drawn = chart([loss for loss in facts.losses if loss is not None], marks, width=width, blocks=blocks)
    return Text.assemble((f"        loss in steps 0 to {len(facts.losses) - 1}\n", "dim"), drawn)


def _rows(facts: Facts, keep: bool) -> Iterator[tuple[str, str]]:
    killed, joined, checkpoint = facts.killed, facts.joined, facts.checkpoint
    assert killed is not None
    assert joined is not None
    assert checkpoint is not None
    assert facts.audit is not None
    yield "loss", f"{facts.loss_before:.2f} over the first {MEAN_OF} steps, {facts.loss_after:.2f} over the last"
    if facts.held_out:
        held_out = (f"{loss:.2f} at step {step}" for step, loss in sorted(facts.held_out.items()))
        yield "held out", ", ".join(held_out)
    fate = "its sum was complete and stands" if killed.stood else "the survivors did it again"
    yield "kill", f"{killed.worker} died in step {killed.in_step}: {fate}"
    if not killed.stood:
        yield "", "it was never applied, so nothing is void"
    yield "", f"noticed after {killed.halted:.0f} ms, regrouped after {killed.regrouped:.0f} ms"
    yield "", f"next step committed after {killed.committed:.0f} ms; a step alone takes {killed.step_time:.0f} ms"
    yield (
        "join",
        f"{joined.worker} was a member {joined.after:.1f} s after its start, and committed {joined.steps} steps",
    )
    yield "", f"the others were held up for {joined.pause * 1e3:.0f} ms"
    yield "audit", facts.audit.summary
    yield "", f"from the workers' own records; void steps: {facts.audit.void_steps}"
    file, digest = Path(checkpoint["path"]), checkpoint["sha256"][:16]
    yield "checkpoint", f"{size(checkpoint['bytes'])}, sha256 {digest}..."
    yield "", str(file) if keep else f"{file.name}, removed with the demo's directory (--keep keeps it)"
    yield "took", f"{facts.seconds:.0f} s"
