"""Text of jobs and workers on the operator's terminal."""

import pytest
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from regroup.client.printable import PlainConsole, one_line, printable

HOSTILE = "a\x1b[31m\tb\r\nc\x07\u202e\u2028d"


def test_control_characters_are_shown_as_marks_and_the_ends_of_lines_stay():
    assert printable(HOSTILE) == "a?[31m b?\nc???d"
    assert one_line(HOSTILE) == "a?[31m b? c???d"
    assert printable("äé 中 ▁▂ 😀") == "äé 中 ▁▂ 😀"


@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_that_is_printed_steers_the_terminal(terminal):
    console = PlainConsole(force_terminal=terminal, color_system="standard" if terminal else None, width=60)
    table = Table("name")
    table.add_row(HOSTILE)
    with console.capture() as captured:
        for what in (HOSTILE, Text(HOSTILE, "red"), table, Panel(Text(HOSTILE), title=Text(HOSTILE))):
            console.print(what)
    shown = captured.get()
    assert "\x1b[31m\tb" not in shown
    assert shown.count("?[31m") == 5
    assert ("\x1b[31ma" in shown) is terminal, "what is red of our own will is red on a terminal"
    assert not set("\x07\r\u202e\u2028") & set(shown)
