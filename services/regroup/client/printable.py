"""Text that somebody else wrote, as a terminal may show it: results, errors, names and reasons come from jobs and
workers, and none of it shall steer the terminal or pass for a line of ours.

Owns: which characters are shown, and a console that shows no others, whatever is printed on it.
Refuses to know: what the text says.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NoReturn

from rich.console import Console
from rich.segment import Segment

UNREAD = 141  # the exit code of what SIGPIPE ends


def printable(text: str) -> str:
    """Without control and formatting characters; the ends of lines stay."""
    kept = (char if char.isprintable() or char == "\n" else " " if char == "\t" else "?" for char in text)
    return "".join(kept)


def one_line(text: str) -> str:
    """The same, where a second line would look like another entry."""
    return printable(text.replace("\n", " "))


class PlainConsole(Console):
    """A console on which every text is printable. What rich itself does to the terminal is not text."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, emoji=False, markup=False, **options)

    def on_broken_pipe(self) -> NoReturn:
        """Whoever closes what is printed ends the command as the signal would: nothing else went wrong."""
        with suppress(SystemExit):
            super().on_broken_pipe()
        raise SystemExit(UNREAD)

    def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
        for segment in super().render(*arguments, **options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))
