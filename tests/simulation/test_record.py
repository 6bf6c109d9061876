"""A record that grows while lives are lived, maybe by several at once."""

from dataclasses import replace
from threading import Thread

import pytest

from regroup.lab.sim.lives import record
from regroup.lab.sim.lives.code import as_code
from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.ledger import Batch, Ledger, Span, code_under_test, simulator
from regroup.lab.sim.lives.ledger_file import alone, read, write
from regroup.lab.sim.lives.outcome import live
from regroup.lab.sim.lives.record import NoRecord, begin
from regroup.lab.sim.lives.tally import Tally


@pytest.fixture(scope="module")
def tally():
    lived = Tally()
    lived.add(live(draw(0)))
    return lived


def test_a_record_begins_with_no_life_and_goes_on_where_it_ended(tmp_path, tally):
    path = tmp_path / "lives.json"
    assert begin(path, anew=False).next == 0
    assert read(path) == Ledger(code_under_test())
    begin(path, anew=False).add(0, tally)
    assert begin(path, anew=False).next == 1


def test_lives_of_other_code_are_replaced_only_if_that_is_asked_for(tmp_path):
    path, other = tmp_path / "lives.json", Ledger("0123456789abcdef").add(Batch(Span(0, 1200, "sim")))
    write(path, other)
    told = f"records 1 200 lives on other code .0123456789abcdef; this is {code_under_test()}.*--anew replaces it"
    with pytest.raises(NoRecord, match=told):
        begin(path, anew=False)
    assert read(path) == other
    assert begin(path, anew=True).next == 0
    assert read(path) == Ledger(code_under_test())


def test_to_ask_for_it_anew_does_no_harm_to_lives_of_this_code(tmp_path, tally):
    begin(tmp_path / "lives.json", anew=True).add(0, tally)
    assert begin(tmp_path / "lives.json", anew=True).next == 1


def test_what_two_add_at_once_is_all_there(tmp_path, tally):
    one, other = (begin(tmp_path / "lives.json", anew=False) for _ in range(2))
    one.add(0, tally)
    other.add(1000, tally)
    one.add(0, tally)
    kept = read(tmp_path / "lives.json")
    assert kept is not None
    assert kept.ranges == ((0, 1), (1000, 1001))


def test_whoever_adds_waits_for_another_that_does(tmp_path, tally):
    path = tmp_path / "lives.json"
    kept = begin(path, anew=False)
    with alone(path):
        adding = Thread(target=kept.add, args=(0, tally))
        adding.start()
        adding.join(0.2)
        assert adding.is_alive()
        write(path, Ledger(code_under_test()).add(Batch(Span(1000, 1005, "sim"))))
    adding.join()
    now = read(path)
    assert now is not None
    assert now.ranges == ((0, 1), (1000, 1005))


def test_nothing_is_added_to_a_record_that_was_begun_anew_on_other_code(tmp_path, tally, monkeypatch):
    path = tmp_path / "lives.json"
    kept = begin(path, anew=False)
    monkeypatch.setattr(record, "code_under_test", lambda: "0123456789abcdef")
    begin(path, anew=True)
    with pytest.raises(NoRecord, match="was begun anew meanwhile"):
        kept.add(0, tally)
    assert read(path) == Ledger("0123456789abcdef")


def test_lives_count_for_the_code_that_they_began_with(tmp_path, tally, monkeypatch):
    """The source may change while they are lived: what is in memory does not."""
    kept = begin(tmp_path / "lives.json", anew=False)
    monkeypatch.setattr(record, "code_under_test", lambda: "0123456789abcdef")
    assert kept.add(0, tally).code == kept.code == code_under_test()


def test_each_range_is_of_the_simulator_that_lives_began_with(tmp_path, tally, monkeypatch):
    kept = begin(tmp_path / "lives.json", anew=False)
    monkeypatch.setattr(record, "simulator", lambda: "0123456789abcdef")
    begin(tmp_path / "lives.json", anew=False).add(7, tally, "1234567")
    now = kept.add(0, tally, "1234567+")
    assert now.lived == (Span(0, 1, simulator(), "1234567+"), Span(7, 8, "0123456789abcdef", "1234567"))


def test_what_can_be_and_was_not_met_is_kept_apart_from_what_cannot_be(tmp_path, tally):
    now = begin(tmp_path / "lives.json", anew=False).add(0, tally)
    assert {sort: unmet.there_are for sort, unmet in now.never.items()} == {
        sort: one.every for sort, one in tally.reach.items()
    }
    assert now.never["faults, by what was under way"].cannot["there is no coordinator that it could strike"]
    for unmet in now.never.values():
        assert not {name for names in unmet.cannot.values() for name in names} & {*unmet.names}


def test_the_plans_of_seeds_that_broke_a_rule_are_kept_as_code_with_their_commit(tmp_path):
    """What a seed draws may change before anybody looks."""
    broken = Tally()
    for seed in range(record.KEPT + 2):
        broken.add(replace(live(draw(0)), seed=seed, error="AssertionError: no"))
    now = begin(tmp_path / "lives.json", anew=False).add(0, broken, "1234567")
    assert now.broken == tuple(range(record.KEPT + 2))
    assert [*now.plans] == [*range(record.KEPT)]
    for seed, kept in now.plans.items():
        assert (kept.error, kept.commit, kept.plan) == ("AssertionError: no", "1234567", as_code(draw(seed)))
