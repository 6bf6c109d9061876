"""The reasons of decisions: found in the source as somebody reads them, and which of them were reached."""

import ast
import re
from dataclasses import replace

import pytest

from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.ledger import ROOT
from regroup.lab.sim.lives.outcome import live
from regroup.lab.sim.lives.reasons import EXPLAINED, Texts, explanation, sentences, unreached
from regroup.lab.sim.model.limits import SPEC

# What workers say of themselves, and core only hands on.
WORKERS = re.compile(
    r"killed by SIG|a neighbour is gone|replicas differed$|the group broke$|it will not do$|E: no$|gone$"
)


def read(source: str) -> list[str]:
    tree = ast.parse(source)
    return [one.shown for one in Texts([tree]).sentences(tree)]


@pytest.mark.parametrize(
    "source",
    [
        "names = ', '.join(members)",
        "note(f'{name}: {error}')",
        "note(f'{one} {other}', '; ', ' is ')",
        "kind = 'registered'",
        "'a module says what it owns'",
        "def f():\n    'what a function does'",
        "x: 'a type of something'",
        "def f(x: 'a type of something') -> 'another type': ...",
        "assert x, 'it must be so'",
        "raise IllegalTransition(f'{after} cannot follow {before}')",
        "if cause == 'killed by somebody': pass",
        "class Wanted:\n    YIELD = 'make room'",
        "def problems(self):\n    expect(x, 'must be at least 1')",
    ],
)
def test_separators_bare_patterns_and_what_is_no_reason_are_none(source):
    assert read(source) == []


def test_a_sentence_that_is_said_in_several_ways_counts_once_for_each():
    source = "note(f\"{'started' if first else 'regrouped'} in generation {n}{', at last' if late else ''}\")"
    assert read(source) == [
        "started in generation {}",
        "regrouped in generation {}",
        "{} in generation {}, at last",
        "{} in generation {}",
    ]


def test_a_choice_between_separators_is_none():
    assert read("note(f\"said {'; ' if long else ', '}twice {how}\")") == ["said {}twice {}"]


def test_what_a_name_stands_for_is_a_part_of_the_sentence_and_no_reason_by_itself():
    source = """
def f(state):
    if state:
        where = f"at step {state}"
    elif lost:
        where = "nowhere at all"
    else:
        return "there is nothing"
    where += f"; {remark}" if remark else ""
    return f"stopped {where}"
"""
    assert sorted(read(source)) == ["stopped at step {}", "stopped nowhere at all", "there is nothing"]


def test_a_name_stands_for_what_it_was_given_last():
    source = """
def f(state):
    if state:
        kept = "in the memory"
        return f"held {kept}"
    kept = "in a checkpoint"
    return f"paused, and kept {kept}"
"""
    assert read(source) == ["held in the memory", "paused, and kept in a checkpoint"]


def test_tables_and_functions_that_give_a_text_are_parts_of_sentences():
    source = """
RESTED = {STOP: "stopped", YIELD: "made room"}
def durable(job) -> str:
    if job.checkpoint is None:
        return "before its first step"
    return f"at step {job.step}"
def f(job):
    note(f"{RESTED[job.wanted]}, {durable(job)}")
"""
    assert read(source) == ["stopped, {}", "made room, {}", "{}, before its first step", "{}, at step {}"]


def test_a_table_may_give_a_text_only_where_it_has_one():
    source = """
PLACES = {OUTSIDE: "outside of a pass"}
def f(shard):
    place = PLACES.get(shard, f"shard {shard}")
    end(f"it failed, {place}")
"""
    assert read(source) == ["it failed, outside of a pass", "it failed, shard {}"]


def test_a_format_that_is_filled_in_later_is_a_sentence_with_values():
    source = """
def f(ours, theirs):
    words = "is {}, and must be {}"
    return [words.format(mine, its) for mine, its in zip(ours, theirs)]
"""
    assert read(source) == ["is {}, and must be {}"]


def test_what_was_given_is_a_value_to_which_something_may_be_added():
    source = """
def f(reason, late):
    if late:
        reason += "; nobody came back"
    note(f"asked to stop; {reason}")
"""
    assert read(source) == ["asked to stop; {}", "asked to stop; {}; nobody came back"]


def test_what_is_refused_is_a_reason():
    assert read("raise Conflict(f'job {job.id} is being stopped')") == ["job {} is being stopped"]


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


def words_that_rules_look_for(tree):
    """Constants in `"..." in reason` and `reason.startswith("...")`, under whatever name a rule has such words."""
    named = {"why", "reason", "error"}
    constants = {ast.unparse(one.targets[0]): one.value for one in tree.body if isinstance(one, ast.Assign)}
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=words, ops=[ast.In() | ast.NotIn()], comparators=[ast.Name(id=name)]):
                pass
            case ast.Compare(left=words, ops=[ast.In() | ast.NotIn()], comparators=[ast.Attribute(attr=name)]):
                pass
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr="startswith" | "endswith"),
                args=[words],
            ):
                pass
            case _:
                continue
        if name in named:
            given = (constants.get(one.id, one) if isinstance(one, ast.Name) else one for one in ast.walk(words))
            yield from (one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str))


def test_the_words_by_which_rules_know_a_reason_are_said_by_core():
    """Were one of them said in another way, its rule would hold whatever happens."""
    files = [path for part in ("lives", "model") for path in (ROOT / "lab" / "sim" / part).glob("*.py")]
    words = {one for path in files for one in words_that_rules_look_for(ast.parse(path.read_text()))}
    said = [one.shown for one in sentences().values()]
    assert len(words) > 20
    assert {one for one in words if not (WORKERS.search(one) or any(one in shown for shown in said))} == set()
