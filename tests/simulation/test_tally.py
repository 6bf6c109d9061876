"""What lives came to: counted, explained, and told as JSON."""

import json
from collections import Counter
from dataclasses import replace

from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.outcome import Outcome, live
from regroup.lab.sim.lives.plan import Kind
from regroup.lab.sim.lives.reasons import EXPLAINED, sentences, unreached
from regroup.lab.sim.lives.tally import CANNOT_MEET, Tally, explanation
from regroup.lab.sim.lives.underway import Activity
from regroup.lab.sim.model.limits import SPEC

JOIN, REGROUP, SAVE = Activity.JOIN, Activity.REGROUP, Activity.SAVE


def outcome(**facts):
    return Outcome(seed=1, events=10, seconds=2.0, digest="", error=None, **facts)


def test_outcomes_add_up():
    tally = Tally()
    met = Counter({(Kind.CUT, "running"): 2})
    tally.add(outcome(met=met, pairs=Counter({(Kind.CUT, Kind.SLOW): 1}), reasons=frozenset({"a b"})))
    tally.add(outcome(met=met, reasons=frozenset({"c d"})))
    assert (tally.lives, tally.events, tally.seconds) == (2, 20, 4.0)
    assert tally.met[Kind.CUT, "running"] == 4
    assert tally.pairs[Kind.CUT, Kind.SLOW] == 1
    assert tally.reasons == {"a b", "c d"}
    assert met[Kind.CUT, "running"] == 2  # what was added is left alone


def test_a_fault_that_strikes_amid_three_things_counts_for_each_two_of_them():
    tally = Tally()
    tally.add(outcome(during=Counter({(Kind.CUT, frozenset({JOIN, REGROUP, SAVE})): 812})))
    assert tally.together[REGROUP, JOIN, SAVE] == tally.together[REGROUP, JOIN] == tally.together[JOIN, SAVE] == 812
    assert tally.by_activity[Kind.CUT, SAVE] == 812
    assert tally.facts()["activities"]["regroup during join during checkpoint"] == 812


def test_mere_training_is_nothing_that_a_fault_strikes_amid():
    tally = Tally()
    tally.add(outcome(during=Counter({(Kind.CUT, frozenset({Activity.TRAINING, JOIN})): 1})))
    assert tally.together == {}


def test_what_never_met_is_told_with_the_reason_why_it_cannot():
    never = Tally().never_during
    assert len(never) == len(Kind) * len(Activity)
    assert never["coordinator crashes during no leader"]
    assert never["connection is cut during no leader"] is None


def test_nothing_that_is_said_to_be_impossible_is_met(lived):
    tally = Tally()
    for seed in range(300):
        tally.add(lived(seed))
    assert [which for which in CANNOT_MEET if tally.by_activity[which]] == []
    assert [name for name in sentences() if explanation(name) and name not in unreached(tally.reasons)] == []


def test_each_reason_that_is_explained_stands_in_the_code():
    explained = {name: explanation(name) for name in sentences()}
    assert sorted(filter(None, explained.values())) == sorted(EXPLAINED.values())


def test_reasons_that_stand_in_jobs_and_workers_are_collected_too():
    plan = draw(0)
    spec = replace(SPEC, min_workers=plan.workers + 1, max_workers=plan.workers + 1)
    asks_too_much = replace(plan, jobs=(SPEC, spec), faults=())
    missing = unreached(live(asks_too_much).reasons)
    for wanted in ("lent to job {}", "it needs {} workers"):
        assert any(wanted in name for name in sentences())
        assert [name for name in missing if wanted in name] == []


def test_the_facts_are_json(lived):
    tally = Tally()
    for seed in range(3):
        tally.add(lived(seed))
    facts = json.loads(json.dumps(tally.facts()))
    assert facts["lives"] == 3
    assert facts["reasons"] > 50
