"""What lives came to: counted, explained, shown, and told as JSON."""

import json
import re
from collections import Counter
from dataclasses import replace
from io import StringIO

import pytest

from regroup.client.printable import PlainConsole
from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.impossible import LEAVES
from regroup.lab.sim.lives.outcome import Outcome, live
from regroup.lab.sim.lives.plan import LASTING, Fault, Kind
from regroup.lab.sim.lives.showing import short, show, summarize
from regroup.lab.sim.lives.tally import Tally
from regroup.lab.sim.lives.underway import GOES_ON, LEFT, Activity
from regroup.lab.sim.model.limits import SPEC

JOIN, REGROUP, SAVE = Activity.JOIN, Activity.REGROUP, Activity.SAVE
SORTS = ("in_phases", "by_activity", "at_once", "paired")
DONE_AT_ONCE = sorted(set(Kind) - LASTING)


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
    assert len(never) == len(Kind) * len(GOES_ON)
    assert never["coordinator crashes during no leader"]
    assert never["connection is cut during no leader"] is None
    assert Tally().in_phases.never["trainer hangs, queued"]
    assert Tally().in_phases.never["trainer hangs, running"] is None
    assert Tally().at_once.never["start during regroup"]
    assert Tally().at_once.never["regroup during join"] is None
    assert Tally().paired.never["coordinator crashes between save and send during store does not answer"]
    assert Tally().paired.never["connection is cut during network partition"] is None
    assert len(Tally().by_left.never) == len(Kind) * len(LEFT)


def test_what_takes_another_plan_can_be_and_was_only_not_met_yet():
    """Of many lives some have it: that none of them met it says what is not tried."""
    reach = Tally().reach
    assert Tally().in_phases.never["loss is no number, paused"]
    assert "loss is no number, paused" in reach["faults, by the phase of a job"].unmet
    assert reach["two things under way at once"].cannot == {}
    for one in reach.values():
        assert sorted([*one.unmet, *(name for names in one.cannot.values() for name in names)]) == sorted(one.never)
    restarting = reach["faults, by what was under way"].cannot["there is no coordinator that it could strike"]
    assert "coordinator crashes during no leader" in restarting


def test_what_met_is_no_longer_among_what_never_did():
    tally = tallied(outcome(pairs=Counter({(Kind.CUT, Kind.SLOW): 1}), met=Counter({(Kind.CUT, "running"): 1})))
    assert "connection is cut during messages are slow" not in tally.paired.never
    assert "connection is cut, running" not in tally.in_phases.never


def test_what_a_fault_leaves_is_counted_apart_from_what_goes_on():
    amid = frozenset({REGROUP, Activity.DOWN, Activity.STUCK})
    tally = tallied(outcome(during=Counter({(Kind.CUT, amid): 3})), outcome(during=Counter({(Kind.CUT, amid): 4})))
    assert tally.by_activity.met == {(Kind.CUT, REGROUP): 7}
    assert tally.by_left.met == {(Kind.CUT, Activity.DOWN): 7, (Kind.CUT, Activity.STUCK): 7}
    assert tally.together == {}
    assert "connection is cut during agent down" not in tally.facts()["faults_left_never"]
    assert tally.facts()["faults_left"]["connection is cut during one hangs"] == 7


@pytest.mark.parametrize("sort", SORTS)
def test_each_explanation_is_of_something_that_could_be_counted(sort):
    meetings = getattr(Tally(), sort)
    assert meetings.whys
    assert [which for which in meetings.whys if which not in meetings.every] == []


def test_of_two_faults_that_are_counted_as_a_pair_one_is_switched_on(lived):
    assert {pair for pair in Tally().paired.every if not LASTING.intersection(pair)} == set()
    assert len(Tally().paired.every) == (len(Kind) * (len(Kind) - 1) - len(DONE_AT_ONCE) * (len(DONE_AT_ONCE) - 1)) / 2
    overlapped = {pair for seed in range(100) for pair in lived(seed).pairs}
    assert len(overlapped) > 100
    assert [pair for pair in overlapped if not LASTING.intersection(pair)] == []


def under_way(*faults):
    """What others were told to have struck amid, in two seconds and a half of a job that trains."""
    others = tuple(Fault(Kind.MISTAKE, (0,), at=1.95 + 0.02 * number) for number in range(125))
    spec = replace(SPEC, steps=60, checkpoint_every=1, max_workers=3)
    plan = replace(draw(0), workers=3, jobs=(spec,), pace=0.1, faults=(*faults, *others), chunk=0.0, learned=False)
    clocks = replace(plan, skews=(0.0,) * 4, drifts=(0.0,) * 4)
    return {one for (kind, amid) in live(clocks).during if kind is Kind.MISTAKE for one in amid}


@pytest.fixture(scope="module")
def undisturbed():
    return under_way()


@pytest.mark.parametrize("kind", DONE_AT_ONCE)
def test_what_a_fault_that_is_done_at_once_leaves_is_counted_as_under_way(kind, undisturbed):
    """Else nobody would know whether others strike while its effect lasts: it is no pair with another of its sort."""
    border = {Kind.WEDGE: "stepping", Kind.RAISE: "stepping", Kind.BREAK: "contributed"}.get(kind)
    faults = [Fault(kind, (1,), at=3.0 if kind is Kind.DAMAGE else 2.0, border=border)]  # of a file that is there
    if kind in (Kind.CRASH_UNSAVED, Kind.CRASH_UNSENT):
        faults.append(Fault(Kind.KILL_TRAINER, (2,), at=2.1))  # something is to be saved
    new = under_way(*faults) - undisturbed
    if kind in (Kind.CRASH_UNSAVED, Kind.CRASH_UNSENT):
        new &= {Activity.RESTART}
    assert new >= {*LEAVES[kind][:1]}
    assert new.intersection(LEFT) <= {*LEAVES[kind], Activity.UNLINKED}  # whoever starts again has yet to connect


def test_what_each_fault_leaves_that_is_done_at_once_is_said():
    assert sorted(LEAVES) == DONE_AT_ONCE
    assert {one for left in LEAVES.values() for one in left} >= {*LEFT}
    told = " ".join(shown(Tally()).split())
    for kind in DONE_AT_ONCE:
        left = ", ".join(LEAVES[kind]) or "nothing lasts"
        assert re.search(rf"\b{kind}(; [^:]*)?: {left}\b", told)


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
    phases, activities = len(Tally().in_phases.every), len(Tally().by_activity.every)
    assert " ".join(lines[0].split()) == "there are met cannot be not met yet"
    assert lines[1].split() == f"kinds of fault {len(Kind)} 1 0 {len(Kind) - 1}".split()
    assert lines[2].split() == f"faults, by the phase of a job {phases} 2 0 {phases - 2}".split()
    assert lines[3].split() == f"faults, by what was under way {activities} 0 6 {activities - 6}".split()
    assert len(lines) == 9
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
    assert row == ["12k", *["·"] * (len(GOES_ON) - 2), "-"]


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
