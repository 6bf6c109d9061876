"""What no process remembers, in the search: each future has its own."""

from copy import deepcopy
from dataclasses import fields

from regroup.core.jobs import Member, Version
from regroup.lab.sim.model.ghosts import Ghosts

STATE, MEMBER = Version(1, 2), Member("a", "i1")
FULL = Ghosts(
    states={("j", STATE): (1, 1)},
    formations={("j", 1): None},  # type: ignore[dict-item]  # copied as it is
    rolled_back={("j", 1)},
    commits={"j": {1: {0, 1}}},
    told={("j", 1): 2},
    restarted={("j", 1): 0},
    late={("j", 1): {1}},
    written={("j", STATE)},
    writers={(MEMBER, STATE)},
    savers={"j": {MEMBER: STATE}},
    closed={("j", STATE): 2},
    deleted={"j-g1-s1"},
    damaged={"j-g1-s2"},
    places={"j-g1-s2": {""}},
    words={"j-g1-s2": {("a", 1)}},
    asked={"j-g1-s2": {"a"}},
    blamed={"a": 1.0},
    out_since={"j": 1.0},
    rested={"j": 2.0},
    unpreparable={"j"},
    cut_short={"j"},
    unheard={MEMBER},
    hung={(0.0, MEMBER): 1.0},
    owes={MEMBER: 1.0},
    fetches={("j", "a", 1): {("i1", 3)}},
)


def test_a_copy_holds_all_that_the_first_one_does():
    assert [each.name for each in fields(Ghosts) if not getattr(FULL, each.name)] == []
    assert FULL.copy() == FULL


def test_what_is_added_to_a_copy_is_in_no_other_future():
    first = deepcopy(FULL)
    twin = first.copy()
    for each in fields(Ghosts):
        empty(getattr(twin, each.name))
    assert first == FULL
    assert twin == Ghosts()


def empty(kept):
    """Down to what is held in it."""
    for held in kept.values() if isinstance(kept, dict) else ():
        if isinstance(held, dict | set):
            empty(held)
    kept.clear()
