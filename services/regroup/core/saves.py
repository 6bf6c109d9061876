"""What is told of files: a state that is durable, one that could not be written, and files that are gone.

Owns: whose word on a file counts, and what a job becomes when the state that it waited for is durable.
Refuses to know: who is asked to save (`settling`), which checkpoints are kept (`keeping`), which word against a
file counts (`striking`), and when a failure is the task's (`blame`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regroup.core import blame, leaving
from regroup.core.cluster import reached
from regroup.core.history import survives
from regroup.core.jobs import IN_STATE, Checkpoint, Job, JobPhase, Member, StepFailure, Version, Wanted
from regroup.core.keeping import is_due_to, taken_in
from regroup.core.messages.agent_reports import Discarded
from regroup.core.messages.trainer_reports import SaveFailed, StateSaved
from regroup.core.regroup import RESTED
from regroup.core.rounds import Stage, stage
from regroup.core.turn import Turn
from regroup.core.workers import TrainerStatus


def state_saved(turn: Turn, job: Job, member: Member, report: StateSaved) -> None:
    saver = turn.sightings.get(job.saver.worker) if job.saver is not None else None
    wanted = saver.trainer.version if saver is not None and saver.trainer is not None else None
    version = report.checkpoint.version
    asked = job.saver == member and report.generation == job.generation
    # A slow saver that was given up may still be the first: a state is what its version says, whoever wrote it.
    if job.saver is None or not (asked or version == wanted):
        if _is_newer(job, version) and _was_asked(job, member, version):
            _take_in(turn, job, _written_by(turn, member.worker, report.checkpoint))
        return  # an evicted or superseded saver moves nothing else
    if version < job.saved:
        turn.change_job(job, saver=None)  # a newer one that was given up came off meanwhile
        return
    saved = {**_came_off(job, _written_by(turn, member.worker, report.checkpoint)), "result": report.result}
    where = f"at step {version.step}; its state is in {report.checkpoint.path}"
    where += f"; {report.remark}" if report.remark else ""
    if job.complete_at(version.step):
        turn.end(job, JobPhase.COMPLETED, f"completed {where}", **saved, step=version.step)
    elif job.wanted is Wanted.STOP:
        turn.end(job, JobPhase.STOPPED, f"stopped {where}", **saved, step=version.step)
    elif job.wanted in RESTED:
        turn.pause(job, job.wanted, f"{RESTED[job.wanted]} {where}", **saved)
    elif leaving.is_left_by(turn, job, version):  # nobody is left to hold it, either
        rest = Wanted.PAUSE if job.wanted is Wanted.HOLD else Wanted.YIELD
        turn.pause(job, rest, f"rests {where}; all that held it leave", **saved)
    else:  # it was asked to go on meanwhile
        turn.change_job(job, saver=None, **saved)


def save_failed(turn: Turn, job: Job, member: Member, report: SaveFailed) -> None:
    """Another try follows, by another member where there is one. What the task raised is its own, the second time."""
    if job.saver != member or report.generation != job.generation or stage(job) is not Stage.SAVING:
        return
    tried = (*turn.watch(job.id).failed_savers, member)
    reason = f"{member.worker} could not save, another try follows: {report.error}"
    turn.change_job(job, saver=None, reason=reason)
    turn.change_watch(job.id, failed_savers=tried, since=turn.now)
    turn.note("save_failed", reason, job=job.id, worker=member.worker)
    if report.traceback:
        trainer = turn.cluster.trainer(member)
        step = trainer.version.step if trainer is not None and trainer.version is not None else job.step
        failure = StepFailure(step, IN_STATE, member.worker, report.traceback, generation=report.generation)
        blame.blame_task(turn, turn.jobs[job.id], failure)


def take_written(turn: Turn, job: Job, name: str, status: TrainerStatus) -> None:
    """What was written beside the training counts once all members committed it, and is told until then. What was
    written as it was ordered counts at once, whatever the task's report does to its process then. What was overtaken
    before, or its job ended, is to be deleted."""
    for one in status.written:
        _count(turn, turn.jobs[job.id], status, _written_by(turn, name, one))
    job = turn.jobs[job.id]
    named = {one.path for one in (*job.kept, *job.doomed, *(each.checkpoint for each in job.struck))}
    late = [_written_by(turn, name, one) for one in status.written if _is_over(job, one) and one.path not in named]
    if late:
        turn.change_job(job, doomed=(*job.doomed, *late))


def _count(turn: Turn, job: Job, status: TrainerStatus, written: Checkpoint) -> None:
    if job.formation is None:
        return  # a pause closed what it was written by, and said what is left
    state, held, committed = written.version, status.version, reached(job, turn.watches.get(job.id))
    if not _is_newer(job, state):
        return
    writer = Member(written.worker, status.incarnation)
    saves = job.saver == writer and status.promised == job.generation
    lies_on = held is not None and held.generation == state.generation and held >= state  # its line, below what it has
    ordered = lies_on and (saves or _was_asked(job, writer, state))
    if ordered or survives(job.history, state, committed):
        _take_in(turn, job, written)
        if saves and held == state:
            turn.change_watch(job.id, since=turn.now)  # the report has its own time


def _is_newer(job: Job, state: Version) -> bool:
    """Below one that was struck its file may have been deleted, as one that nobody told of."""
    newest = max([job.saved, *(one.checkpoint.version for one in job.struck)])
    return state > newest and not job.ended


def _was_asked(job: Job, writer: Member, state: Version) -> bool:
    """Whether it was to save this state of the last generation, and was given up: it may have come off after all."""
    last = job.formation.generation if job.formation is not None else 0
    return state.generation == last and writer in job.savers


def _take_in(turn: Turn, job: Job, written: Checkpoint) -> None:
    turn.change_job(job, **_came_off(job, written))
    state, name = written.version, written.worker
    reason = f"the state of step {state.step} is durable: {written.path}"
    turn.note("checkpoint", reason, job=job.id, worker=name, step=state.step, generation=state.generation)


def _came_off(job: Job, written: Checkpoint) -> Mapping[str, Any]:
    """What changes of a job with a new checkpoint: its state() came off, and is blamed for no earlier failure."""
    return {**taken_in(job, written), "failures": blame.saved(job)}


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


def _written_by(turn: Turn, name: str, file: Checkpoint) -> Checkpoint:
    """Its writer, and the machine of the writing: the name may later be another machine's, or nobody's."""
    return replace(file, worker=name, host=turn.workers[name].host)


def files_discarded(turn: Turn, name: str, report: Discarded) -> None:
    job = turn.jobs.get(report.job)
    if job is None:
        return
    gone = [one for one in job.doomed if one.path in report.paths and is_due_to(turn.cluster, name, one)]
    if not gone:
        return  # told twice
    turn.change_job(job, doomed=tuple(one for one in job.doomed if one not in gone))
    if report.error is not None:
        reason = f"{name} could not delete a checkpoint that is not kept any more: {report.error}"
        turn.note("not_deleted", reason, job=job.id, worker=name, paths=list(report.paths))
