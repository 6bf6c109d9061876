"""What each report of a trainer changes in what is known of it and of its job.

Owns: which report belongs to the trainer that its agent says runs, and to which generation. What a later promise or
formation overtook is history, and changes nothing.
Refuses to know: what its status changes (`observing`), what becomes of saves (`saves`), whose error a failure is
(`blame`).
"""

from dataclasses import replace
from math import isfinite

from regroup.core.blame import blame_task
from regroup.core.jobs import Job, Member, StepFailure, StepPoint, Version
from regroup.core.likeness import count_odd_replicas, prepare_failed
from regroup.core.messages.trainer_reports import (
    CheckpointFailed,
    CheckpointUnreadable,
    Formed,
    GroupBroke,
    Halted,
    PeersUnreached,
    Prepared,
    PrepareFailed,
    ReplicasDiffered,
    SaveFailed,
    StateSaved,
    StepFailed,
    StepsCommitted,
    TrainerReport,
)
from regroup.core.observing import formed, observe
from regroup.core.saves import save_failed, state_saved
from regroup.core.severed import take_in
from regroup.core.striking import take_word
from regroup.core.turn import Turn
from regroup.core.workers import TrainerPhase, TrainerStatus

_FORMED = (TrainerPhase.TRAINING, TrainerPhase.FINISHED, TrainerPhase.BROKEN)


def take_in_trainer(turn: Turn, name: str, report: TrainerReport) -> None:
    """One report's facts. Of a job that ended, or of another trainer than the one that runs, it changes nothing."""
    job = turn.jobs.get(report.job)
    trainer = turn.sightings[name].trainer
    if job is None or job.ended or turn.workers[name].job != job.id:
        return
    if trainer is None or trainer.incarnation != report.incarnation:
        return  # only its agent's heartbeat says who runs; this one is dead, or the next heartbeat tells the same
    member = Member(name, report.incarnation)
    # What a later promise or formation overtook is history: it must not undo what is known of the trainer.
    overtaken = getattr(report, "generation", 0) < max(trainer.promised, trainer.generation)
    match report:
        case Prepared(fingerprint=fingerprint, store=store):
            status = replace(trainer, phase=TrainerPhase.PREPARED, fingerprint=fingerprint, store=store)
            observe(turn, name, status)
        case PrepareFailed():
            prepare_failed(turn, job, name, report)
        case Halted(generation=n, version=version, store=store) if not overtaken:
            halted = replace(trainer, phase=TrainerPhase.HALTED, promised=n, store=store, at_work=False)
            observe(turn, name, _of(halted, version))
        case Formed(generation=n) if not overtaken and job.formation and job.formation.generation == n:
            if trainer.generation == n and trainer.phase in _FORMED:
                formed(turn, job, member)  # told late: by now it may hold more, or nothing
            else:
                status = replace(trainer, phase=TrainerPhase.TRAINING, generation=n)
                observe(turn, name, _of(status, Version(n, job.formation.base.step)))
        case GroupBroke(generation=n) if not overtaken:
            observe(turn, name, replace(trainer, phase=TrainerPhase.BROKEN, generation=n), broken=report.reason)
        case PeersUnreached():
            take_in(turn, job, member, report)
        case StepsCommitted(generation=n, step=step, points=points):
            # Of a torn state it was told before that it is none; this may have waited for a connection.
            if not overtaken and trainer.version is not None and Version(n, step) > trainer.version:
                observe(turn, name, _of(trainer, Version(n, step)))
            listed = job.formation is not None and n == job.formation.generation and member in job.formation.members
            if points and listed and n != job.given_up:
                turn.points.append((job.id, points))
                _look_at_losses(turn, job, points)
        case StepFailed():
            if not overtaken:
                turn.change_watch(job.id, stumbled={}, fruitless=0)  # it is why they did not form, or made no step
                observe(turn, name, replace(trainer, phase=TrainerPhase.BROKEN), broken=f"{name}: {report.error}")
            failure = StepFailure(report.step, report.shard, name, report.traceback, generation=report.generation)
            turn.note("step_failed", f"{name}, step {report.step}, shard {report.shard}: {report.error}", job=job.id)
            blame_task(turn, turn.jobs[job.id], failure)
        case ReplicasDiffered(step=step):
            if report.generation <= turn.watch(job.id).differed:
                return  # told twice
            turn.change_watch(job.id, differed=report.generation)
            reason = f"replicas differed at step {step}: whoever is not like most takes the others' state"
            turn.note("replicas_differed", reason, job=job.id, worker=name, digests=list(report.digests))
            if not overtaken:  # first, for its own may be the odd one, and it be sent away
                observe(turn, name, replace(trainer, phase=TrainerPhase.BROKEN), broken=reason)
            count_odd_replicas(turn, turn.jobs[job.id], report)
        case StateSaved():
            state_saved(turn, job, member, report)
        case SaveFailed():
            save_failed(turn, job, member, report)
        case CheckpointFailed(step=step, error=error):
            reason = f"{name} could not write the checkpoint of step {step}, and trains on: {error}"
            turn.note("checkpoint_failed", reason, job=job.id, worker=name, step=step)
        case CheckpointUnreadable(generation=n, error=error) if not overtaken:
            reason = f"{name} cannot read the checkpoint: {error}"
            turn.note("unreadable", reason, job=job.id, worker=name, damaged=report.damaged)
            turn.change_watch(job.id, stumbled={})  # that a formation fails for this says nothing against anybody
            take_word(turn, job, member, report)
            observe(turn, name, replace(trainer, phase=TrainerPhase.BROKEN, generation=n), broken=reason)


def _of(trainer: TrainerStatus, version: Version | None) -> TrainerStatus:
    """With this state. Of another one no chunk is evaluated yet, as far as is known."""
    evaluated = trainer.evaluated if version == trainer.version else 0
    return replace(trainer, version=version, evaluated=evaluated)


def _look_at_losses(turn: Turn, job: Job, points: tuple[StepPoint, ...]) -> None:
    """Say once that a loss is no number: the training goes on, and is probably in vain."""
    odd = next((point for point in points if point.loss is not None and not isfinite(point.loss)), None)
    if odd is not None and not turn.watch(job.id).diverged:
        turn.change_watch(job.id, diverged=True)
        reason = f"the loss of step {odd.step} is {odd.loss}: look at the learning rate, at clip, and at the data"
        turn.note("diverged", reason, job=job.id, step=odd.step)
