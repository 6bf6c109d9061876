"""Who holds a copy of a job's state, as far as is known, and whose may be the last: it is lent again, and not ended.

Owns: who is there with a state, whose word for that is not enough, and who is spared for what it may alone hold.
Refuses to know: why a worker was taken off its job, and who is heard (`suspicion`): that takes a clock.
"""

from collections.abc import Iterator, Set

from regroup.core.branches import as_far, follows
from regroup.core.cluster import Cluster, Watch
from regroup.core.jobs import Job, Member, Version
from regroup.core.workers import TrainerStatus


def known_to_hold(cluster: Cluster, member: Member) -> bool:
    """Whether it is there, and said that it holds a state."""
    there = cluster.trainer(member)
    return there is not None and there.version is not None


def comes_back_to(cluster: Cluster, name: str, quiet: Set[str] = frozenset()) -> str | None:
    """The job of which a worker that was given up brings the state back, while none of its members is there with one.

    It may be the last copy, so it is lent again, whether there is room or not. Also if it was refused: that was for
    suspicions then, since whose code differs never holds a state. But not while others may only owe their promises.
    """
    worker, sighting = cluster.workers[name], cluster.present(name)
    trainer = sighting.trainer if sighting is not None else None
    if trainer is None or worker.job is not None or worker.quarantined:
        return None
    job = cluster.jobs.get(trainer.job)
    if job is None or job.ended or trainer.fingerprint != job.fingerprint:
        return None
    return job.id if may_be_last_copy(cluster, job, name, trainer, quiet, owing=name in job.refused) else None


def may_be_last_copy(
    cluster: Cluster, job: Job, name: str, trainer: TrainerStatus, quiet: Set[str], owing: bool = False
) -> bool:
    """Whether this trainer, of worker `name`, holds a state that nobody else is heard to hold, nor one that counts
    more. `owing`: whoever was asked for its promise a moment ago, and has yet to give it, is heard to hold it, too."""
    if job.formation is None or trainer.version is None or not trainer.version.step:
        return False  # what no step was made from is built again
    for other, version in other_holders(cluster, job, name, quiet, owing):
        if makes_up_for(job, other, version, trainer.version):
            return False
    return True


def makes_up_for(job: Job, member: Member, held: Version, lost: Version) -> bool:
    """Whether a state is no loss while this member holds its own: as many steps, or what is gone on from anyway."""
    return anchors(job, member, held) or as_far(job, held, lost)


def anchors(job: Job, member: Member, held: Version) -> bool:
    """Whether a member of the last formation holds a state that goes on from its base (rule 6)."""
    last = job.formation
    return last is not None and member in last.members and follows(job, held, last.base)


def is_spared(cluster: Cluster, name: str, quiet: Set[str]) -> bool:
    """Whether nobody else surely holds what the trainer of this worker does: it is not ended before one does. Whoever
    holds it, hangs or is not heard (`quiet`), and is given up at last, leaves it as the only copy."""
    worker, sighting = cluster.workers[name], cluster.present(name)
    trainer = sighting.trainer if sighting is not None else None
    job = cluster.jobs.get(trainer.job) if trainer is not None else None
    if trainer is None or job is None or job.ended or worker.quarantined or trainer.fingerprint != job.fingerprint:
        return False
    doubtful = (other for other in cluster.workers if not cluster.tells(other) or is_at_work(cluster, other))
    return may_be_last_copy(cluster, job, name, trainer, {*quiet, *doubtful})


def is_at_work(cluster: Cluster, name: str) -> bool:
    """Whether its trainer hangs, or promised in the middle of a pass, and may never come back from it."""
    seen = cluster.present(name)
    trainer = seen.trainer if seen is not None else None
    if trainer is None:
        return False
    hangs = cluster.hangs(Member(name, trainer.incarnation))
    return hangs or trainer.is_stuck


def other_holders(
    cluster: Cluster, job: Job, name: str, quiet: Set[str], owing: bool = False
) -> Iterator[tuple[Member, Version]]:
    """The trainers of a job, but that of worker `name`, that are there with a state, and not on `quiet` workers: those
    may be gone with theirs. Of those that owe a promise, and may never give it, only if `owing`."""
    watch = cluster.watches.get(job.id)
    for other, known in cluster.workers.items():
        seen = cluster.present(other)
        there = seen.trainer if seen is not None else None
        if other == name or other in quiet or known.job != job.id or there is None or there.version is None:
            continue
        member = Member(other, there.incarnation)
        gone = watch is not None and (member in watch.evicted or member in watch.dead)
        if gone or (not owing and watch is not None and _owes(job, watch, member)):
            continue
        yield member, there.version


def _owes(job: Job, watch: Watch, member: Member) -> bool:
    """Whether it was asked for its promise, and has not given it yet."""
    return job.round is not None and member in job.round.participants and member not in watch.answers
