"""Sentences are found in source code as somebody reads them."""

import ast

import pytest

from regroup.lab.sim.lives.sentences import Texts


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
