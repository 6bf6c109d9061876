"""What lives came to: counted, explained, shown, and told as JSON."""

import json
from collections import Counter
from dataclasses import replace
from io import StringIO

import pytest

from regroup.client.printable import PlainConsole
from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.outcome import Outcome
from regroup.lab.sim.lives.plan import LASTING, Fault, Kind
from regroup.lab.sim.lives.showing import short, show, summarize
from regroup.lab.sim.lives.tally import Tally
from regroup.lab.sim.lives.underway import Activity

JOIN, REGROUP, SAVE = Activity.JOIN, Activity.REGROUP, Activity.SAVE
SORTS = ("in_phases", "by_activity", "at_once", "paired")


def outcome(**facts):
    return Outcome(seed=1, events=10, seconds=2.0, digest="", error=None, **facts)


def tallied(*outcomes):
    tally = Tally()
    for one in outcomes:
        tally.add(one)
    return tally


def shown(tally, width=100, how=show):
    out = StringIO()
    how(PlainConsole(file=out, width=width, color_system=None), tally)
    return out.getvalue()


def test_outcomes_add_up():
    met = Counter({(Kind.CUT, "running"): 2})
    tally = tallied(
        outcome(met=met, pairs=Counter({(Kind.CUT, Kind.SLOW): 1}), reasons=frozenset({"a b"})),
        outcome(met=met, reasons=frozenset({"c d"})),
    )
    assert (tally.lives, tally.events, tally.seconds) == (2, 20, 4.0)
    assert tally.met[Kind.CUT, "running"] == 4
    assert tally.pairs[Kind.CUT, Kind.SLOW] == 1
    assert tally.reasons == {"a b", "c d"}
    assert met[Kind.CUT, "running"] == 2  # what was added is left alone


def test_a_fault_that_strikes_amid_three_things_counts_for_each_two_of_them():
    tally = tallied(outcome(during=Counter({(Kind.CUT, frozenset({JOIN, REGROUP, SAVE})): 812})))
    assert tally.together[REGROUP, JOIN, SAVE] == tally.together[REGROUP, JOIN] == tally.together[JOIN, SAVE] == 812
    assert tally.by_activity.met[Kind.CUT, SAVE] == 812
    assert tally.facts()["activities"]["regroup during join during checkpoint"] == 812


def test_mere_training_is_nothing_that_a_fault_strikes_amid():
    assert tallied(outcome(during=Counter({(Kind.CUT, frozenset({Activity.TRAINING, JOIN})): 1}))).together == {}


def test_what_never_met_is_told_with_the_reason_why_it_cannot():
    never = Tally().by_activity.never
    assert len(never) == len(Kind) * len(Activity)
    assert never["coordinator crashes during no leader"]
    assert never["connection is cut during no leader"] is None
    assert Tally().in_phases.never["trainer hangs, queued"]
    assert Tally().in_phases.never["trainer hangs, running"] is None
    assert Tally().at_once.never["start during regroup"]
    assert Tally().at_once.never["regroup during join"] is None
    assert Tally().paired.never["connection is cut during user code raises"]
    assert Tally().paired.never["connection is cut during network partition"] is None


def test_what_met_is_no_longer_among_what_never_did():
    tally = tallied(outcome(pairs=Counter({(Kind.CUT, Kind.SLOW): 1}), met=Counter({(Kind.CUT, "running"): 1})))
    assert "connection is cut during messages are slow" not in tally.paired.never
    assert "connection is cut, running" not in tally.in_phases.never


@pytest.mark.parametrize("sort", SORTS)
def test_each_explanation_is_of_something_that_could_be_counted(sort):
    meetings = getattr(Tally(), sort)
    assert meetings.whys
    assert [which for which in meetings.whys if which not in meetings.every] == []


def test_of_two_faults_that_overlap_one_lasts(lived):
    explained = {which for which in Tally().paired.every if Tally().paired.impossible(which)}
    assert all(which in explained for which in Tally().paired.every if not LASTING.intersection(which))
    overlapped = {pair for seed in range(100) for pair in lived(seed).pairs}
    assert len(overlapped) > 100
    assert [pair for pair in overlapped if not LASTING.intersection(pair)] == []


def test_no_life_contradicts_what_is_said_to_be_impossible(lived):
    tally = Tally()
    contradicted = []
    for seed in range(100):
        tally.add(lived(seed))
        one = tallied(lived(seed))
        for sort in SORTS:
            contradicted += [(seed, which) for which in getattr(one, sort).contradictions(draw(seed))]
    assert contradicted == []
    assert tally.contradictions == {}


def test_a_life_that_meets_the_impossible_is_told_as_a_contradiction():
    restart = Counter({(Kind.CRASH, frozenset({Activity.RESTART})): 1})
    tally = tallied(outcome(during=restart, reasons=frozenset({"a knows generation 5, above the coordinator's"})))
    found = tally.contradictions
    assert found.pop("coordinator crashes during no leader")
    assert [name.partition("  ")[2] for name in found] == ["{} knows generation {}, above the coordinator's"]
    assert tally.facts()["contradictions"] == tally.contradictions
    assert shown(tally).count("CONTRADICTION") == 2
    assert "CONTRADICTION" not in shown(Tally())


def test_what_takes_several_jobs_is_contradicted_by_a_life_with_one():
    tally = tallied(outcome(during=Counter({(Kind.CUT, frozenset({Activity.START, SAVE})): 1})))
    one = replace(draw(0), jobs=draw(0).jobs[:1])
    assert tally.contradictions == {}
    assert list(tally.at_once.contradictions(one)) == ["start during checkpoint"]
    assert tally.at_once.contradictions(replace(one, jobs=one.jobs * 2)) == {}


def test_what_takes_a_rest_is_contradicted_by_a_life_without():
    tally = tallied(outcome(met=Counter({(Kind.CUT, "paused"): 1})))
    plan = replace(draw(0), jobs=draw(0).jobs[:1], faults=())
    assert list(tally.in_phases.contradictions(plan)) == ["connection is cut, paused"]
    assert tally.in_phases.contradictions(replace(plan, faults=(Fault(Kind.PAUSE, (0,), 1.0),))) == {}


def test_the_facts_are_json(lived):
    facts = json.loads(json.dumps(tallied(*(lived(seed) for seed in range(3))).facts()))
    assert facts["lives"] == 3
    assert facts["reasons"] > 50
    assert None in facts["pairs_never"].values()


def test_a_summary_counts_what_there_is_what_was_met_what_cannot_be_and_what_was_not_met_yet():
    met = Counter({(Kind.CUT, "running"): 2, (Kind.CUT, "queued"): 1})
    lines = shown(tallied(outcome(met=met)), 80, summarize).splitlines()
    every, explained = len(Tally().in_phases.every), sum(why is not None for why in Tally().in_phases.never.values())
    assert " ".join(lines[0].split()) == "there are met cannot be not met yet"
    assert lines[1].split() == f"kinds of fault {len(Kind)} 1 0 {len(Kind) - 1}".split()
    assert lines[2].split() == f"faults, by the phase of a job {every} 2 {explained} {every - 2 - explained}".split()
    assert len(lines) == 8
    assert all(len(line) <= 80 for line in lines)


def test_a_summary_tells_contradictions():
    tally = tallied(outcome(reasons=frozenset({"a knows generation 5, above the coordinator's"})))
    assert shown(tally, how=summarize).count("CONTRADICTION") == 1


@pytest.mark.parametrize("width", [80, 100, 10_000])
def test_no_line_is_wider_than_a_terminal(lived, width):
    many = Counter({(kind, "regrouping"): 99_000 for kind in Kind})
    for line in shown(tallied(*(lived(seed) for seed in range(30)), outcome(met=many)), width).splitlines():
        assert len(line) <= min(width, 100)
        assert line == line.rstrip()


def test_a_table_says_never_and_cannot_be_and_shortens_what_is_large():
    busy = Counter({(Kind.CRASH, frozenset({Activity.TRAINING})): 12_345})
    lines = shown(tallied(outcome(during=busy))).splitlines()
    (row,) = [line.split()[2:] for line in lines if line.startswith("coordinator crashes  ") and "12k" in line]
    assert row == ["12k", *["·"] * (len(Activity) - 2), "-"]


def test_each_heading_ends_where_its_column_does():
    met = Counter({(Kind.CRASH, "queued"): 1, (Kind.CRASH, "regrouping"): 2, (Kind.CRASH, "failed"): 3})
    lines = shown(tallied(outcome(met=met))).splitlines()
    row = next(line for line in lines if line.startswith("coordinator crashes "))
    for number, heading in (("1", "queued"), ("2", "regrouping"), ("3", "failed")):
        (above,) = [line for line in lines[:4] if heading in line]
        assert above.index(heading) + len(heading) == row.index(number) + 1


@pytest.mark.parametrize(
    ("number", "told"),
    [(0, "0"), (999, "999"), (1000, "1k"), (12_345, "12k"), (999_499, "999k"), (999_500, "1M"), (2_500_000, "2M")],
)
def test_large_numbers_are_shortened(number, told):
    assert short(number) == told
