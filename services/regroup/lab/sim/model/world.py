"""What the rules look at when something was decided.

Owns: the questions. Refuses to know: who answers them (`lives`, `search`), and what must hold.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from typing import Protocol, TypeVar

from regroup.core.cluster import Cluster, Policy
from regroup.core.decide import Decision
from regroup.core.jobs import Formation, Job, Member, Version
from regroup.core.workers import LEFT, TrainerStatus, Worker
from regroup.lab.sim.model.trainer import Trainer

T = TypeVar("T")


class World(Protocol):
    """What the rules look at when something was decided."""

    @property
    def policy(self) -> Policy: ...

    @property
    def jobs(self) -> Mapping[str, Job]:
        """As they are durable; so are the workers."""

    @property
    def workers(self) -> Mapping[str, Worker]: ...

    @property
    def decided_at(self) -> float:
        """The coordinator's clock at its last decision."""

    def clock(self, worker: str) -> float: ...

    def living(self, member: Member) -> Trainer | None: ...

    def trainers(self) -> Iterable[Trainer]:
        """All that live."""

    def told_left(self, cluster: Cluster) -> Iterable[tuple[str, TrainerStatus]]:
        """What agents that live told this coordinator of their trainers that ended, by worker."""


def holders(world: World, job: str) -> list[Trainer]:
    """The trainers that live and hold a state of this job with a step in it."""
    mine = [trainer for trainer in world.trainers() if trainer.job == job]
    return [one for one in mine if one.session.version is not None and one.session.version.step > 0]


def told_back(decision: Decision, job: str) -> bool:
    return any(note.kind == "rolled_back" and note.job == job for note in decision.notes)


def answered(cluster: Cluster, job: Job) -> dict[Member, Version | None]:
    """What those hold that answered the job's last round, and are there."""
    watch = cluster.watches[job.id]
    there = [one for one in watch.answers if cluster.present(one.worker) and one not in watch.dead]
    return {one: watch.answers[one].version for one in there}


def changes(before: Mapping[str, T], after: Mapping[str, T]) -> list[tuple[str, T | None, T]]:
    """The values that are new or other ones, by name, with those that were there before."""
    return [(name, old, new) for name, new in after.items() if (old := before.get(name)) is not new]


def fresh(before: Cluster, after: Cluster) -> list[tuple[str, TrainerStatus]]:
    """What this decision heard of trainers, by worker."""
    heard = changes(before.sightings, after.sightings)
    told = [(name, seen.trainer, was.trainer if was is not None else None) for name, was, seen in heard]
    return [(name, status) for name, status, known in told if status is not None and status is not known]


def newly_ended(before: Cluster, after: Cluster, worker: str) -> set[str]:
    """The incarnations of a worker's trainers of whose ends this decision heard."""
    known, seen = before.sightings.get(worker), after.sightings.get(worker)
    return {*(seen.ended if seen is not None else ())} - {*(known.ended if known is not None else ())}


def given_up(cluster: Cluster, job: str) -> Set[Member]:
    """The trainers that a job gave up."""
    watch = cluster.watches.get(job)
    return watch.evicted if watch is not None else frozenset()


def lost(cluster: Cluster, job: str) -> Set[Member]:
    """The trainers that a job knows dead, or gave up."""
    watch = cluster.watches.get(job)
    return watch.evicted | watch.dead.keys() if watch is not None else frozenset()


def may_try(cluster: Cluster, job: Job, but: str) -> list[str]:
    """The workers that may still try what another one failed at."""
    there = [one for one in cluster.workers.values() if one.name != but and one.boot != LEFT]
    return [one.name for one in there if not (one.departs or one.quarantined or one.name in job.refused)]


def is_evicted(before: Cluster, decision: Decision, job: str, member: Member) -> bool:
    """Whether it was given up, now or before."""
    told = any(note.kind == "evicted" and (note.job, note.worker) == (job, member.worker) for note in decision.notes)
    return told or member in given_up(before, job)


def is_overtaken(world: World, job: Job) -> bool:
    """Whether another coordinator went on since: what this one orders arrives nowhere, and it knows little."""
    durable = world.jobs[job.id]
    return durable is not job and durable != replace(job, since=durable.since, step=durable.step)


def is_heard(world: World, cluster: Cluster, worker: str) -> bool:
    """Whether its agent is connected, and spoke of late."""
    seen = cluster.present(worker)
    return seen is not None and world.decided_at - seen.seen <= world.policy.quiet_limit


def is_mute(world: World, cluster: Cluster, worker: str) -> bool:
    """Whether it was not heard for longer than one may be away, connected or not."""
    seen, policy = cluster.sightings.get(worker), world.policy
    limit = max(policy.absent_limit, policy.quiet_limit) if cluster.present(worker) else policy.absent_limit
    return world.decided_at - max(seen.seen if seen is not None else 0.0, cluster.started, cluster.awake) > limit


def is_yet_to_tell(world: World, cluster: Cluster, worker: str, share: float) -> bool:
    """Whether it just came, or may come back to a coordinator that just began or stood still, for no longer than this
    share of halt_limit: what is known to be held is not all."""
    seen = cluster.sightings.get(worker)
    new = seen is not None and seen.connected and not seen.sequence
    unheard = seen is None or seen.seen < cluster.awake
    since = max(seen.moved, cluster.awake) if seen is not None and new else cluster.awake
    there = worker in cluster.workers and cluster.workers[worker].boot != LEFT
    return there and (new or unheard) and world.decided_at - since < share * world.policy.halt_limit


def tells(world: World, cluster: Cluster, worker: str) -> bool:
    """Whether it spoke of late, and a heartbeat said how it is since it connected: before, it may have lost all."""
    seen = cluster.present(worker)
    return seen is not None and seen.told and is_heard(world, cluster, worker)


def gets_as_far(job: Job, state: Version, other: Version) -> bool:
    """Whether it has as many steps, of whatever generation; what is older than what is durable counts less."""
    return extent(job, state) >= extent(job, other)


def extent(job: Job, state: Version) -> tuple[bool, int, Version]:
    return state >= job.saved, state.step, state


def is_durable(job: Job, formation: Formation, version: Version) -> bool:
    """Whether this state is saved, if only under the number that it had before the formation took it on."""
    return version <= job.saved or (formation.base == job.saved and version.step == formation.base.step)
