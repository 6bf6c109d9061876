"""Where each trainer stands, as its heartbeats and its own reports tell it.

Owns: what a trainer's status changes: who is dead instead, who answered a Halt, formed, finished, broke or progressed.
Refuses to know: which report said so, and what follows from it (`rounds`, `regroup`).
Does not guarantee: that a status is of now; one that a later promise overtook is not brought here.
"""

from dataclasses import replace

from regroup.core.cluster import Answer, reached
from regroup.core.copies import is_at_work
from regroup.core.failures import made, prepared
from regroup.core.jobs import Job, JobPhase, Member
from regroup.core.likeness import agrees
from regroup.core.rounds import begin_round
from regroup.core.turn import Turn
from regroup.core.workers import TrainerPhase, TrainerStatus
from regroup.core.written import take_committed, take_written


def observe(
    turn: Turn, name: str, status: TrainerStatus | None, broken: str = "its group broke", anew: bool = False
) -> None:
    """Take in where a worker's trainer stands, whether a heartbeat or a report of its own said so. `anew`: it is the
    first word since its agent was cut off."""
    _take_status(turn, name, status, broken, anew)
    if status is not None and status.job in turn.jobs:
        take_written(turn, turn.jobs[status.job], name, status)


def take_left(turn: Turn, name: str, status: TrainerStatus) -> None:
    """Take in what a trainer that ended had committed and written, before its end is. That is told on until the files
    are settled; what a job that rests has is settled."""
    job = turn.jobs.get(status.job)
    if job is None:
        return
    if not (job.ended or job.phase is JobPhase.PAUSED):
        _take_step(turn, job, Member(name, status.incarnation), status)
    take_written(turn, turn.jobs[job.id], name, status)


def _take_status(turn: Turn, name: str, status: TrainerStatus | None, broken: str, anew: bool) -> None:
    sighting = turn.sightings[name]
    before = sighting.trainer
    if before is not None and (status is None or status.incarnation != before.incarnation):
        turn.bury(before.job, Member(name, before.incarnation), "its process is gone")
    bury_listed(turn, name, status.incarnation if status else None, "its process is gone")
    moved = turn.now if status != before and not _only_promised(before, status) else sighting.moved
    turn.sightings[name] = replace(sighting, trainer=status, moved=moved)
    job = turn.jobs.get(status.job) if status else None
    if status is None or job is None or job.ended:
        return
    member = Member(name, status.incarnation)
    if anew or moved == turn.now:
        _take_back(turn, job, member)
    _take_step(turn, job, member, status)  # also of who was taken off the job: all that it committed may be durable
    job = turn.jobs[job.id]
    if turn.workers[name].job != job.id:
        return
    if status.fingerprint is not None and not agrees(turn, job, name, status):
        return
    job = turn.jobs[job.id]
    if status.fingerprint is not None and len(left := prepared(job, name)) < len(job.failures):
        job = turn.change_job(job, failures=left)
    _take_evaluation(turn, job, member, status)
    if max(status.promised, status.generation) > job.generation:
        highest = max(status.promised, status.generation)
        job = turn.change_job(turn.jobs[job.id], generation=highest)
        if job.phase is JobPhase.PAUSED:
            return  # a number above it is taken when it is resumed
        begin_round(turn, job, f"{name} knows generation {highest}, above the coordinator's")
        return
    _take_phase(turn, job, member, status, broken)


def _take_back(turn: Turn, job: Job, member: Member) -> None:
    """Who was evicted and is heard again in good health may hold what nobody else does, whoever has it by now."""
    watch = turn.watches.get(job.id)
    if watch is not None and member in watch.evicted and not is_at_work(turn.cluster, member.worker):
        turn.change_watch(job.id, back=watch.back | {member})


def bury_listed(turn: Turn, name: str, alive: str | None, cause: str) -> None:
    """A worker has one trainer at most: all that formations list of it, but incarnation `alive`, are dead."""
    for job, member in list(turn.listed()):
        if member.worker == name and member.incarnation != alive and member not in turn.watch(job.id).dead:
            turn.bury(job.id, member, cause)


def _only_promised(before: TrainerStatus | None, status: TrainerStatus | None) -> bool:
    """Whether all that is new is a promise, while its step loop does not come back: no sign that it ever will."""
    if before is None or status is None or not status.is_stuck:
        return False
    return replace(before, promised=status.promised, store=status.store, written=status.written) == status


def _take_phase(turn: Turn, job: Job, member: Member, status: TrainerStatus, broken: str) -> None:
    watch, formation = turn.watch(job.id), job.formation
    if job.round and status.phase is TrainerPhase.HALTED and status.promised == job.round.generation:
        if member in job.round.participants and not status.at_work:
            answer = Answer(status.version, status.store)
            answered = watch.answered if member in watch.answers else turn.now
            turn.change_watch(job.id, answers={**watch.answers, member: answer}, answered=answered)
        return
    if formation is None or member not in formation.members or status.generation != formation.generation:
        return
    if status.phase in (TrainerPhase.TRAINING, TrainerPhase.FINISHED):
        formed(turn, job, member)
    if status.phase is TrainerPhase.FINISHED:
        turn.change_watch(job.id, finished=True)
    if status.phase is TrainerPhase.BROKEN and watch.broken is None:
        turn.change_watch(job.id, broken=f"{member.worker}: {broken}")


def formed(turn: Turn, job: Job, member: Member) -> None:
    watch, formation = turn.watch(job.id), job.formation
    if formation is not None and member in formation.members and member not in watch.formed:
        severed = frozenset(pair for pair in watch.severed if member not in pair)  # it reached all, or they it
        turn.change_watch(job.id, formed=watch.formed | {member}, severed=severed)


def _take_step(turn: Turn, job: Job, member: Member, status: TrainerStatus) -> None:
    """What it holds of the last generation it committed, whatever it does now."""
    if status.version is not None and (left := made(job, status.version)) is not job.failures:
        job = turn.change_job(job, failures=left)
    watch, formation = turn.watch(job.id), job.formation
    if formation is None or member not in formation.members or status.version is None:
        return
    step = status.version.step
    if status.version.generation != formation.generation or step <= watch.committed.get(member, -1):
        return  # no news
    if formation.generation == job.given_up and (member in watch.dead or turn.cluster.trainer(member) is None):
        return  # nor this: it is lost, and that was told
    most = max(watch.committed.values(), default=-1)
    progressed = turn.now if step > most else watch.progressed
    committed = {**watch.committed, member: step}
    turn.change_watch(job.id, committed=committed, progressed=progressed)
    if most <= formation.base.step < step:  # its first
        turn.change_watch(job.id, fruitless=0, proven=frozenset(one.worker for one in formation.members))
    if watch.first is None and len(committed) == len(formation.members):
        turn.change_watch(job.id, first=(turn.now, reached(job, turn.watch(job.id))))
    take_committed(turn, job.id)


def _take_evaluation(turn: Turn, job: Job, member: Member, status: TrainerStatus) -> None:
    """No step is made in an evaluation, which takes as long as it takes: there each chunk is the progress."""
    watch, formation, saves = turn.watch(job.id), job.formation, job.saver == member
    if not (saves or (formation is not None and member in formation.members)):
        return
    if status.version is None or not status.evaluated:
        return
    now, far = (status.version, status.evaluated), (status.version.step, status.evaluated)
    if member in watch.evaluated and now <= watch.evaluated[member]:
        return  # no news
    turn.change_watch(
        job.id,
        evaluated={**watch.evaluated, member: now},
        furthest=max(far, watch.furthest),
        progressed=turn.now,
        since=turn.now if saves else watch.since,
        fruitless=0 if far > watch.furthest else watch.fruitless,  # a chunk that was thrown away is no fruit
    )
