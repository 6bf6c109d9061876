"""What is said of two wall clocks."""

import pytest

from regroup.coordinator.skew import TOLD, skew


@pytest.mark.parametrize("theirs", [None, 1000.0, 1000.0 + TOLD - 1, 1000.0 - TOLD + 1])
def test_clocks_that_agree_and_agents_that_tell_none_are_not_worth_a_word(theirs: float | None) -> None:
    assert skew("w1", "box", theirs, 1000.0) is None


@pytest.mark.parametrize(("theirs", "said"), [(4600.0, "3600 s ahead of"), (-2600.0, "3600 s behind")])
def test_an_hour_is_told_with_whose_it_is_and_what_to_do(theirs: float, said: str) -> None:
    told = skew("w1", "box", theirs, 1000.0)
    assert told is not None
    assert told.startswith(f"the clock of w1 on box is {said} this coordinator's: ")
    assert told.endswith("set both by NTP")
