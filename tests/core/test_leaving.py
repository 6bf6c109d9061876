"""Workers that are to go: others take over what they have, or it is saved first; then they go, and nobody is blamed."""

from dataclasses import replace

import pytest
from tests.core.conftest import PRINT

from regroup.core.cluster import NoSuchWorker
from regroup.core.jobs import IN_STATE, Checkpoint, JobPhase, Member, Version, Wanted
from regroup.core.leaving import let_go
from regroup.core.messages.agent_reports import AgentLeft, Heartbeat
from regroup.core.messages.commands import AdmitWorker, DrainWorker, PauseJob
from regroup.core.messages.events import Disconnected
from regroup.core.messages.orders import Go, Release
from regroup.core.messages.trainer_reports import SaveFailed
from regroup.core.turn import Turn
from regroup.core.workers import Hang, LoopPhase, TrainerPhase, TrainerStatus


def leave(scene, name, phase=None, **facts):
    """A heartbeat of an agent that was asked to end; its trainer stands where it stood unless a phase is given."""
    scene.sequence += 1
    seen = scene.cluster.sightings[name].trainer
    trainer = replace(seen, phase=phase, **facts) if seen is not None and phase is not None else seen
    boot = scene.cluster.workers[name].boot
    return scene.says(name, Heartbeat(boot=boot, sequence=scene.sequence, trainer=trainer, leaving=True))


def hold(scene):
    """a and b are held with the state of step 4."""
    scene.running("a", "b", min_workers=1)
    scene.train("ab", 3)
    scene.does(PauseJob("j", hold=True))
    scene.halt("ab", (1, 4))


def goodbye(scene, name):
    boot = scene.cluster.workers[name].boot
    scene.exits(name, asked=True)
    scene.says(name, AgentLeft(boot=boot))


def test_a_free_worker_may_go_at_once(scene):
    scene.register("a")
    leave(scene, "a")
    assert scene.told("a", Go) == [Go("b1")]
    assert [note.worker for note in scene.noted("leaving")] == ["a"]
    scene.submit()
    assert scene.job.phase is JobPhase.QUEUED


def test_a_member_hands_over_at_the_next_boundary_and_then_may_go(scene):
    scene.running("a", "b", min_workers=1)
    scene.train("ab", 3)
    leave(scene, "b")
    assert scene.job.round is not None
    assert scene.job.round.boundary
    assert scene.job.reason == "after this step b may go"
    assert scene.told("b", Go) == []
    scene.halt("b", (1, 4))
    assert scene.told("b", Go) == []
    scene.halt("a", (1, 4))
    assert scene.members == ["a"]
    assert scene.job.formation.base == Version(1, 4)
    assert scene.job.formation.receivers == ()
    assert scene.told("b", Go) == [Go("b1")]
    goodbye(scene, "b")
    scene.train("a")
    assert (scene.job.phase, scene.cluster.workers["b"].errors) == (JobPhase.RUNNING, 0)


def test_whoever_leaves_is_replaced_by_a_free_worker_from_the_start(scene):
    scene.running("a", "b", min_workers=1)
    scene.register("c")
    assert scene.cluster.workers["c"].job is None
    leave(scene, "b")
    assert scene.cluster.workers["c"].job == "j"


def test_what_all_that_hold_it_leave_with_is_saved_and_the_job_is_queued_again(scene):
    scene.running("a", "b", min_workers=1)
    scene.train("ab", 3)
    leave(scene, "a")
    leave(scene, "b")
    scene.halt("ab", (1, 4))
    assert scene.job.saver is not None
    assert scene.job.reason == "a saves the state of step 4, because all that hold it leave"
    assert scene.told("b", Go) == []
    scene.saved("a", (1, 4))
    assert {name for name in "ab" if scene.told(name, Go)} == {"a", "b"}
    assert (scene.job.phase, scene.job.saved) == (JobPhase.PAUSED, Version(1, 4))
    for name in "ab":
        goodbye(scene, name)
    scene.after(1.0)
    assert (scene.job.phase, scene.job.wanted) == (JobPhase.QUEUED, Wanted.RUN)

    scene.register("a", "b", boot="b2")
    scene.prepare("a", "b", incarnation="i2")
    scene.halt("ab", None, "i2")
    assert scene.job.formation.base == Version(1, 4)
    assert scene.job.restarts == 0


def test_newcomers_are_no_reason_to_take_the_only_state_along(scene):
    """b stays and is prepared, but holds nothing: a saves first, and b reads."""
    scene.running("a", max_workers=2)
    scene.train("a", 3)
    leave(scene, "a")
    scene.register("b")
    scene.prepare("b")
    scene.halt("a", (1, 4))
    assert scene.job.saver is not None
    scene.saved("a", (1, 4))
    goodbye(scene, "a")
    scene.after(1.0, "b")
    scene.exits("b", asked=True)
    scene.beat("b")
    assert (scene.cluster.workers["a"].job, scene.cluster.workers["b"].job) == (None, "j")
    scene.prepare("b", incarnation="i2")
    scene.halt("b", None, "i2")
    assert (scene.members, scene.job.formation.base) == (["b"], Version(1, 4))


def ahead(scene, **spec):
    """c died while the optimizer ran: a, which is to go, committed step 9, and b did not."""
    scene.running("a", "b", "c", **{"min_workers": 1, "steps": 100, **spec})
    scene.train("abc", 9)
    scene.train("a", 10)
    scene.exits("c")
    leave(scene, "a")
    scene.halt("a", (1, 10))
    scene.halt("b", (1, 9))


def test_whoever_stays_a_step_behind_takes_over_before_the_one_ahead_may_go(scene):
    """To save would cost b its state, for a file that it may not be able to read."""
    ahead(scene)
    formation = scene.job.formation
    assert (scene.members, formation.leader, formation.receivers) == (["a", "b"], 0, (1,))
    assert formation.base == Version(1, 10)
    assert scene.job.saver is None
    leave(scene, "a")
    assert scene.told("a", Go) == []
    scene.train("ab")
    scene.after(0.1, "ab")
    assert scene.job.round.boundary
    scene.halt("ab", (2, 11))
    assert (scene.members, scene.job.formation.base) == (["b"], Version(2, 11))
    leave(scene, "a")
    assert scene.told("a", Go) == [Go("b1")]


def test_where_too_few_stay_they_take_over_all_the_same_and_wait_with_the_state(scene):
    ahead(scene, min_workers=2)
    scene.train("ab")
    scene.after(0.1, "ab")
    scene.halt("ab", (2, 11))
    assert scene.job.phase is JobPhase.WAITING
    assert "1 of 2 are ready; step 11 is kept in memory" in scene.job.reason
    leave(scene, "a")
    assert scene.told("a", Go) == [Go("b1")]


def test_where_those_that_stay_would_not_suffice_with_the_one_ahead_its_state_is_saved(scene):
    ahead(scene, min_workers=3)
    assert scene.job.reason == "a saves the state of step 10, because all that hold it leave"


def test_what_is_durable_is_not_saved_again(scene):
    scene.running("a")
    facts = {"promised": 1, "generation": 1, "version": Version(1, 4)}
    scene.beat("a", TrainerPhase.TRAINING, **facts, written=(Checkpoint(Version(1, 4), "/c/j", "sum", 1),))
    leave(scene, "a")
    scene.halt("a", (1, 4))
    assert scene.job.reason == "rests at step 4; its state is in /c/j: all that hold it leave"
    assert (scene.job.phase, scene.job.wanted) == (JobPhase.PAUSED, Wanted.YIELD)
    assert scene.told("a", Go) == [Go("b1")]


def test_with_too_few_left_the_job_waits_with_its_state_and_the_other_may_go(scene):
    scene.running("a", "b")
    scene.train("ab", 3)
    leave(scene, "b")
    scene.halt("ab", (1, 4))
    assert scene.job.phase is JobPhase.WAITING
    assert "1 of 2 are ready; step 4 is kept in memory" in scene.job.reason
    leave(scene, "b")
    assert scene.told("b", Go) == [Go("b1")]
    goodbye(scene, "b")
    scene.register("c")
    scene.prepare("c")
    scene.halt("a", (1, 4))
    scene.halt("c", None)
    assert scene.members == ["a", "c"]
    assert scene.job.formation.base == Version(1, 4)


def test_a_drained_worker_hands_over_stays_connected_and_is_not_chosen_until_it_is_admitted(scene):
    scene.running("a", "b", min_workers=1)
    scene.train("ab", 3)
    scene.does(DrainWorker("b"))
    scene.halt("ab", (1, 4))
    assert scene.members == ["a"]
    assert scene.told("b", Go) == []
    assert scene.told("b", Release) == [Release("j")]
    scene.train("a")
    scene.exits("b", asked=True)
    scene.beat("b")
    assert scene.cluster.workers["b"].job is None
    assert scene.cluster.workers["b"].reason == "drained by its operator"
    scene.restart()
    scene.register("b", boot="b2")
    assert scene.cluster.workers["b"].drained
    assert scene.cluster.workers["b"].job is None
    scene.does(AdmitWorker("b"))
    assert scene.cluster.workers["b"].job == "j"
    assert [note.worker for note in scene.noted("admitted")] == ["b"]


def test_a_job_that_lacks_drained_workers_says_which_to_admit(scene):
    scene.register("a", "b")
    for name in "ba":
        scene.does(DrainWorker(name))
    scene.submit()
    scene.beat("a")
    assert scene.job.reason == "it needs a worker, and 0 can be had: admit a, b, add workers, or submit it with fewer"


def test_what_is_asked_twice_is_done_once_and_of_nobody_refused(scene):
    scene.register("a")
    for _ in range(2):
        scene.does(DrainWorker("a"))
    for _ in range(2):
        scene.does(AdmitWorker("a"))
    assert (len(scene.noted("drained")), len(scene.noted("admitted"))) == (1, 1)
    for command in (DrainWorker("none"), AdmitWorker("none")):
        with pytest.raises(NoSuchWorker):
            scene.does(command)


def test_what_is_held_is_saved_when_all_that_have_it_leave(scene):
    scene.running("a")
    scene.train("a", 3)
    scene.does(PauseJob("j", hold=True))
    scene.halt("a", (1, 4))
    assert scene.job.phase is JobPhase.PAUSED
    leave(scene, "a")
    assert scene.told("a", Go) == []
    scene.halt("a", (1, 4))
    assert scene.job.saver is not None
    scene.saved("a", (1, 4))
    assert (scene.job.phase, scene.job.wanted, scene.job.saved) == (JobPhase.PAUSED, Wanted.PAUSE, Version(1, 4))
    assert scene.told("a", Go) == [Go("b1")]


def test_what_those_that_go_hold_is_saved_also_where_the_round_ends_because_another_was_lost(scene):
    scene.running("a", "b")
    scene.train("ab", 3)
    scene.does(PauseJob("j", hold=True))
    leave(scene, "a")
    scene.breaks("a", 1)
    scene.halt("a", (1, 4))
    scene.does(Disconnected("b"))
    assert scene.noted("paused")
    assert (scene.job.wanted, scene.job.round is not None) == (Wanted.PAUSE, True)


def test_one_that_holds_a_held_state_may_go_while_another_stays_with_it(scene):
    hold(scene)
    leave(scene, "b")
    assert scene.told("b", Go) == [Go("b1")]
    assert scene.job.wanted is Wanted.HOLD


def test_a_leave_that_was_told_is_remembered_by_the_next_coordinator(scene):
    scene.running("a", "b", min_workers=1)
    scene.train("ab", 3)
    leave(scene, "b")
    scene.restart()
    assert scene.cluster.workers["b"].leaving
    scene.register("a", "b")
    scene.halt("ab", (1, 4))
    assert scene.members == ["a"]
    assert scene.told("b", Go) == [Go("b1")]


def test_a_new_agent_is_not_leaving_and_that_the_old_one_died_was_meant(scene):
    scene.running("a", "b", min_workers=1)
    leave(scene, "b")
    scene.register("b", boot="b2")
    worker = scene.cluster.workers["b"]
    assert (worker.leaving, worker.errors) == (False, 0)


def test_who_is_to_hold_what_all_leave_with_is_paused(scene):
    scene.running("a")
    scene.train("a", 3)
    leave(scene, "a")
    scene.halt("a", (1, 4))
    scene.does(PauseJob("j", hold=True))
    scene.saved("a", (1, 4))
    assert (scene.job.phase, scene.job.wanted) == (JobPhase.PAUSED, Wanted.PAUSE)
    assert scene.told("a", Go) == [Go("b1")]


def test_who_stays_saves_what_who_is_to_go_holds_too(scene):
    """By name it would be a; but where folders are not shared, its file goes with it."""
    scene.running("a", "b", min_workers=1, step=3)
    scene.does(DrainWorker("a"))
    scene.does(PauseJob("j"))
    scene.halt("ab", (1, 4))
    assert scene.job.saver == Member("b", "i1")


def test_who_was_admitted_again_before_the_state_is_saved_goes_on(scene):
    scene.running("a")
    scene.train("a", 3)
    scene.does(DrainWorker("a"))
    scene.halt("a", (1, 4))
    scene.does(AdmitWorker("a"))
    scene.saved("a", (1, 4))
    scene.halt("a", (1, 4))
    assert scene.members == ["a"]
    assert scene.job.formation.base == Version(1, 4)


def test_a_newcomer_that_leaves_is_not_taken_in(scene):
    scene.running("a", max_workers=2)
    scene.register("b")
    assert scene.cluster.workers["b"].job == "j"
    leave(scene, "b")
    assert scene.cluster.workers["b"].job is None
    assert scene.job.round is None
    assert scene.told("b", Go) == [Go("b1")]


def test_a_trainer_that_fails_to_save_for_those_that_leave_is_followed_by_the_other(scene):
    scene.running("a", "b", min_workers=1)
    for name in "ab":
        scene.train(name, 3)
        leave(scene, name)
    scene.halt("ab", (1, 4))
    first = scene.job.saver.worker
    scene.says(first, SaveFailed(job="j", incarnation="i1", generation=scene.job.generation, error="disk full"))
    scene.after(2.0, "ab")
    scene.halt("ab", (1, 4))
    assert scene.job.saver is not None
    assert scene.job.saver.worker != first


def test_a_drained_worker_that_is_gone_is_remembered(make_scene):
    scene = make_scene(forget_limit=5.0)
    scene.register("a", "b")
    scene.does(DrainWorker("a"))
    for name in "ab":
        scene.does(Disconnected(name))
    scene.after(100.0)
    assert list(scene.cluster.workers) == ["a"]


def test_a_member_that_has_to_go_is_waited_for_until_its_formation_trains(scene):
    scene.submit(min_workers=2)
    scene.register("a", "b")
    scene.prepare("a", "b")
    scene.halt("ab", None)
    leave(scene, "b")
    assert scene.told("b", Go) == []
    scene.train("a")
    leave(scene, "b", TrainerPhase.TRAINING, promised=1, generation=1, version=Version(1, 0))
    leave(scene, "b")
    assert scene.job.round is not None


def test_a_member_that_has_yet_to_take_the_base_is_nobody_to_leave_it_to(scene):
    """a led, and died before b had its state; c, which that formation does not list, holds the same."""
    scene.running("a", "b", min_workers=1, max_workers=3)
    seats = tuple(replace(seat, version=Version(1, 3)) for seat in scene.job.formation.seats)
    formation = replace(scene.job.formation, generation=2, seats=seats, base=Version(1, 5))
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, generation=2, formation=formation)})
    scene.register("c")
    lent = replace(scene.cluster.workers["c"], job="j", drained=True)
    scene.cluster = replace(scene.cluster, workers={**scene.cluster.workers, "c": lent})
    scene.beat("c", TrainerPhase.HALTED, promised=2, generation=1, version=Version(1, 5))
    scene.beat("b", TrainerPhase.FORMING, promised=2, generation=2, version=Version(1, 3))
    turn = Turn(scene.cluster, scene.now, scene.policy)
    turn.sightings["a"] = replace(turn.sightings["a"], trainer=None)
    let_go(turn)
    assert turn.workers["c"].job == "j"
    scene.beat("b", TrainerPhase.TRAINING, promised=2, generation=2, version=Version(2, 5))
    turn = Turn(scene.cluster, scene.now, scene.policy)
    let_go(turn)
    assert turn.workers["c"].job is None


def test_who_did_not_answer_the_last_halt_is_asked_again_before_it_may_go(scene):
    """It may hold more than it told; and a waiting job would never ask it, since it takes part in nothing."""
    scene.submit()
    scene.register("a")
    scene.prepare("a")
    scene.halt("a", None)
    assert scene.members == ["a"]
    scene.after(scene.policy.form_limit + 1)
    scene.after(scene.policy.halt_limit + 1)
    assert (scene.job.phase, scene.job.generation, scene.job.round) == (JobPhase.WAITING, 2, None)
    scene.restart()
    scene.register("a")
    scene.does(DrainWorker("a"))
    scene.beat("a", TrainerPhase.HALTED, promised=1)
    assert scene.job.reason == "a may go, once it told what it holds"
    assert scene.told("a", Release) == []
    scene.halt("a", None)
    assert scene.told("a", Release) == [Release("j")]


def test_one_that_stays_and_comes_back_with_the_state_as_the_others_leave_goes_on_with_it(scene):
    """It need not read what is durable, and perhaps cannot: that lies on the machine that goes. Seed 684683"""
    scene.running("a", "b", min_workers=1, step=3)
    held = Checkpoint(Version(1, 3), "/c/j", "sum", 1, worker="a")
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, checkpoint=held)})
    scene.passes(scene.policy.halt_limit, heard="ab")
    scene.does(Disconnected("b"))
    leave(scene, "a")
    scene.halt("a", (1, 3))
    scene.after(scene.policy.halt_limit + 0.1, heard="a")
    assert not scene.job.round.boundary
    scene.halt("a", (1, 3))
    scene.passes(scene.policy.halt_limit + 0.1, heard="a")
    scene.register("b")
    assert scene.job.reason == "b may go on from step 3"
    scene.after(0.1, heard="ab")
    goodbye(scene, "a")
    scene.halt("b", (1, 3))
    assert (scene.members, scene.job.formation.checkpoint) == (["b"], None)


def test_one_that_stays_with_the_state_and_is_not_heard_holds_up_nobody_that_leaves(scene):
    scene.running("a", "b", min_workers=1, step=3)
    held = Checkpoint(Version(1, 3), "/c/j", "sum", 1, worker="a")
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, checkpoint=held)})
    scene.passes(scene.policy.halt_limit, heard="ab")
    leave(scene, "a")
    scene.halt("a", (1, 3))
    for _ in range(2):
        scene.after(scene.policy.halt_limit + 0.1, heard="a")
        if scene.job.round is not None:
            scene.halt("a", (1, 3))
    assert scene.job.phase is JobPhase.QUEUED or scene.job.wanted is Wanted.YIELD


def test_who_is_to_go_stays_where_the_other_that_holds_the_state_is_not_heard_any_more(scene):
    scene.running("a", "b", "c", min_workers=3, step=3)
    scene.exits("c")
    scene.does(Disconnected("c"))
    scene.halt("ab", (1, 3))
    scene.passes(scene.policy.quiet_limit + 1.0, heard="b")  # the machine of a is off, and nobody noticed yet
    scene.does(DrainWorker("b"))
    assert scene.cluster.workers["b"].job == "j"
    assert not scene.told("b", Release)
    scene.after(1.0, heard="ab")
    assert scene.cluster.workers["b"].job is None


@pytest.mark.parametrize("back", [True, False])
def test_one_that_stays_and_is_cut_off_as_the_others_save_and_leave_is_waited_for_a_moment(scene, back):
    """It has in memory what it may not be able to read where they wrote it."""
    scene.running("a", "b", min_workers=1)
    scene.train("ab", 3)
    scene.does(DrainWorker("a"))
    scene.does(Disconnected("b"))
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    assert scene.job.saver.worker == "a"
    scene.saved("a", (1, 3))
    assert (scene.job.phase, scene.job.reason) == (JobPhase.WAITING, "b may go on from step 3")
    generation = scene.job.generation
    scene.after(1.0, heard="a")
    assert scene.job.generation == generation
    assert scene.told("b", Release) == []
    if back:
        scene.register("b")
        scene.beat("b", TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, 3))
        scene.halt("ab", (1, 3))
        assert scene.members == ["b"]
    else:
        scene.after(scene.policy.absent_limit, heard="a")
        scene.halt("a", (1, 3))
        assert (scene.job.phase, scene.job.wanted) == (JobPhase.PAUSED, Wanted.YIELD)


def test_of_two_that_leave_the_one_that_could_not_give_the_state_gives_it_again_after_the_other(scene):
    scene.running("a", "b", "c", min_workers=1, steps=10**6)
    for name, step in (("a", 4), ("b", 4), ("c", 3)):
        scene.train(name, step)
    for name in "ab":
        scene.does(DrainWorker(name))
    scene.breaks("c", 1)
    led = []
    for _ in range(2):
        for name, step in (("a", 4), ("b", 4), ("c", 3)):
            scene.halt(name, (1, step))
        formation = scene.job.formation
        led.append(formation.members[formation.leader].worker)
        scene.raises(led[-1], formation.generation, 4, IN_STATE)
        scene.breaks("c", formation.generation)
    assert led == ["a", "b"]


def test_what_is_held_is_saved_as_one_leaves_and_the_other_says_nothing_any_more(scene):
    """It is connected, and its agent hangs: what it holds may be gone."""
    hold(scene)
    scene.after(scene.policy.absent_limit + 0.1, heard="a")
    scene.does(DrainWorker("a"))
    for _ in range(10):
        scene.after(scene.policy.halt_limit + 0.1, heard="a")
        if scene.job.round is not None:
            scene.halt("a", (1, 4))
    assert scene.job.saver is not None
    scene.saved("a", (1, 4))
    assert scene.cluster.workers["a"].job is None


# --- Another coordinator has not met all yet


def comes_back(scene, name, trainer):
    """To another coordinator, as it was."""
    scene.register(name)
    scene.sequence += 1
    boot = scene.cluster.workers[name].boot
    scene.says(name, Heartbeat(boot=boot, sequence=scene.sequence, trainer=trainer))


def test_what_a_user_holds_stays_held_while_a_member_that_stays_has_yet_to_come_back_to_another_coordinator(scene):
    """The first that is back is to go: that it alone has the state may be so for a moment."""
    hold(scene)
    leave(scene, "a")
    held = {name: scene.cluster.sightings[name].trainer for name in "ab"}
    scene.restart()
    scene.after(0.2)
    comes_back(scene, "a", held["a"])
    assert (scene.job.phase, scene.job.wanted, scene.told("a", Go)) == (JobPhase.PAUSED, Wanted.HOLD, [])
    comes_back(scene, "b", held["b"])
    assert scene.job.wanted is Wanted.HOLD
    leave(scene, "a")
    assert len(scene.told("a", Go)) == 1


def test_what_a_user_holds_is_saved_where_nobody_that_stays_comes_back_to_another_coordinator(scene):
    hold(scene)
    leave(scene, "a")
    held = scene.cluster.sightings["a"].trainer
    scene.restart()
    comes_back(scene, "a", held)
    scene.after(scene.policy.halt_limit + 0.1, heard="a")
    assert scene.job.wanted is Wanted.PAUSE


def test_a_job_that_is_saved_as_its_holder_goes_waits_for_the_other_that_has_yet_to_come_back(scene):
    scene.running("a", "b", min_workers=1, step=3)
    scene.does(Disconnected("b"))
    leave(scene, "a")
    scene.breaks("a", 1)
    leave(scene, "a", TrainerPhase.HALTED, promised=scene.job.generation)
    assert scene.job.saver is not None
    saving = replace(scene.cluster.sightings["a"].trainer, phase=TrainerPhase.SAVING)
    scene.restart()
    comes_back(scene, "a", saving)
    scene.saved("a", (1, 3))
    assert scene.job.saved == Version(1, 3)
    assert scene.job.phase is not JobPhase.PAUSED
    comes_back(scene, "b", replace(saving, phase=TrainerPhase.BROKEN, promised=1))
    leave(scene, "a", TrainerPhase.HALTED, promised=scene.job.generation)
    scene.halt("b", (1, 3))
    assert scene.members == ["b"]


def test_a_drain_of_a_held_job_ends_although_the_worker_was_cut_off_when_it_was_held(scene):
    scene.running("a", "b", min_workers=1, step=3)
    scene.does(PauseJob("j", hold=True))
    scene.does(Disconnected("b"))
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    scene.after(scene.policy.halt_limit + 0.1, heard="a")
    assert scene.job.reason == "held at step 3, in the memory of a"
    scene.register("b")
    scene.holds_on("b")
    scene.does(DrainWorker("b"))
    assert (scene.cluster.workers["b"].job, scene.job.wanted) == (None, Wanted.HOLD)


@pytest.mark.parametrize("leaves", [True, False])
def test_what_a_user_holds_stays_held_while_the_holder_that_stays_is_cut_off_for_a_moment(scene, leaves):
    """An agent that is to end does not wait for so long."""
    hold(scene)
    scene.does(Disconnected("a"))
    if leaves:
        leave(scene, "b", TrainerPhase.HALTED, promised=2, generation=1, version=Version(1, 4))
    else:
        scene.does(DrainWorker("b"))
    assert scene.job.wanted is (Wanted.PAUSE if leaves else Wanted.HOLD)
    if leaves:
        return
    scene.passes(scene.policy.absent_limit - 1.0, heard="b")
    scene.register("a")
    scene.halt("a", (1, 4))
    assert (scene.cluster.workers["b"].job, scene.job.wanted) == (None, Wanted.HOLD)


def test_what_a_user_holds_is_saved_once_the_holder_that_was_to_stay_is_gone_for_long(scene):
    hold(scene)
    scene.does(Disconnected("a"))
    scene.does(DrainWorker("b"))
    scene.after(scene.policy.absent_limit + 0.1, heard="b")
    assert scene.job.wanted is Wanted.PAUSE


@pytest.mark.parametrize("hang", [False, True])
def test_nobody_waits_round_after_round_for_one_that_is_asked_for_nothing(scene, hang):
    """a is to go, and saved what it holds. b stays with the same in its memory, was left out, and is in a pass."""
    scene.running("a", "b", min_workers=2, max_workers=4, step=3)
    scene.register("d", "e")
    scene.breaks("a", 1)
    stays_in_a_pass(scene, hang)
    scene.does(Disconnected("b"))
    scene.halt("a", (1, 3))
    scene.prepare("d", "e")
    scene.halt("a", (1, 3))
    scene.halt("d", None)
    assert scene.members == ["a", "d"]
    scene.exits("d")
    scene.does(DrainWorker("a"))
    scene.register("b")
    scene.beat("d")
    scene.prepare("d", incarnation="i2")
    for _ in range(20):
        if scene.job.saver is not None:
            scene.saved("a", (1, 3))
        for name, incarnation, held in (("a", "i1", (1, 3)), ("d", "i2", None), ("e", "i1", None)):
            scene.halt(name, held, incarnation)
        stays_in_a_pass(scene, hang)
        scene.passes(1.0, heard="abde")
    assert scene.job.generation < 10
    assert scene.cluster.workers["a"].job is None


def stays_in_a_pass(scene, hang):
    known = {"job": "j", "fingerprint": PRINT, "store": "b:1/2", "generation": 1, "version": Version(1, 3)}
    status = TrainerStatus(incarnation="i1", phase=TrainerPhase.HALTED, promised=2, at_work=True, **known)
    said = Hang(phase=LoopPhase.COMPUTE, lasts=70.0, limit=60.0) if hang else None
    scene.sequence += 1
    scene.says("b", Heartbeat(boot="b1", sequence=scene.sequence, trainer=status, hang=said))


@pytest.mark.parametrize("how", ["drained", "asked to end"])
@pytest.mark.parametrize("step", [3, 10])
def test_what_those_that_go_cannot_save_is_given_to_those_that_stay(scene, how, step):
    """a's disk is full, and it alone holds the state, or the final one; b came since, and is prepared."""
    scene.running("a", min_workers=1, max_workers=2, step=step, steps=10)
    if how == "drained":
        scene.does(DrainWorker("a"))
        scene.halt("a", (1, step))
    else:
        leave(scene, "a")
        leave(scene, "a", TrainerPhase.HALTED, promised=scene.job.generation)
    assert scene.job.saver is not None
    scene.register("b")
    scene.prepare("b")
    for _ in range(3):
        if scene.job.saver is not None:
            generation = scene.job.generation
            scene.says(
                "a", SaveFailed(job="j", incarnation="i1", generation=generation, error="no space left on device")
            )
        scene.after(2.5, heard="b")
        if scene.job.round is not None:
            leave(scene, "a", TrainerPhase.HALTED, promised=scene.job.generation)
            scene.halt("b", None)
    assert (scene.members, scene.job.formation.base) == (["a", "b"], Version(1, step))


def test_a_drain_of_a_held_job_ends_though_the_worker_promised_an_earlier_round_alone(scene):
    """It halted as the job began to wait, and nothing formed since: it can hold no more than it told."""
    scene.running("a", "b", "c", step=3)
    scene.exits("c")
    scene.halt("ab", (1, 3))  # and too few are left
    scene.does(Disconnected("b"))
    scene.does(PauseJob("j", hold=True))
    scene.halt("a", (1, 3))
    scene.after(scene.policy.halt_limit + 0.1, heard="a")
    assert scene.job.reason == "held at step 3, in the memory of a"
    scene.register("b")
    scene.beat("b", TrainerPhase.HALTED, promised=2, generation=1, version=Version(1, 3))
    scene.does(DrainWorker("b"))
    assert (scene.cluster.workers["b"].job, scene.job.wanted) == (None, Wanted.HOLD)


@pytest.mark.parametrize("step", [3, 10])
def test_nor_does_it_matter_that_those_that_stay_are_too_few_without_it(scene, step):
    """a and b made this step, the last maybe; b's trainer is another one, a is drained, and its disk is full."""
    scene.running("a", "b", min_workers=2, max_workers=2, step=step, steps=10)
    scene.exits("b")
    scene.does(DrainWorker("a"))
    scene.prepare("b", incarnation="i2")
    for _ in range(20):
        if scene.job.round is not None:
            scene.beat("a", TrainerPhase.HALTED, promised=scene.job.generation, generation=1, version=Version(1, step))
            scene.halt("b", None, "i2")
        if scene.job.saver is not None:
            generation = scene.job.generation
            scene.says("a", SaveFailed(job="j", incarnation="i1", generation=generation, error="no space"))
        scene.after(1.0, heard="ab")
        if scene.job.formation.generation > 1:
            break
    assert (scene.members, scene.job.formation.base) == (["a", "b"], Version(1, step))
    assert scene.job.formation.generation > 1


@pytest.mark.parametrize("how", ["drained", "asked to end"])
@pytest.mark.parametrize("step", [3, 10])
def test_a_free_worker_is_lent_to_take_what_one_that_goes_cannot_save(scene, how, step):
    """a and b made this step; b said goodbye, a's disk is full, and it is to go; c is new, and free."""
    scene.running("a", "b", min_workers=2, max_workers=2, step=step, steps=10)
    goodbye(scene, "b")
    if how == "drained":
        scene.does(DrainWorker("a"))

    def promise():
        facts = {"promised": scene.job.generation, "generation": 1, "version": Version(1, step)}
        if how == "drained":
            scene.beat("a", TrainerPhase.HALTED, **facts)
        else:
            leave(scene, "a", TrainerPhase.HALTED, **facts)

    for second in range(40):
        if second == 15:
            scene.register("c")
        promise()
        if scene.job.saver is not None:
            generation = scene.job.generation
            scene.says("a", SaveFailed(job="j", incarnation="i1", generation=generation, error="no space"))
        if second >= 15 and scene.cluster.workers["c"].job == "j":
            if scene.cluster.sightings["c"].trainer is None:
                scene.prepare("c")
            elif scene.job.round is not None:
                scene.halt("c", None)
        scene.after(1.0, heard="ac" if second > 15 else "a")
        if scene.job.formation.generation > 1:
            break
    assert (scene.members, scene.job.formation.base) == (["a", "c"], Version(1, step))


# --- Who stays was cut off for a moment, and holds as much as those that go, or the step that it made alone


@pytest.fixture
def broken(scene):
    """b is to go; what a did alone of step 3 is in its memory, if it did, and its line is closed."""

    def broken(step):
        scene.does(DrainWorker("b"))
        if step == 4:
            scene.train("a", 4)
        scene.does(Disconnected("a"))
        scene.beat("b", TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, 3))
        scene.halt("b", (1, 3))
        scene.halt("b", (1, 3))

    return broken


def back(scene, step):
    scene.register("a")
    scene.beat("a", TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, step))


@pytest.mark.parametrize("step", [3, 4])
def test_who_stays_and_is_back_while_the_other_one_saves_keeps_its_state(scene, broken, step):
    scene.running("a", "b", min_workers=1, step=3)
    broken(step)
    assert scene.job.saver.worker == "b"
    scene.after(2.0, heard="b")
    back(scene, step)
    scene.after(1.0, heard="ab")
    scene.saved("b", (1, 3))
    scene.after(0.2, heard="ab")
    back(scene, step)
    assert scene.told("a", Release) == []
    assert scene.job.formation is not None
    scene.halt("b", (1, 3))
    scene.halt("a", (1, step))
    assert (scene.members, scene.job.formation.base) == (["a"], Version(1, step))


@pytest.mark.parametrize("step", [3, 4])
def test_who_stays_is_waited_for_a_moment_though_all_that_the_others_hold_is_durable(scene, broken, step):
    scene.running("a", "b", min_workers=1, step=3)
    file = Checkpoint(Version(1, 3), "/c/j/3", "sum", 1)
    told = {"promised": 1, "generation": 1, "version": Version(1, 3), "written": (file,)}
    scene.beat("b", TrainerPhase.TRAINING, **told)
    broken(step)
    scene.after(1.0, heard="b")
    back(scene, step)
    assert scene.told("a", Release) == []
    scene.halt("ab", (1, 3))
    assert scene.job.formation is not None


@pytest.mark.parametrize("step", [3, 4])
def test_what_is_held_stays_so_while_one_that_stays_is_away_for_a_moment(scene, step):
    scene.running("a", "b", min_workers=1, step=3)
    scene.does(PauseJob("j", hold=True))
    scene.does(Disconnected("a"))
    scene.beat("b", TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, 3))
    scene.halt("b", (1, 3))
    scene.halt("b", (1, 3))
    back(scene, step)
    scene.after(20, heard="ab")
    scene.does(Disconnected("a"))
    scene.does(DrainWorker("b"))
    scene.after(0.2, heard="b")
    assert scene.job.wanted is Wanted.HOLD
