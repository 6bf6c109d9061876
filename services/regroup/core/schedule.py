"""Which free worker is lent to which job: first in, first out.

Owns: the order in which jobs get workers. A worker that brings the last copy of a state back goes to its job
(`copies`); then one more to each job of which no worker can read the checkpoint, whether there is room or not; then
come the jobs that began and have fewer than they need. The oldest queued job starts as soon as enough are free;
running jobs grow to `max_workers` from what no queued job can use. Whoever needs more workers than there are gets none,
and keeps those that it has. Jobs that began and keep each other from going on make room, the youngest first: each may
have what the other lacks, workers, or one that can read its checkpoint.
Refuses to know: what a worker does once it is lent. Does not guarantee: that a lent worker ever gets prepared.
"""

from collections.abc import Mapping, Set
from enum import Enum, auto
from types import MappingProxyType

from regroup.core.cluster import Cluster
from regroup.core.copies import comes_back_to
from regroup.core.jobs import Job, JobPhase, Wanted
from regroup.core.workers import LEFT

SHOWN = 3  # jobs that a queued one is told to be behind
IN_VAIN = 4  # times that all workers of a job read again, each after twice as long: storage may only be away


def is_free(cluster: Cluster, name: str) -> bool:
    """Whether nobody has it, and a heartbeat said that it has no trainer, which could hold another job's state."""
    sighting, worker = cluster.present(name), cluster.workers[name]
    told = sighting is not None and sighting.sequence > 0 and sighting.trainer is None
    return told and worker.job is None and may_be_lent(cluster, name)


def lent(cluster: Cluster, job: Job, expected: Set[str], idle: Set[str] = frozenset()) -> list[str]:
    """The workers lent to a job that are connected and stay, and are not `idle`; and those that are still expected.

    While it prepares its first, those are all that are away for a moment; later, all that its last formation lists, of
    whom between two generations only those that are away for a moment, and none while it waits: then others must be
    able to take the place of those that are gone.
    """
    listed = {member.worker for member in job.formation.members} if job.formation is not None else expected
    others = frozenset() if job.phase is JobPhase.WAITING else listed & expected if job.between else listed
    return [
        name
        for name, worker in cluster.workers.items()
        if worker.job == job.id and not worker.departs and (name in others or cluster.present(name))
        if name not in idle
    ]


def _has_begun(job: Job) -> bool:
    return job.phase is not JobPhase.QUEUED and not job.ended


def why_queued(cluster: Cluster, job: Job, expected: Set[str]) -> str:
    """What a queued job waits for, in words."""
    if _hopeless(cluster, job, expected):
        wanted, usable = job.needs, len(_usable(cluster, job, expected))
        needed = "a worker" if wanted == 1 else f"{wanted} workers"
        drained = sorted(name for name, worker in cluster.workers.items() if worker.drained)
        admit = f"admit {', '.join(drained)}, " if drained else ""
        return f"it needs {needed}, and {usable} can be had: {admit}add workers, or submit it with fewer"
    having = {cluster.workers[name].job for name in _usable(cluster, job, expected)}
    before = [id for id in cluster.live if id in having]
    more = f" and {len(before) - SHOWN} more" if len(before) > SHOWN else ""
    behind = f" behind {', '.join(before[:SHOWN])}{more}" if before else ""
    return f"waiting for its turn{behind}"


def _usable(cluster: Cluster, job: Job, expected: Set[str], readers: bool = True) -> list[str]:
    """The workers that a job could have, now or once others end: a job that is held, that waits to be paused, or that
    cannot go on itself, may not end for long. `readers`: nor may one that reads in vain."""
    fit = [name for name in cluster.workers if name in expected and _may_be_back(cluster, name)]
    own = [name for name in fit if name not in job.refused]
    held = {name for name in fit if (id := cluster.workers[name].job) and cluster.jobs[id].wanted is Wanted.HOLD}

    def kept(other: Job) -> bool:
        waits = other.phase in (JobPhase.PREPARING, JobPhase.WAITING)
        if other.wanted is Wanted.HOLD or (waits and other.wanted is Wanted.PAUSE):
            return True
        few = other.needs > len({*fit} - {*other.refused} - held)
        return waits and (few or (readers and bool(reads_in_vain(cluster, other))))

    holders = {cluster.workers[name].job for name in own} - {None, job.id}
    keepers = {id for id in holders if id is not None and kept(cluster.jobs[id])}
    return [name for name in own if cluster.workers[name].job not in keepers]


def may_be_lent(cluster: Cluster, name: str) -> bool:
    """Now, or once nobody has it any more."""
    return not (cluster.workers[name].quarantined or cluster.workers[name].departs)


def _may_be_back(cluster: Cluster, name: str) -> bool:
    """Whether it may be lent, if only once its agent, which was asked to end, is started again."""
    return not (cluster.workers[name].quarantined or cluster.workers[name].drained)


def _hopeless(cluster: Cluster, job: Job, expected: Set[str], readers: bool = True) -> bool:
    """Whether it could not go on with all the workers that it can have."""
    return job.needs > len(_usable(cluster, job, expected, readers))


class Cost(Enum):
    """Of making room, to a job."""

    NOTHING = auto()
    STEPS = auto()  # that it would lose all the same if it went on: rule 7 gave up whoever may hold them


def makes_room(
    cluster: Cluster, stuck: Mapping[str, Cost | None], expected: Set[str], lingering: Set[str] = frozenset()
) -> tuple[Job, Job] | None:
    """The job that should give its workers up, and the one that can go on with them; None: nobody need.

    Two jobs that lost workers for good may each keep what the other lacks: workers, or, once they have read in vain for
    long, the one that can read. `stuck` are the jobs that have waited for long, and what it would cost each to make
    room; None: it cannot. `lingering` workers are there, and of use to none. One at a time does: whoever can not go on
    at all with the workers that there are, or the youngest; where only that helps, also an older one, or one that loses
    steps.
    """
    if any(job.wanted is Wanted.YIELD and not job.ended for job in cluster.live.values()):
        return None
    blind = {id: reads_in_vain(cluster, cluster.jobs[id]) for id in stuck}
    # A blind one has lost its steps already: whoever holds a state leads from that, and reads nothing.
    stuck = {id: Cost.NOTHING if blind[id] and cost is Cost.STEPS else cost for id, cost in stuck.items()}
    own = {id: {*at_hand(cluster, cluster.jobs[id])} - lingering for id in stuck}
    lacking = [
        job
        for job in cluster.live.values()
        if job.id in stuck and job.wanted is Wanted.RUN and (blind[job.id] or len(own[job.id]) < job.needs)
    ]
    fit = {name for name in expected if may_be_lent(cluster, name)}

    def last(job: Job) -> tuple[bool, bool]:
        """One that needs more than there are makes others look as hopeless, by what it keeps."""
        too_many = job.needs > len(fit - {*job.refused})
        return too_many, _hopeless(cluster, job, expected, readers=False)

    lacking.sort(key=last)  # stable: else the oldest first
    for cost, younger in ((Cost.NOTHING, True), (Cost.NOTHING, False), (Cost.STEPS, True)):
        for number, first in enumerate(lacking):
            others = lacking[number + 1 :] if younger else [job for job in lacking if job is not first]
            useless = {*first.refused, *blind[first.id]}
            others = [job for job in others if stuck[job.id] is cost and own[job.id] - useless]
            had = {name for job in others for name in own[job.id]} - useless
            if others and len(own[first.id]) + len(had) >= first.needs:
                return others[-1], first
    return None


def at_hand(cluster: Cluster, job: Job) -> list[str]:
    """The workers lent to a job that are connected, and stay."""
    lent = [name for name, worker in cluster.workers.items() if worker.job == job.id and cluster.present(name)]
    return [name for name in lent if not cluster.workers[name].departs]


def could_not_read(cluster: Cluster, job: Job) -> set[str]:
    """Who could not read the job's checkpoint."""
    watch = cluster.watches.get(job.id)
    return {member.worker for member in watch.unable} if watch is not None else set()


def _blind(cluster: Cluster, job: Job, rereads: int = 0, idle: Set[str] = frozenset()) -> set[str]:
    """Who could not read the job's checkpoint, where none of its workers could, so often: it needs another one. Of
    those that are `idle` none will."""
    tried, there = could_not_read(cluster, job), {*at_hand(cluster, job)} - idle
    often = bool(tried) and cluster.watches[job.id].rereads >= rereads
    return tried if there and often and tried >= there else set()


def _may_give(cluster: Cluster, job: Job) -> bool:
    """Whether one that is to go could not save what it holds, and may lead once more, so that those that stay take it
    (`regroup.conclude`)."""
    watch = cluster.watches.get(job.id)
    goers = {name for name, worker in cluster.workers.items() if worker.job == job.id and worker.departs}
    failed = watch is not None and any(member.worker in goers for member in watch.failed_savers)
    return failed and job.spec.max_workers > 1


def reads_in_vain(cluster: Cluster, job: Job) -> set[str]:
    """Who could not read the job's checkpoint, where none of its workers could for long."""
    return _blind(cluster, job, IN_VAIN)


def _eligible(cluster: Cluster, job: Job, free: list[str]) -> list[str]:
    """Those of them that may take part, first those that did not fail to read its checkpoint, or to reach others; of
    these those with the fewest errors."""
    watch = cluster.watches.get(job.id)
    tried = could_not_read(cluster, job).union(watch.resting if watch is not None else ())
    fit = [name for name in free if name not in job.refused]
    return sorted(fit, key=lambda name: (name in tried, cluster.workers[name].errors))


def lend(
    cluster: Cluster,
    expected: Set[str],
    idle: Set[str] = frozenset(),
    quiet: Set[str] = frozenset(),
    useless: Mapping[str, Set[str]] = MappingProxyType({}),
) -> Mapping[str, str]:
    """Worker -> job, for every worker that should be lent now.

    `expected`: the workers that are there, or may only be away for a moment; `idle`: those that have a place in a job
    and do not take it, so that another one may, if it would not do the same (`useless`, by job); `quiet`: those that
    are not heard of at the moment.
    """
    loans = {name: id for name in cluster.workers if (id := comes_back_to(cluster, name, quiet)) is not None}
    free = [name for name in sorted(cluster.workers) if name in expected and is_free(cluster, name)]
    if not free:
        return loans
    stay = {name for name in expected if may_be_lent(cluster, name) and cluster.workers[name].boot != LEFT}
    begun = [
        job
        for job in cluster.live.values()
        if job.wanted is Wanted.RUN and _has_begun(job)
        if _blind(cluster, job, idle=idle) or len(lent(cluster, job, expected, idle)) < job.spec.max_workers
        if job.needs <= len(_usable(cluster, job, stay)) + _may_give(cluster, job)
    ]  # others take none, as they would keep it: also one that needs somebody who said goodbye to be started again

    def grow(job: Job, most: int, beyond: int, but: Set[str] = frozenset()) -> None:
        """To `most` without those that are idle, and not to more than `beyond` with them."""
        nonlocal free
        used, had = len(lent(cluster, job, expected, idle)), len(lent(cluster, job, expected))
        room = max(min(most - used, beyond - had) - list(loans.values()).count(job.id), 0)
        takes = [name for name in _eligible(cluster, job, free) if name not in but]
        loans.update(dict.fromkeys(takes[:room], job.id))
        free = [name for name in free if name not in loans]

    for job in begun:
        if blind := _blind(cluster, job, idle=idle):  # whether there is room or not: it lets go one that cannot
            loans |= dict.fromkeys([name for name in _eligible(cluster, job, free) if name not in blind][:1], job.id)
            free = [name for name in free if name not in loans]
    for job in begun:
        # else it and a queued job that waits for its workers would wait for ever
        grow(job, job.needs, len(cluster.workers))
    hopeless: set[tuple[object, ...]] = set()  # jobs of one kind are looked at once
    for job in cluster.live.values():
        if job.phase is JobPhase.PAUSED and job.wanted is Wanted.YIELD and not _hopeless(cluster, job, expected):
            return loans  # it is in the queue again in a moment
        if job.phase is not JobPhase.QUEUED or (alike := (job.needs, *job.refused)) in hopeless:
            continue
        takes = _eligible(cluster, job, free)[: job.spec.max_workers]
        if len(takes) < job.needs:
            if not _hopeless(cluster, job, expected):
                return loans  # it can start once others end: what is free is kept for it
            hopeless.add(alike)
            continue
        loans |= dict.fromkeys(takes, job.id)
        free = [name for name in free if name not in loans]
    for job in begun:
        grow(job, job.spec.max_workers, job.spec.max_workers)
        grow(job, job.spec.max_workers, job.spec.max_workers + 1, useless.get(job.id, frozenset()))
    return loans
