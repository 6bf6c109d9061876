"""What is said of two agents that go by one name."""

from regroup.coordinator.namesakes import Namesakes


def test_an_agent_that_is_started_again_or_moves_is_nothing_odd():
    seen = Namesakes()
    for boot, host in (("1", "here"), ("1", "here"), ("2", "here"), ("3", "there"), ("4", "here"), ("4", "here")):
        assert seen.met("w0", boot, host) is None


def test_whoever_was_displaced_and_comes_back_is_told_once_with_both_hosts_and_what_to_do():
    seen = Namesakes()
    assert [seen.met("w0", *one) for one in (("1", "here"), ("2", "there"))] == [None, None]
    told = seen.met("w0", "1", "here")
    assert told is not None
    assert told.startswith("two agents call themselves w0 (on here and there), and each takes the other's place: set ")
    assert [seen.met("w0", *one) for one in (("2", "there"), ("1", "here"), ("2", "there"))] == [None, None, None]


def test_other_namesakes_are_told_of_too():
    seen = Namesakes()
    for boot in "12":
        seen.met("w0", boot, "here")
    told = seen.met("w0", "1", "here")
    assert told is not None
    assert "(on here)" in told
    assert seen.met("w0", "3", "here") is None
    assert seen.met("w0", "1", "here") is not None
    assert seen.met("w1", "1", "here") is None
