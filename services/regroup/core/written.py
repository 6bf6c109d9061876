"""What was written of a job's states: whose word on a file counts, and when.

Owns: files beside the training, which count once all that live committed their step, once somebody is to save what came
from them, or once nothing else is left; files of savers, also of those that were given up; what is told of until then.
Refuses to know: what a job that waited for a state becomes (`saves`), which checkpoints are kept (`keeping`), and which
word against a file counts (`striking`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regroup.core import failures
from regroup.core.cluster import behind_all
from regroup.core.history import survives
from regroup.core.jobs import Checkpoint, Job, Member, Version
from regroup.core.keeping import taken_in
from regroup.core.turn import Turn
from regroup.core.workers import TrainerStatus


def take_written(turn: Turn, job: Job, name: str, status: TrainerStatus) -> None:
    """What was written beside the training counts once all members committed it, and is told until then. What was
    written as it was ordered counts at once, whatever the task's report does to its process then. What was overtaken
    before, or its job ended, is to be deleted."""
    anew = _reports_now(turn, job, Member(name, status.incarnation), status)
    for one in status.written:
        _count(turn, turn.jobs[job.id], status, written_by(turn, name, one), anew)
    job = turn.jobs[job.id]
    # Another one deletes its own copy, maybe before this one was there.
    doomed = [one for one in job.doomed if one.worker == name]
    named = {one.path for one in (*job.kept, *doomed, *(each.checkpoint for each in job.struck))}
    late = [written_by(turn, name, one) for one in status.written if _is_over(job, one) and one.path not in named]
    if late:
        turn.change_job(job, doomed=(*job.doomed, *late))


def _reports_now(turn: Turn, job: Job, member: Member, status: TrainerStatus) -> bool:
    """Whether it wrote its file as ordered, and told of none before: the task's report has its own time, which begins
    then, also if the same state counts already."""
    if member != job.saver or status.promised != job.generation:
        return False
    told, writing = status.version in [one.version for one in status.written], turn.watch(job.id).writing
    if not told and writing is None:
        turn.change_watch(job.id, writing=member)
    elif told and writing is not None:
        turn.change_watch(job.id, since=turn.now, writing=None)
        return True
    return False


def _count(turn: Turn, job: Job, status: TrainerStatus, written: Checkpoint, anew: bool) -> None:
    """`anew`: its state was written as it was ordered, since then, and nobody deleted that."""
    if job.formation is None:
        return  # a pause closed what it was written by, and said what is left
    state, held, committed = written.version, status.version, behind_all(job, turn.watches.get(job.id))
    writer = Member(written.worker, status.incarnation)
    saves = job.saver == writer and status.promised == job.generation
    if not (is_newer(job, written) or (anew and held == state and state > job.saved)):
        return
    ordered = _came_from(state, held) and (saves or was_asked(job, writer, state, held))
    if ordered or survives(job.history, state, committed):
        take_in(turn, job, written)
        if saves and held == state:
            turn.change_watch(job.id, since=turn.now, writing=None)  # the report has its own time
    elif state.generation == job.formation.generation and written not in turn.watch(job.id).written:
        turn.change_watch(job.id, written=(*turn.watch(job.id).written, written))


def take_committed(turn: Turn, id: str) -> None:
    """What was told before counts as soon as all are known to have committed it, the training went on from beyond it,
    or what came from it is to be saved: whoever told may be cut off by then, or gone. Of older generations, what does
    not count now never will."""
    job, watch = turn.jobs[id], turn.watches.get(id)
    if job.formation is None or watch is None or not watch.written:
        return
    answer = watch.answers.get(job.saver) if job.saver is not None else None
    for written in sorted(watch.written, key=lambda one: one.version):
        job, state = turn.jobs[id], written.version  # as the one before left it
        ordered = answer is not None and _came_from(state, answer.version)
        if is_newer(job, written) and (ordered or survives(job.history, state, behind_all(job, watch))):
            take_in(turn, job, written)
    saved, last = turn.jobs[id].saved, job.history[-1].generation
    left = tuple(one for one in watch.written if one.version.generation == last and one.version > saved)
    turn.change_watch(id, written=left)


def take_told(turn: Turn, id: str) -> Job:
    """All that the last generation held in memory is given up (rule 7), lost, or let go as the job ends. So what was
    told counts, whoever had committed it, or had yet to tell: each of its steps was made by all members together, and
    nobody goes on from another."""
    told = turn.watch(id).written
    for written in sorted(told, key=lambda one: one.version):
        if is_newer(turn.jobs[id], written):
            take_in(turn, turn.jobs[id], written)
    if told:
        turn.change_watch(id, written=())
    return turn.jobs[id]


def _came_from(state: Version, held: Version | None) -> bool:
    """Whether what somebody holds is this state, or came from it in its generation."""
    return held is not None and held.generation == state.generation and held >= state


def is_newer(job: Job, written: Checkpoint) -> bool:
    """Whether it would count before all that does. Below one that was struck its file may have been deleted, as one
    that nobody told of; another file of the same state may be whole."""
    state, bad = written.version, [one.checkpoint for one in job.struck]
    gone = any(state < one.version or (state == one.version and written.path == one.path) for one in bad)
    return state > job.saved and not (gone or job.ended)


def was_asked(job: Job, writer: Member, state: Version, held: Version | None) -> bool:
    """Whether it was to save this state, and was given up: it may have come off after all. Of an older generation, as
    where that was all that was left, only what it `held`."""
    last = job.formation.generation if job.formation is not None else 0
    return writer in job.savers and (state.generation == last or state == held)


def take_in(turn: Turn, job: Job, written: Checkpoint) -> None:
    turn.change_job(job, **came_off(job, written))
    state, name = written.version, written.worker
    reason = f"the state of step {state.step} is durable: {written.path}"
    turn.note("checkpoint", reason, job=job.id, worker=name, step=state.step, generation=state.generation)


def came_off(job: Job, written: Checkpoint) -> Mapping[str, Any]:
    """What changes of a job with a new checkpoint: its state() came off, and is blamed for no earlier failure."""
    return {**taken_in(job, written), "failures": failures.saved(job)}


def settled(turn: Turn, trainer: TrainerStatus) -> tuple[str, ...]:
    """The files of which this trainer's agent need not tell again: the job names them, or did until they were gone."""
    job = turn.jobs.get(trainer.job)
    if job is None:
        return tuple(one.path for one in trainer.written)
    kept = {one.path for one in (*job.kept, *(each.checkpoint for each in job.struck))}
    return tuple(one.path for one in trainer.written if one.path in kept or _is_over(job, one))


def _is_over(job: Job, written: Checkpoint) -> bool:
    """Whether it can count no more."""
    return job.ended or written.version < job.saved


def written_by(turn: Turn, name: str, file: Checkpoint) -> Checkpoint:
    """Its writer, and the machine of the writing: the name may later be another machine's, or nobody's."""
    return replace(file, worker=name, host=turn.workers[name].host)
