"""Which states are part of the line that goes on."""

import pytest

from regroup.core.history import shared_steps, survives
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


@pytest.mark.parametrize(
    ("one", "other", "steps"),
    [
        (Version(5, 22), Version(5, 24), 22),
        (Version(5, 22), Version(3, 12), 12),  # 3 leads to 5
        (Version(3, 25), Version(5, 22), 20),  # and went on beyond what 5 began with
        (Version(2, 15), Version(5, 22), 8),  # 2 and 3 both went on from 1, the latter from an older state
        (Version(2, 15), Version(1, 9), 9),
        (Version(5, 22), Version(0, 0), 0),
        (Version(4, 1), Version(5, 22), 1),  # what the store lost goes on from all before
        (Version(4, 30), Version(3, 25), 25),
    ],
)
def test_two_lines_have_in_common_what_both_went_on_from(one, other, steps):
    assert shared_steps(LINE, one, other) == shared_steps(LINE, other, one) == steps
