"""What becomes of workers that are not heard of: first they are taken off their job, much later they are forgotten.

Owns: for how long a worker is absent, or there and of no use, and what rests on it so that it must stay. One that a
formation lists stays: until it is known dead, it may be committing (`roster.passed`).
Refuses to know: why it is gone. If it comes back, it registers as anybody does.
"""

from math import inf

from regroup.core.jobs import Job, JobPhase, Member
from regroup.core.schedule import at_hand, may_be_lent, reads_in_vain
from regroup.core.suspicion import is_mute
from regroup.core.turn import Turn
from regroup.core.workers import LEFT, TrainerStatus


def unlend_absent(turn: Turn) -> None:
    """A worker that is gone for long, and that its job's formation does not list, makes room for another."""
    for name, worker in list(turn.workers.items()):
        job = turn.jobs.get(worker.job) if worker.job else None
        if job is None or (job.formation and name in {member.worker for member in job.formation.members}):
            continue
        if (absent := _absent(turn, name)) > turn.policy.absent_limit:
            turn.unlend(name, f"not heard of for {absent:.0f} s")


def expected(turn: Turn) -> frozenset[str]:
    """The workers that are there, or may only be away for a moment: also who said goodbye may be started again."""
    there, vain = [one for one in turn.workers if _absent(turn, one) <= turn.policy.absent_limit], _in_vain(turn)
    return frozenset(one for one in there if one not in vain and (turn.workers[one].job or not is_useless(turn, one)))


def others_to_try(turn: Turn, job: Job, name: str) -> list[str]:
    """The workers that are there, or away for a moment, and may take part in the job, now or later, but this one."""
    others = [one for one in _near(turn) if one != name and one not in job.refused and not is_useless(turn, one)]
    return [one for one in others if may_be_lent(turn.cluster, one)]


def untried(turn: Turn, job: Job, name: str) -> list[str]:
    """Those of them with which the job could go on now: those that it has, and the free ones."""
    return [one for one in others_to_try(turn, job, name) if turn.workers[one].job in (None, job.id)]


def _near(turn: Turn) -> list[str]:
    """The workers that did not say goodbye, and are connected, or were a moment ago."""
    return [name for name in turn.workers if is_near(turn, name)]


def is_near(turn: Turn, name: str) -> bool:
    return turn.workers[name].boot != LEFT and _absent(turn, name) <= turn.policy.absent_limit


def is_useless(turn: Turn, name: str) -> bool:
    """Whether nothing is to be had of it, though it is connected: its agent is not heard, or its trainer does not end,
    which was evicted, or is of no job any more."""
    free = turn.workers[name].job is None
    clings = _clinging(turn, name) is not None if free else _lingers(turn, name)
    return clings or is_mute(turn, name)


def idle(turn: Turn) -> frozenset[str]:
    """The workers that are lent to a job and are of no use to it: others cannot reach them, their agents are connected
    and not heard, or their trainers were evicted and do not end. Who trains is of use, whether it is heard or not."""
    found = set(_in_vain(turn))
    for name, worker in turn.workers.items():
        watch = turn.watches.get(worker.job or "")
        if watch is not None and name in watch.resting and turn.cluster.present(name):
            found.add(name)
    return frozenset(found)


def _in_vain(turn: Turn) -> set[str]:
    """Those of them that are of no use to any other job, either."""
    trains = {one.worker for job, one in turn.listed() if job.phase is JobPhase.RUNNING and not job.between}
    lent = [name for name, worker in turn.workers.items() if worker.job is not None and turn.cluster.present(name)]
    return {name for name in lent if (is_mute(turn, name) and name not in trains) or _lingers(turn, name)}


def _lingers(turn: Turn, name: str) -> bool:
    """Whether its trainer was evicted, and does not end."""
    trainer, watch = _clinging(turn, name), turn.watches.get(turn.workers[name].job or "")
    return trainer is not None and watch is not None and Member(name, trainer.incarnation) in watch.evicted


def _clinging(turn: Turn, name: str) -> TrainerStatus | None:
    """The trainer of a connected worker for which nothing has moved for long."""
    seen = turn.cluster.present(name)
    long = seen is not None and turn.waited(max(seen.moved, seen.to_end)) > turn.policy.absent_limit
    return seen.trainer if seen is not None and long else None


def useless(turn: Turn) -> frozenset[str]:
    """The workers of which nothing is to be had, by the job that has them at least. Where that has too few, nobody can
    have tried since whether one is still of no use."""
    found = {name for name in turn.workers if is_useless(turn, name)}
    idlers = [(name, turn.jobs[turn.workers[name].job or ""]) for name in idle(turn)]
    found |= {name for name, job in idlers if len(at_hand(turn.cluster, job)) >= job.needs}
    return frozenset(found)


def lacks_for(turn: Turn, job: str) -> float:
    """Seconds that a job has waited with the workers that it has: one that is lent to it may only be away a moment.
    Though each try begins anew, whoever cannot reach each other have waited since the first one; and to read in vain so
    often takes long by itself."""
    watch = turn.watch(job)
    lent = [name for name, worker in turn.workers.items() if worker.job == job]
    began = watch.since
    if watch.disturbed is not None and not watch.resting.keys().isdisjoint(lent):
        began = watch.disturbed
    waited = inf if reads_in_vain(turn.cluster, turn.jobs[job]) else turn.waited(began)
    return min([waited, *(_absent(turn, name) for name in lent if not turn.cluster.present(name))])


def forget_gone(turn: Turn) -> None:
    """A worker that is gone for very long leaves no record, unless something rests on it."""
    listed = {member.worker for _, member in turn.listed()}
    for name, worker in list(turn.workers.items()):
        kept = worker.job is not None or worker.quarantined or worker.drained or name in listed
        if not kept and (absent := _absent(turn, name)) > turn.policy.forget_limit:
            del turn.workers[name]
            turn.sightings.pop(name, None)
            turn.note("forgotten", f"{name} is forgotten: not heard of for {absent:.0f} s", worker=name)


def _absent(turn: Turn, name: str) -> float:
    """Seconds since a worker that is not connected was heard; 0 if it is. A new coordinator counts from its start."""
    if turn.cluster.present(name):
        return 0.0
    sighting = turn.sightings.get(name)
    return turn.waited(turn.cluster.started if sighting is None else sighting.seen)
