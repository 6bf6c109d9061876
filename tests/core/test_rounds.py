"""When a job regroups, whom a round waits for, whom it gives up, and when it takes in others."""

from dataclasses import replace
from itertools import pairwise

import pytest

from regroup.core.cluster import reached
from regroup.core.jobs import ORIGIN, JobPhase, Member, Version
from regroup.core.messages.agent_reports import Heartbeat
from regroup.core.messages.commands import PauseJob, StopJob, SubmitJob
from regroup.core.messages.events import Disconnected, Tick
from regroup.core.messages.orders import Halt, Kill, Prepare, Release
from regroup.core.messages.trainer_reports import StepsCommitted
from regroup.core.spec import JobSpec
from regroup.core.workers import Hang, LoopPhase, TrainerPhase, TrainerStatus

TWO = JobSpec(task="digits", steps=10, global_batch=8, shards=4, max_workers=2)

# --- Noticing


def test_a_dead_member_regroups_at_once(scene):
    scene.running("a", "b")
    scene.exits("b")
    assert scene.job.reason == "b: killed by SIGKILL"
    assert [member.worker for member in scene.job.round.participants] == ["a"]


def test_a_broken_group_regroups_everybody(scene):
    scene.running("a", "b")
    scene.breaks("a", 1)
    assert [member.worker for member in scene.job.round.participants] == ["a", "b"]
    assert "a neighbour is gone" in scene.job.reason


def test_a_broken_group_of_an_older_generation_is_history(scene):
    scene.running("a", "b")
    scene.breaks("a", 0)
    assert scene.job.phase is JobPhase.RUNNING


def test_a_closed_connection_alone_is_no_death(scene):
    scene.running("a", "b")
    scene.does(Disconnected("b"))
    scene.after(5.0)
    assert scene.job.phase is JobPhase.RUNNING
    scene.breaks("a", 1)
    assert scene.job.round is not None
    scene.halt("a", (1, 3))
    assert scene.job.round is None  # the closed connection ended the wait, as a collective was broken


def test_no_committed_step_in_time_is_a_suspicion_and_regroups(scene):
    scene.running("a", "b", step_timeout=30.0)
    scene.now += 20.0
    scene.train("a", 1)
    scene.after(29.0)
    assert scene.job.phase is JobPhase.RUNNING
    scene.after(2.0)
    assert scene.job.round is not None
    assert "30 s" in scene.job.reason


def test_a_member_that_does_not_answer_is_left_out_and_killed(scene):
    scene.running("a", "b", min_workers=1)
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    scene.after(3.0, heard="ab")
    assert scene.job.round is not None
    scene.after(2.0, heard="ab")
    assert scene.members == ["a"]
    assert scene.told("b", Kill) == [Kill("j", "i1", "evicted from the job")]
    scene.train("b")
    assert scene.told("b", Kill) == [Kill("j", "i1", "evicted from the job")]
    assert scene.noted("evicted")[0].reason == "b is evicted: it did not answer the Halt in 4 s"
    assert scene.cluster.workers["b"].errors == 1


def test_who_said_nothing_since_it_came_back_was_not_asked_and_is_left_out_alive(scene):
    scene.running("a", "b", min_workers=1)
    scene.breaks("a", 1)
    scene.after(2.0, heard="a")
    scene.does(Disconnected("b"))
    scene.register("b")
    scene.halt("a", (1, 3))
    scene.after(scene.policy.halt_limit / 2 + 0.2, heard="a")
    assert scene.members == ["a"]
    assert scene.noted("evicted") == []
    scene.train("b", 3)
    assert scene.told("b", Kill) == []


def test_a_worker_that_is_evicted_again_and_again_is_quarantined(scene):
    scene.running("a", "b", min_workers=1)
    for number in range(1, scene.policy.error_limit + 2):
        assert not scene.cluster.workers["b"].quarantined
        scene.train("a", number)
        scene.breaks("a", scene.job.generation)
        scene.halt("a", (scene.job.formation.generation, number))
        scene.after(scene.policy.halt_limit + 0.5, heard="ab")  # its agent; the trainer says nothing
        assert scene.members == ["a"]
        scene.train("a")
        scene.exits("b", f"i{number}", asked=True)
        if not scene.cluster.workers["b"].quarantined:
            scene.prepare("b", incarnation=f"i{number + 1}")
            scene.halt("a", (scene.job.formation.generation, number))
            scene.halt("b", None, incarnation=f"i{number + 1}")
            scene.train("a")
            scene.train("b", incarnation=f"i{number + 1}")
            assert scene.members == ["a", "b"]
    assert scene.cluster.workers["b"].quarantined
    assert "did not answer the Halt" in scene.cluster.workers["b"].reason
    assert scene.job.phase is JobPhase.RUNNING


def test_a_newcomer_that_does_not_answer_holds_the_members_up_for_the_short_limit_alone(scene):
    scene.running("a", max_workers=2, step_timeout=60.0)
    scene.register("b")
    scene.prepare("b")
    scene.halt("a", (1, 3))
    assert scene.job.round.boundary
    scene.after(scene.policy.halt_limit + 0.5, heard="b")
    assert scene.members == ["a"]
    assert [note.worker for note in scene.noted("evicted")] == ["b"]


def test_nobody_is_killed_whose_silence_may_be_the_coordinators_own(scene):
    """A cut between the coordinator and all workers must not cost the only state."""
    scene.running("a", "b", step_timeout=5.0)
    for name in "ab":
        scene.does(Disconnected(name))
    for _ in range(30):
        scene.after(1.0)
    assert scene.job.phase is JobPhase.WAITING
    scene.register("a", "b")
    for name in "ab":
        scene.train(name, 7)
        assert scene.told(name, Kill) == []
    scene.halt("ab", (1, 8))
    assert scene.job.formation.base == Version(1, 8)


def test_a_holder_of_the_only_state_that_hangs_is_given_up_only_after_long(scene):
    scene.running("a", step_timeout=5.0)
    began = scene.now
    while not scene.noted("evicted") and scene.now < began + 100:
        scene.now += 1.0
        scene.train("a", 0)
        scene.after(0.0)
    assert scene.noted("evicted")
    assert scene.now - began > scene.policy.detached_limit


def test_a_newcomer_that_hangs_before_the_first_step_is_replaced_at_once(scene):
    """It holds nothing that could be lost with it."""
    scene.submit(min_workers=2)
    scene.register("a", "b")
    scene.prepare("a", "b")
    scene.halt("a", None)
    scene.passes(scene.policy.halt_limit - 0.5, heard="ab")
    scene.prepare("b")
    scene.after(1.0)
    assert scene.job.phase is JobPhase.PREPARING
    assert [order.incarnation for order in scene.told("b", Kill)] == ["i1"]


def test_a_left_out_holder_of_the_last_copy_is_not_killed_at_once(scene):
    """Rule 7: once the last generation is lost, an older state in its memory is the most advanced one."""
    scene.running("a", "b", min_workers=1)
    scene.breaks("a", 1)
    scene.does(Disconnected("b"))
    scene.halt("a", (1, 3))
    scene.train("a", 5)
    assert scene.members == ["a"]
    scene.register("b")
    scene.train("b")
    scene.exits("a")
    for _ in range(6):
        scene.now += 1.0
        scene.holds_on("b")
        scene.after(0.0)
    assert not scene.noted("evicted")
    scene.halt("b", (1, 3))
    assert scene.job.formation.base == Version(1, 3)


def test_members_that_twice_fail_to_form_lose_the_one_that_kept_them(scene):
    scene.running("a", "b", "c", min_workers=1)
    scene.breaks("a", 1)
    for _ in range(2):
        assert not scene.noted("evicted")
        scene.halt("abc", (1, 3))
        scene.train("a")
        scene.train("b")
        scene.passes(scene.policy.form_limit + 0.5, heard="abc")
        scene.beat("c", TrainerPhase.FORMING, promised=scene.job.generation, generation=scene.job.generation)
    assert scene.noted("evicted")[0].worker == "c"
    assert [member.worker for member in scene.job.round.participants] == ["a", "b"]


def test_before_the_first_step_a_leader_that_cannot_form_is_lost_too(scene):
    """From the seed on nobody holds anything that could be lost with it."""
    scene.submit(min_workers=1)
    scene.register("a", "b")
    scene.prepare("a", "b")
    for _ in range(3):
        if scene.noted("evicted"):
            break
        scene.halt("ab", None)
        n = scene.job.generation
        scene.beat("b", TrainerPhase.TRAINING, promised=n, generation=n, version=Version(n, 0))
        scene.after(scene.policy.form_limit + 0.5, heard="ab")
    assert scene.noted("evicted")[0].worker == "a"


def test_the_only_holder_of_the_state_is_never_given_up_for_a_suspicion(scene):
    scene.running("a", min_workers=1, max_workers=2)
    scene.register("b")
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    scene.train("a", 3)
    scene.prepare("b")
    for _ in range(4):
        for name, state in (("a", (2, 3)), ("b", None)):
            scene.halt(name, state)
        scene.train("b")
        scene.after(scene.policy.form_limit + 0.5, heard="ab")
    assert "a" not in {note.worker for note in scene.noted("evicted")}


# --- Total loss


def lose_all(scene, *names):
    for name in names:
        scene.exits(name, incarnation="i1")
        scene.beat(name)


def test_a_total_loss_restarts_from_the_seed_and_is_counted(scene):
    scene.running("a", step=0)
    scene.train("a", 6)
    lose_all(scene, "a")
    scene.prepare("a", incarnation="i2")
    scene.halt("a", None, "i2")
    assert scene.job.formation.base == ORIGIN
    assert scene.job.restarts == 1
    assert scene.job.step == 0
    assert scene.noted("rolled_back")


def test_a_first_formation_that_fails_before_any_step_is_no_restart(scene):
    scene.submit(max_workers=1)
    scene.register("a")
    scene.prepare("a")
    scene.halt("a", None)
    lose_all(scene, "a")
    scene.prepare("a", incarnation="i2")
    scene.halt("a", None, "i2")
    assert scene.job.restarts == 0


def test_more_total_losses_than_allowed_fail_the_job(scene):
    scene.running("a", max_restarts=0)
    scene.train("a", 6)
    lose_all(scene, "a")
    scene.prepare("a", incarnation="i2")
    scene.halt("a", None, "i2")
    assert scene.job.phase is JobPhase.FAILED
    assert "max_restarts" in scene.job.reason


def test_the_shown_step_does_not_go_back_when_a_leader_dies_while_forming(scene):
    scene.running("a", "b", min_workers=1)
    scene.train("a", 5)
    scene.train("b", 6)
    scene.breaks("a", 1)
    scene.halt("a", (1, 5))
    scene.halt("b", (1, 6))
    assert scene.job.formation.base == Version(1, 6)
    assert scene.job.step == 5  # what each of them committed
    scene.exits("b")
    scene.halt("a", (1, 5))
    assert scene.job.formation.base == Version(1, 5)
    assert scene.job.step == 5


def test_a_step_that_was_told_with_the_answer_to_a_halt_alone_counts(scene):
    scene.running("a", "b", "c", step=3, min_workers=2)
    scene.breaks("a", 1)
    scene.halt("a", (1, 4))
    scene.halt("b", (1, 4))
    assert reached(scene.job, scene.cluster.watches["j"]) == 3  # who knows what c committed
    scene.halt("c", (1, 5))
    assert (scene.members, scene.job.step) == (["a", "b", "c"], 4)


def test_a_job_that_fails_while_it_is_halted_shows_the_step_that_all_answered(scene):
    scene.running("a", "b", step=3)
    scene.raises("a", step=5)
    scene.halt("a", (1, 5))
    scene.beat("b", TrainerPhase.HALTED, promised=2, generation=1, version=Version(1, 5), at_work=True)
    scene.raises("b", step=5)
    assert (scene.job.phase, scene.job.step) == (JobPhase.FAILED, 5)
    assert scene.job.round is None, "a job that ended asks nobody"


# --- Growing and shrinking


def test_a_newcomer_prepares_beside_the_job_and_joins_at_a_boundary(scene):
    scene.running("a", min_workers=1, max_workers=2)
    scene.register("b")
    assert scene.told("b", Prepare)
    scene.beat("b", TrainerPhase.PREPARING)
    scene.train("a", 5)
    assert scene.job.round is None
    scene.prepare("b")
    assert scene.job.round.boundary
    assert scene.job.phase is JobPhase.RUNNING
    assert scene.told("b", Halt) == [Halt("j", 2, boundary=True)]
    scene.halt("b", None)
    scene.halt("a", (1, 7))
    assert scene.members == ["a", "b"]
    assert scene.job.formation.receivers == (1,)


def test_a_boundary_that_nobody_reaches_becomes_a_plain_halt(scene):
    scene.running("a", "b", step_timeout=8.0)
    scene.does(StopJob("j"))
    scene.after(9.0)
    assert (scene.job.generation, scene.job.round.boundary) == (3, False)


def test_trouble_turns_a_boundary_into_a_plain_halt(scene):
    scene.running("a", "b")
    scene.does(StopJob("j"))
    scene.exits("b")
    assert (scene.job.generation, scene.job.round.boundary) == (3, False)


def test_a_newcomer_that_dies_does_not_hold_the_boundary(scene):
    scene.running("a", min_workers=1, max_workers=2)
    scene.register("b")
    scene.prepare("b")
    scene.exits("b")
    assert scene.job.round.boundary
    scene.halt("a", (1, 7))
    assert scene.members == ["a"]


def test_a_worker_that_is_gone_for_long_makes_room_for_another(scene):
    scene.running("a", min_workers=1, max_workers=2)
    scene.register("b")
    scene.does(Disconnected("b"))
    scene.after(scene.policy.absent_limit - 1.0)
    assert scene.cluster.workers["b"].job == "j"
    scene.after(2.0)
    assert scene.cluster.workers["b"].job is None


def test_a_job_that_waits_tells_its_reason_once(scene):
    scene.running("a", "b")
    scene.exits("b")
    scene.halt("a", (1, 3))
    assert scene.job.phase is JobPhase.WAITING
    told = [note.reason for note in scene.noted("waiting")]
    for _ in range(5):
        scene.after(0.2)
    assert [note.reason for note in scene.noted("waiting")] == told
    assert told[-1] == scene.job.reason


@pytest.mark.parametrize("heard", [True, False])
def test_whoever_does_not_answer_is_given_up_only_if_its_agent_is_heard(scene, heard):
    """Without it there are too few workers: nothing is won by killing a trainer whose orders may be under way."""
    scene.running("a", "b")
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    scene.passes(scene.policy.halt_limit + 0.1, heard="ab" if heard else "a")
    if heard:
        scene.train("b", 3)
    scene.halt("a", (1, 3))
    evicted = [note.worker for note in scene.noted("evicted")]
    assert evicted == (["b"] if heard else [])


def test_a_holder_that_comes_back_during_the_round_is_asked_before_all_is_begun_anew(scene):
    """a alone was to go on, and died; c, which holds nothing, is asked; b, which was cut off, holds step 3."""
    scene.parted()
    scene.register("c")
    scene.prepare("c")
    scene.exits("a")
    assert scene.told("c", Halt) == [Halt("j", 3)]
    scene.register("b")
    scene.holds_on("b")
    scene.halt("c", None)
    assert not scene.noted("rolled_back")
    scene.after(0.2)
    scene.halt("b", (1, 3))
    scene.halt("c", None)
    assert (scene.members, scene.job.formation.base, scene.job.step) == (["b", "c"], Version(1, 3), 3)


def test_a_step_of_an_older_generation_is_not_counted_for_the_one_that_made_it_void(scene):
    """b's trailing fourth step of generation 1 is void; the fourth step of generation 3 is not yet committed by b."""
    scene.parted()
    scene.train("a")
    scene.beat("b", TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, 4))
    scene.halt("a", (2, 3))
    scene.halt("b", (1, 4))
    assert (scene.job.formation.generation, scene.members) == (3, ["a", "b"])
    scene.beat("b", TrainerPhase.FORMING, promised=3, generation=1, version=Version(1, 4))
    scene.train("a")
    scene.train("b")
    scene.train("a", 4)
    assert reached(scene.job, scene.cluster.watches["j"]) == 3
    scene.train("b", 4)
    assert reached(scene.job, scene.cluster.watches["j"]) == 4


# --- Who was cut off may come back with the last copy


def test_a_member_that_is_cut_off_is_left_out_and_not_killed(scene):
    """Nobody heard its agent, so nobody knows that its trainer hangs; what it holds may be needed."""
    scene.running("a", "b", min_workers=1)
    scene.train("b", 3)
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    scene.after(scene.policy.halt_limit + 1.0)
    assert scene.members == ["a"]
    assert not scene.noted("evicted")
    scene.holds_on("b")
    assert not scene.told("b", Kill)


def test_a_silent_newcomer_stops_nobody(scene):
    scene.running("a", "b", min_workers=1)
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    scene.after(scene.policy.halt_limit + 1.0)
    scene.train("a")
    assert (scene.members, scene.job.round) == (["a"], None)


def test_a_holder_that_was_given_up_and_comes_back_is_lent_again_when_nobody_else_holds_the_state(scene):
    scene.parted()
    scene.train("a", 3)
    scene.after(scene.policy.absent_limit + 1.0)
    assert scene.cluster.workers["b"].job is None
    scene.exits("a")
    scene.beat("a")
    scene.register("b")
    scene.holds_on("b")
    assert scene.cluster.workers["b"].job == "j"
    assert not scene.told("b", Release)
    scene.prepare("a", incarnation="i2")
    scene.halt("a", None, incarnation="i2")
    scene.halt("b", (1, 3))
    formation = scene.job.formation
    assert (formation.base, formation.members[formation.leader].worker) == (Version(1, 3), "b")


def test_a_holder_that_comes_back_where_others_hold_the_state_is_released(scene):
    scene.parted()
    scene.train("a", 3)
    scene.after(scene.policy.absent_limit + 1.0, heard="a")
    scene.register("b")
    scene.holds_on("b")
    assert scene.told("b", Release)


def test_a_holder_that_comes_back_is_lent_again_when_the_other_one_is_connected_and_not_heard(scene):
    scene.parted()
    scene.train("a", 3)
    scene.after(scene.policy.absent_limit + 1.0, heard="a")
    scene.after(scene.policy.quiet_limit + 1.0)  # its machine is off, and nobody noticed yet
    scene.register("b")
    scene.holds_on("b")
    assert scene.cluster.workers["b"].job == "j"
    assert not scene.told("b", Release)


def test_a_worker_for_which_there_is_no_seat_is_lent_to_others(scene):
    scene.running("a", "b", "c", min_workers=1)
    scene.does(SubmitJob("k", replace(scene.job.spec, max_workers=1), 0.0))
    scene.cluster = replace(scene.cluster, jobs={**scene.cluster.jobs, "j": replace(scene.job, spec=TWO)})
    scene.breaks("a", 1)
    scene.halt("abc", (1, 3))
    scene.train("ab")
    assert scene.members == ["a", "b"]
    scene.train("a")
    assert scene.cluster.workers["c"].job is None


def test_a_trainer_that_prepares_for_very_long_is_killed_and_its_worker_has_an_error(scene):
    scene.submit(min_workers=1)
    scene.register("a")
    scene.beat("a", TrainerPhase.PREPARING)
    scene.after(scene.policy.prepare_limit - 1.0, heard="a")
    assert not scene.noted("evicted")
    scene.after(2.0, heard="a")
    assert scene.noted("evicted")[0].reason == f"a is evicted: it did not prepare in {scene.policy.prepare_limit:g} s"
    assert scene.told("a", Kill)
    assert scene.cluster.workers["a"].errors == 1


def test_a_task_that_hangs_while_it_prepares_on_two_workers_fails(scene):
    scene.submit(min_workers=2)
    scene.register("a", "b")
    for name in "ab":
        scene.beat(name, TrainerPhase.PREPARING)
    scene.after(scene.policy.prepare_limit + 1.0, heard="ab")
    for name in "ab":
        scene.exits(name, asked=True)
    assert scene.job.phase is JobPhase.FAILED
    assert "it hung while preparing" in scene.job.reason


def test_whoever_came_back_a_moment_ago_and_was_just_asked_is_left_out_and_lives(scene):
    scene.running("a", "b", step=5, min_workers=1)
    scene.does(Disconnected("b"))
    scene.after(scene.job.spec.step_timeout + 1.0, heard="a")
    scene.halt("a", (1, 5))
    scene.after(scene.policy.halt_limit - 0.1, heard="a")
    scene.register("b")
    scene.train("b", 5)
    assert scene.told("b", Halt)
    scene.after(0.2, heard="ab")
    assert scene.members == ["a"]
    assert scene.noted("evicted") == []


@pytest.mark.parametrize("phase", [TrainerPhase.TRAINING, TrainerPhase.BROKEN], ids=["in it", "coming back from it"])
def test_a_member_of_an_older_group_is_asked_plainly_before_the_others_go_on_without_it(scene, phase):
    """It holds the boundary's Halt until its own group gets there, which is never."""
    scene.parted()
    scene.train("a", 5)
    scene.register("b")
    scene.after(scene.policy.halt_limit, heard="ab")
    scene.beat("b", phase, promised=1, generation=1, version=Version(1, 3), at_work=True)
    assert scene.job.round.boundary
    scene.halt("a", (2, 6))
    scene.after(scene.policy.halt_limit + 0.1, heard="ab")
    assert not scene.job.round.boundary
    assert scene.noted("evicted") == []


def test_steps_that_are_told_late_give_a_torn_state_nothing_back(scene):
    """The report had waited for a connection; the heartbeat before it said that the state is torn."""
    scene.running("a", min_workers=1)
    scene.train("a", 5)
    scene.beat("a", TrainerPhase.BROKEN, promised=1, generation=1, version=None)
    scene.says("a", StepsCommitted(job="j", incarnation="i1", generation=1, step=5))
    assert scene.cluster.sightings["a"].trainer.version is None


@pytest.mark.parametrize("evicted", [True, False])
def test_a_holder_that_comes_back_is_lent_again_where_the_others_owe_their_answer(scene, evicted):
    """They say that they hold more, and hang: if they are killed in the end, it has the last copy."""
    scene.parted()
    scene.train("a", 5)
    scene.after(scene.policy.absent_limit + 1.0, heard="a")
    assert scene.cluster.workers["b"].job is None
    scene.breaks("a", 2)
    if evicted:
        watch = replace(scene.cluster.watches["j"], evicted=frozenset({Member("a", "i1")}))
        scene.cluster = replace(scene.cluster, watches={"j": watch})
    scene.register("b")
    scene.holds_on("b")
    assert scene.cluster.workers["b"].job == "j"
    assert scene.told("b", Release) == []


def cut_off_with_the_last_state(scene):
    """b was left out with step 3, and was about to join again; a, which went on alone, died; c holds nothing."""
    scene.parted()
    scene.register("c")
    scene.prepare("c")
    scene.register("b")
    scene.holds_on("b")
    scene.exits("a")
    scene.halt("c", None)
    scene.does(Disconnected("b"))


def test_who_holds_the_last_state_and_is_cut_off_in_this_moment_is_waited_for_a_while(scene):
    cut_off_with_the_last_state(scene)
    assert not scene.noted("rolled_back")
    scene.halt("c", None)
    assert "the most advanced state left may be b's" in scene.job.reason
    scene.register("b")
    scene.holds_on("b")
    scene.after(0.2)
    scene.halt("b", (1, 3))
    scene.halt("c", None)
    assert scene.job.formation.base == Version(1, 3)


def test_but_not_for_ever(scene):
    cut_off_with_the_last_state(scene)
    scene.after(scene.policy.absent_limit + 0.1, heard="c")
    scene.halt("c", None)
    assert scene.noted("rolled_back")


def test_once_a_member_is_at_the_boundary_the_others_are_not_waited_for_as_for_a_long_step(scene):
    """All are at the same step. One whose control connection is cut just then cannot say so."""
    scene.running("a", "b", step=3, min_workers=1, max_workers=3, step_timeout=60.0)
    scene.register("c")
    scene.prepare("c")
    scene.after(20.0, heard="abc")
    assert scene.job.round.boundary, "a long step"
    scene.halt("a", (1, 4))
    scene.does(Disconnected("b"))
    scene.after(scene.policy.halt_limit + 0.1, heard="ac")
    assert not scene.job.round.boundary
    scene.halt("a", (1, 4))
    scene.after(scene.policy.halt_limit + 0.1, heard="ac")
    assert "b" not in scene.members


def test_whoever_was_not_heard_for_a_while_was_not_asked_either_until_now(scene):
    """A network cut that closed no connection: what was said meanwhile is lost on both sides."""
    scene.running("a", "b", step=5, min_workers=1)
    scene.breaks("a", 1)
    scene.halt("a", (1, 5))
    scene.after(scene.policy.halt_limit + 0.1, heard="a")
    assert scene.members == ["a"], "it goes on without"
    assert scene.noted("evicted") == []


def test_one_that_hangs_and_holds_the_state_stays_where_the_other_is_not_heard_any_more(scene):
    """b's trainer died, and its agent's words are lost; it said that it holds the state, too. Seed 740175"""
    scene.running("a", "b", step=3)
    scene.passes(scene.policy.halt_limit, heard="ab")
    scene.breaks("a", 1)
    scene.after(scene.policy.halt_limit + 0.1, heard="a")
    scene.beat("a", TrainerPhase.HALTED, promised=2, generation=1, version=Version(1, 4), at_work=True)
    scene.after(scene.policy.detached_limit / 2, heard="a")
    assert scene.noted("evicted") == []


@pytest.mark.parametrize("closed", [True, False])
def test_one_that_hangs_and_holds_the_state_stays_until_the_other_that_comes_back_has_told_what_it_holds(scene, closed):
    """b was cut off, and said before that it holds the state, too. What its agent kept for the coordinator comes before
    its heartbeat. Seed 507613"""
    scene.running("a", "b", step=3, step_timeout=5.0)
    if closed:
        scene.does(Disconnected("b"))
    scene.passes(scene.policy.halt_limit, heard="a")
    scene.breaks("a", 1)
    scene.beat("a", TrainerPhase.HALTED, promised=2, generation=1, version=Version(1, 3), at_work=True)
    scene.after(scene.job.spec.step_timeout + 0.1, heard="a")
    if closed:
        scene.register("b")
    scene.says("b", StepsCommitted(job="j", incarnation="i1", generation=1, step=3))
    scene.after(scene.policy.halt_limit / 2, heard="a")
    assert scene.noted("evicted") == []
    scene.train("b", 3)
    scene.does(Tick())
    assert [note.worker for note in scene.noted("evicted")] == ["a"]


def test_who_did_not_answer_and_holds_the_state_stays_where_who_answered_is_not_heard_any_more(scene):
    scene.running("a", "b", min_workers=1, step=3)
    scene.passes(scene.policy.halt_limit, heard="ab")
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    scene.after(scene.policy.halt_limit + 0.1, heard="b")
    assert scene.members == ["a"]
    assert scene.noted("evicted") == []


@pytest.mark.parametrize("waited", [2.0, 300.0])
def test_the_only_holder_that_waited_in_good_health_has_all_its_time_to_answer_the_next_halt(scene, waited):
    """It answered the round before, so it owes its word since this one."""
    scene.running("a", "b", min_workers=2)
    scene.train("ab", 3)
    scene.exits("b")
    scene.does(Disconnected("b"))
    scene.halt("a", (1, 3))
    scene.after(waited, heard="a")
    scene.register("c")
    scene.prepare("c")
    asked = scene.now
    while not scene.noted("evicted"):
        scene.halt("c", None)
        scene.after(1.0, heard="ac")
    assert [note.worker for note in scene.noted("evicted")] == ["a"]
    assert 0.0 < scene.now - asked - scene.policy.detached_limit < 2 * scene.policy.halt_limit + 2.0


def test_one_that_hangs_with_the_most_advanced_state_is_not_waited_for_anew_in_each_round(scene):
    """The others answer each time. b was given up, and is back; its trainer stands still. Seed 151765"""
    scene.parted()
    scene.train("a")
    scene.register("b")
    scene.holds_on("b")
    scene.breaks("a", 2)
    began = scene.now
    while not scene.noted("evicted") and scene.now < began + 100.0:
        scene.halt("a", None)
        scene.after(1.0, heard="ab")
    assert [note.worker for note in scene.noted("evicted")] == ["b"]
    assert scene.now - began < scene.policy.detached_limit + 2 * scene.policy.halt_limit
    scene.halt("a", None)
    scene.after(1.0, heard="ab")
    assert scene.members == ["a"], "from the seed: nothing else is left"


def test_who_was_taken_off_the_job_after_its_answer_is_not_in_the_next_formation(scene):
    scene.running("a", "b", min_workers=1, max_workers=3)
    scene.train("ab", 3)
    scene.register("c")
    scene.prepare("c")
    scene.halt("c", None)
    scene.does(Disconnected("c"))
    scene.after(scene.policy.absent_limit + 1.0, heard="ab")
    assert scene.cluster.workers["c"].job is None
    scene.register("c")
    scene.beat("c", TrainerPhase.HALTED, promised=scene.job.generation)
    assert scene.told("c", Release)
    scene.halt("ab", (1, 4))
    assert scene.members == ["a", "b"]


def test_a_member_that_takes_the_state_in_has_as_long_as_a_step_also_after_a_long_wait(scene):
    scene.running("a", "b", "c", min_workers=3, max_workers=3)
    scene.train("abc", 3)
    for name in "bc":
        scene.exits(name)
        scene.beat(name)
    scene.halt("a", (1, 3))
    scene.after(scene.job.spec.step_timeout + 1.0, heard="abc")
    scene.prepare("b", incarnation="i2")
    scene.prepare("c", incarnation="i2")
    scene.halt("a", (1, 3))
    scene.halt("bc", None, incarnation="i2")
    settled = replace(scene.job, spec=replace(scene.job.spec, min_workers=1))
    scene.cluster = replace(scene.cluster, jobs={"j": settled})
    assert scene.members == ["a", "b", "c"]
    formed = scene.job.generation
    scene.passes(scene.policy.halt_limit, heard="abc")
    scene.exits("c", incarnation="i2")
    scene.halt("a", (1, 3))
    facts = {"promised": scene.job.generation, "generation": formed, "at_work": True}
    scene.beat("b", TrainerPhase.HALTED, "i2", **facts)
    scene.after(scene.policy.halt_limit + 2.0, heard="ab")
    assert scene.noted("evicted") == []


def test_members_that_train_and_make_no_step_lose_one_in_the_end(scene):
    """As where what is larger than a packet vanishes between two of them: all wait in the exchange, and none hangs."""
    scene.running("a", "b", "c", min_workers=2, step=3)
    held = (1, 3)
    for _ in range(4):
        scene.after(scene.job.spec.step_timeout + 1.0, heard="abc")
        for name in "abc":
            if scene.job.round is not None:
                scene.halt(name, held)
        for name in scene.members:
            scene.train(name)
        held = (scene.job.generation, 3)
    assert len(scene.noted("evicted")) == 1
    assert len(scene.members) == 2


def test_nobody_is_suspected_where_passes_take_longer_than_a_step_may(scene):
    scene.running("a", "b", "c", min_workers=2, step=3)
    held, hang = (1, 3), Hang(phase=LoopPhase.COMPUTE, lasts=61.0, limit=60.0)
    for _ in range(4):
        slow = {name: replace(seen, hang=hang) for name, seen in scene.cluster.sightings.items()}
        scene.cluster = replace(scene.cluster, sightings=slow)
        scene.after(scene.job.spec.step_timeout + 1.0, heard="abc")
        scene.halt("abc", held)
        for name in scene.members:
            scene.train(name)
        held = (scene.job.generation, 3)
    assert scene.noted("evicted") == []


def test_a_newcomer_that_hangs_interrupts_nobody(scene):
    scene.running("a", min_workers=1, max_workers=2, step=3)
    scene.register("b")
    scene.passes(scene.policy.halt_limit, heard="ab")
    hang = Hang(phase=LoopPhase.PREPARING, lasts=61.0, limit=60.0, stands=True)
    scene.sequence += 1
    status = TrainerStatus(
        job="j", incarnation="i1", phase=TrainerPhase.PREPARED, fingerprint=scene.job.fingerprint, store="b:1/0"
    )
    scene.says("b", Heartbeat(boot="b1", sequence=scene.sequence, trainer=status, hang=hang))
    assert scene.job.round is None
    scene.prepare("b")
    assert scene.job.round is not None


def test_who_was_evicted_and_comes_back_in_good_health_with_the_last_copy_is_not_killed(scene):
    """It stood still for a moment; what was to kill it was lost with its connection, and the other holder is gone."""
    scene.running("a", "b", min_workers=1, steps=10**6)
    scene.train("ab", 1000)
    scene.passes(scene.policy.halt_limit, "ab")
    scene.breaks("a", 1)
    scene.halt("a", (1, 1000))
    scene.after(scene.policy.halt_limit + 0.1, "ab")
    assert [note.worker for note in scene.noted("evicted")] == ["b"]
    scene.does(Disconnected("b"))
    scene.train("a")
    scene.after(2.0, "a")
    scene.register("a", boot="b2")
    scene.register("b")
    scene.beat("b", TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, 1000))
    assert not scene.told("b", Kill)
    scene.halt("b", (1, 1000))
    assert scene.members == ["b"]
    assert scene.job.formation.base == Version(1, 1000)


# --- In a long pass, and cut off for a moment


def stays_in_its_pass(scene, **facts):
    """b promised in the middle of a pass that takes minutes, as a first one does that compiles."""
    promised = {"promised": scene.job.generation, "generation": 1, "version": Version(1, 3), "at_work": True}
    scene.beat("b", TrainerPhase.HALTED, **{**promised, **facts})


@pytest.fixture
def mid_pass(scene):
    """c died, and b was cut off in its pass before the others answered, or before it was asked. It is back a second
    later."""

    def begins(names, asked=True, **spec):
        scene.running(*names, step=3, max_workers=len(names), step_timeout=600.0, **spec)
        scene.after(scene.policy.halt_limit, heard=names)
        scene.exits("c")
        scene.breaks("a", 1)
        if asked:
            stays_in_its_pass(scene)
        scene.does(Disconnected("b"))
        others = names.replace("b", "").replace("c", "")
        scene.halt(others, (1, 3))
        if scene.members == [*others]:
            scene.train(others, 4)
        scene.passes(1.0, heard=others)
        scene.register("b")
        return scene

    return begins


def test_who_is_needed_has_as_long_for_its_pass_as_a_step_may_take_though_it_was_cut_off_for_a_moment(mid_pass):
    scene = mid_pass("abc", min_workers=3)
    assert scene.job.phase is JobPhase.WAITING
    for _ in range(110):
        scene.passes(5.0, heard="abc")
        stays_in_its_pass(scene)
    assert scene.noted("evicted") == []
    for _ in range(12):
        scene.passes(5.0, heard="abc")
        stays_in_its_pass(scene)
    assert [note.reason for note in scene.noted("evicted")] == [
        "b is evicted: it did not come back from the task's code"
    ]


def test_nobody_stands_still_for_who_was_left_out_and_is_still_in_its_pass(mid_pass):
    scene = mid_pass("abcd", min_workers=1)
    stays_in_its_pass(scene)
    for _ in range(100):
        assert scene.job.round is None
        scene.passes(1.0, heard="abd")
        stays_in_its_pass(scene)
    stays_in_its_pass(scene, at_work=False)
    assert scene.job.reason == "prepared to join: b"


def test_nor_does_a_round_that_has_another_reason_wait_for_it(mid_pass):
    scene = mid_pass("abcd", min_workers=1)
    stays_in_its_pass(scene)
    scene.breaks("a", scene.job.formation.generation)
    assert [member.worker for member in scene.job.round.participants] == ["a", "d"]


def test_nor_does_one_that_asks_it_for_the_first_time(mid_pass):
    scene = mid_pass("abcd", asked=False, min_workers=1)
    still, asked = 0, 1
    for step in range(5, 100):
        if scene.job.round is not None and not scene.job.round.boundary and asked < scene.job.generation:
            asked = scene.job.generation
        phase = TrainerPhase.HALTED if asked > 1 else TrainerPhase.TRAINING
        scene.beat("b", phase, promised=asked, generation=1, version=Version(1, 3), at_work=True)
        if scene.job.round is not None:
            still += 1
            held = scene.cluster.sightings["a"].trainer.version
            scene.halt("ad", (held.generation, held.step))
        else:
            scene.train("ad", min(step, 9))
        scene.after(1.0, heard="abd")
    assert still <= 3 * scene.policy.halt_limit
    assert scene.noted("evicted") == []


def test_a_newcomer_that_does_not_answer_stops_the_others_each_time_later(scene):
    """Its agent is heard every few seconds, and its trainer promises nothing."""
    scene.running("a", min_workers=1, max_workers=2, step=3, steps=10**6)
    scene.register("b")
    scene.prepare("b")
    halts = []
    for step in range(600):
        scene.passes(1.0, heard="a")
        if step % 7 == 0:
            scene.prepare("b")
        scene.does(Tick())
        if scene.job.round is not None:
            halts += [scene.now] if not halts or halts[-1] < scene.now - 20.0 else []
            held = scene.cluster.sightings["a"].trainer.version
            scene.halt("a", (held.generation, held.step))
        else:
            scene.train("a", 10 + step)
    gaps = [later - earlier for earlier, later in pairwise(halts)]
    assert 2 < len(gaps) < 7
    assert gaps[1:] == sorted(gaps[1:])


@pytest.mark.parametrize("names", ["a", "ab"])
def test_who_may_commit_no_more_is_not_waited_for_as_long_as_a_step_may_take(scene, names):
    scene.running(*names, min_workers=1, step=3, step_timeout=3600.0)
    scene.register("z")
    for name in names:
        scene.does(Disconnected(name))
    limit = scene.policy.detached_limit + scene.policy.detached_margin
    scene.after(limit - 1.0, heard="z")
    assert (scene.job.phase, scene.job.round) == (JobPhase.RUNNING, None)
    scene.after(2.0, heard="z")
    assert scene.job.phase is not JobPhase.RUNNING
    assert scene.noted("halt")[-1].reason == "none of its members was heard for as long as its lease lasts"


def test_who_was_left_out_with_its_state_and_does_not_answer_stops_the_others_each_time_later(scene):
    """Its machine swaps: its agent is heard every few seconds, and its trainer promises nothing."""
    scene.running("a", "b", min_workers=1, steps=10**6)
    scene.train("ab", 3)
    scene.left_behind("b", "a", 4)
    scene.register("b")
    still = 0
    for step in range(600):
        scene.passes(1.0, heard="a")
        if step % 7 == 0:
            scene.holds_on("b")
        scene.does(Tick())
        if scene.job.round is not None:
            still += 1
            held = scene.cluster.sightings["a"].trainer.version
            scene.halt("a", (held.generation, held.step))
        else:
            scene.train("a", 10 + step)
    assert still < 150, f"stood still {still} of 600 s, in {scene.job.generation} generations"


@pytest.mark.parametrize("old", [None, Version(1, 3)])
def test_nor_does_one_that_promises_now_and_then_and_never_forms(scene, old):
    """A word every 7 s: in time for one Halt, not for the next; a goes on alone, and it is asked anew. It is new, or
    trained to step 3 with a, long ago, and keeps that."""
    scene.running("a", "b", min_workers=1, max_workers=2, step=3, steps=10**6)
    scene.left_behind("b", "a", 4)
    scene.register("b")
    who, facts = ("i1", {"version": old}) if old else ("i2", {})
    if old is None:
        scene.exits("b", asked=True)
        scene.prepare("b", incarnation=who)
    still = 0
    for step in range(600):
        scene.passes(1.0, heard="a")
        n, known = scene.job.generation, scene.cluster.sightings["b"].trainer
        if step % 7 == 0 and scene.job.round is not None:
            scene.beat("b", TrainerPhase.HALTED, who, promised=n, generation=1 if old else 0, **facts)
        elif step % 7 == 0 and "b" in scene.members:
            scene.beat("b", TrainerPhase.FORMING, who, promised=n, generation=n, **facts)
        elif step % 7 == 0:
            scene.beat("b", known.phase, who, promised=known.promised, generation=known.generation, **facts)
        scene.does(Tick())
        held = scene.cluster.sightings["a"].trainer.version
        still += scene.job.phase is not JobPhase.RUNNING or scene.job.round is not None
        if scene.job.round is not None:
            scene.halt("a", (held.generation, held.step))
        elif scene.members == ["a"]:
            scene.train("a", 10 + step)
    assert still < 150, f"stood still {still} of 600 s, in {scene.job.generation} generations"


def test_who_is_to_stop_and_is_cut_off_for_less_than_its_lease_is_waited_for(scene):
    """It trains on until then, and its state is to be saved; no more is waited than a step may take."""
    scene.running("a", "b", step=3)
    scene.does(StopJob("j"))
    for name in "ab":
        scene.does(Disconnected(name))
    for _ in range(16):
        scene.after(1.0)
    scene.register("a", "b")
    for name in "ab":
        scene.beat(name, TrainerPhase.TRAINING, promised=1, generation=1, version=Version(1, 9))
    scene.halt("ab", (1, 9))
    assert scene.job.saver is not None


@pytest.mark.parametrize("how", ["a formation that failed", "another coordinator", "nothing"])
def test_who_trained_until_a_moment_ago_and_was_cut_off_does_not_rest(scene, how):
    """c is back as the round ends, and has yet to promise; f is free."""
    scene.running("a", "b", "c", min_workers=1, max_workers=3, step=3)
    scene.register("f")
    scene.after(scene.policy.halt_limit, heard="abcf")
    scene.breaks("a", 1)
    if how == "a formation that failed":
        scene.forms("abc", 2)
        scene.breaks("b", 2)
    if how == "another coordinator":
        scene.restart()
        scene.register("a", "b", "f")
        scene.beat("f")
    else:
        scene.does(Disconnected("c"))
    n = scene.job.generation
    scene.halt("a", (1, 3))
    scene.after(scene.policy.halt_limit - 0.5, heard="abf")
    scene.register("c")
    scene.beat("c", TrainerPhase.BROKEN, promised=n - 1, generation=n - 1, version=Version(1, 3))
    scene.halt("b", (1, 3))
    scene.after(1.0, heard="abcf")
    assert (scene.members, scene.job.formation.generation) == (["a", "b"], scene.job.generation)
    scene.train("ab", 3)
    scene.beat("c", TrainerPhase.HALTED, promised=n, version=Version(1, 3))
    assert scene.cluster.workers["c"].job == "j"
    assert scene.job.reason == "prepared to join: c"


@pytest.mark.parametrize("hold", [False, True])
def test_a_rest_of_a_job_whose_members_are_all_off_says_so_once_their_leases_are_over(scene, hold):
    scene.running("a", "b", min_workers=2, step=3, step_timeout=3600.0)
    for name in "ab":
        scene.does(Disconnected(name))
    scene.does(PauseJob("j", hold=hold))
    for _ in range(100):
        scene.after(1.0)
    assert scene.job.phase is JobPhase.WAITING
    assert "resume or stop the job to go on without it" in scene.job.reason
