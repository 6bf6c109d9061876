"""What is derived for readers."""

import math
from dataclasses import replace

import pytest

from regroup.coordinator import views
from regroup.core.cluster import Cluster, Policy, Watch
from regroup.core.jobs import ORIGIN, Fingerprint, Formation, Job, JobPhase, Member, Seat, StepPoint, Version
from regroup.core.spec import JobSpec
from regroup.core.workers import LEFT, Sighting, TrainerPhase, TrainerStatus, Worker

A, B = Member("a", "a1"), Member("b", "b1")


def running(**changes):
    """A job of two members at steps 12 and 13, in a cluster of three workers."""
    formation = Formation(
        generation=3,
        seats=(Seat(A, Version(2, 10)), Seat(B, Version(2, 10))),
        leader=0,
        base=Version(2, 10),
        owners=(0, 0, 1, 1),
        store="here:1/x",
    )
    spec = JobSpec(task="digits", steps=40, global_batch=8, shards=4, max_workers=2)
    job = Job(id="j-1", spec=spec, submitted=1.0, phase=JobPhase.RUNNING, generation=3, formation=formation, step=10)
    trainer = TrainerStatus(job="j-1", incarnation="c1", phase=TrainerPhase.PREPARING)
    workers = {
        name: Worker(name=name, boot="0", device="cpu", host="here", pid=1, version="0", job="j-1") for name in "abc"
    }
    sightings = {"a": Sighting(seen=99.5), "b": Sighting(seen=90.0), "c": Sighting(seen=99.0, trainer=trainer)}
    watch = Watch(since=90.0, progressed=91.0, committed={A: 12, B: 13}, first=(90.0, 10))
    return Cluster(
        started=50.0,
        jobs={"j-1": replace(job, **changes)},
        workers=workers,
        sightings=sightings,
        watches={"j-1": watch},
    )


def view(cluster):
    return views.job_view(cluster, cluster.jobs["j-1"])


def test_a_jobs_step_is_the_least_of_its_members():
    shown = view(running())
    assert (shown.step, shown.steps, shown.progress) == (12, 40, 0.3)
    assert [(member.worker, member.rank, member.step, member.shards) for member in shown.members] == [
        ("a", 0, 12, (0, 1)),
        ("b", 1, 13, (2, 3)),
    ]


@pytest.mark.parametrize(("told", "shown"), [(10, 10), (13, 12)])
def test_while_a_member_has_not_been_heard_the_persisted_step_stands_or_the_one_before_anothers(told, shown):
    """Each step takes a part of every member."""
    cluster = running()
    cluster = replace(cluster, watches={"j-1": replace(cluster.watches["j-1"], committed={B: told})})
    assert view(cluster).step == shown
    assert view(cluster).members[0].step is None


def test_the_rate_counts_the_steps_of_this_formation_alone():
    assert view(running()).rate == pytest.approx(2.0)
    assert view(running(phase=JobPhase.REGROUPING)).rate is None


def test_the_rate_counts_only_the_steps_that_this_coordinator_saw():
    cluster = running()
    young = replace(cluster.watches["j-1"], first=(90.5, 11))
    assert view(replace(cluster, watches={"j-1": young})).rate == pytest.approx(2.0)
    unheard = replace(young, first=None)
    assert view(replace(cluster, watches={"j-1": unheard})).rate is None


def test_a_worker_lent_to_a_job_shows_what_it_does_there():
    assert {lent.worker: lent.doing for lent in view(running()).workers}["c"] == "preparing"


def test_a_worker_that_said_goodbye_has_left_and_one_that_trains_shows_its_process():
    cluster = running()
    trainer = replace(cluster.sightings["c"].trainer, pid=77)
    cluster = replace(
        cluster,
        workers=cluster.workers | {"b": replace(cluster.workers["b"], boot=LEFT)},
        sightings=cluster.sightings | {"c": replace(cluster.sightings["c"], trainer=trainer)},
    )
    gone = views.worker_view(cluster, "b", Policy(), 100.0)
    assert (gone.doing, gone.trainer) == ("left", None)
    assert views.worker_view(cluster, "c", Policy(), 100.0).trainer == 77


def test_an_ended_job_has_no_members_and_keeps_its_step():
    shown = view(running(phase=JobPhase.COMPLETED, step=40))
    assert (shown.members, shown.step, shown.ended) == ((), 40, True)


def test_samples_count_a_short_last_batch_as_what_it_was():
    job = Job(id="j", spec=JobSpec(task="digits", epochs=3, global_batch=8), submitted=0.0)
    assert views.samples_trained(job, 5) == 40
    known = replace(job, fingerprint=Fingerprint("c", "d", samples=20))  # 3 steps an epoch: 8, 8, 4
    assert [views.samples_trained(known, step) for step in (0, 2, 3, 4, 9)] == [0, 16, 20, 28, 60]


@pytest.mark.parametrize(
    ("seen", "connected", "healthy"), [(98.0, True, True), (97.9, True, False), (99.9, False, False)]
)
def test_a_worker_that_missed_two_heartbeats_or_is_disconnected_is_unhealthy(seen, connected, healthy):
    policy = Policy(heartbeat_interval=1.0)
    assert views.healthy(Sighting(seen=seen, connected=connected), policy, 100.0) is healthy
    assert views.healthy(None, policy, 100.0) is False


@pytest.mark.parametrize(
    ("losses", "loss", "diverged"),
    [
        ((), None, None),
        ((None,), None, None),
        ((math.nan, 0.5), 0.5, None),
        ((0.5, math.nan, None), None, "nan"),
        ((-math.inf,), None, "-inf"),
    ],
)
def test_a_loss_that_is_no_number_is_null_and_said_beside_it(losses, loss, diverged):
    cluster = running()
    points = [StepPoint(step, each, 8.0, 8, 0.1, 0.01) for step, each in enumerate(losses)]
    shown = views.job_view(cluster, cluster.jobs["j-1"], points)
    assert (shown.loss, shown.diverged) == (loss, diverged)


def test_who_left_in_good_order_has_not_failed():
    cluster = running()
    left = replace(cluster.workers["b"], boot=LEFT)
    cluster = replace(cluster, workers=cluster.workers | {"b": left})
    summary = views.cluster_view(cluster, Policy(), 100.0, trouble=None, version="0")
    assert (summary.workers, summary.healthy, summary.failed, summary.gone) == (3, 2, 0, 1)
    cluster = replace(cluster, workers=cluster.workers | {"b": replace(left, quarantined=True)})
    assert views.cluster_view(cluster, Policy(), 100.0, trouble=None, version="0").failed == 1


def test_the_summary_counts_health_fallback_and_work():
    cluster = running()
    alone = replace(cluster.jobs["j-1"].formation, seats=(Seat(A, ORIGIN),), owners=(0, 0, 0, 0))
    cluster = replace(
        cluster,
        jobs={"j-1": replace(cluster.jobs["j-1"], formation=alone)},
        workers=cluster.workers | {"c": replace(cluster.workers["c"], quarantined=True)},
    )
    summary = views.cluster_view(cluster, Policy(), 100.0, trouble=None, version="0")
    assert (summary.workers, summary.healthy, summary.failed, summary.quarantined) == (3, 2, 2, 1)
    assert summary.fallback == ("j-1",)
    assert (summary.updates, summary.samples, summary.uptime) == (12, 96, 50.0)
    assert summary.throughput == pytest.approx(16.0)
    two = views.cluster_view(running(), Policy(), 100.0, trouble=None, version="0")
    assert two.fallback == ()
