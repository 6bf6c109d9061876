"""From the cluster's value to what the API shows. Pure: no clock, no store; `now` is passed in.

Owns: what is derived for readers: progress, rate, health, what each lent worker does, the cluster's totals.
Refuses to know: how an answer is encoded, and every way to change something.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from regroup.coordinator.persistence import Standby
from regroup.core.cluster import Cluster, Policy, reached
from regroup.core.jobs import ENDED, Formation, Job, JobPhase, StepPoint
from regroup.core.notes import Event
from regroup.core.rounds import Stage, stage
from regroup.core.shards import owned, steps_per_epoch
from regroup.core.stragglers import is_straggler
from regroup.core.workers import LEFT, Sighting, Telemetry, Worker
from regroup.wire.rest import (
    GONE,
    BeginningView,
    ClusterView,
    EventView,
    JobView,
    LentView,
    MemberView,
    PointView,
    StandbyView,
    TelemetryView,
    WorkerView,
)


def job_view(cluster: Cluster, job: Job, points: Sequence[StepPoint] = ()) -> JobView:
    """A job with its members; `points` are its latest ones, oldest first, for the loss."""
    step = committed_step(cluster, job)
    begins = job.beginning
    loss = next((point.loss for point in reversed(points) if point.loss is not None), None)
    return JobView(
        id=job.id,
        name=job.spec.name,
        task=job.spec.task,
        phase=job.phase,
        reason=job.reason,
        wanted=job.wanted,
        ended=job.ended,
        submitted=job.submitted,
        since=job.since,
        generation=job.generation,
        step=step,
        steps=job.steps,
        progress=min(step / job.steps, 1.0) if job.steps else None,
        rate=rate(cluster, job),
        loss=finite(loss),
        diverged=None if loss is None or math.isfinite(loss) else str(loss),
        samples=samples_trained(job, step),
        dataset=job.fingerprint.samples if job.fingerprint else None,
        shards=job.spec.shard_count,
        members=_members(cluster, job),
        workers=tuple(
            LentView(worker=worker.name, doing=_doing(worker, cluster.sightings.get(worker.name)))
            for worker in cluster.workers.values()
            if worker.job == job.id
        ),
        refused=job.refused,
        restarts=job.restarts,
        failures=job.failures,
        history=job.history,
        checkpoint=job.checkpoint,
        older=job.older,
        beginning=None
        if begins is None
        else BeginningView(job=begins.job, step=job.origin.step, path=begins.checkpoint.path),
        struck=job.struck,
        result=None if job.result is None else plain(job.result),
        error=job.error,
        spec=job.spec,
    )


def committed_step(cluster: Cluster, job: Job) -> int:
    """The minimum committed step over the members; what was persisted, while not all have been heard."""
    return reached(job, cluster.watches.get(job.id))


def rate(cluster: Cluster, job: Job) -> float | None:
    """Steps per second since this coordinator first heard of all members of the formation."""
    watch = cluster.watches.get(job.id)
    if stage(job) is not Stage.TRAINING or watch is None or watch.first is None:
        return None
    at, step = watch.first
    steps, seconds = committed_step(cluster, job) - step, watch.progressed - at
    return steps / seconds if steps > 0 and seconds > 0 else None


def samples_trained(job: Job, step: int) -> int:
    """The samples of the committed steps below `step`; those of the job that it begins from are not its own."""
    return _samples_below(job, step) - _samples_below(job, job.origin.step)


def _samples_below(job: Job, step: int) -> int:
    """The samples of the first `step` steps: whole epochs, and the batches of the one under way."""
    batch = job.spec.global_batch
    if job.fingerprint is None:
        return step * batch
    epochs, rest = divmod(step, steps_per_epoch(job.fingerprint.samples, batch))
    return epochs * job.fingerprint.samples + rest * batch


def worker_view(cluster: Cluster, name: str, policy: Policy, now: float) -> WorkerView:
    """One worker. `now` is of the clock that the sightings are of, seconds. Raises KeyError if there is none."""
    worker = cluster.workers[name]
    sighting = cluster.sightings.get(name)
    return WorkerView(
        name=worker.name,
        device=worker.device,
        host=worker.host,
        pid=worker.pid,
        version=worker.version,
        healthy=healthy(sighting, policy, now),
        heartbeat_age=None if sighting is None else max(0.0, now - sighting.seen),
        job=worker.job,
        doing=_doing(worker, sighting),
        trainer=sighting.trainer.pid if sighting and sighting.trainer and sighting.trainer.pid else None,
        errors=worker.errors,
        quarantined=worker.quarantined,
        drained=worker.drained,
        leaving=worker.leaving,
        reason=worker.reason,
        telemetry=None if sighting is None else _telemetry(sighting.telemetry),
    )


def _telemetry(read: Telemetry) -> TelemetryView:
    return TelemetryView(
        memory_used=read.memory_used, memory_total=read.memory_total, utilization=finite(read.utilization)
    )


def healthy(sighting: Sighting | None, policy: Policy, now: float) -> bool:
    """Connected, and not two heartbeats missing."""
    return sighting is not None and sighting.connected and now - sighting.seen <= 2 * policy.heartbeat_interval


def cluster_view(
    cluster: Cluster,
    policy: Policy,
    now: float,
    *,
    trouble: str | None,
    version: str,
    leader: str | None = None,
    standbys: Sequence[Standby] = (),
) -> ClusterView:
    workers = [worker_view(cluster, name, policy, now) for name in cluster.workers]
    fit = [one for one in workers if one.healthy and not (one.quarantined or one.drained or one.leaving)]
    phases = Counter(job.phase for job in cluster.jobs.values())
    steps = {job.id: committed_step(cluster, job) for job in cluster.jobs.values()}
    return ClusterView(
        version=version,
        trouble=trouble,
        uptime=max(0.0, now - cluster.started),
        leader=leader,
        standbys=tuple(StandbyView(standby.holder, standby.url) for standby in standbys),
        workers=len(workers),
        healthy=sum(worker.healthy for worker in workers),
        failed=sum(worker.quarantined or not (worker.healthy or worker.doing == GONE) for worker in workers),
        gone=sum(worker.doing == GONE and not worker.quarantined for worker in workers),
        quarantined=sum(worker.quarantined for worker in workers),
        idle=sum(worker.job is None for worker in fit),
        jobs={phase: phases[phase] for phase in JobPhase},
        fallback=tuple(job.id for job in cluster.jobs.values() if fallen_back(job)),
        updates=sum(steps[job.id] - job.origin.step for job in cluster.jobs.values()),
        samples=sum(samples_trained(job, steps[job.id]) for job in cluster.jobs.values()),
        throughput=sum((rate(cluster, job) or 0.0) * job.spec.global_batch for job in cluster.jobs.values()),
    )


def fallen_back(job: Job) -> bool:
    """It may use several workers and trains on one."""
    alone = job.formation is not None and len(job.formation.seats) == 1
    return job.phase is JobPhase.RUNNING and alone and job.spec.max_workers > 1


def event_view(event: Event) -> EventView:
    note = event.note
    return EventView(
        id=event.id,
        at=event.at,
        kind=note.kind,
        reason=note.reason,
        job=note.job,
        worker=note.worker,
        data=plain(note.data),
    )


def point_view(point: StepPoint) -> PointView:
    return PointView(
        step=point.step,
        loss=finite(point.loss),
        weight=finite(point.weight),
        samples=point.samples,
        seconds=finite(point.seconds),
        exchange_seconds=finite(point.exchange_seconds),
        metrics={name: finite(value) for name, value in point.metrics.items()},
    )


def finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def plain(value: Any) -> Any:
    """JSON values all the way down, with null for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return finite(value) if isinstance(value, float) else value


def _members(cluster: Cluster, job: Job) -> tuple[MemberView, ...]:
    formation: Formation | None = job.formation
    if formation is None or job.phase in ENDED:
        return ()
    watch = cluster.watches.get(job.id)
    return tuple(
        MemberView(
            worker=member.worker,
            incarnation=member.incarnation,
            rank=rank,
            step=watch.committed.get(member) if watch else None,
            shards=owned(formation.owners, rank),
            pace=finite(cluster.sightings[member.worker].pace) if cluster.present(member.worker) else None,
            straggler=is_straggler(cluster, job, member.worker),
            hang=str(hang.phase) if (hang := cluster.hang(member)) is not None else None,
        )
        for rank, member in enumerate(formation.members)
    )


def _doing(worker: Worker, sighting: Sighting | None) -> str:
    if worker.boot == LEFT:
        return GONE
    if sighting is None:
        return "not heard since the coordinator began"
    if not sighting.connected:
        return "disconnected"
    if sighting.trainer is not None:
        return sighting.trainer.phase.value
    return "idle" if worker.job is None else "starting"
