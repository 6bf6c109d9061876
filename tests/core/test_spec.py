"""What is wrong with a job spec, by the name of its field."""

from dataclasses import replace

import pytest

from regroup.core.spec import MAX_SHARDS, MAX_WORKERS, JobSpec

GOOD = JobSpec(task="digits", steps=10)


def fields(spec: JobSpec) -> list[str]:
    return [problem.field for problem in spec.problems()]


def test_a_sound_spec_has_no_problems():
    assert GOOD.problems() == ()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"task": ""}, "task"),
        ({"task": "no-such"}, "task"),
        ({"task": "my.module:"}, "task"),
        ({"task": ":Class"}, "task"),
        ({"task": "my..module:Class"}, "task"),
        ({"task": "a:b:c"}, "task"),
        ({"task": "../x:Class"}, "task"),
        ({"name": "x" * 201}, "name"),
        ({"steps": None}, "steps"),
        ({"epochs": 2}, "steps"),
        ({"steps": 0}, "steps"),
        ({"steps": None, "epochs": -1}, "epochs"),
        ({"shards": 0}, "shards"),
        ({"step_timeout": 1e15}, "step_timeout"),
        ({"global_batch": MAX_SHARDS + 1, "shards": MAX_SHARDS + 1}, "shards"),
        ({"global_batch": 64, "shards": 48}, "shards"),
        ({"micro_batch": 0}, "micro_batch"),
        ({"evaluate_every": 0}, "evaluate_every"),
        ({"checkpoint_every": 0}, "checkpoint_every"),
        ({"keep_last": 0}, "keep_last"),
        ({"keep_last": 1001}, "keep_last"),
        ({"global_batch": 0}, "global_batch"),
        ({"global_batch": -8}, "global_batch"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"min_workers": 0}, "min_workers"),
        ({"min_workers": 3, "max_workers": 2}, "max_workers"),
        ({"max_workers": MAX_WORKERS + 1}, "max_workers"),
        ({"step_timeout": 0.0}, "step_timeout"),
        ({"step_timeout": 0.99}, "step_timeout"),
        ({"step_timeout": -1.0}, "step_timeout"),
        ({"step_timeout": float("nan")}, "step_timeout"),
        ({"step_timeout": float("inf")}, "step_timeout"),
        ({"max_restarts": -1}, "max_restarts"),
    ],
)
def test_each_problem_names_its_field(changes, field):
    assert fields(replace(GOOD, **changes)) == [field]


@pytest.mark.parametrize("task", ["gpt", "mine:Task", "a.b.c:Task_2"])
def test_tasks_are_built_in_or_on_the_workers_path(task):
    assert fields(replace(GOOD, task=task)) == []


def test_all_problems_are_told_at_once():
    spec = JobSpec(task="?", global_batch=0, min_workers=0, max_workers=-1, seed=-1)
    assert set(fields(spec)) == {"task", "steps", "global_batch", "seed", "min_workers", "max_workers"}


def test_problems_of_a_batch_of_zero_do_not_divide_by_it():
    assert fields(replace(GOOD, global_batch=0, shards=4)) == ["global_batch"]


def test_the_shards_are_those_given_or_the_default():
    assert replace(GOOD, global_batch=64, shards=2, max_workers=3).shard_count == 2
    assert replace(GOOD, global_batch=64, max_workers=4).shard_count == 16
    assert replace(GOOD, global_batch=7, max_workers=2).shard_count == 7
