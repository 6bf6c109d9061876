"""Which free worker is lent to which job: first in, first out.

Owns: the order in which jobs get workers. Jobs that began and are below `min_workers` come first; the oldest queued job
starts as soon as `min_workers` are free; running jobs grow to `max_workers` from what no queued job can use. Jobs that
keep each other from going on make room, the youngest first.
Refuses to know: what a worker does once it is lent. Does not guarantee: that a lent worker ever gets prepared.
"""

from collections.abc import Mapping, Set

from regroup.core.cluster import Cluster
from regroup.core.jobs import Job, JobPhase, Wanted
from regroup.core.workers import LEFT


def is_free(cluster: Cluster, name: str) -> bool:
    sighting = cluster.present(name)
    worker = cluster.workers[name]
    return sighting is not None and sighting.trainer is None and worker.job is None and not worker.quarantined


def lent(cluster: Cluster, job: Job) -> list[str]:
    """The workers lent to a job that are connected, or that its last formation lists, unless it waits: then others
    must be able to take the place of those that are gone."""
    counted = job.formation if job.phase is not JobPhase.WAITING else None
    listed = {member.worker for member in counted.members} if counted else set()
    return [
        name
        for name, worker in cluster.workers.items()
        if worker.job == job.id and (name in listed or cluster.present(name))
    ]


def _has_begun(job: Job) -> bool:
    return job.phase is not JobPhase.QUEUED and not job.ended


def why_queued(cluster: Cluster, job: Job, young: bool) -> str:
    """What a queued job waits for, in words."""
    wanted, usable = job.spec.min_workers, _usable(cluster, job, young)
    if wanted > usable:
        return f"it needs {wanted} workers, and the cluster has {usable}: add workers, or submit it with fewer"
    return "waiting for its turn"


def _usable(cluster: Cluster, job: Job, young: bool) -> int:
    """The workers that a job could have, now or once others end; a young coordinator has not heard of all yet."""
    return sum(
        bool(cluster.present(name) or (young and name not in cluster.sightings))
        for name, worker in cluster.workers.items()
        if not worker.quarantined and worker.boot != LEFT and name not in job.refused
    )


def comes_back_to(cluster: Cluster, name: str) -> str | None:
    """The job of which a worker that was given up brings the state back, while none of its members is there with one.

    It may be the last copy, so it is lent again, whether there is room or not.
    """
    worker, sighting = cluster.workers[name], cluster.present(name)
    trainer = sighting.trainer if sighting is not None else None
    if trainer is None or trainer.version is None or worker.job is not None or worker.quarantined:
        return None
    job = cluster.jobs.get(trainer.job)
    if job is None or job.ended or job.formation is None or name in job.refused:
        return None
    for member in [one for one in job.formation.members if one.worker != name]:
        other = cluster.present(member.worker)
        there = other.trainer if other is not None else None
        if there is not None and there.incarnation == member.incarnation and there.version is not None:
            return None
    return job.id


def makes_room(cluster: Cluster, stuck: Set[str]) -> tuple[Job, Job] | None:
    """The job that should give its workers up, and the older one that can go on with them; None: nobody need.

    Two jobs that lost workers for good may each keep what the other lacks. `stuck` are the jobs that have waited for
    long. One at a time makes room, the youngest first; what it trained is saved before.
    """
    if any(job.wanted is Wanted.YIELD for job in cluster.jobs.values()):
        return None
    lacking = [
        job
        for job in cluster.jobs.values()
        if job.id in stuck and job.wanted is Wanted.RUN and len(_here(cluster, job)) < job.spec.min_workers
    ]
    for number, older in enumerate(lacking):
        younger = lacking[number + 1 :]
        had = {name for job in younger for name in _here(cluster, job)} - set(older.refused)
        if len(_here(cluster, older)) + len(had) >= older.spec.min_workers:
            return next(job for job in reversed(younger) if _here(cluster, job)), older
    return None


def _here(cluster: Cluster, job: Job) -> list[str]:
    return [name for name, worker in cluster.workers.items() if worker.job == job.id and cluster.present(name)]


def lend(cluster: Cluster, young: bool) -> Mapping[str, str]:
    """Worker -> job, for every worker that should be lent now.

    `young`: this coordinator began so lately that a worker which it has not heard may only not have come yet.
    """
    loans = {name: id for name in cluster.workers if (id := comes_back_to(cluster, name)) is not None}
    free = [name for name in sorted(cluster.workers) if is_free(cluster, name)]
    if not free:
        return loans
    begun = [job for job in cluster.jobs.values() if job.wanted is Wanted.RUN and _has_begun(job)]

    def grow(job: Job, most: int) -> None:
        nonlocal free
        room = max(most - len(lent(cluster, job)) - list(loans.values()).count(job.id), 0)
        loans.update(dict.fromkeys([name for name in free if name not in job.refused][:room], job.id))
        free = [name for name in free if name not in loans]

    for job in begun:
        grow(job, job.spec.min_workers)  # else it and a queued job that waits for its workers would wait for ever
    for job in cluster.jobs.values():
        if job.phase is not JobPhase.QUEUED:
            continue
        takes = [name for name in free if name not in job.refused][: job.spec.max_workers]
        if len(takes) < job.spec.min_workers:
            if job.spec.min_workers <= _usable(cluster, job, young):
                return loans  # it can start once others end: what is free is kept for it
            continue
        loans |= dict.fromkeys(takes, job.id)
        free = [name for name in free if name not in loans]
    for job in begun:
        grow(job, job.spec.max_workers)
    return loans
