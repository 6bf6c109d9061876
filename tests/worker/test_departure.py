"""What ends the wait of an agent that was asked to end."""

import pytest

from regroup.worker.departure import UNHEARD, Departure

ASKED = Departure(since=100.0, limit=25.0)


def test_without_a_trainer_there_is_nothing_to_wait_for():
    assert ASKED.over(100.0, 100.0, has_trainer=False) == "it has no trainer"


@pytest.mark.parametrize("seconds", [0.0, 10.0, 24.9])
def test_it_waits_for_its_shards_to_be_taken_over_while_a_coordinator_answers(seconds):
    assert ASKED.over(100.0 + seconds, 100.0 + seconds, has_trainer=True) is None


def test_it_ends_when_they_were_not_taken_over_in_time():
    assert ASKED.over(125.0, 125.0, has_trainer=True) == "its shards were not taken over in 25 s"


def test_it_ends_sooner_when_nobody_answers():
    """Also where the last answer is from long before it was asked: then that counts from when it was."""
    assert ASKED.over(100.0 + UNHEARD - 0.1, 3.0, has_trainer=True) is None
    assert "no coordinator answered in 5 s" in (ASKED.over(100.0 + UNHEARD, 3.0, has_trainer=True) or "")
    assert ASKED.over(100.0 + UNHEARD, 101.0, has_trainer=True) is None
