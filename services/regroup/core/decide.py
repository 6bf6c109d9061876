"""decide(cluster, event, now, policy) -> (cluster, orders, notes, points): every decision, as a value.

Owns: the order of things, always the same: do what is asked (`commands`), take in the facts (`agent_reports`) or,
at a tick, what took too long (`absence`, `forgiving`, `suspicion`) and who makes room (`making_room`), lend free
workers (`schedule`), advance the jobs (`rounds`), let go who is to (`leaving`), derive the orders that became due
(`orders`). The caller persists what is durable before it sends any of them.
Refuses to know: clocks (`now` is passed in), sockets, stores, randomness.
Does not guarantee: that anybody hears the orders; they are due again at the next heartbeat.
"""

from dataclasses import dataclass, replace

from regroup.core import commands
from regroup.core.absence import expected, forget_gone, idle, unlend_absent
from regroup.core.agent_reports import take_in
from regroup.core.cluster import Cluster, Policy, reached
from regroup.core.forgiving import forgive_in_time, try_again
from regroup.core.jobs import JobPhase, StepPoint
from regroup.core.leaving import admit, drain, let_go
from regroup.core.making_room import make_room
from regroup.core.messages.agent_reports import Heartbeat
from regroup.core.messages.commands import (
    AdmitWorker,
    ClearWorker,
    DrainWorker,
    PauseJob,
    ResumeJob,
    StopJob,
    SubmitJob,
)
from regroup.core.messages.events import Disconnected, Event, KeepSteps, Reported, Tick
from regroup.core.messages.orders import Order
from regroup.core.notes import Note
from regroup.core.orders import due
from regroup.core.rounds import advance
from regroup.core.schedule import lend, why_queued
from regroup.core.severed import left_alone
from regroup.core.suspicion import evict_unprepared, is_mute, quiet, reprieve
from regroup.core.turn import Turn
from regroup.core.workers import LEFT


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided. Persist the durable part of `cluster` and the notes first, then send the orders."""

    cluster: Cluster
    orders: tuple[tuple[str, Order], ...]  # (worker, order)
    notes: tuple[Note, ...]
    points: tuple[tuple[str, tuple[StepPoint, ...]], ...]  # (job, measurements of its surviving steps)


def decide(cluster: Cluster, event: Event, now: float, policy: Policy) -> Decision:
    """Take one event in. Raises a Refusal, and nothing has changed, if a command cannot be carried out."""
    turn = Turn(cluster, now, policy)
    answers: tuple[Order, ...] = ()
    match event:
        case SubmitJob(job=job, spec=spec, at=at):
            if job not in turn.jobs:  # said twice, it is one job
                commands.submit(turn, job, spec, at)
        case StopJob(job=job, now=at_once):
            commands.stop(turn, turn.job(job), at_once)
        case PauseJob(job=job, hold=hold):
            commands.pause(turn, turn.job(job), hold)
        case ResumeJob(job=job):
            commands.resume(turn, turn.job(job))
        case ClearWorker(worker=name):
            worker = turn.worker(name)
            turn.workers[name] = replace(worker, errors=0, quarantined=False, reason="cleared by its operator")
            turn.readmit(name)
            turn.note("cleared", f"{name} was cleared by its operator", worker=name)
        case DrainWorker(worker=name):
            drain(turn, name)
        case AdmitWorker(worker=name):
            admit(turn, name)
        case Disconnected(worker=name):
            if name in turn.sightings:
                _disconnected(turn, name)
        case Reported(worker=name, report=report):
            answers = take_in(turn, name, report)
        case Tick():
            unlend_absent(turn)
            forget_gone(turn)
            forgive_in_time(turn)
            evict_unprepared(turn)
            try_again(turn)
            make_room(turn)
        case KeepSteps():
            _keep_steps(turn)
            return _decided(cluster, turn, event, answers)  # and nothing else, since this may be lost
    _lend(turn)
    for id in [id for id, job in turn.live.items() if not (job.ended or job.phase is JobPhase.QUEUED)]:
        reprieve(turn, turn.jobs[id])
        advance(turn, id)
    let_go(turn)
    return _decided(cluster, turn, event, answers)


def _decided(before: Cluster, turn: Turn, event: Event, answers: tuple[Order, ...]) -> Decision:
    after = turn.cluster
    reporter = event.worker if isinstance(event, Reported) else None
    # A heartbeat shows where its sender stands, so all that is due to it is said again; others hear what is new.
    told = isinstance(event, Reported) and isinstance(event.report, Heartbeat)
    changed = {id for id, job in after.live.items() if job is not before.jobs.get(id) or _evicted(before, after, id)}
    silent = quiet(turn)
    orders: list[tuple[str, Order]] = [(reporter, answer) for answer in answers] if reporter else []
    for name, worker in after.workers.items():
        if name == reporter or worker.job in changed or worker is not before.workers.get(name):
            known = () if told and name == reporter else due(before, name, silent)
            orders += [(name, order) for order in due(after, name, silent) if order not in known]
    return Decision(after, tuple(orders), tuple(turn.notes), tuple(turn.points))


def _evicted(before: Cluster, after: Cluster, job: str) -> bool:
    old, new = before.watches.get(job), after.watches.get(job)
    return new is not None and (old is None or old.evicted is not new.evicted)


def _disconnected(turn: Turn, name: str) -> None:
    sighting, worker = turn.sightings[name], turn.workers.get(name)
    turn.sightings[name] = replace(sighting, connected=False, told=False)
    if worker is not None and sighting.connected and worker.boot != LEFT:
        turn.note("lost", f"the connection to {name} is lost: it died, or cannot be reached", worker.job, name)


def _lend(turn: Turn) -> None:
    queued = any(job.phase is JobPhase.QUEUED for job in turn.live.values())
    if not queued and all(worker.job is not None for worker in turn.workers.values()):
        return  # nobody waits, and nobody is free
    there = expected(turn)
    mute = frozenset(name for name in turn.workers if is_mute(turn, name))
    useless = {id: mute | left_alone(turn, turn.jobs[id]) for id in turn.watches}
    for name, job_id in lend(turn.cluster, there, idle(turn), quiet(turn), useless).items():
        job = turn.jobs[job_id]
        if job.phase is JobPhase.QUEUED:
            reason = "its first workers are preparing"
            turn.change_job(job, phase=JobPhase.PREPARING, reason=reason)
            turn.note("preparing", reason, job=job_id)
            turn.change_watch(job_id, since=turn.now)  # there may be one of before it rested
        turn.take_back(job_id, name)
        turn.workers[name] = replace(turn.workers[name], job=job_id, reason=f"lent to job {job_id}")
        turn.sightings[name] = replace(turn.sightings[name], moved=turn.now)  # from now on it is to start a trainer
        turn.note("lent", f"{name} is lent to the job", job=job_id, worker=name)
    reasons: dict[tuple[int, frozenset[str]], str] = {}  # jobs that ask for the same wait for the same
    for job in turn.live.values():
        if job.phase is not JobPhase.QUEUED:
            continue
        asks = job.needs, frozenset(job.refused)
        if asks not in reasons:
            reasons[asks] = why_queued(turn.cluster, job, there)
        if job.reason != reasons[asks]:
            turn.change_job(job, reason=reasons[asks])


def _keep_steps(turn: Turn) -> None:
    for id, watch in turn.watches.items():
        job = turn.jobs[id]
        if (step := reached(job, watch)) > job.step:
            turn.change_job(job, step=step)
