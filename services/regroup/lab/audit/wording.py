"""Counts and lists as people read them. Pure; owns no fact, only how facts are put."""

from collections.abc import Sequence

AT_MOST = 8  # sentences of one kind; a thousand more of them tell nobody anything


def grouped(number: int) -> str:
    """12800 as 12 800."""
    return f"{number:,}".replace(",", " ")


def plural(number: int, noun: str, many: str | None = None) -> str:
    return f"{grouped(number)} {noun if number == 1 else many or f'{noun}s'}"


def steps_text(steps: range) -> str:
    return f"step {steps.start}" if len(steps) == 1 else f"steps {steps.start} to {steps.stop - 1}"


def listed(sentences: Sequence[str]) -> list[str]:
    """The first few, and how many more there are."""
    more = len(sentences) - AT_MOST
    return [*sentences[:AT_MOST], *([f"and {grouped(more)} more like this"] if more > 0 else [])]
