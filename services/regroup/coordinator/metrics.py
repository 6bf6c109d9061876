"""From the cluster's value to Prometheus' metric families. Pure, as the views are: the clock's `now` is passed in.

Owns: which metrics there are, their names, units and words, and that their number is bounded: a job has series of its
own until it ends, a worker until it is forgotten.
Refuses to know: how they are written and who may read them (`exposition`), and every way to change something.
Does not guarantee: a figure for what is not known; there is no series then, where 0 would be a lie.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from regroup.coordinator import views
from regroup.core.cluster import Cluster, Policy
from regroup.core.jobs import JobPhase, Wanted
from regroup.wire.rest import GONE, JobView, WorkerView

T = TypeVar("T")

Figure = Callable[[T], float | None]  # None: it is not known


class WorkerState(StrEnum):
    """What a worker is to whoever needs one. Each is in one state: the first of these that fits."""

    LEFT = "left"  # in good order, and may come back
    QUARANTINED = "quarantined"
    UNHEALTHY = "unhealthy"
    LEAVING = "leaving"  # its agent was asked to end
    DRAINING = "draining"  # it still has a job
    DRAINED = "drained"
    LENT = "lent"
    FREE = "free"


def workers_wanted(job: JobView) -> int:
    """What it could use if it could have it; a job that is to rest or to end needs no more than it still has."""
    return job.spec.max_workers if job.wanted in (Wanted.RUN, Wanted.YIELD) else len(job.workers)


def worker_state(worker: WorkerView) -> WorkerState:
    if worker.doing == GONE:
        return WorkerState.LEFT
    if worker.quarantined:
        return WorkerState.QUARANTINED
    if not worker.healthy:
        return WorkerState.UNHEALTHY
    if worker.leaving:
        return WorkerState.LEAVING
    if worker.drained:
        return WorkerState.DRAINED if worker.job is None else WorkerState.DRAINING
    return WorkerState.FREE if worker.job is None else WorkerState.LENT


# Of each worker, by its name.
WORKER_FIGURES: tuple[tuple[str, str, Figure[WorkerView]], ...] = (
    ("healthy", "1: connected, and heard within two heartbeat intervals", lambda one: one.healthy),
    ("errors", "Errors that count against it; too many quarantine it", lambda one: one.errors),
    ("heartbeat_age_seconds", "Time since its last heartbeat", lambda one: one.heartbeat_age),
    (
        "memory_used_bytes",
        "Memory that its trainer uses",
        lambda one: one.telemetry.memory_used if one.telemetry else None,
    ),
    (
        "memory_total_bytes",
        "Memory of its device, or of its machine",
        lambda one: one.telemetry.memory_total if one.telemetry else None,
    ),
    (
        "utilization_ratio",
        "Use of its device, 0 to 1",
        lambda one: one.telemetry.utilization if one.telemetry else None,
    ),
)

# Of each job that has not ended, by its id. The label is not called `job`: Prometheus itself has one of that name.
JOB_FIGURES: tuple[tuple[str, str, Figure[JobView]], ...] = (
    ("step", "Steps that all members committed", lambda job: job.step),
    ("steps", "Steps until completion", lambda job: job.steps),
    ("samples", "Samples trained in the committed steps", lambda job: job.samples),
    ("steps_per_second", "Steps per second of this formation; 0: none yet", lambda job: job.rate or 0.0),
    (
        "samples_per_second",
        "Samples per second of this formation; 0: none yet",
        lambda job: (job.rate or 0.0) * job.spec.global_batch,
    ),
    ("generation", "The highest generation taken", lambda job: job.generation),
    ("members", "Workers that its last formation lists", lambda job: len(job.members)),
    ("workers", "Workers that are lent to it", lambda job: len(job.workers)),
    ("workers_wanted", "Workers that it could use now", workers_wanted),
    (
        "stragglers",
        "Members that are steadily slower than the others",
        lambda job: sum(m.straggler for m in job.members),
    ),
    ("hangs", "Members that hang", lambda job: sum(m.hang is not None for m in job.members)),
    (
        "checkpoint_step",
        "The step of its newest checkpoint",
        lambda job: job.checkpoint.version.step if job.checkpoint else None,
    ),
    (
        "checkpoint_timestamp_seconds",
        "When its newest checkpoint was known to be durable, since the epoch",
        lambda job: (job.checkpoint.at or None) if job.checkpoint else None,
    ),
)
JOB_COUNTS: tuple[tuple[str, str, Callable[[JobView], int]], ...] = (
    ("regroups", "Formations after its first", lambda job: max(len(job.history) - 1, 0)),
    ("restarts", "Times that it began again because all its state was lost", lambda job: job.restarts),
)


def of_coordinator(version: str, *, leading: bool, reachable: bool) -> Iterator[Metric]:
    """What every coordinator tells of itself, also one that stands by."""
    yield InfoMetricFamily("regroup_build", "The version of this coordinator", {"version": version})
    yield GaugeMetricFamily("regroup_leading", "1: this coordinator leads; 0: it stands by", leading)
    yield GaugeMetricFamily("regroup_store_reachable", "1: the store answers; 0: nothing can be decided", reachable)


def of_cluster(cluster: Cluster, policy: Policy, now: float) -> Iterator[Metric]:
    """What the coordinator that leads tells of the cluster. `now` is of the clock that the cluster's times are of."""
    workers = [views.worker_view(cluster, name, policy, now) for name in cluster.workers]
    jobs = [views.job_view(cluster, job) for job in cluster.jobs.values() if not job.ended]
    phases = Counter(job.phase for job in cluster.jobs.values())
    states = Counter(map(worker_state, workers))

    led = max(0.0, now - cluster.started)
    yield GaugeMetricFamily("regroup_leading_seconds", "How long this coordinator leads", led)
    yield _gauges("regroup_jobs", "Jobs in each phase", "phase", ((each, phases[each]) for each in JobPhase))
    yield _gauges("regroup_workers", "Workers in each state", "state", ((each, states[each]) for each in WorkerState))
    wanted = "Workers that all jobs that have not ended could use now: what an autoscaler should provide"
    yield GaugeMetricFamily("regroup_workers_wanted", wanted, sum(map(workers_wanted, jobs)))

    for name, words, of_worker in WORKER_FIGURES:
        told = ((worker.name, of_worker(worker)) for worker in workers)
        yield _gauges(f"regroup_worker_{name}", words, "worker", told)

    yield from _what_they_are(jobs)
    for name, words, of_job in JOB_FIGURES:
        yield _gauges(f"regroup_job_{name}", words, "job_id", ((job.id, of_job(job)) for job in jobs))
    since = {job.id: cluster.watches[job.id].disturbed for job in jobs if job.id in cluster.watches}
    regrouping = ((id, 0.0 if began is None else max(0.0, now - began)) for id, began in since.items())
    yield _gauges("regroup_job_regrouping_seconds", "How long it regroups now; 0: it does not", "job_id", regrouping)
    for name, words, count in JOB_COUNTS:
        counter = CounterMetricFamily(f"regroup_job_{name}", words, labels=["job_id"])
        for job in jobs:
            counter.add_metric([job.id], count(job))
        yield counter


def _what_they_are(jobs: Sequence[JobView]) -> Iterator[Metric]:
    info = GaugeMetricFamily("regroup_job_info", "Always 1: its name and task", labels=["job_id", "name", "task"])
    phase = GaugeMetricFamily("regroup_job_phase", "Always 1: the phase that it is in", labels=["job_id", "phase"])
    for job in jobs:
        info.add_metric([job.id, job.name, job.task], 1)
        phase.add_metric([job.id, job.phase], 1)
    yield from (info, phase)


def _gauges(name: str, words: str, label: str, series: Iterable[tuple[str, float | None]]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=[label])
    for value, figure in series:
        if figure is not None:
            family.add_metric([value], figure)
    return family
