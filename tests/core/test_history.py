"""Which states are part of the line that goes on."""

import pytest

from regroup.core.history import survives
from regroup.core.jobs import Link, Version

# Generation 3 went back past 2, which nobody survived; 5 went on from 3.
LINE = (Link(1, 0, 0), Link(2, 1, 10), Link(3, 1, 8), Link(5, 3, 20))


@pytest.mark.parametrize(
    ("state", "committed", "found"),
    [
        (Version(5, 22), 23, True),
        (Version(5, 23), 23, True),
        (Version(5, 24), 23, False),  # some members are behind it yet
        (Version(3, 20), 20, True),
        (Version(3, 21), 99, False),  # beyond the base of what followed
        (Version(2, 11), 99, False),  # of a line that was lost
        (Version(1, 8), 99, True),
        (Version(1, 9), 99, False),
        (Version(4, 1), 99, False),  # a generation that never was
    ],
)
def test_a_state_survives_up_to_the_base_of_the_next_generation_in_the_line(state, committed, found):
    assert survives(LINE, state, committed) is found


def test_before_the_first_generation_nothing_survives():
    assert not survives((), Version(1, 0), 0)


def test_of_what_the_store_lost_nothing_survives():
    """As after a backup was restored: the coordinator goes on above, and the chain lacks what lay between."""
    history = (Link(1, 0, 0), Link(4, 3, 8))
    assert not survives(history, Version(2, 5), committed=9)
    assert survives(history, Version(4, 9), committed=9)
