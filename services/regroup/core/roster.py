"""Who of a job's trainers is there and may answer, who was silent for long, who is away, and who has yet to tell.

Owns: these questions, each asked of what is known now: the clock of rule 7, and the moments for which one that may hold
more is waited for.
Refuses to know: what is done without those that are not there (`regroup.conclude`), and who is given up (`suspicion`).
"""

from collections.abc import Set
from math import inf

from regroup.core.cluster import Answer, Cluster
from regroup.core.copies import is_at_work
from regroup.core.jobs import Job, Member, Version, Wanted
from regroup.core.suspicion import is_mute
from regroup.core.turn import Turn
from regroup.core.workers import LEFT


def candidates(cluster: Cluster, job: Job) -> dict[Member, Answer]:
    """The connected and prepared trainers of a job, with what they last said they hold. Who has other code is none."""
    watch = cluster.watches.get(job.id)
    found: dict[Member, Answer] = {}
    for name, worker in cluster.workers.items():
        sighting = cluster.present(name)
        if worker.job != job.id or sighting is None or sighting.trainer is None:
            continue
        trainer, member = sighting.trainer, Member(name, sighting.trainer.incarnation)
        unfit = watch is not None and (member in watch.dead or member in watch.evicted)
        alike = trainer.fingerprint is not None and trainer.fingerprint == job.fingerprint
        if trainer.job == job.id and alike and not unfit:
            found[member] = Answer(trainer.version, trainer.store)
    return found


def passed(turn: Turn, job: Job) -> Set[Member]:
    """Rule 7: members of the last formation that are known dead, or silent for the detached limit and its margin.

    A job that is to stop trains on nowhere, so it need not wait that long for a state to save. One that its user lets
    rest can wait: nobody is silent for so long that its state would be given up for that.
    """
    listed, dead = job.formation.members if job.formation is not None else (), turn.watch(job.id).dead
    return frozenset(member for member in listed if member in dead or is_silent(turn, job, member))


def is_cut_off(turn: Turn, member: Member, asked: float) -> bool:
    """Whether nothing was heard of it for a while since it was asked. What it does may take longer than that, and its
    connection be lost for a moment."""
    sighting = turn.sightings.get(member.worker)
    heard = asked if sighting is None else sighting.since if sighting.connected else sighting.seen
    return turn.cluster.trainer(member) is None and turn.waited(max(asked, heard)) > turn.policy.halt_limit


def is_silent(turn: Turn, job: Job, member: Member) -> bool:
    """Whether it was not heard for as long as is waited for what it may hold, connected or not."""
    if job.formation is None or job.wanted in (Wanted.HOLD, Wanted.PAUSE):
        return False
    policy, sighting = turn.policy, turn.sightings.get(member.worker)
    limit = policy.absent_limit if job.wanted is Wanted.STOP else job.formation.detached_limit + policy.detached_margin
    # Nobody renews the lease of who was given up, or taken off the job; and it may not end for long.
    worker = turn.workers.get(member.worker)
    leased = worker is not None and worker.job == job.id and member not in turn.watch(job.id).evicted
    seen = -inf if sighting is None else sighting.seen if leased else sighting.renewed
    # Whoever began, or stood still, counts from then: others were heard by another coordinator, or by nobody.
    heard = seen if seen >= turn.cluster.awake else turn.cluster.awake + policy.leader_lease
    return turn.now - heard > limit


def away(turn: Turn, job: Job) -> dict[Member, Version]:
    """Trainers of the job that hold a state, and whose connections are closed, but not for long."""
    watch = turn.watch(job.id)
    found: dict[Member, Version] = {}
    for name, seen in turn.sightings.items():
        trainer = seen.trainer
        if seen.connected or trainer is None or trainer.job != job.id or trainer.version is None:
            continue
        member = Member(name, trainer.incarnation)
        if not watch.has_lost(member) and turn.waited(seen.seen) <= turn.policy.absent_limit:
            found[member] = trainer.version
    return found


def back_with_state(turn: Turn, job: Job) -> list[Member]:
    """Who is there with as many steps as the last formation began with, and is no member of it: a round may ask it."""
    last = job.formation
    if last is None:
        return []
    told = {one: said.version for one, said in candidates(turn.cluster, job).items() if one not in last.members}
    there = [one for one in told if not (is_at_work(turn.cluster, one.worker) or is_mute(turn, one.worker))]
    return [one for one in there if (held := told[one]) is not None and held.step >= last.base.step]


def untold(turn: Turn) -> list[str]:
    """Who registered a moment ago, and has sent no heartbeat yet; and who is about to come back to this coordinator."""
    limit = turn.policy.halt_limit
    new = [
        name
        for name, seen in turn.sightings.items()
        if seen.connected and not seen.sequence and turn.waited(seen.moved) <= limit
    ]
    unheard = [
        name
        for name, worker in turn.workers.items()
        if worker.boot != LEFT and (name not in turn.sightings or turn.sightings[name].seen < turn.cluster.awake)
    ]
    return sorted([*new, *(unheard if turn.now - turn.cluster.awake <= limit else ())])
