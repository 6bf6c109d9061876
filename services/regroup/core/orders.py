"""Which orders are due to a worker: derived from the state alone, so that any of them may be lost and sent again.

Owns: the whole answer to "what should this worker be told now".
Refuses to know: what was sent before; nothing is edge-triggered.
"""

from collections.abc import Set

from regroup.core.cluster import Cluster
from regroup.core.copies import is_spared
from regroup.core.jobs import Job, Member, Wanted
from regroup.core.keeping import discards
from regroup.core.messages.orders import Form, Go, Halt, Kill, Order, Prepare, Release, Save
from regroup.core.workers import TrainerPhase, TrainerStatus, Worker


def due(cluster: Cluster, name: str, quiet: Set[str] = frozenset()) -> tuple[Order, ...]:
    """The orders that worker `name` should be sent, given what its trainer last said of itself, and which workers are
    not heard of at the moment (`quiet`)."""
    worker, sighting = cluster.workers.get(name), cluster.present(name)
    if worker is None or sighting is None:
        return ()
    return (*discards(cluster, name), *_due_to_worker(cluster, name, worker, sighting.trainer, quiet))


def _due_to_worker(
    cluster: Cluster, name: str, worker: Worker, trainer: TrainerStatus | None, quiet: Set[str]
) -> tuple[Order, ...]:
    if worker.leaving and worker.job is None:
        return (Go(worker.boot),) if _may_end(cluster, name, quiet) else ()
    if trainer is not None and trainer.job != worker.job:
        return (Release(trainer.job),) if _may_end(cluster, name, quiet) else ()
    if worker.job is None:
        return ()
    job = cluster.jobs[worker.job]
    if trainer is None:
        return (Prepare(job.id, job.spec),)
    watch, member = cluster.watches.get(job.id), Member(name, trainer.incarnation)
    if watch is not None and member in watch.evicted:
        hung = member not in watch.suspected | watch.back and not _others_have_yet_to_tell(cluster, job, name, quiet)
        end = (hung and cluster.tells(name)) or _may_end(cluster, name, quiet)
        return (Kill(job.id, member.incarnation, "evicted from the job"),) if end else ()
    return _due_to_trainer(job, member, trainer)


def _may_end(cluster: Cluster, name: str, quiet: Set[str]) -> bool:
    """Whether it told what it holds, and somebody else holds as much: whoever comes back may have more than when it was
    cut off."""
    return cluster.tells(name) and not is_spared(cluster, name, quiet)


def _others_have_yet_to_tell(cluster: Cluster, job: Job, name: str, quiet: Set[str]) -> bool:
    """Whether others of the job may be gone by now with what they held, as where this coordinator stood still; but are
    not silent for long."""
    others = (one for one, worker in cluster.workers.items() if worker.job == job.id and one != name)
    return any(cluster.present(one) and not cluster.tells(one) and one not in quiet for one in others)


def _due_to_trainer(job: Job, member: Member, trainer: TrainerStatus) -> tuple[Order, ...]:
    if job.round is not None:
        asked = member in job.round.participants and trainer.promised < job.round.generation
        return (Halt(job.id, job.round.generation, job.round.boundary),) if asked else ()
    halted = trainer.phase is TrainerPhase.HALTED and trainer.promised == job.generation
    if job.saver == member and halted and trainer.version is not None:
        final = job.wanted is Wanted.STOP or job.complete_at(trainer.version.step)
        return (Save(job.id, job.generation, trainer.version, final),)
    formation = job.formation
    issued = formation is not None and formation.generation == job.generation
    if formation is not None and issued and halted and member in formation.members and job.steps is not None:
        return (Form(job.id, formation, job.steps),)
    return ()
