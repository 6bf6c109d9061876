"""Which phase may follow which: the tables are complete, ends absorb, and what is illegal changes nothing."""

import pytest

from regroup.core.cluster import Cluster, Policy
from regroup.core.jobs import ENDED, Job, JobPhase
from regroup.core.phases import JOB_ARROWS, TRAINER_ARROWS, IllegalTransition, check_arrow
from regroup.core.spec import JobSpec
from regroup.core.turn import Turn
from regroup.core.workers import TrainerPhase


def test_the_tables_know_every_phase():
    assert set(JOB_ARROWS) == set(JobPhase)
    assert set(TRAINER_ARROWS) == set(TrainerPhase)


@pytest.mark.parametrize("end", sorted(ENDED))
def test_ended_phases_absorb(end):
    assert JOB_ARROWS[end] == frozenset()
    for other in set(JobPhase) - {end}:
        with pytest.raises(IllegalTransition):
            check_arrow(end, other)


@pytest.mark.parametrize("before", list(JobPhase))
@pytest.mark.parametrize("after", list(JobPhase))
def test_a_job_moves_along_the_arrows_alone(before, after):
    if after is before or after in JOB_ARROWS[before]:
        check_arrow(before, after)
    else:
        with pytest.raises(IllegalTransition):
            check_arrow(before, after)


@pytest.mark.parametrize("before", list(TrainerPhase))
@pytest.mark.parametrize("after", list(TrainerPhase))
def test_a_trainer_moves_along_the_arrows_alone(before, after):
    if after in TRAINER_ARROWS[before]:
        check_arrow(before, after)
    else:
        with pytest.raises(IllegalTransition):
            check_arrow(before, after)


def test_only_a_halt_leads_into_a_formation():
    assert [phase for phase in TrainerPhase if TrainerPhase.FORMING in TRAINER_ARROWS[phase]] == [TrainerPhase.HALTED]


def test_a_job_completes_only_from_a_phase_with_members():
    before = {phase for phase in JobPhase if JobPhase.COMPLETED in JOB_ARROWS[phase]}
    assert before == {JobPhase.RUNNING, JobPhase.REGROUPING, JobPhase.WAITING}


def test_phases_of_different_things_do_not_mix():
    with pytest.raises(IllegalTransition):
        check_arrow(JobPhase.QUEUED, TrainerPhase.PREPARING)


@pytest.mark.parametrize("before", [*sorted(ENDED), JobPhase.QUEUED])
def test_an_illegal_change_changes_nothing(before):
    job = Job(id="j", spec=JobSpec(task="digits", steps=1), submitted=0.0, phase=before)
    turn = Turn(Cluster(started=0.0, jobs={"j": job}), 0.0, Policy())
    with pytest.raises(IllegalTransition):
        turn.change_job(job, phase=JobPhase.RUNNING, reason="never")
    assert turn.jobs == {"j": job}
    assert turn.notes == []
