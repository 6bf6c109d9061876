"""What is wrong with a job spec, by the name of its field; and what the nouns of a job derive."""

from dataclasses import replace

import pytest

from regroup.core.jobs import (
    ENDED,
    MAX_SHARDS,
    MAX_WORKERS,
    ORIGIN,
    Fingerprint,
    Formation,
    Job,
    JobPhase,
    JobSpec,
    Member,
    Seat,
    Version,
)

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


def test_steps_of_epochs_need_the_datasets_length():
    job = Job(id="j", spec=replace(GOOD, steps=None, epochs=3, global_batch=64), submitted=0.0)
    assert job.steps is None
    assert replace(job, fingerprint=Fingerprint("c", "d", 130)).steps == 9
    assert replace(job, fingerprint=Fingerprint("c", "d", 128)).steps == 6
    assert Job(id="j", spec=GOOD, submitted=0.0).steps == 10


def test_versions_are_ordered_by_generation_first():
    assert Version(2, 1) > Version(1, 9) > Version(1, 8) > ORIGIN


def test_everybody_whose_state_differs_from_the_leaders_receives_it():
    a, b, c, d = (Member(name, "i") for name in "abcd")
    seats = (Seat(a, Version(2, 5)), Seat(b, Version(1, 7)), Seat(c, None), Seat(d, Version(2, 5)))
    formation = Formation(3, seats, 0, Version(2, 5), (0,), "s")
    assert formation.receivers == (1, 2)
    assert formation.members == (a, b, c, d)


def test_from_the_seed_on_everybody_but_the_leader_receives():
    seats = tuple(Seat(Member(name, "i"), None) for name in "abc")
    assert Formation(1, seats, 1, ORIGIN, (0,), "s").receivers == (0, 2)


@pytest.mark.parametrize("phase", list(JobPhase))
def test_a_job_has_ended_in_exactly_the_absorbing_phases(phase):
    job = Job(id="j", spec=GOOD, submitted=0.0, phase=phase)
    assert job.ended == (phase in ENDED) == (phase in {JobPhase.STOPPED, JobPhase.COMPLETED, JobPhase.FAILED})
