"""When a job gives its workers up for another that can go on with them, and when it need not after all.

Owns: whose turn it is to be asked, and what it would cost. It is asked only for what it can do now: one that failed to
save a moment ago is asked again when it would try again.
Refuses to know: which of the jobs that wait for long makes room for which (`schedule`), and how a state is saved.
"""

from dataclasses import replace

from regroup.core.absence import expected, lacks_for, useless
from regroup.core.jobs import Job, JobPhase, Wanted
from regroup.core.regroup import NothingToSave, SaveState, durable
from regroup.core.rounds import Stage, failed_lately, stage
from regroup.core.schedule import Cost, makes_room
from regroup.core.settling import gathered
from regroup.core.turn import Turn


def make_room(turn: Turn) -> None:
    limit = turn.policy.absent_limit
    stuck = {id for id in turn.watches if stage(turn.jobs[id]) is Stage.GATHERING and lacks_for(turn, id) > limit}
    for job in [job for job in turn.live.values() if job.wanted is Wanted.YIELD]:
        if job.phase is JobPhase.PAUSED:
            turn.change_job(job, phase=JobPhase.QUEUED, wanted=Wanted.RUN)
            continue
        failed = stage(job) is Stage.GATHERING and turn.watch(job.id).failed_savers
        if job.id in stuck or failed:  # nothing is to be had from it for now
            turn.change_job(job, wanted=Wanted.RUN)
    costs = {id: could_make_room(turn, turn.jobs[id]) for id in stuck}
    found = makes_room(turn.cluster, costs, expected(turn), useless(turn))
    if found is not None:
        ask(turn, *found)


def could_make_room(turn: Turn, job: Job) -> Cost | None:
    """What it would cost a job to make room now: whoever is connected may hold all that is not durable, or not."""
    _, _, verdict = gathered(turn, replace(job, wanted=Wanted.YIELD))
    if isinstance(verdict, NothingToSave) or (isinstance(verdict, SaveState) and not failed_lately(turn, job)):
        return Cost.STEPS if verdict.rolled_back else Cost.NOTHING
    return None


def ask(turn: Turn, job: Job, other: Job) -> None:
    """Not its user but the scheduler asks for this: the other job can go on with what this one has."""
    reason = f"makes room for {other.id}, which can go on with its workers"
    job = turn.change_job(job, wanted=Wanted.YIELD)
    turn.note("yielding", reason, job=job.id)
    if job.formation is None and job.round is None:
        turn.pause(job, Wanted.YIELD, f"made room {durable(job)}")
