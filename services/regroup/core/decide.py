"""decide(cluster, event, now, policy) -> (cluster, orders, notes): every decision of the coordinator, as a value.

Owns: what each command and report changes. The order is always: take in the facts, lend free workers, advance the jobs
concerned, derive the orders that became due. The caller persists what is durable before it sends any of them.
Refuses to know: clocks (`now` is passed in), sockets, stores, randomness.
Does not guarantee: that anybody hears the orders; they are due again at the next heartbeat.
"""

from dataclasses import dataclass, replace

from regroup.core import messages as m
from regroup.core.cluster import Answer, Cluster, JobEnded, Policy
from regroup.core.jobs import Job, JobPhase, Member, StepFailure, Version
from regroup.core.notes import Note
from regroup.core.orders import due
from regroup.core.rounds import Stage, advance, begin_round, reached, stage
from regroup.core.schedule import lend, why_queued
from regroup.core.turn import Turn
from regroup.core.workers import LEFT, Sighting, TrainerPhase, TrainerStatus, Worker


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided. Persist the durable part of `cluster` and the notes first, then send the orders."""

    cluster: Cluster
    orders: tuple[tuple[str, m.Order], ...]  # (worker, order)
    notes: tuple[Note, ...]
    points: tuple[tuple[str, tuple[m.StepPoint, ...]], ...]  # (job, measurements of its surviving steps)


def decide(cluster: Cluster, event: m.Event, now: float, policy: Policy) -> Decision:
    """Take one event in. Raises a Refusal, and nothing has changed, if a command cannot be carried out."""
    turn = Turn(cluster, now, policy)
    answers: tuple[m.Order, ...] = ()
    match event:
        case m.SubmitJob(job=job, spec=spec, at=at):
            turn.jobs[job] = Job(id=job, spec=spec, submitted=at)
            turn.note("submitted", f"submitted: {spec.task}", job=job)
        case m.StopJob(job=job):
            _stop(turn, turn.job(job))
        case m.ClearWorker(worker=name):
            worker = turn.worker(name)
            turn.workers[name] = replace(worker, errors=0, quarantined=False, reason="cleared by its operator")
            turn.note("cleared", f"{name} was cleared by its operator", worker=name)
        case m.Disconnected(worker=name):
            if name in turn.sightings:
                turn.sightings[name] = replace(turn.sightings[name], connected=False)
        case m.Reported(worker=name, report=report):
            answers = _take_in(turn, name, report)
        case m.Tick():
            _unlend_absent(turn)
        case m.KeepSteps():
            _keep_steps(turn)
    _lend(turn)
    for job in list(turn.jobs):
        advance(turn, job)
    return _decided(cluster, turn, event, answers)


def _decided(before: Cluster, turn: Turn, event: m.Event, answers: tuple[m.Order, ...]) -> Decision:
    after = turn.cluster
    reporter = event.worker if isinstance(event, m.Reported) else None
    # A heartbeat shows where its sender stands, so all that is due to it is said again; others hear what is new.
    told = isinstance(event, m.Reported) and isinstance(event.report, m.Heartbeat)
    changed = {id for id, job in after.jobs.items() if job is not before.jobs.get(id) or _evicted(before, after, id)}
    orders: list[tuple[str, m.Order]] = [(reporter, answer) for answer in answers] if reporter else []
    for name, worker in after.workers.items():
        if name == reporter or worker.job in changed or worker is not before.workers.get(name):
            known = () if told and name == reporter else due(before, name)
            orders += [(name, order) for order in due(after, name) if order not in known]
    return Decision(after, tuple(orders), tuple(turn.notes), tuple(turn.points))


def _evicted(before: Cluster, after: Cluster, job: str) -> bool:
    old, new = before.watches.get(job), after.watches.get(job)
    return new is not None and (old is None or old.evicted is not new.evicted)


def _stop(turn: Turn, job: Job) -> None:
    if job.ended:
        raise JobEnded(f"job {job.id} is {job.phase} already")
    if job.formation is None and job.round is None:
        turn.end(job, JobPhase.STOPPED, "stopped before its first step", stopping=True)
    elif not job.stopping:
        turn.change_job(job, stopping=True)
        turn.note("stopping", "its user asked to stop it", job=job.id)


def _lend(turn: Turn) -> None:
    for name, job_id in lend(turn.cluster).items():
        job = turn.jobs[job_id]
        if job.phase is JobPhase.QUEUED:
            reason = "its first workers are preparing"
            turn.change_job(job, phase=JobPhase.PREPARING, reason=reason)
            turn.note("preparing", reason, job=job_id)
        turn.workers[name] = replace(turn.workers[name], job=job_id, reason=f"lent to job {job_id}")
        turn.note("lent", f"{name} is lent to the job", job=job_id, worker=name)
    for job in turn.jobs.values():
        if job.phase is JobPhase.QUEUED and job.reason != (reason := why_queued(turn.cluster, job)):
            turn.change_job(job, reason=reason)


def _unlend_absent(turn: Turn) -> None:
    """A worker that is gone for long, and that no formation lists, makes room for another."""
    for name, worker in list(turn.workers.items()):
        job = turn.jobs.get(worker.job) if worker.job else None
        if job is None or (job.formation and name in {member.worker for member in job.formation.members}):
            continue
        sighting = turn.sightings.get(name)
        absent = turn.now - (turn.started if sighting is None else sighting.seen)
        if absent > turn.policy.absent_limit and (sighting is None or not sighting.connected):
            turn.unlend(name, f"not heard of for {absent:.0f} s")


def _keep_steps(turn: Turn) -> None:
    for id, watch in turn.watches.items():
        job = turn.jobs[id]
        if (step := reached(job, watch)) > job.step:
            turn.change_job(job, step=step)


def _take_in(turn: Turn, name: str, report: m.Report) -> tuple[m.Order, ...]:
    """One report's facts. Returns what is answered to it directly."""
    if isinstance(report, m.AgentRegistered):
        _register(turn, name, report)
        return (m.Welcome(turn.policy.heartbeat_interval, turn.policy.detached_limit),)
    worker = turn.workers.get(name)
    sighting = turn.sightings.get(name)
    if worker is None or sighting is None:
        return ()  # it registers first on every connection; what overtook that is told again by its heartbeats
    turn.sightings[name] = replace(sighting, seen=turn.now, connected=True)
    match report:
        case m.Heartbeat():
            if report.boot != worker.boot:
                return ()
            if report.sequence > sighting.sequence:
                newest = replace(turn.sightings[name], sequence=report.sequence, telemetry=report.telemetry)
                turn.sightings[name] = newest
                _observe(turn, name, report.trainer)
            job = turn.jobs.get(worker.job) if worker.job else None
            issued = job.formation.generation if job and job.formation else 0
            return (m.Heard(report.sequence, issued),)
        case m.AgentLeft(boot=boot):
            if boot != worker.boot:
                return ()
            _exited(turn, name, "its agent left", asked=True)
            turn.sightings[name] = replace(turn.sightings[name], connected=False)
            turn.unlend(name, "its agent left")
            turn.workers[name] = replace(turn.workers[name], boot=LEFT)
        case m.TrainerExited():
            _trainer_exited(turn, name, report)
        case m.RecordsRead():
            pass  # the shell hands it to whoever asked
        case _:
            _take_in_trainer(turn, name, report)
    return ()


def _register(turn: Turn, name: str, report: m.AgentRegistered) -> None:
    known = turn.workers.get(name)
    if known is None or known.boot != report.boot:
        turn.note("registered", f"{name} registered on {report.host}, {report.device}", worker=name)
    if known is not None and known.boot != report.boot:
        # The same worker began anew: whatever ran under its old agent is known dead.
        busy = any(
            member.worker == name
            for job in turn.jobs.values()
            if not job.ended and job.formation
            for member in job.formation.members
        )
        _exited(turn, name, "its agent died", asked=False)
        if busy and known.boot != LEFT:
            turn.count_error(name, "its agent died")
        known = turn.workers[name]
    told = {key: getattr(report, key) for key in ("boot", "device", "host", "pid", "version")}
    turn.workers[name] = replace(known, **told) if known is not None else Worker(name=name, **told)
    again = turn.sightings.get(name) if known is not None and known.boot == report.boot else None
    if again is not None:
        turn.sightings[name] = replace(again, seen=turn.now, connected=True)
    else:
        turn.sightings[name] = Sighting(seen=turn.now)


def _exited(turn: Turn, name: str, cause: str, asked: bool) -> None:
    """Whatever trainer this worker had is known dead, also one that only the formations remember."""
    _bury_listed(turn, name, None, cause)
    sighting = turn.sightings.get(name)
    if sighting is not None and sighting.trainer is not None:
        turn.bury(sighting.trainer.job, Member(name, sighting.trainer.incarnation), cause)
        turn.sightings[name] = replace(sighting, trainer=None)


def _bury_listed(turn: Turn, name: str, alive: str | None, cause: str) -> None:
    """A worker has one trainer at most: all that formations list of it, but incarnation `alive`, are dead."""
    for job in turn.jobs.values():
        for member in job.formation.members if job.formation is not None and not job.ended else ():
            if member.worker == name and member.incarnation != alive and member not in turn.watch(job.id).dead:
                turn.bury(job.id, member, cause)


def _trainer_exited(turn: Turn, name: str, report: m.TrainerExited) -> None:
    member = Member(name, report.incarnation)
    turn.bury(report.job, member, report.cause)
    trainer = turn.sightings[name].trainer
    preparing = False
    if trainer is not None and trainer.incarnation == report.incarnation:
        preparing = trainer.phase is TrainerPhase.PREPARING
        turn.sightings[name] = replace(turn.sightings[name], trainer=None)
    if report.asked:
        return
    turn.note("exited", f"{name}'s trainer: {report.cause}", job=report.job, worker=name)
    turn.count_error(name, report.cause)
    job = turn.jobs.get(report.job)
    if job is None or job.ended or report.cause == "killed by SIGKILL":
        return  # SIGKILL comes from outside; all other ends may be the doing of the task's code
    if preparing:
        error = f"its process ended while preparing: {report.cause}"
        _blame_task(turn, job, StepFailure(-1, -1, name, error, died=True))
    elif report.step is not None and report.shard is not None:
        _blame_task(turn, job, StepFailure(report.step, report.shard, name, report.cause, died=True))


def _take_in_trainer(turn: Turn, name: str, report: m.TrainerReport) -> None:
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
        case m.Prepared(fingerprint=fingerprint, store=store):
            status = replace(trainer, phase=TrainerPhase.PREPARED, fingerprint=fingerprint, store=store)
            _observe(turn, name, status)
        case m.PrepareFailed():
            _prepare_failed(turn, job, name, report)
        case m.Halted(generation=n, version=version, store=store) if not overtaken:
            halted = replace(trainer, phase=TrainerPhase.HALTED, promised=n, version=version, store=store)
            _observe(turn, name, halted)
        case m.Formed(generation=n) if not overtaken and job.formation and job.formation.generation == n:
            version = Version(n, job.formation.base.step)
            _observe(turn, name, replace(trainer, phase=TrainerPhase.TRAINING, generation=n, version=version))
        case m.GroupBroke(generation=n) if not overtaken:
            _observe(turn, name, replace(trainer, phase=TrainerPhase.BROKEN, generation=n), broken=report.reason)
        case m.StepsCommitted(generation=n, step=step, points=points):
            if not overtaken and (trainer.version is None or Version(n, step) > trainer.version):
                _observe(turn, name, replace(trainer, version=Version(n, step)))
            if points and job.formation and n == job.formation.generation and member in job.formation.members:
                turn.points.append((job.id, points))
        case m.StepFailed():
            if not overtaken:
                _observe(turn, name, replace(trainer, phase=TrainerPhase.BROKEN), broken=f"{name}: {report.error}")
            failure = StepFailure(report.step, report.shard, name, report.traceback)
            turn.note("step_failed", f"{name}, step {report.step}, shard {report.shard}: {report.error}", job=job.id)
            _blame_task(turn, turn.jobs[job.id], failure)
        case m.ReplicasDiffered(step=step):
            reason = f"replicas differed at step {step}: the others take the leader's state"
            turn.note("replicas_differed", reason, job=job.id, worker=name, digests=list(report.digests))
            if not overtaken:
                _observe(turn, name, replace(trainer, phase=TrainerPhase.BROKEN), broken=reason)
        case m.StateSaved():
            _saved(turn, job, member, report)
        case m.SaveFailed():
            _save_failed(turn, job, member, report)


def _observe(turn: Turn, name: str, status: TrainerStatus | None, broken: str = "its group broke") -> None:
    """Take in where a worker's trainer stands, whether a heartbeat or a report of its own said so."""
    sighting = turn.sightings[name]
    before = sighting.trainer
    if before is not None and (status is None or status.incarnation != before.incarnation):
        turn.bury(before.job, Member(name, before.incarnation), "its process is gone")
    _bury_listed(turn, name, status.incarnation if status else None, "its process is gone")
    turn.sightings[name] = replace(sighting, trainer=status)
    job = turn.jobs.get(status.job) if status else None
    if status is None or job is None or job.ended or turn.workers[name].job != job.id:
        return
    member = Member(name, status.incarnation)
    if status.fingerprint is not None and not _agrees(turn, job, name, status):
        return
    job = turn.jobs[job.id]
    if max(status.promised, status.generation) > job.generation:
        highest = max(status.promised, status.generation)
        turn.change_job(job, generation=highest)
        begin_round(turn, turn.jobs[job.id], f"{name} knows generation {highest}, above the coordinator's")
        return
    _take_phase(turn, job, member, status, broken)


def _take_phase(turn: Turn, job: Job, member: Member, status: TrainerStatus, broken: str) -> None:
    watch, formation = turn.watch(job.id), job.formation
    if job.round and status.phase is TrainerPhase.HALTED and status.promised == job.round.generation:
        if member in job.round.participants:
            answer = Answer(status.version, status.store)
            turn.change_watch(job.id, answers={**watch.answers, member: answer})
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
        if step > max(watch.committed.values(), default=-1):
            turn.change_watch(job.id, progressed=turn.now)
        committed = {**turn.watch(job.id).committed, member: max(step, watch.committed.get(member, 0))}
        turn.change_watch(job.id, committed=committed)


def _agrees(turn: Turn, job: Job, name: str, status: TrainerStatus) -> bool:
    """Compare a prepared trainer's code and data with the job's; the first one sets them."""
    theirs = status.fingerprint
    if job.fingerprint is None:
        turn.change_job(job, fingerprint=theirs)
        return True
    if theirs == job.fingerprint:
        return True
    ours = job.fingerprint
    parts = [part for part in ("code", "dataset", "samples") if getattr(theirs, part) != getattr(ours, part)]
    _refuse(turn, job, name, f"its {' and '.join(parts)} differ from the other workers'")
    return False


def _refuse(turn: Turn, job: Job, name: str, reason: str) -> None:
    turn.change_job(job, refused={**job.refused, name: reason})
    turn.note("refused", f"{name} may not take part: {reason}", job=job.id, worker=name)
    turn.unlend(name, reason)


def _prepare_failed(turn: Turn, job: Job, name: str, report: m.PrepareFailed) -> None:
    if job.formation is None:
        reason = f"{report.field}: {report.message}"
        turn.end(job, JobPhase.FAILED, reason, error=report.traceback or reason)
    else:
        _refuse(turn, job, name, f"{report.field}: {report.message}")


def _blame_task(turn: Turn, job: Job, failure: StepFailure) -> None:
    """The same step and shard failing on two workers, or again where there is no other worker, is the task's error."""
    same = [f for f in job.failures if (f.step, f.shard) == (failure.step, failure.shard)]
    job = turn.change_job(job, failures=(*job.failures[-19:], failure))
    others = {f.worker for f in same} - {failure.worker}
    alone = job.formation is None or len(job.formation.seats) == 1
    if others or (same and alone) or len(same) >= 2:
        where = "while preparing" if failure.step < 0 else f"in step {failure.step}, shard {failure.shard}"
        workers = ", ".join(sorted({f.worker for f in (*same, failure)}))
        last = failure.error.strip().splitlines()[-1]
        turn.end(job, JobPhase.FAILED, f"the task failed {where} on {workers}: {last}", error=failure.error)
        for each in (*same, failure):
            if each.died:
                turn.forgive_error(each.worker)


def _saved(turn: Turn, job: Job, member: Member, report: m.StateSaved) -> None:
    saver = turn.sightings.get(job.saver.worker) if job.saver is not None else None
    wanted = saver.trainer.version if saver is not None and saver.trainer is not None else None
    version = report.checkpoint.version
    asked = job.saver == member and report.generation == job.generation
    # A slow saver that was given up may still be the first: a state is what its version says, whoever wrote it.
    if job.saver is None or not (asked or version == wanted):
        return  # an evicted or superseded saver moves nothing
    finished = job.steps is not None and version.step >= job.steps
    phase = JobPhase.COMPLETED if finished else JobPhase.STOPPED
    reason = f"{phase} at step {version.step}; its state is in {report.checkpoint.path}"
    turn.end(job, phase, reason, checkpoint=report.checkpoint, result=report.result, step=version.step)


def _save_failed(turn: Turn, job: Job, member: Member, report: m.SaveFailed) -> None:
    if job.saver != member or report.generation != job.generation or stage(job) is not Stage.SAVING:
        return
    tried = turn.watch(job.id).failed_savers | {member}
    reason = f"{member.worker} could not save, another try follows: {report.error}"
    turn.change_job(job, saver=None, reason=reason)
    turn.change_watch(job.id, failed_savers=tried, since=turn.now)
    turn.note("save_failed", reason, job=job.id, worker=member.worker)
