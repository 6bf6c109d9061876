"""What each report of an agent changes in what is known; what its trainer says is handed on.

Owns: who is registered, heard and gone, and whose trainer ended how.
Refuses to know: what trainers tell of themselves (`trainer_reports`), what follows from the facts (`rounds`,
`regroup`), and whose error a failure is (`blame`).
"""

from dataclasses import replace

from regroup.core import leaving
from regroup.core.blame import blame_task, died_preparing
from regroup.core.cluster import ASKED, reached
from regroup.core.hanging import hang_told, stacks_taken
from regroup.core.jobs import IN_LOAD, OUTSIDE, Job, Member, StepFailure
from regroup.core.messages.agent_reports import (
    AgentLeft,
    AgentRegistered,
    Discarded,
    Heartbeat,
    RecordsFailed,
    RecordsListed,
    RecordsRead,
    ReportTooLarge,
    StacksTaken,
    TrainerExited,
)
from regroup.core.messages.events import Report
from regroup.core.messages.orders import Heard, Order, TurnAway, Welcome
from regroup.core.messages.protocol import PROTOCOL
from regroup.core.observing import bury_listed, observe, take_left
from regroup.core.saves import files_discarded
from regroup.core.stragglers import compare_pace
from regroup.core.trainer_reports import take_in_trainer
from regroup.core.turn import Turn
from regroup.core.workers import LEFT, Sighting, TrainerPhase, Worker
from regroup.core.written import settled

DIED = "its agent died"
ENDED = 64  # trainers of a worker whose ends are remembered: what is told again is what its agent told last


def take_in(turn: Turn, name: str, report: Report) -> tuple[Order, ...]:
    """One report's facts. Returns what is answered to it directly."""
    if isinstance(report, AgentRegistered):
        if report.protocol != PROTOCOL:
            return (_turn_away(turn, name, report),)
        _register(turn, name, report)
        return (Welcome(turn.policy.heartbeat_interval, turn.policy.hang_floor),)
    worker = turn.workers.get(name)
    sighting = turn.sightings.get(name)
    if worker is None or sighting is None:
        return ()  # it registers first on every connection; what overtook that is told again by its heartbeats
    if isinstance(report, Heartbeat) and report.boot != worker.boot:
        return ()  # of one that was turned away, or is gone: it is no sign of life of the one that is registered
    gap = turn.now - sighting.seen > turn.policy.quiet_limit
    since = turn.now if gap else sighting.since
    # Its machine may have slept: it did not prepare on.
    slept = turn.now - sighting.seen > turn.policy.prepare_limit / 2
    unready = sighting.trainer is not None and sighting.trainer.phase is TrainerPhase.PREPARING
    newest: Sighting | Heartbeat = sighting
    if isinstance(report, Heartbeat) and report.sequence > sighting.sequence:
        newest = report
    turn.sightings[name] = replace(
        sighting,
        seen=turn.now,
        connected=True,
        since=since,
        moved=turn.now if slept and unready else sighting.moved,
        told=newest is report or (sighting.told and not gap),
        sequence=newest.sequence,
        telemetry=newest.telemetry,
        hang=newest.hang,
        pace=newest.pace,
    )
    match report:
        case Heartbeat():
            if report.leaving:
                leaving.ask(turn, name)
            told: list[str] = []  # what an old one tells of is not taken in, so it may not be dropped yet
            if newest is report:
                for ended in report.left:
                    take_left(turn, name, ended)
                    told += settled(turn, ended)
                observe(turn, name, report.trainer, anew=not sighting.told)
                told += settled(turn, report.trainer) if report.trainer is not None else ()
                hang_told(turn, name, sighting)
                compare_pace(turn, name, sighting)
            return (Heard(report.sequence, _renewed(turn, name), tuple(told)),)
        case AgentLeft(boot=boot):
            if boot != worker.boot:
                return ()
            _exited(turn, name, ASKED)
            turn.sightings[name] = replace(turn.sightings[name], connected=False)
            turn.note("left", f"{name} said goodbye: its agent was asked to end", worker.job, name)
            turn.unlend(name, "its agent left")
            turn.workers[name] = replace(turn.workers[name], boot=LEFT, leaving=False, meant=True)
        case TrainerExited():
            _trainer_exited(turn, name, report)
        case StacksTaken():
            stacks_taken(turn, name, report)
        case Discarded():
            files_discarded(turn, name, report)
        case ReportTooLarge(job=id, report=kind, size=size):
            reason = f"{name} had a {kind} of {size} bytes to tell, more than its link carries: it is lost"
            turn.note("report_lost", reason, id if id in turn.jobs else None, name)
        case RecordsListed() | RecordsRead() | RecordsFailed():
            pass  # the shell hands it to whoever asked
        case _:
            take_in_trainer(turn, name, report)
    return ()


def _renewed(turn: Turn, name: str) -> int:
    """The generation of which this answer renews the lease; 0: of none. Who was evicted, and does not end, is not to
    hold up the others for ever."""
    worker, sighting = turn.workers[name], turn.sightings[name]
    job = turn.jobs.get(worker.job) if worker.job else None
    if job is None or job.formation is None or sighting.trainer is None or sighting.trainer.job != job.id:
        return 0
    watch, member = turn.watches.get(job.id), Member(name, sighting.trainer.incarnation)
    if watch is not None and member in watch.evicted:
        return 0
    turn.sightings[name] = replace(sighting, renewed=turn.now)
    return job.formation.generation


def _turn_away(turn: Turn, name: str, report: AgentRegistered) -> TurnAway:
    """Nothing of what is known changes: a job may train on others, or on an earlier agent of this name."""
    theirs = f"{name} speaks protocol {report.protocol} (Regroup {report.version})"
    ours = f"this coordinator protocol {PROTOCOL} (Regroup {turn.cluster.release})"
    older = "agent" if report.protocol < PROTOCOL else "coordinator"
    reason = f"{theirs}, {ours}: update the {older}"
    turn.note("turned_away", reason, worker=name)
    return TurnAway(reason)


def _register(turn: Turn, name: str, report: AgentRegistered) -> None:
    known = turn.workers.get(name)
    if known is None or known.boot != report.boot:
        turn.note("registered", f"{name} registered on {report.host}, {report.device}", worker=name)
    if known is not None and known.boot != report.boot:
        # The same worker began anew: whatever ran under its old agent is known dead.
        busy = (known.job is not None or _is_listed_alive(turn, name)) and not _is_charged(turn, name)
        meant = known.boot == LEFT or known.leaving
        doubtful = _died_in_task(turn, name)
        _exited(turn, name, ASKED if meant else DIED)
        heard = name in turn.sightings  # else this coordinator may have lost its power with it
        if busy and heard and not meant and not known.barren:
            turn.count_error(name, DIED)
            if doubtful is not None:
                blame_task(turn, *doubtful)
        known = replace(turn.workers[name], leaving=False, meant=meant or known.meant, barren=False)
    if known is None:
        turn.recall(name)
    if known is None or known.boot != report.boot:
        turn.readmit(name)
    told = {key: getattr(report, key) for key in ("boot", "device", "host", "pid", "version")}
    turn.workers[name] = replace(known, **told) if known is not None else Worker(name=name, **told)
    again = turn.sightings.get(name) if known is not None and known.boot == report.boot else None
    if again is not None:
        turn.sightings[name] = replace(again, seen=turn.now, connected=True, since=turn.now, told=False)
    else:
        turn.sightings[name] = Sighting(seen=turn.now, since=turn.now, moved=turn.now, blamed=turn.now)


def _is_listed_alive(turn: Turn, name: str) -> bool:
    """Whether a formation lists a trainer of it that is not known dead."""
    return any(one.worker == name and one not in turn.watch(job.id).dead for job, one in turn.listed())


def _is_charged(turn: Turn, name: str) -> bool:
    """Whether the trainer that it has was counted as an error, as where it was evicted, and did not end."""
    seen = turn.sightings.get(name)
    return seen is not None and seen.trainer is not None and turn.workers[name].charged == seen.trainer.incarnation


def _died_in_task(turn: Turn, name: str) -> tuple[Job, StepFailure] | None:
    """What its task may have done to it as its agent died, as far as this coordinator heard: it may have taken all of
    its memory."""
    sighting = turn.sightings.get(name)
    trainer = sighting.trainer if sighting is not None else None
    job = turn.jobs.get(trainer.job) if trainer is not None else None
    if trainer is None or job is None or job.ended:
        return None
    failure = StepFailure(-1, -1, name, DIED, died=True, chance=True)
    if trainer.phase is TrainerPhase.PREPARING and not job.history:  # later the loss of power is likelier
        return job, failure
    step = reached(job, turn.watch(job.id))
    in_step = trainer.phase is TrainerPhase.TRAINING and trainer.version is not None and trainer.version.step == step
    if in_step and job.formation is not None:
        return job, replace(failure, step=step, shard=OUTSIDE, generation=job.formation.generation)
    return None


def _exited(turn: Turn, name: str, cause: str) -> None:
    """Whatever trainer this worker had is known dead, also one that only the formations remember."""
    bury_listed(turn, name, None, cause)
    sighting = turn.sightings.get(name)
    if sighting is not None and sighting.trainer is not None:
        turn.bury(sighting.trainer.job, Member(name, sighting.trainer.incarnation), cause)
        turn.sightings[name] = replace(sighting, trainer=None, hang=None, moved=turn.now)


def _trainer_exited(turn: Turn, name: str, report: TrainerExited) -> None:
    if report.incarnation in turn.sightings[name].ended:
        return  # told twice
    member = Member(name, report.incarnation)
    job = turn.jobs.get(report.job)
    evicted = job is not None and not job.ended and member in turn.watch(job.id).evicted
    hung = evicted and job is not None and member not in turn.watch(job.id).suspected
    cause = "it was evicted" if evicted else ASKED if report.asked else report.cause
    if report.incarnation:
        turn.sightings[name] = replace(
            turn.sightings[name], ended=(*turn.sightings[name].ended, report.incarnation)[-ENDED:]
        )
    else:  # it was never born: each is another one, and its agent's last
        turn.workers[name] = replace(turn.workers[name], barren=True)
    turn.bury(report.job, member, cause)
    trainer = turn.sightings[name].trainer
    preparing, generation = False, job.formation.generation if job is not None and job.formation is not None else 0
    if trainer is not None and trainer.incarnation == report.incarnation:
        preparing, generation = trainer.phase is TrainerPhase.PREPARING, trainer.generation or generation
        turn.sightings[name] = replace(turn.sightings[name], trainer=None, hang=None, moved=turn.now)
    if report.asked and not hung:
        return
    if not report.asked:
        turn.note("exited", f"{name}'s trainer: {report.cause}", job=report.job, worker=name)
        succeeded = trainer is not None and trainer.incarnation != report.incarnation
        turn.charge(name, report.incarnation, report.cause, succeeded)
    if job is None or job.ended:
        return
    # Storage that stalls does so for all at once, also at an evaluation's data; so does a machine without memory. And
    # all are at the same place while they take a state.
    lent = {one for one, worker in turn.workers.items() if worker.job == report.job}
    several = len({name, *lent, *_given_up_beside(turn, job, generation, report)}) > 1
    stalled = hung and several and report.shard in (OUTSIDE, IN_LOAD)
    chance = stalled or (report.cause == "killed by SIGKILL" and not hung)
    if report.step is not None and report.shard is not None:
        cause = "it hung, and was evicted" if hung else report.cause
        failure = StepFailure(report.step, report.shard, name, cause, died=True, generation=generation, chance=chance)
        blame_task(turn, job, failure)
    elif preparing:
        error = "it hung while preparing" if hung else f"its process ended while preparing: {report.cause}"
        died_preparing(turn, job, StepFailure(-1, -1, name, error, died=True, chance=chance))


def _given_up_beside(turn: Turn, job: Job, generation: int, report: TrainerExited) -> set[str]:
    """Those that were in the same generation as one that hung, and were evicted with it: that may have put them in
    quarantine. Some have yet to end, of others it is known that they stood at the same place."""
    evicted = [(one.worker, turn.cluster.trainer(one)) for one in turn.watch(job.id).evicted]
    yet = {name for name, status in evicted if status is not None and status.generation == generation}
    ended = [one for one in job.failures if one.died and (one.step, one.shard) == (report.step, report.shard)]
    return yet | {one.worker for one in ended if one.generation == generation}
