"""Workers that are not heard of: taken off their job, and much later forgotten."""

from dataclasses import replace

from regroup.core.jobs import JobPhase, StepFailure
from regroup.core.messages.agent_reports import AgentLeft, Heartbeat
from regroup.core.messages.events import Disconnected, Tick
from regroup.core.messages.trainer_reports import StepFailed

DAY = 86400.0


def gone(scene, name="a"):
    scene.does(Disconnected(name))
    return scene.after(DAY + 1.0)


def test_a_worker_that_is_gone_for_long_is_forgotten_with_a_reason(scene):
    scene.register("a", "b")
    scene.does(Disconnected("a"))
    scene.after(DAY - 1.0)
    assert "a" in scene.cluster.workers
    scene.after(2.0)
    assert set(scene.cluster.workers) == set(scene.cluster.sightings) == {"b"}
    assert (scene.notes[-1].kind, scene.notes[-1].worker) == ("forgotten", "a")


def test_a_worker_whose_agent_left_is_forgotten_too(scene):
    scene.register("a")
    scene.says("a", AgentLeft(boot="b1"))
    scene.after(DAY + 1.0)
    assert not scene.cluster.workers


def test_a_new_coordinator_counts_from_its_start(scene):
    scene.register("a")
    scene.restart()
    scene.after(DAY - 1.0)
    assert "a" in scene.cluster.workers
    scene.after(2.0)
    assert not scene.cluster.workers


def test_the_limit_is_the_policys(scene):
    scene.policy = replace(scene.policy, forget_limit=5.0)
    scene.register("a")
    scene.does(Disconnected("a"))
    scene.after(6.0)
    assert not scene.cluster.workers


def test_a_worker_that_a_formation_lists_stays_until_the_job_has_ended(scene):
    scene.running("a", "b")
    free = {name: replace(worker, job=None) for name, worker in scene.cluster.workers.items()}
    scene.cluster = replace(scene.cluster, workers=free)
    gone(scene)
    assert not scene.job.ended
    assert "a" in scene.cluster.workers
    ended = replace(scene.job, phase=JobPhase.FAILED, round=None)
    scene.cluster = replace(scene.cluster, jobs={"j": ended}, watches={})
    scene.does(Tick())
    assert set(scene.cluster.workers) == {"b"}


def test_a_quarantined_worker_stays_for_its_operator(scene):
    scene.register("a")
    quarantined = replace(scene.cluster.workers["a"], quarantined=True, reason="too many errors")
    scene.cluster = replace(scene.cluster, workers={"a": quarantined})
    gone(scene)
    assert scene.cluster.workers == {"a": quarantined}


def test_a_death_that_was_the_tasks_doing_is_not_forgiven_to_a_worker_that_was_forgotten(scene):
    scene.running("a", step_timeout=1e6)
    died = StepFailure(3, 0, "never there any more", "segfault", died=True)
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, failures=(died,))})
    failed = StepFailed(
        job="j", incarnation="i1", generation=1, step=3, shard=0, error="boom", traceback="Traceback\nboom"
    )
    scene.says("a", failed)
    assert scene.job.phase is JobPhase.FAILED


def test_a_worker_that_was_forgotten_registers_as_a_new_one(scene):
    scene.register("a")
    gone(scene)
    assert scene.says("a", Heartbeat(boot="b1", sequence=9)).orders == ()
    scene.register("a")
    assert scene.cluster.workers["a"].boot == "b1"
    assert scene.notes[-1].kind == "registered"
