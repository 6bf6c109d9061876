"""Workers that are not heard of: taken off their job, and much later forgotten."""

from dataclasses import replace

import pytest

from regroup.core.cluster import Rest
from regroup.core.jobs import Checkpoint, Fingerprint, JobPhase, Link, StepFailure, Version
from regroup.core.messages.agent_reports import AgentLeft, Heartbeat
from regroup.core.messages.commands import StopJob
from regroup.core.messages.events import Disconnected, Tick
from regroup.core.messages.orders import Form, Halt
from regroup.core.messages.trainer_reports import CheckpointUnreadable, StepFailed
from regroup.core.orders import due
from regroup.core.workers import Hang, LoopPhase, TrainerPhase

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


@pytest.mark.parametrize("hours", [1, 25])
def test_whoever_was_refused_may_take_part_when_its_agent_starts_anew_however_long_it_was_off(scene, hours):
    scene.running("a", max_workers=2)
    scene.register("b")
    scene.beat("b", TrainerPhase.PREPARED, fingerprint=Fingerprint("old code", "data", 100))
    assert set(scene.job.refused) == {"b"}
    scene.exits("b", asked=True)
    scene.does(Disconnected("b"))
    scene.after(hours * 3600.0, heard="a")
    assert ("b" in scene.cluster.workers) is (hours < 24)
    scene.register("b", boot="b2")
    assert scene.cluster.workers["b"].job == "j"


def test_a_worker_that_others_cannot_reach_keeps_no_place_from_a_free_one(scene):
    scene.running("a", "b", max_workers=3, step=3)
    for name in ("c", "d"):
        scene.register(name)
        assert scene.cluster.workers[name].job == "j"
        watch = replace(scene.cluster.watches["j"], resting={"c": Rest(1, scene.now + 60.0)})
        scene.cluster = replace(scene.cluster, watches={"j": watch})


def test_a_trainer_that_is_evicted_and_does_not_end_keeps_no_place_from_a_free_worker(scene):
    """Its process hangs in the kernel, say in its device's driver."""
    scene.running("a", "b", step=3)
    scene.register("c")
    scene.passes(scene.policy.halt_limit, heard="abc")
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    hangs = scene.cluster.sightings["b"].trainer
    hang = Hang(phase=LoopPhase.COMPUTE, lasts=30.0, limit=20.0, stands=True)
    for seconds in (2.0, 2.1, scene.policy.absent_limit):
        scene.passes(seconds, heard="abc")
        scene.sequence += 1
        scene.says("b", Heartbeat(boot="b1", sequence=scene.sequence, trainer=hangs, hang=hang))
        scene.does(Tick())
    assert [note.worker for note in scene.noted("evicted")] == ["b"]
    assert scene.cluster.workers["c"].job == "j"


def test_an_agent_that_is_connected_and_not_heard_keeps_no_place_from_a_free_worker(scene):
    scene.submit(min_workers=2, max_workers=2)
    scene.register("a", "b", "c")
    scene.prepare("a")
    scene.beat("b", TrainerPhase.PREPARING)
    assert scene.cluster.workers["c"].job is None
    scene.after(scene.policy.absent_limit + 0.1, heard="ac")
    assert scene.cluster.workers["c"].job == "j"


def test_a_member_that_trains_keeps_its_place_though_its_agent_is_not_heard(scene):
    """Else a free worker would be lent and taken back with every event."""
    scene.running("a", "b", step=3, step_timeout=1e6)
    scene.register("c")
    noted = len(scene.notes)
    for _ in range(20):
        scene.after(1.0, heard="ac")
    assert scene.cluster.workers["c"].job is None
    assert len(scene.notes) == noted


def test_one_that_nobody_reaches_does_not_gather_all_that_is_free(scene):
    """a leads and holds the state; whoever is lent besides cannot reach it, and others wait for a worker."""
    scene.running("a", min_workers=1, max_workers=2, step=3)
    for name in "bcd":
        scene.register(name)
        scene.does(Tick())
        lent = {name for name, worker in scene.cluster.workers.items() if worker.job == "j"}
        assert len(lent) <= 3, "the job asked for two, and one more may be tried"
        watch = scene.cluster.watches["j"]
        resting = dict.fromkeys(lent - {"a"}, Rest(1, scene.now + 600.0)) | dict(watch.resting)
        scene.cluster = replace(scene.cluster, watches={"j": replace(watch, resting=resting)})
    scene.submit("k", max_workers=1)
    assert [worker.job for worker in scene.cluster.workers.values()].count("k") == 1


def test_who_was_idle_for_long_and_is_lent_has_its_time_to_start_a_trainer(scene):
    scene.register("a")
    scene.passes(scene.policy.prepare_limit + 1.0, heard="a")
    scene.submit(max_workers=1)
    scene.after(0.2, heard="a")
    assert (scene.cluster.workers["a"].job, scene.cluster.workers["a"].errors) == ("j", 0)
    scene.after(scene.policy.prepare_limit, heard="a")
    assert scene.cluster.workers["a"].errors == 1


def test_a_trainer_of_no_job_that_does_not_end_holds_up_no_queue(scene):
    scene.running("w", step=3)
    scene.does(StopJob("j", now=True))
    scene.register("x", "y")
    scene.submit("big", min_workers=3, max_workers=3)
    scene.submit("small", min_workers=1, max_workers=1)
    scene.after(scene.policy.absent_limit - 1.0, heard="wxy")
    assert scene.cluster.jobs["small"].phase is JobPhase.QUEUED, "it is about to end"
    scene.after(2.0, heard="wxy")
    assert scene.cluster.jobs["small"].phase is JobPhase.PREPARING
    scene.beat("w")  # it ended after all
    assert scene.cluster.jobs["big"].reason == "waiting for its turn behind small"


def reads_in_vain(scene, name, job, standing):
    """Its trainer hears what is due, answers, and cannot read the checkpoint. `standing`: where it stands, and then."""
    facts = {"incarnation": f"i{name}", "job": job}
    scene.beat(name, **facts, **standing)
    for order in due(scene.cluster, name):
        if isinstance(order, Halt):
            standing = {"phase": TrainerPhase.HALTED, "promised": order.generation}
            scene.beat(name, **facts, **standing)
    for order in due(scene.cluster, name):
        if isinstance(order, Form):
            n = order.formation.generation
            scene.says(name, CheckpointUnreadable(**facts, generation=n, error="no answer"))
            standing = {"phase": TrainerPhase.BROKEN, "promised": n, "generation": n}
    return standing


@pytest.mark.parametrize("absent_limit", [10.0, 300.0], ids=["soon", "late"])
def test_of_two_jobs_that_read_in_vain_one_makes_room_however_long_a_worker_may_be_away(make_scene, absent_limit):
    """a could read k's file, and b j's; each try begins the wait anew."""
    scene = make_scene(absent_limit=absent_limit, read_retry=3.0)
    scene.submit("j", max_workers=1)
    scene.submit("k", max_workers=1)
    scene.register("a", "b")
    places = {"a": "j", "b": "k"}
    rest = {"generation": 1, "step": 3, "history": (Link(1, 0, 0),), "fingerprint": Fingerprint("code", "data", 100)}
    files = {job: Checkpoint(Version(1, 3), f"/c/{job}", "s", 1, worker) for job, worker in (("j", "b"), ("k", "a"))}
    jobs = {job: replace(scene.cluster.jobs[job], checkpoint=file, **rest) for job, file in files.items()}
    scene.cluster = replace(scene.cluster, jobs=jobs)
    standing = {name: {"phase": TrainerPhase.PREPARED} for name in places}
    while all(scene.cluster.workers[name].job == job for name, job in places.items()):
        assert scene.now < 4000, "both wait for ever"
        scene.now += 1.0
        standing = {name: reads_in_vain(scene, name, job, standing[name]) for name, job in places.items()}
        scene.does(Tick())
    assert scene.cluster.jobs["j"].generation > 4


def test_one_that_is_lent_and_says_nothing_is_not_waited_for_by_the_queue(scene):
    """j trains on a alone by now. big needs three workers, and a and c are two."""
    scene.running("a", "b", min_workers=1, max_workers=2, step=3, step_timeout=1e6)
    scene.submit("big", min_workers=3, max_workers=3)
    scene.submit("small", max_workers=1)
    scene.breaks("a", 1)
    scene.passes(scene.policy.absent_limit + 1.0, heard="a")
    scene.halt("a", (1, 3))
    scene.after(scene.policy.halt_limit + 1.0, heard="a")
    scene.train("a")
    assert (scene.members, scene.cluster.workers["b"].job) == (["a"], "j")
    scene.register("c")
    scene.after(1.0, heard="ac")
    assert scene.cluster.workers["c"].job == "small"


@pytest.mark.parametrize("hung", [5.0, 61.0])
def test_who_was_evicted_a_moment_ago_is_no_worker_that_does_not_end(scene, hung):
    """However long it said nothing new before. Else a would be alone with its failure, which is its job's then."""
    scene.running("a", "b", step=3, min_workers=1)
    scene.passes(hung, heard="ab")
    scene.raises("a", generation=1, step=3, shard=2)
    scene.halt("a", (1, 3))
    scene.after(scene.policy.halt_limit + 0.1, heard="ab")
    assert [note.worker for note in scene.noted("evicted")] == ["b"]
    scene.train("a", 3)
    scene.passes(0.3, heard="ab")
    scene.raises("a", generation=scene.job.formation.generation, step=3, shard=2)
    assert not scene.job.ended, scene.job.reason
