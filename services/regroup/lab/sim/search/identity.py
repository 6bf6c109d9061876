"""Which states of a small cluster are the same: a number for each, equal for states that will behave alike.

Owns: what of a state decides about its future. Words for people, counters and times that only pictures show do not.
Refuses to know: how states follow each other. Two different states get the same number once in 2**60 or so.
"""

from collections.abc import Callable, Hashable
from typing import Any

from regroup.core.cluster import ASKED, Watch
from regroup.core.jobs import Formation, Job
from regroup.core.messages.agent_reports import TrainerExited
from regroup.core.messages.orders import Prepare
from regroup.core.messages.trainer_reports import CheckpointUnreadable, GroupBroke, SaveFailed, StateSaved
from regroup.core.workers import Sighting, TrainerStatus, Worker
from regroup.lab.sim.model.ghosts import Ghosts
from regroup.lab.sim.model.trainer import Trainer
from regroup.lab.sim.search.near import Near
from regroup.lab.sim.search.small import Small
from regroup.worker.happenings import Join, Write
from regroup.worker.session import Session

KEPT = 400_000  # values whose identity is remembered


def identity(state: Small) -> int:
    parts: list[Any] = [*state.left.values()]
    cluster = state.cluster
    for name, agent in state.agents.items():
        seen = cluster.sightings.get(name) if cluster is not None else None
        known = None if cluster is None or seen is None else _sighting(seen, cluster.started)
        parts += [_agent(agent), _worker(state.workers.get(name)), known]
    parts += map(job_identity, state.jobs.values())
    parts += [None] if cluster is None else [cluster.started, *map(_watch, cluster.watches.values())]
    exchanged = {
        step: tuple((rank, one.history, one.tail.flags) for rank, one in sorted(slots.items()))
        for step, slots in state.contributions.items()
    }
    parts += [frozenset(exchanged.items()), frozenset(state.gifts.items())]
    parts += [frozenset((step, frozenset(members)) for step, members in state.arrived.items()), _ghosts(state.ghosts)]
    return hash(tuple(parts))


def _remembered(what: Callable[[Any], Hashable]) -> Callable[[Any], int]:
    """Values are shared between states, so that most are asked for again and again."""
    known: dict[int, tuple[Any, int]] = {}

    def number(value: Any) -> int:
        if value is None:
            return 0
        found = known.get(id(value))
        if found is None:
            if len(known) > KEPT:
                known.clear()
            found = known[id(value)] = (value, hash(what(value)))
        return found[1]

    return number


def _agent(agent: Near) -> tuple[Any, ...]:
    messages = tuple(map(_message, agent.reports)), tuple(map(_message, agent.orders)), agent.answered
    untold = [(one.incarnation, one.version, one.promised, _versions(one)) for one in agent.untold]
    told = agent.greets, tuple(untold), agent.told
    stands = (agent.boot, agent.leaving, agent.link, agent.heard, agent.numbers, *told)
    return (*stands, *messages, *_trainer(agent.trainer))


def _trainer(trainer: Trainer | None) -> tuple[Any, ...]:
    if trainer is None:
        return ()
    loop = trainer.loop
    tasks = (_task(loop.task), _task(loop.write))
    where = (loop.at, _formation(loop.formation), *tasks, loop.broken, loop.lost, loop.agreed, trainer.unsaid)
    return (*where, _session(trainer.session), trainer.history, trainer.beside, trainer.wrote)


def _task(task: Join | Write | None) -> Hashable:
    """What its step loop was asked for: a formation, or a state in the file of a generation."""
    match task:
        case None:
            return None
        case Join(formation=formation):
            return _formation(formation)
        case Write(generation=generation, version=version, final=final):
            return (generation, version, final)


@_remembered
def _formation(one: Formation) -> Hashable:
    read = None if one.checkpoint is None else one.checkpoint.version
    return (one.generation, one.seats, one.leader, one.base, read)


@_remembered
def _session(one: Session) -> Hashable:
    stands = (one.member, one.phase, one.promised, one.generation, one.version)
    written = tuple(each.version for each in one.written)
    rest = (
        one.boundary,
        one.applying,
        one.owed,
        one.at_work,
        one.waited_for,
        one.heard,
        one.fingerprint is None,
        written,
    )
    return (*stands, _formation(one.formation), *rest)


@_remembered
def _message(message: Any) -> Hashable:
    match message:
        case Prepare(job=job):
            return ("Prepare", job)
        case StateSaved(generation=generation, checkpoint=checkpoint, incarnation=incarnation):
            return ("StateSaved", generation, checkpoint.version, incarnation)
        case GroupBroke(generation=generation, incarnation=incarnation):
            return ("GroupBroke", generation, incarnation)
        case SaveFailed(generation=generation, incarnation=incarnation):
            return ("SaveFailed", generation, incarnation)
        case CheckpointUnreadable(generation=generation, incarnation=incarnation):
            return ("CheckpointUnreadable", generation, incarnation)
        case TrainerExited(incarnation=incarnation, asked=asked):
            return ("TrainerExited", incarnation, asked)
        case _:
            return (type(message).__name__, message)


@_remembered
def _worker(worker: Worker) -> Hashable:
    return (worker.boot, worker.job, worker.quarantined, worker.drained, worker.leaving, worker.meant)


def _sighting(sighting: Sighting, started: float) -> Hashable:
    renewed = max(sighting.renewed, started)  # before that is as good as then
    heard = (sighting.seen, sighting.since, sighting.told, sighting.moved, renewed)
    return (*heard, sighting.connected, sighting.sequence, _status(sighting.trainer))


@_remembered
def _status(status: TrainerStatus) -> Hashable:
    written = _versions(status)
    stands = (status.phase, status.promised, status.generation, status.version, status.fingerprint is None, written)
    return (status.job, status.incarnation, status.at_work, *stands)


def _versions(status: TrainerStatus) -> tuple[Hashable, ...]:
    return tuple(each.version for each in status.written)


@_remembered
def job_identity(job: Job) -> Hashable:
    asked = None if job.round is None else (job.round.generation, job.round.boundary, job.round.participants)
    saves = job.saver, job.savers
    durable = (job.phase, job.generation, asked, _formation(job.formation), *saves, job.wanted, job.history)
    files: tuple[Hashable, ...] = (
        job.saved,
        job.origin,
        tuple(one.version for one in job.older),
        frozenset(one.path for one in job.doomed),
    )
    files += (tuple(one.checkpoint.path for one in job.struck),)
    return (*durable, job.fingerprint is None, job.checkpoint is None, *files, job.step)


@_remembered
def _watch(watch: Watch) -> Hashable:
    dead = frozenset((member, cause == ASKED) for member, cause in watch.dead.items())
    answers = frozenset((member, answer.version) for member, answer in watch.answers.items())
    seen = (watch.since, watch.progressed, watch.disturbed, watch.formed, watch.finished, watch.broken is None)
    counts = frozenset(watch.committed.items()), frozenset(watch.stumbled.items()), watch.failed_savers
    owing = [(one, at) for one, at in watch.asked.items() if one not in watch.answers]
    asked = None if watch.disturbed is None else frozenset(owing)  # else it is begun anew before it counts
    doubted = frozenset((name, doubt.times) for name, doubt in watch.doubted.items())
    doubts = watch.fruitless, doubted, asked, watch.answered, watch.severed
    words = frozenset((name, word.damaged) for name, word in watch.words.items() if word.damaged)
    rests = frozenset(watch.resting.items())
    given_up = watch.evicted, watch.suspected, watch.back, watch.proven
    return (*seen, dead, answers, *given_up, *counts, *doubts, rests, frozenset(watch.unable), words, watch.written)


def _ghosts(ghosts: Ghosts) -> Hashable:
    """What no process knows, and on which it depends whether a rule will hold.

    Left out are formations, which history tells, moments, and what no search has: users' code that fails, data that is
    late, files in folders of their own.
    """
    commits = tuple(
        (job, tuple((n, tuple(sorted(steps))) for n, steps in sorted(each.items())))
        for job, each in ghosts.commits.items()
    )
    late = frozenset((which, frozenset(steps)) for which, steps in ghosts.late.items())
    states = frozenset(one for one in ghosts.states.items() if one[0][1].step)
    saved: tuple[Hashable, ...] = (
        frozenset(ghosts.written),
        frozenset(ghosts.writers),
        frozenset((job, frozenset(members.items())) for job, members in ghosts.savers.items()),
        frozenset(ghosts.closed.items()),
        frozenset(ghosts.deleted),
    )
    saved += (frozenset(ghosts.damaged), frozenset(ghosts.unheard))
    return commits, late, states, *saved, frozenset(ghosts.rolled_back)
