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
    Link,
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


# Generation 2 went on alone to step 40; 4 was put back to step 8 of it, and 5 went on from the 40 once they were there.
BRANCHES = (Link(1, 0, 0), Link(2, 1, 5), Link(4, 2, 8), Link(5, 2, 40))


@pytest.mark.parametrize(
    ("state", "base", "follows"),
    [
        (Version(2, 41), Version(2, 40), True),
        (Version(5, 40), Version(2, 40), True),
        (Version(5, 47), Version(5, 40), True),
        (Version(2, 40), Version(5, 40), False),  # its holder never was in 5
        (Version(4, 8), Version(2, 40), False),
        (Version(4, 50), Version(2, 40), False),  # another branch, with more steps
        (Version(4, 50), Version(2, 8), True),
        (Version(1, 6), Version(2, 5), False),  # a void step
        (ORIGIN, ORIGIN, True),
    ],
)
def test_a_state_goes_on_from_a_base_if_history_leads_from_one_to_the_other(state, base, follows):
    assert Job(id="j", spec=GOOD, submitted=0.0, history=BRANCHES).follows(state, base) is follows


def test_what_a_generation_made_that_the_store_forgot_goes_on_from_all_that_is_known():
    job = Job(id="j", spec=GOOD, submitted=0.0, history=BRANCHES)
    assert job.follows(Version(7, 60), Version(5, 40))
    assert not job.follows(Version(3, 60), Version(2, 40))  # nor is this a number that was ever formed


def test_a_state_of_the_last_formations_line_is_worth_more_than_one_with_a_higher_number():
    last = Formation(5, (), 0, Version(2, 40), (0,), "s")
    job = Job(id="j", spec=GOOD, submitted=0.0, history=BRANCHES, formation=last)
    states = [Version(1, 60), Version(4, 8), Version(4, 50), Version(2, 40), Version(2, 41), Version(5, 40)]
    assert sorted(states, key=job.worth) == states


def test_a_long_history_is_not_walked_through_for_each_state():
    looked = 0

    class Links(tuple):
        def __getitem__(self, index):
            nonlocal looked
            looked += 1
            return super().__getitem__(index)

    links = Links(Link(each, each - 1, each) for each in range(1, 100_001))
    job = Job(id="j", spec=GOOD, submitted=0.0, history=links)
    assert job.follows(Version(100_000, 100_007), Version(99_999, 100_000))
    assert looked < 50


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
