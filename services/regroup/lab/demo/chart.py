"""A curve as a few lines of block characters, with moments marked on it. Pure: numbers in, text out."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from statistics import fmean

from rich.text import Text

EIGHTHS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment on the curve."""

    step: int
    label: str
    style: str


def chart(values: Sequence[float], marks: Sequence[Mark], *, width: int, height: int = 8, blocks: bool = True) -> Text:
    """`values` by step from 0, positive; `width` is in characters, with the axis's labels. The axis is logarithmic."""
    columns = min(width - 8, len(values))
    cuts = [column * len(values) // columns for column in range(columns + 1)]
    means = [fmean(values[start:stop]) for start, stop in pairwise(cuts)]
    low, high = min(means), max(means)
    scale = (height * 8 - 1) / log(high / low) if high > low else 0.0
    levels = [1 + round(log(mean / low) * scale) for mean in means]
    places = {mark.step * columns // len(values): mark for mark in marks}
    drawn = Text()
    for row in reversed(range(height)):
        label = high if row == height - 1 else low if row == 0 else None
        drawn.append(f"{label:6.2f} " if label is not None else " " * 7, "dim").append("│" if blocks else "|", "dim")
        for column, level in enumerate(levels):
            part = min(max(level - 8 * row, 0), 8)
            style = places[column].style if column in places else "cyan"
            drawn.append(EIGHTHS[part] if blocks else "#" if part >= 4 or (row == 0 and part) else " ", style)
        drawn.append("\n")
    axis = f"{'└' if blocks else '+'}{('─' if blocks else '-') * columns}"
    drawn.append(" " * 7 + axis + "\n", "dim")
    arrow = "▲" if blocks else "^"
    for place, mark in sorted(places.items()):
        text, start = f"{arrow} {mark.label}", place
        if start + len(text) > columns:  # there is room on the other side
            text, start = f"{mark.label} {arrow}", max(0, place - len(mark.label) - 1)
        drawn.append(" " * (8 + start)).append(text, mark.style).append("\n")
    drawn.rstrip()
    return drawn
