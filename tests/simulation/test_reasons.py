"""The reasons of decisions: all that `core` can give, and which of them were reached."""

import re
from dataclasses import replace

import pytest

from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.outcome import live
from regroup.lab.sim.lives.reasons import EXPLAINED, explanation, sentences, unreached
from regroup.lab.sim.model.limits import SPEC

from .test_words import WORKERS


@pytest.mark.parametrize(
    "name",
    [
        *("orders", "cluster", "commands", "schedule", "turn", "absence", "blame", "decide", "regroup", "rounds"),
        *("suspicion", "agent_reports", "trainer_reports", "observing", "saves"),
    ],
)
def test_each_module_of_core_that_makes_a_reason_is_looked_at(name):
    assert any(each.startswith(f"core/{name}.py:") for each in sentences())


def test_each_reason_says_something_and_counts_once():
    shown = [one.shown for one in sentences().values()]
    assert len(shown) == len(set(shown)) > 80
    assert [one for one in shown if not re.search(r"[a-z]{3}", one)] == []
    assert "it did not answer the Halt in {} s" in shown
    assert "evicted from the job" in shown


def reached(*reasons):
    missing = unreached(reasons)
    return [one.shown for name, one in sentences().items() if name not in missing]


def test_a_reason_within_a_longer_one_is_reached_with_it():
    found = reached("b is evicted: it did not answer the Halt in 2 s")
    assert found == ["it did not answer the Halt in {} s", "{} is evicted: {}"]


def test_a_reason_that_another_function_adds_after_a_comma_is_reached_with_it():
    assert "for the second time" in reached("killed by SIGSEGV, for the second time")
    assert "for the second time" not in reached("it was tried for the second time")


def test_what_is_added_to_a_sentence_is_reached_with_it():
    given_up = "; what its workers held of step {} is given up, as its user asked"
    assert given_up in reached("stopped at once, at step 3; its state is in x" + given_up.format(5))


def test_half_a_sentence_reaches_nothing():
    assert reached("it hung while preparing for more", "and its agent left", "b leaves the jobs") == []


def test_a_sentence_is_said_in_the_way_that_explains_most_of_it():
    assert reached("from step 3 on a, b") == ["from step {} on {}"]
    lost = reached("the last generation is lost: from step 3, the most advanced state left, on a, b")
    assert lost == ["the last generation is lost: from step {}, the most advanced state left, on {}"]


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


def test_lives_give_no_reason_that_was_not_found_in_the_source(lived):
    patterns = [one.pattern for one in sentences().values()]
    given = {reason for seed in range(100) for reason in lived(seed).reasons if " " in reason}
    assert len(given) > 200
    unknown = [reason for reason in given if not any(pattern.search(reason) for pattern in patterns)]
    assert [reason for reason in unknown if not WORKERS.search(reason)] == []


def test_the_reason_of_an_order_is_collected_too(lived):
    lives = [lived(seed).reasons for seed in range(100)]
    evicting = [reasons for reasons in lives if any(" is evicted: " in one for one in reasons)]
    assert evicting
    assert any("evicted from the job" in reasons for reasons in evicting)
