"""A coordinator that begins anew knows jobs and workers, and nothing of what it last saw."""

from dataclasses import replace

from regroup.core.jobs import JobPhase, Version
from regroup.core.messages.agent_reports import AgentLeft
from regroup.core.messages.commands import StopJob
from regroup.core.messages.events import Disconnected, KeepSteps, Tick
from regroup.core.messages.orders import Form, Halt, Heard, Save
from regroup.core.workers import TrainerPhase


def reattach(scene, *names):
    scene.restart()
    scene.after(0.2)
    scene.register(*names)


def test_the_step_that_all_are_known_to_have_committed_is_kept_for_the_next_coordinator(scene):
    scene.running("a", "b")
    scene.train("a", 4)
    kept = scene.does(KeepSteps())
    assert (scene.job.step, kept.orders, kept.notes) == (3, (), ())  # b gave its part of the fourth, at least
    scene.train("b", 4)
    kept = scene.does(KeepSteps())
    assert (scene.job.step, kept.orders, kept.notes) == (4, (), ())
    again = scene.does(KeepSteps())
    assert again.cluster.jobs["j"] is kept.cluster.jobs["j"], "nothing to write"
    scene.restart()
    assert scene.job.step == 4


def test_leases_of_a_longer_limit_outlive_a_restart_with_a_shorter_one(scene):
    scene.running("a", max_workers=2, step_timeout=5.0)
    long = scene.policy.detached_limit
    scene.policy = replace(scene.policy, detached_limit=5.0, detached_margin=1.0)
    scene.restart()
    scene.register("b")
    scene.prepare("b")
    began = scene.now
    while scene.members == ["a"] and scene.now < began + 2 * long:
        scene.now += 1.0
        scene.prepare("b") if scene.job.round is None else scene.halt("b", None)
        scene.after(0.0)
    assert scene.members == ["b"], "all is lost, and another begins"
    assert scene.now - began > long


def test_a_worker_that_is_gone_for_good_holds_up_the_queue_for_the_first_while_alone(scene):
    scene.register("a", "b", "c")
    scene.submit("j", min_workers=3, max_workers=3)
    scene.submit("k")
    scene.cluster = replace(
        scene.cluster,
        jobs={id: replace(job, phase=JobPhase.QUEUED) for id, job in scene.cluster.jobs.items()},
        workers={name: replace(worker, job=None) for name, worker in scene.cluster.workers.items()},
    )
    reattach(scene, "a", "b")
    assert {job.reason for job in scene.cluster.jobs.values()} == {"waiting for its turn"}
    scene.now += scene.policy.absent_limit
    for name in "ab":
        scene.beat(name)
    assert scene.job.reason == "it needs 3 workers, and 2 can be had: add workers, or submit it with fewer"
    assert scene.cluster.jobs["k"].phase is JobPhase.PREPARING


def test_keeping_steps_decides_nothing_else_so_that_it_may_be_lost(scene):
    scene.running("a", step_timeout=5.0)
    scene.now += 6.0
    kept = scene.does(KeepSteps())
    assert (kept.notes, scene.job.round) == ((), None)
    scene.does(Tick())
    assert scene.job.round is not None


def test_restarted_while_queued(scene):
    scene.submit(min_workers=2)
    scene.register("a")
    reattach(scene, "a")
    scene.register("b")
    assert scene.job.phase is JobPhase.QUEUED, "a has not said yet that it has no trainer"
    scene.beat("a")
    assert scene.job.phase is JobPhase.PREPARING


def test_a_holder_of_the_last_copy_is_not_lent_to_another_job_before_it_told_what_it_has(scene):
    """c was taken off its job, and all others are gone. Its first words alone do not say that it holds a state."""
    scene.running("c", min_workers=1, max_workers=2)
    scene.train("c", 3)
    scene.does(Disconnected("c"))
    scene.submit("k")
    scene.cluster = replace(
        scene.cluster, workers={"c": replace(scene.cluster.workers["c"], job=None, reason="not heard of for long")}
    )
    reattach(scene, "c")
    assert scene.cluster.workers["c"].job is None
    scene.train("c", 3)
    assert scene.cluster.workers["c"].job == "j"


def test_restarted_while_preparing(scene):
    scene.submit(min_workers=2)
    scene.register("a", "b")
    reattach(scene, "a", "b")
    scene.prepare("a", "b")
    assert scene.job.round.generation == 1


def test_restarted_while_halting(scene):
    scene.running("a", "b")
    scene.breaks("a", 1)
    reattach(scene, "a", "b")
    assert scene.job.round.generation == 2
    scene.train("a", 3)
    assert scene.told("a", Halt) == [Halt("j", 2)]
    scene.halt("a", (1, 3))
    scene.halt("b", (1, 3))
    assert scene.job.formation.generation == 2


def test_a_newcomer_that_died_while_nobody_led_is_not_waited_for(scene):
    """Its agent has started another trainer: the one that was asked is gone."""
    scene.running("a", max_workers=2)
    scene.register("b")
    scene.prepare("b")
    assert {member.worker for member in scene.job.round.participants} == {"a", "b"}
    reattach(scene, "a", "b")
    scene.beat("b", TrainerPhase.PREPARED, "i2")
    scene.halt("a", (1, 3))
    assert (scene.members, scene.job.formation.generation) == (["a"], 2)
    assert scene.cluster.workers["b"].errors == 0


def test_restarted_while_forming(scene):
    scene.running("a", "b")
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    scene.halt("b", (1, 3))
    reattach(scene, "a", "b")
    scene.halt("a", (1, 3))
    assert scene.told("a", Form) == [Form("j", scene.job.formation, 10)]
    scene.train("a")
    assert scene.job.phase is JobPhase.REGROUPING
    scene.train("b")
    assert scene.job.phase is JobPhase.RUNNING


def test_restarted_while_training_nothing_happens_to_the_workers(scene):
    scene.running("a", "b")
    reattach(scene, "a", "b")
    for name in "ab":
        scene.train(name, 6)
        assert [order for order in scene.orders if not isinstance(order[1], Heard)] == []
    assert (scene.job.phase, scene.job.generation) == (JobPhase.RUNNING, 1)


def test_restarted_while_waiting_for_a_boundary(scene):
    scene.running("a", "b")
    scene.does(StopJob("j"))
    reattach(scene, "a", "b")
    scene.train("a", 4)
    assert scene.told("a", Halt) == [Halt("j", 2, boundary=True)]


def test_restarted_while_saving(scene):
    scene.running("a", "b")
    scene.does(StopJob("j"))
    scene.halt("a", (1, 4))
    scene.halt("b", (1, 4))
    reattach(scene, "a", "b")
    scene.halt("a", (1, 4))
    assert scene.told("a", Save) == [Save("j", 2, Version(1, 4))]
    scene.saved("a", (1, 4))
    assert scene.job.phase is JobPhase.STOPPED


def test_restarted_while_waiting_the_state_is_still_there(scene):
    scene.running("a", "b")
    scene.exits("b")
    scene.halt("a", (1, 4))
    assert scene.job.phase is JobPhase.WAITING
    reattach(scene, "a", "b")
    scene.halt("a", (1, 4))
    scene.prepare("b", incarnation="i2")
    scene.halt("a", (1, 4))
    scene.halt("b", None, "i2")
    assert scene.job.formation.base == Version(1, 4)


def test_a_restarted_coordinator_counts_silence_from_its_own_start(scene):
    scene.running("a", "b", min_workers=1)
    scene.register("c")
    scene.restart()
    began = scene.now
    scene.register("c")
    scene.cluster = replace(
        scene.cluster, workers={**scene.cluster.workers, "c": replace(scene.cluster.workers["c"], job="j")}
    )
    while scene.now < began + 200 and not scene.noted("rolled_back"):
        scene.now += 1.0
        if scene.job.round is not None:
            scene.halt("c", None)
        else:
            scene.prepare("c", promised=scene.job.generation if scene.job.generation > 1 else 0)
    policy = scene.policy
    assert scene.now - began > policy.detached_limit + policy.detached_margin + policy.leader_lease
    assert scene.members == ["c"]


def test_a_member_that_said_goodbye_is_not_waited_for_by_the_next_coordinator(scene):
    """A cluster that was stopped in good order, and comes up again with fewer workers."""
    scene.running("a", "b", "c", min_workers=2)
    for name in "abc":
        scene.says(name, AgentLeft(boot="b1"))
    scene.restart()
    scene.register("a", "b", boot="b2")
    scene.prepare("a", "b", incarnation="i2")
    scene.halt("ab", None, "i2")
    scene.train("ab", incarnation="i2")
    assert (scene.job.phase, scene.members) == (JobPhase.RUNNING, ["a", "b"])
    assert scene.job.restarts == 0, "it was stopped on purpose"


def test_a_member_that_said_goodbye_and_came_back_is_another_one(scene):
    scene.running("a", "b", min_workers=1)
    scene.says("b", AgentLeft(boot="b1"))
    scene.register("b", boot="b2")
    scene.restart()
    scene.register("b", boot="b2")
    assert not scene.dead("a")


# --- A coordinator that stood still: its process was stopped, or its machine


def thawed(scene, seconds: float) -> None:
    scene.now += seconds
    scene.cluster = replace(scene.cluster, awake=scene.now)


def test_what_a_coordinator_slept_through_is_nobodys_silence(scene):
    """It is to stop a job, whose survivor's connection timed out meanwhile and comes back a moment later."""
    scene.running("a", "b", step=7, min_workers=1)
    scene.does(StopJob("j"))
    scene.exits("b")
    scene.breaks("a", 1)
    thawed(scene, scene.policy.detached_limit + 10.0)
    scene.does(Disconnected("a"))
    assert not scene.job.ended
    scene.register("a")
    scene.halt("a", (1, 7))
    scene.saved("a", (1, 7))
    assert (scene.job.phase, scene.job.step) == (JobPhase.STOPPED, 7)


def test_a_coordinator_that_woke_up_waits_for_those_that_it_knew_before_anything_is_given_up(scene):
    scene.running("a", "b", step=7, min_workers=1)
    scene.exits("a")
    scene.exits("b")
    scene.register("c")
    thawed(scene, 1000.0)
    scene.does(Disconnected("c"))
    scene.register("a")
    scene.prepare("a", incarnation="i2")
    scene.halt("a", None, "i2")
    assert scene.job.reason == "the last generation is lost, and b, c has yet to tell what it holds"


def test_a_restarted_coordinator_goes_back_past_nobody_that_it_knows_and_has_not_heard_yet(scene):
    """b was cut off with step 3; a went on alone, and its machine and the coordinator's were started anew."""
    scene.parted()
    scene.train("a", 5)
    scene.restart()
    scene.register("a", boot="b2")
    scene.prepare("a", incarnation="i2")
    scene.halt("a", None, "i2")
    assert scene.job.reason == "the last generation is lost, and b has yet to tell what it holds"
    scene.register("b")
    scene.holds_on("b")
    scene.after(0.2)
    scene.halt("a", None, "i2")
    scene.halt("b", (1, 3))
    assert scene.job.formation.base == Version(1, 3)


def test_nor_does_it_wait_for_long_where_a_machine_does_not_come_back(scene):
    scene.parted()
    scene.restart()
    scene.register("a", boot="b2")
    scene.prepare("a", incarnation="i2")
    scene.after(scene.policy.halt_limit + 0.1, heard="a")
    scene.halt("a", None, "i2")
    assert scene.members == ["a"]


def test_that_an_end_was_meant_outlives_the_coordinator_that_saw_its_agent_come_back(scene):
    """The cluster was stopped in a hurry: whatever that costs, it is no failure of the job."""
    scene.running("a", "b", max_restarts=0)
    scene.train("ab", 3)
    scene.does(KeepSteps())
    for name in "ab":
        scene.says(name, AgentLeft(boot="b1"))
        scene.does(Disconnected(name))
    scene.restart()
    scene.register("a", boot="b2")
    scene.restart()
    scene.register("a", "b", boot="b2")
    for name in "ab":
        scene.beat(name)
    scene.after(scene.policy.halt_limit + 0.1, heard="ab")
    scene.prepare("a", "b", incarnation="i2")
    scene.after(0.1, heard="ab")
    scene.halt("ab", None, "i2")
    assert [note.kind for note in scene.notes if note.kind in ("rolled_back", "failed")] == ["rolled_back"]
    assert scene.job.restarts == 0
    assert not any(worker.meant for worker in scene.cluster.workers.values())


def test_an_agent_that_died_while_nobody_led_may_have_lost_its_power_with_the_coordinator(scene):
    scene.running("a", "b", step=3)
    scene.restart()
    scene.register("a", boot="b2")
    assert scene.cluster.workers["a"].errors == 0
    scene.register("a", boot="b3")
    assert scene.cluster.workers["a"].errors == 1
