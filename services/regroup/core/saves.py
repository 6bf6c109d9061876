"""What is told of saves: a state that is durable, one that could not be written, and files that are gone.

Owns: what a job becomes when the state that it waited for is durable, or when a try has failed.
Refuses to know: who is asked to save (`settling`), whose word on a file counts (`written`), which checkpoints are kept
(`keeping`), and when a failure is the task's (`blame`).
"""

from regroup.core import blame, leaving
from regroup.core.jobs import IN_STATE, Job, JobPhase, Member, StepFailure, Wanted
from regroup.core.keeping import is_due_to
from regroup.core.messages.agent_reports import Discarded
from regroup.core.messages.trainer_reports import SaveFailed, StateSaved
from regroup.core.regroup import RESTED
from regroup.core.rounds import Stage, stage
from regroup.core.turn import Turn
from regroup.core.written import came_off, is_newer, take_in, was_asked, written_by


def state_saved(turn: Turn, job: Job, member: Member, report: StateSaved) -> None:
    saver = turn.sightings.get(job.saver.worker) if job.saver is not None else None
    wanted = saver.trainer.version if saver is not None and saver.trainer is not None else None
    version = report.checkpoint.version
    asked = job.saver == member and report.generation == job.generation
    # A slow saver that was given up may still be the first: a state is what its version says, whoever wrote it.
    if job.saver is None or not (asked or version == wanted):
        trainer = turn.cluster.trainer(member)
        held = trainer.version if trainer is not None else None
        if is_newer(job, report.checkpoint) and was_asked(job, member, version, held):
            take_in(turn, job, written_by(turn, member.worker, report.checkpoint))
        return  # an evicted or superseded saver moves nothing else
    if version < job.saved:
        turn.change_job(job, saver=None)  # a newer one that was given up came off meanwhile
        return
    saved = {**came_off(job, written_by(turn, member.worker, report.checkpoint)), "result": report.result}
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
