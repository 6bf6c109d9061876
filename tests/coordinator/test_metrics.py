"""What Prometheus is told of a cluster, as a value from a value."""

from dataclasses import replace

import pytest

from regroup.coordinator.metrics import WorkerState, of_cluster, of_coordinator, worker_state
from regroup.coordinator.views import worker_view
from regroup.core.cluster import Cluster, Policy, Watch
from regroup.core.jobs import Checkpoint, Formation, Job, JobPhase, Link, Member, Seat, Version, Wanted
from regroup.core.spec import JobSpec
from regroup.core.workers import LEFT, Hang, LoopPhase, Sighting, Telemetry, TrainerPhase, TrainerStatus, Worker

A, B = Member("a", "a1"), Member("b", "b1")
NOW = 100.0


def cluster(*others, **changes):
    """A job at step 12 that two of three workers train at 2 steps a second; and other jobs."""
    formation = Formation(
        generation=3,
        seats=(Seat(A, Version(2, 10)), Seat(B, Version(2, 10))),
        leader=0,
        base=Version(2, 10),
        owners=(0, 0, 1, 1),
        store="here:1/x",
    )
    job = Job(
        id="j-1",
        spec=JobSpec(task="digits", name="mine", steps=40, global_batch=8, shards=4, max_workers=3),
        submitted=1.0,
        phase=JobPhase.RUNNING,
        generation=3,
        formation=formation,
        history=(Link(1, 0, 0), Link(2, 1, 5), Link(3, 2, 10)),
        step=10,
    )
    workers = [
        Worker(name=name, boot="0", device="cpu", host="here", pid=1, version="0", job=lent)
        for name, lent in (("a", "j-1"), ("b", "j-1"), ("c", None))
    ]
    watch = Watch(since=90.0, progressed=91.0, committed={A: 12, B: 13}, first=(90.0, 10))
    jobs = [replace(job, **changes), *others]
    return Cluster(
        started=50.0,
        jobs={each.id: each for each in jobs},
        workers={each.name: each for each in workers},
        sightings={each.name: Sighting(seen=99.5) for each in workers},
        watches={"j-1": watch},
    )


def another(id, **facts):
    return Job(id=id, submitted=2.0, **{"spec": JobSpec(task="gpt", steps=9, max_workers=4), **facts})


def told(one):
    """Each series and its figure: `name` or `name{value}` or `name{value, value}`."""
    samples = [sample for family in of_cluster(one, Policy(), NOW) for sample in family.samples]
    series = {each.name + (f"{{{', '.join(each.labels.values())}}}" if each.labels else ""): each for each in samples}
    assert len(series) == len(samples), "a series stands there twice"
    return {name: each.value for name, each in series.items()}


def of_workers(one):
    return {name: figure for name, figure in told(one).items() if name.startswith("regroup_workers{") and figure}


def test_a_job_under_way_is_told_in_figures():
    figures = told(cluster())
    assert {name.partition("_job_")[2]: figure for name, figure in figures.items() if "{j-1" in name} == {
        "info{j-1, mine, digits}": 1,
        "phase{j-1, running}": 1,
        "step{j-1}": 12,
        "steps{j-1}": 40,
        "samples{j-1}": 96,
        "steps_per_second{j-1}": pytest.approx(2.0),
        "samples_per_second{j-1}": pytest.approx(16.0),
        "generation{j-1}": 3,
        "members{j-1}": 2,
        "workers{j-1}": 2,
        "workers_wanted{j-1}": 3,
        "stragglers{j-1}": 0,
        "hangs{j-1}": 0,
        "regrouping_seconds{j-1}": 0,
        "regroups_total{j-1}": 2,
        "restarts_total{j-1}": 0,
    }
    assert figures["regroup_leading_seconds"] == 50


def test_an_ended_job_counts_in_its_phase_and_has_no_series_of_its_own():
    few, many = (
        told(cluster(*(another(f"j-{number}", phase=JobPhase.COMPLETED) for number in range(2, 2 + count))))
        for count in (1, 500)
    )
    assert few.keys() == many.keys()
    assert (few["regroup_jobs{completed}"], many["regroup_jobs{completed}"]) == (1, 500)
    assert {name: figure for name, figure in few.items() if name.startswith("regroup_jobs{") and figure} == {
        "regroup_jobs{running}": 1,
        "regroup_jobs{completed}": 1,
    }
    assert len([name for name in few if name.startswith("regroup_jobs{")]) == len(JobPhase), "also those with none"


def test_a_regroup_under_way_tells_how_long_it_takes_and_that_no_step_is_committed():
    one = cluster(phase=JobPhase.REGROUPING)
    figures = told(replace(one, watches={"j-1": replace(one.watches["j-1"], disturbed=97.5)}))
    assert figures["regroup_job_regrouping_seconds{j-1}"] == 2.5
    assert figures["regroup_job_steps_per_second{j-1}"] == 0


@pytest.mark.parametrize(("at", "stamp"), [(1e9, 1e9), (0.0, None)])
def test_the_newest_checkpoint_has_a_step_and_a_time_if_it_is_known(at, stamp):
    figures = told(cluster(checkpoint=Checkpoint(Version(3, 11), "/c", "sum", 1, at=at)))
    assert figures["regroup_job_checkpoint_step{j-1}"] == 11
    assert figures.get("regroup_job_checkpoint_timestamp_seconds{j-1}") == stamp
    assert not [name for name in told(cluster()) if "checkpoint" in name], "before there is one"


@pytest.mark.parametrize(
    ("job", "more"),
    [
        (another("j-2"), 4),
        (another("j-2", phase=JobPhase.WAITING), 4),
        (another("j-2", phase=JobPhase.REGROUPING, wanted=Wanted.YIELD), 4),
        (another("j-2", phase=JobPhase.PAUSED, wanted=Wanted.PAUSE), 0),
        (another("j-2", phase=JobPhase.PAUSED, wanted=Wanted.HOLD), 1),
        (another("j-2", phase=JobPhase.RUNNING, wanted=Wanted.STOP), 1),
        (another("j-2", phase=JobPhase.FAILED), 0),
    ],
    ids=["queued", "waiting", "makes room", "paused", "held", "is to stop", "failed"],
)
def test_workers_wanted_are_those_that_unfinished_jobs_could_use(job, more):
    one = cluster(job)
    if job.wanted in (Wanted.HOLD, Wanted.STOP):
        one = replace(one, workers=one.workers | {"c": replace(one.workers["c"], job="j-2")})
    assert told(one)["regroup_workers_wanted"] == 3 + more


def test_without_a_job_nothing_is_wanted_and_that_is_told():
    figures = told(Cluster(started=50.0))
    assert figures["regroup_workers_wanted"] == 0
    assert figures["regroup_workers{free}"] == 0


@pytest.mark.parametrize(
    ("facts", "seen", "state"),
    [
        ({}, NOW, WorkerState.FREE),
        ({"job": "j-1"}, NOW, WorkerState.LENT),
        ({"drained": True}, NOW, WorkerState.DRAINED),
        ({"drained": True, "job": "j-1"}, NOW, WorkerState.DRAINING),
        ({"leaving": True, "job": "j-1"}, NOW, WorkerState.LEAVING),
        ({"drained": True, "job": "j-1"}, 90.0, WorkerState.UNHEALTHY),
        ({"quarantined": True}, 90.0, WorkerState.QUARANTINED),
        ({"quarantined": True, "boot": LEFT}, 90.0, WorkerState.LEFT),
    ],
)
def test_a_worker_is_in_one_state(facts, seen, state):
    one = cluster()
    one = replace(
        one,
        workers={"c": replace(one.workers["c"], **facts)},
        sightings={"c": Sighting(seen=seen)},
    )
    assert worker_state(worker_view(one, "c", Policy(), NOW)) is state
    assert of_workers(one) == {f"regroup_workers{{{state}}}": 1}


def test_a_workers_figures_are_there_as_far_as_they_are_known():
    one = cluster()
    one = replace(
        one,
        workers=one.workers | {"a": replace(one.workers["a"], errors=2)},
        sightings={"a": Sighting(seen=90.0, telemetry=Telemetry(memory_used=5, memory_total=7, utilization=0.5))},
    )
    figures = {name: figure for name, figure in told(one).items() if name.startswith("regroup_worker_")}
    assert {name.partition("_worker_")[2]: figure for name, figure in figures.items() if "{c}" not in name} == {
        "healthy{a}": 0,
        "healthy{b}": 0,
        "errors{a}": 2,
        "errors{b}": 0,
        "heartbeat_age_seconds{a}": 10,
        "memory_used_bytes{a}": 5,
        "memory_total_bytes{a}": 7,
        "utilization_ratio{a}": 0.5,
    }


def test_members_that_hang_are_counted():
    one = cluster()
    trainer = TrainerStatus(job="j-1", incarnation="b1", phase=TrainerPhase.TRAINING)
    hang = Hang(phase=LoopPhase.DATA, lasts=9.0, limit=4.0)
    one = replace(one, sightings=one.sightings | {"b": Sighting(seen=NOW, trainer=trainer, hang=hang)})
    assert told(one)["regroup_job_hangs{j-1}"] == 1


def test_every_metric_has_words_and_a_name_of_ours_and_no_label_that_prometheus_sets_itself():
    families = [*of_coordinator("0", leading=True, reachable=True), *of_cluster(cluster(), Policy(), NOW)]
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert family.name.startswith("regroup_")
        assert family.documentation
        labels = {label for sample in family.samples for label in sample.labels}
        assert not labels & {"job", "instance", "namespace", "pod", "service", "container", "endpoint"}
