"""What each report changes in what is known: the facts of agents and trainers, taken in.

Owns: which report belongs to whom, and to which generation; who is registered, alive, prepared, halted, formed, dead.
What a later promise or formation overtook is history, and changes nothing.
Refuses to know: what follows from the facts (`rounds`, `regroup`), and whose error a failure is (`blame`).
"""

from dataclasses import replace
from math import isfinite

from regroup.core import leaving
from regroup.core.blame import agrees, blame_task, count_odd_replicas, prepare_failed
from regroup.core.cluster import ASKED, Answer, reached
from regroup.core.hanging import hang_told, stacks_taken
from regroup.core.history import survives
from regroup.core.jobs import Checkpoint, Job, JobPhase, Member, StepFailure, StepPoint, Version, Wanted
from regroup.core.keeping import taken_in
from regroup.core.messages.agent_reports import (
    AgentLeft,
    AgentRegistered,
    Discarded,
    Heartbeat,
    RecordsFailed,
    RecordsListed,
    RecordsRead,
    StacksTaken,
    TrainerExited,
)
from regroup.core.messages.events import Report
from regroup.core.messages.orders import Heard, Order, Welcome
from regroup.core.messages.trainer_reports import (
    CheckpointFailed,
    CheckpointUnreadable,
    Formed,
    GroupBroke,
    Halted,
    Prepared,
    PrepareFailed,
    ReplicasDiffered,
    SaveFailed,
    StateSaved,
    StepFailed,
    StepsCommitted,
    TrainerReport,
)
from regroup.core.regroup import RESTED
from regroup.core.rounds import Stage, begin_round, stage
from regroup.core.stragglers import compare_pace
from regroup.core.striking import is_struck, take_word
from regroup.core.turn import Turn
from regroup.core.workers import LEFT, Sighting, TrainerPhase, TrainerStatus, Worker


def take_in(turn: Turn, name: str, report: Report) -> tuple[Order, ...]:
    """One report's facts. Returns what is answered to it directly."""
    if isinstance(report, AgentRegistered):
        _register(turn, name, report)
        return (Welcome(turn.policy.heartbeat_interval, turn.policy.hang_floor),)
    worker = turn.workers.get(name)
    sighting = turn.sightings.get(name)
    if worker is None or sighting is None:
        return ()  # it registers first on every connection; what overtook that is told again by its heartbeats
    gap = turn.now - sighting.seen > turn.policy.quiet_limit
    since = turn.now if gap else sighting.since
    newest: Sighting | Heartbeat = sighting
    if isinstance(report, Heartbeat) and report.boot == worker.boot and report.sequence > sighting.sequence:
        newest = report
    turn.sightings[name] = replace(
        sighting,
        seen=turn.now,
        connected=True,
        since=since,
        sequence=newest.sequence,
        telemetry=newest.telemetry,
        hang=newest.hang,
        pace=newest.pace,
    )
    match report:
        case Heartbeat():
            if report.boot != worker.boot:
                return ()
            if report.leaving:
                leaving.ask(turn, name)
            if newest is report:
                _observe(turn, name, report.trainer)
                hang_told(turn, name, sighting)
                compare_pace(turn, name, sighting)
            job = turn.jobs.get(worker.job) if worker.job else None
            issued = job.formation.generation if job and job.formation else 0
            return (Heard(report.sequence, issued),)
        case AgentLeft(boot=boot):
            if boot != worker.boot:
                return ()
            _exited(turn, name, ASKED)
            turn.sightings[name] = replace(turn.sightings[name], connected=False)
            turn.note("left", f"{name} said goodbye: its agent was asked to end", worker.job, name)
            turn.unlend(name, "its agent left")
            turn.workers[name] = replace(turn.workers[name], boot=LEFT, leaving=False)
        case TrainerExited():
            _trainer_exited(turn, name, report)
        case StacksTaken():
            stacks_taken(turn, name, report)
        case Discarded():
            _discarded(turn, name, report)
        case RecordsListed() | RecordsRead() | RecordsFailed():
            pass  # the shell hands it to whoever asked
        case _:
            _take_in_trainer(turn, name, report)
    return ()


def _register(turn: Turn, name: str, report: AgentRegistered) -> None:
    known = turn.workers.get(name)
    if known is None or known.boot != report.boot:
        turn.note("registered", f"{name} registered on {report.host}, {report.device}", worker=name)
    if known is not None and known.boot != report.boot:
        # The same worker began anew: whatever ran under its old agent is known dead.
        busy = any(member.worker == name for _, member in turn.listed())
        meant = known.boot == LEFT or known.leaving
        _exited(turn, name, ASKED if meant else "its agent died")
        if busy and not meant:
            turn.count_error(name, "its agent died")
        turn.readmit(name)
        known = replace(turn.workers[name], leaving=False)
    told = {key: getattr(report, key) for key in ("boot", "device", "host", "pid", "version")}
    turn.workers[name] = replace(known, **told) if known is not None else Worker(name=name, **told)
    again = turn.sightings.get(name) if known is not None and known.boot == report.boot else None
    if again is not None:
        turn.sightings[name] = replace(again, seen=turn.now, connected=True, since=turn.now)
    else:
        turn.sightings[name] = Sighting(seen=turn.now, since=turn.now, moved=turn.now)


def _exited(turn: Turn, name: str, cause: str) -> None:
    """Whatever trainer this worker had is known dead, also one that only the formations remember."""
    _bury_listed(turn, name, None, cause)
    sighting = turn.sightings.get(name)
    if sighting is not None and sighting.trainer is not None:
        turn.bury(sighting.trainer.job, Member(name, sighting.trainer.incarnation), cause)
        turn.sightings[name] = replace(sighting, trainer=None, hang=None, moved=turn.now)


def _bury_listed(turn: Turn, name: str, alive: str | None, cause: str) -> None:
    """A worker has one trainer at most: all that formations list of it, but incarnation `alive`, are dead."""
    for job, member in list(turn.listed()):
        if member.worker == name and member.incarnation != alive and member not in turn.watch(job.id).dead:
            turn.bury(job.id, member, cause)


def _trainer_exited(turn: Turn, name: str, report: TrainerExited) -> None:
    member = Member(name, report.incarnation)
    job = turn.jobs.get(report.job)
    evicted = job is not None and not job.ended and member in turn.watch(job.id).evicted
    cause = "it was evicted" if evicted else ASKED if report.asked else report.cause
    if job is not None and not job.ended and turn.watch(job.id).dead.get(member) == cause:
        return  # told twice
    turn.bury(report.job, member, cause)
    trainer = turn.sightings[name].trainer
    preparing = False
    if trainer is not None and trainer.incarnation == report.incarnation:
        preparing = trainer.phase is TrainerPhase.PREPARING
        turn.sightings[name] = replace(turn.sightings[name], trainer=None, hang=None, moved=turn.now)
    if report.asked and not evicted:
        return
    if not report.asked:
        turn.note("exited", f"{name}'s trainer: {report.cause}", job=report.job, worker=name)
        turn.count_error(name, report.cause)
    if job is None or job.ended:
        return
    killed = report.cause == "killed by SIGKILL"
    if report.step is not None and report.shard is not None:
        cause = "it hung, and was evicted" if evicted else report.cause
        generation = job.formation.generation if job.formation is not None else 0
        failure = StepFailure(report.step, report.shard, name, cause, died=True, generation=generation)
        blame_task(turn, job, failure, killed and not evicted)
    elif preparing and not job.history:  # later it is the worker's, which was counted
        error = "it hung while preparing" if evicted else f"its process ended while preparing: {report.cause}"
        blame_task(turn, job, StepFailure(-1, -1, name, error, died=True), killed and not evicted)


def _take_in_trainer(turn: Turn, name: str, report: TrainerReport) -> None:
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
            _observe(turn, name, status)
        case PrepareFailed():
            prepare_failed(turn, job, name, report)
        case Halted(generation=n, version=version, store=store) if not overtaken:
            halted = replace(
                trainer, phase=TrainerPhase.HALTED, promised=n, version=version, store=store, at_work=False
            )
            _observe(turn, name, halted)
        case Formed(generation=n) if not overtaken and job.formation and job.formation.generation == n:
            version = Version(n, job.formation.base.step)
            _observe(turn, name, replace(trainer, phase=TrainerPhase.TRAINING, generation=n, version=version))
        case GroupBroke(generation=n) if not overtaken:
            _observe(turn, name, replace(trainer, phase=TrainerPhase.BROKEN, generation=n), broken=report.reason)
        case StepsCommitted(generation=n, step=step, points=points):
            # Of a torn state it was told before that it is none; this may have waited for a connection.
            if not overtaken and trainer.version is not None and Version(n, step) > trainer.version:
                _observe(turn, name, replace(trainer, version=Version(n, step)))
            if points and job.formation and n == job.formation.generation and member in job.formation.members:
                turn.points.append((job.id, points))
                _look_at_losses(turn, job, points)
        case StepFailed():
            if not overtaken:
                turn.change_watch(job.id, stumbled={}, fruitless=0)  # it is why they did not form, or made no step
                _observe(turn, name, replace(trainer, phase=TrainerPhase.BROKEN), broken=f"{name}: {report.error}")
            failure = StepFailure(report.step, report.shard, name, report.traceback, generation=report.generation)
            turn.note("step_failed", f"{name}, step {report.step}, shard {report.shard}: {report.error}", job=job.id)
            blame_task(turn, turn.jobs[job.id], failure)
        case ReplicasDiffered(step=step):
            if report.generation <= turn.watch(job.id).differed:
                return  # told twice
            turn.change_watch(job.id, differed=report.generation)
            reason = f"replicas differed at step {step}: whoever is not like most takes the others' state"
            turn.note("replicas_differed", reason, job=job.id, worker=name, digests=list(report.digests))
            count_odd_replicas(turn, job, report)
            if not overtaken:
                _observe(turn, name, replace(trainer, phase=TrainerPhase.BROKEN), broken=reason)
        case StateSaved():
            _saved(turn, job, member, report)
        case SaveFailed():
            _save_failed(turn, job, member, report)
        case CheckpointFailed(step=step, error=error):
            reason = f"{name} could not write the checkpoint of step {step}, and trains on: {error}"
            turn.note("checkpoint_failed", reason, job=job.id, worker=name, step=step)
        case CheckpointUnreadable(generation=n, error=error) if not overtaken:
            reason = f"{name} cannot read the checkpoint: {error}"
            turn.note("unreadable", reason, job=job.id, worker=name, damaged=report.damaged)
            turn.change_watch(job.id, stumbled={})  # that a formation fails for this says nothing against anybody
            take_word(turn, job, member, report)
            _observe(turn, name, replace(trainer, phase=TrainerPhase.BROKEN, generation=n), broken=reason)


def _look_at_losses(turn: Turn, job: Job, points: tuple[StepPoint, ...]) -> None:
    """Say once that a loss is no number: the training goes on, and is probably in vain."""
    odd = next((point for point in points if point.loss is not None and not isfinite(point.loss)), None)
    if odd is not None and not turn.watch(job.id).diverged:
        turn.change_watch(job.id, diverged=True)
        reason = f"the loss of step {odd.step} is {odd.loss}: look at the learning rate, at clip, and at the data"
        turn.note("diverged", reason, job=job.id, step=odd.step)


def _observe(turn: Turn, name: str, status: TrainerStatus | None, broken: str = "its group broke") -> None:
    """Take in where a worker's trainer stands, whether a heartbeat or a report of its own said so."""
    sighting = turn.sightings[name]
    before = sighting.trainer
    if before is not None and (status is None or status.incarnation != before.incarnation):
        turn.bury(before.job, Member(name, before.incarnation), "its process is gone")
    _bury_listed(turn, name, status.incarnation if status else None, "its process is gone")
    moved = turn.now if status != before and not _only_promised(before, status) else sighting.moved
    turn.sightings[name] = replace(sighting, trainer=status, moved=moved)
    job = turn.jobs.get(status.job) if status else None
    if status is None or job is None or job.ended or turn.workers[name].job != job.id:
        return
    member = Member(name, status.incarnation)
    if status.fingerprint is not None and not agrees(turn, job, name, status):
        return
    job = turn.jobs[job.id]
    if max(status.promised, status.generation) > job.generation:
        highest = max(status.promised, status.generation)
        turn.change_job(job, generation=highest)
        if job.phase is JobPhase.PAUSED:
            return  # a number above it is taken when it is resumed
        begin_round(turn, turn.jobs[job.id], f"{name} knows generation {highest}, above the coordinator's")
        return
    _take_phase(turn, job, member, status, broken)
    if status.written is not None and not turn.jobs[job.id].ended:
        _count_checkpoint(turn, turn.jobs[job.id], name, status.written)


def _only_promised(before: TrainerStatus | None, status: TrainerStatus | None) -> bool:
    """Whether all that is new is a promise, while its step loop does not come back: no sign that it ever will."""
    if before is None or status is None or not status.at_work or status.phase is not TrainerPhase.HALTED:
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
    if formation is None or member not in formation.members:
        return
    current = status.generation == formation.generation
    if current and status.phase in (TrainerPhase.TRAINING, TrainerPhase.FINISHED) and member not in watch.formed:
        turn.change_watch(job.id, formed=watch.formed | {member})
    if current and status.phase is TrainerPhase.FINISHED:
        turn.change_watch(job.id, finished=True)
    if current and status.phase is TrainerPhase.BROKEN and watch.broken is None:
        turn.change_watch(job.id, broken=f"{member.worker}: {broken}")
    if status.version is not None and status.version.generation == formation.generation:
        step = status.version.step
        if step <= watch.committed.get(member, -1):
            return  # no news
        progressed = turn.now if step > max(watch.committed.values(), default=-1) else watch.progressed
        committed = {**watch.committed, member: step}
        turn.change_watch(job.id, committed=committed, progressed=progressed)
        if watch.first is None and len(committed) == len(formation.members):
            turn.change_watch(job.id, first=(turn.now, reached(job, turn.watch(job.id))))


def _saved(turn: Turn, job: Job, member: Member, report: StateSaved) -> None:
    saver = turn.sightings.get(job.saver.worker) if job.saver is not None else None
    wanted = saver.trainer.version if saver is not None and saver.trainer is not None else None
    version = report.checkpoint.version
    asked = job.saver == member and report.generation == job.generation
    # A slow saver that was given up may still be the first: a state is what its version says, whoever wrote it.
    if job.saver is None or not (asked or version == wanted):
        return  # an evicted or superseded saver moves nothing
    saved = {**taken_in(job, replace(report.checkpoint, worker=member.worker)), "result": report.result}
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


def _count_checkpoint(turn: Turn, job: Job, name: str, written: Checkpoint) -> None:
    """What was written beside the training counts once all members committed it; it is told until then, and after."""
    state, committed = written.version, reached(job, turn.watch(job.id))
    if state > job.saved and survives(job.history, state, committed) and not is_struck(job, written):
        turn.change_job(job, **taken_in(job, replace(written, worker=name)))
        reason = f"the state of step {state.step} is durable: {written.path}"
        turn.note("checkpoint", reason, job=job.id, worker=name, step=state.step, generation=state.generation)


def _discarded(turn: Turn, name: str, report: Discarded) -> None:
    job = turn.jobs.get(report.job)
    if job is None or not (gone := [one for one in job.doomed if one.path in report.paths]):
        return  # told twice
    turn.change_job(job, doomed=tuple(one for one in job.doomed if one not in gone))
    if report.error is not None:
        reason = f"{name} could not delete a checkpoint that is not kept any more: {report.error}"
        turn.note("not_deleted", reason, job=job.id, worker=name, paths=list(report.paths))


def _save_failed(turn: Turn, job: Job, member: Member, report: SaveFailed) -> None:
    if job.saver != member or report.generation != job.generation or stage(job) is not Stage.SAVING:
        return
    tried = (*turn.watch(job.id).failed_savers, member)
    reason = f"{member.worker} could not save, another try follows: {report.error}"
    turn.change_job(job, saver=None, reason=reason)
    turn.change_watch(job.id, failed_savers=tried, since=turn.now)
    turn.note("save_failed", reason, job=job.id, worker=member.worker)
