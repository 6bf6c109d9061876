"""What the nouns of a job derive."""

from dataclasses import replace

import pytest

from regroup.core.jobs import (
    ENDED,
    ORIGIN,
    Checkpoint,
    Fingerprint,
    Formation,
    Job,
    JobPhase,
    Member,
    Seat,
    Version,
)
from regroup.core.spec import JobSpec

GOOD = JobSpec(task="digits", steps=10)


def test_steps_of_epochs_need_the_datasets_length():
    job = Job(id="j", spec=replace(GOOD, steps=None, epochs=3, global_batch=64), submitted=0.0)
    assert job.steps is None
    assert replace(job, fingerprint=Fingerprint("c", "d", 130)).steps == 9
    assert replace(job, fingerprint=Fingerprint("c", "d", 128)).steps == 6
    assert Job(id="j", spec=GOOD, submitted=0.0).steps == 10


def test_versions_are_ordered_by_generation_first():
    assert Version(2, 1) > Version(1, 9) > Version(1, 8) > ORIGIN


@pytest.mark.parametrize(("saved", "needs"), [(9, 3), (10, 1)])
def test_to_make_its_report_a_job_needs_one_worker(saved, needs):
    job = Job(id="j", spec=replace(GOOD, min_workers=3, max_workers=3), submitted=0.0)
    assert replace(job, checkpoint=Checkpoint(Version(1, saved), "p", "sum", 1)).needs == needs


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
