"""How a job ends: stopped in each stage, or completed once its final state is durable."""

from dataclasses import replace

import pytest

from regroup.core.cluster import reached
from regroup.core.jobs import ORIGIN, Checkpoint, JobPhase, Version
from regroup.core.messages.agent_reports import AgentLeft, AgentRegistered, TrainerExited
from regroup.core.messages.commands import StopJob
from regroup.core.messages.events import Disconnected, KeepSteps, Tick
from regroup.core.messages.orders import Halt, Release, Save
from regroup.core.messages.trainer_reports import SaveFailed, StateSaved
from regroup.core.workers import TrainerPhase

# --- Stopping


def test_a_queued_job_stops_at_once(scene):
    scene.submit()
    scene.does(StopJob("j"))
    assert (scene.job.phase, scene.job.reason) == (JobPhase.STOPPED, "stopped before its first step")


def test_a_preparing_job_stops_at_once_and_frees_its_workers(scene):
    scene.submit()
    scene.register("a")
    scene.beat("a", TrainerPhase.PREPARING)
    scene.does(StopJob("j"))
    assert scene.job.phase is JobPhase.STOPPED
    assert scene.told("a", Release) == [Release("j")]


def test_a_job_that_is_asked_for_its_first_promise_stops_when_it_has_it(scene):
    scene.submit(max_workers=1)
    scene.register("a")
    scene.prepare("a")
    scene.does(StopJob("j"))
    assert not scene.job.ended
    scene.halt("a", None)
    assert scene.job.phase is JobPhase.STOPPED


def test_a_running_job_stops_at_a_boundary_with_its_state_saved(scene):
    scene.running("a", "b")
    scene.does(StopJob("j"))
    assert scene.told("a", Halt) == [Halt("j", 2, boundary=True)]
    scene.halt("a", (1, 4))
    scene.halt("b", (1, 4))
    assert scene.told("a", Save) == [Save("j", 2, Version(1, 4))]
    assert scene.job.phase is JobPhase.RUNNING
    scene.saved("a", (1, 4))
    assert (scene.job.phase, scene.job.step) == (JobPhase.STOPPED, 4)


def test_a_regrouping_job_saves_and_stops_instead_of_forming(scene):
    scene.running("a", "b", min_workers=1)
    scene.exits("b")
    scene.does(StopJob("j"))
    scene.halt("a", (1, 4))
    assert scene.job.saver.worker == "a"
    scene.saved("a", (1, 4))
    assert scene.job.phase is JobPhase.STOPPED


def test_a_forming_job_stops_once_it_formed(scene):
    scene.running("a", "b")
    scene.breaks("a", 1)
    scene.halt("ab", (1, 4))
    scene.does(StopJob("j"))
    scene.train("ab")
    scene.after(0.2)
    assert scene.job.round.boundary


def test_a_waiting_job_saves_what_its_survivors_hold(scene):
    scene.running("a", "b")
    scene.exits("b")
    scene.halt("a", (1, 4))
    scene.does(StopJob("j"))
    scene.halt("a", (1, 4))
    scene.saved("a", (1, 4))
    assert scene.job.phase is JobPhase.STOPPED
    assert scene.job.checkpoint.version == Version(1, 4)


def test_a_waiting_job_whose_survivors_have_not_re_attached_yet_waits_for_them_a_while(scene):
    scene.running("a", "b")
    scene.exits("b")
    scene.halt("a", (1, 4))
    scene.restart()
    scene.does(StopJob("j"))
    assert not scene.job.ended
    scene.after(scene.policy.absent_limit)
    assert not scene.job.ended
    scene.after(scene.policy.leader_lease + 1.0)
    assert (scene.job.phase, scene.job.checkpoint) == (JobPhase.STOPPED, None)
    assert scene.job.reason == "stopped without a checkpoint: no state is left"


def test_a_state_that_nobody_told_of_yet_is_asked_for_before_a_job_ends_without_it(scene):
    """b formed while it was cut off: what it last said, that it holds nothing, is no answer."""
    scene.running("a", "b")
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    scene.halt("b", None)
    scene.does(Disconnected("b"))
    scene.exits("a")
    assert scene.job.phase is JobPhase.WAITING
    scene.does(StopJob("j"))
    scene.register("b")
    assert scene.told("b", Halt) == [Halt("j", 4)]
    scene.halt("b", (2, 3))
    assert scene.job.saver.worker == "b"


def test_a_stop_that_saves_an_older_state_says_that_it_goes_back(scene):
    """a went on alone to step 7, and died before b had taken that."""
    scene.parted()
    scene.train("a", 7)
    scene.register("b")
    scene.halt("b", (1, 3))
    scene.after(0.2)
    scene.halt("a", (2, 7))
    scene.halt("b", (1, 3))
    assert (scene.members, scene.job.formation.base, scene.job.step) == (["a", "b"], Version(2, 7), 7)
    scene.exits("a")
    scene.does(StopJob("j"))
    scene.halt("b", (1, 3))
    assert (scene.job.saver.worker, scene.job.step) == ("b", 3)
    assert scene.job.reason == "the last generation is lost: b saves the state of step 3, to stop"
    assert [(note.reason, note.data["base_step"]) for note in scene.noted("rolled_back")] == [(scene.job.reason, 3)]
    scene.saved("b", (1, 3))
    assert (scene.job.phase, scene.job.step) == (JobPhase.STOPPED, 3)


def test_a_state_of_more_steps_than_are_shown_is_shown_only_once_it_is_saved(scene):
    """a began anew after a total loss, and has no state yet when b is back, which was silent for too long."""
    scene.running("a", "b", min_workers=1)
    scene.train("ab", 3)
    scene.does(Disconnected("b"))
    scene.exits("a")
    scene.prepare("a", incarnation="i2")
    scene.after(scene.policy.detached_limit + scene.policy.detached_margin + 1.0)
    scene.prepare("a", incarnation="i2")
    scene.halt("a", None, incarnation="i2")
    scene.after(scene.policy.halt_limit + 1.0)
    assert (scene.job.formation.generation, scene.job.formation.base, scene.job.step) == (3, ORIGIN, 0)
    scene.restart()
    scene.register("a", "b")
    scene.does(StopJob("j"))
    scene.holds_on("b")
    scene.beat("a", TrainerPhase.FORMING, incarnation="i2", promised=3, generation=3)
    scene.breaks("a", 3, incarnation="i2")
    scene.halt("a", None, incarnation="i2")
    scene.halt("b", (1, 3))
    assert scene.job.reason == "the last generation is lost: b saves the state of step 3, to stop"
    assert scene.job.step == 0
    scene.saved("b", (1, 3))
    assert (scene.job.phase, scene.job.step) == (JobPhase.STOPPED, 3)


def test_nothing_is_given_up_while_somebody_that_just_connected_has_not_told_what_it_holds(scene):
    """b was forgotten, and is back; its first heartbeat follows its first words."""
    scene.parted()
    scene.train("a", 3)
    workers = {"a": scene.cluster.workers["a"]}
    scene.cluster = replace(scene.cluster, workers=workers, sightings={"a": scene.cluster.sightings["a"]})
    scene.says("b", AgentRegistered(boot="b1", device="cpu", host="h", pid=1, version="1"))
    scene.exits("a")
    scene.does(StopJob("j"))
    scene.does(Tick())
    assert scene.job.reason == "asked to stop; the last generation is lost, and b has yet to tell what it holds"
    scene.holds_on("b")
    scene.halt("b", (1, 3))
    scene.saved("b", (1, 3))
    assert (scene.job.phase, scene.job.step) == (JobPhase.STOPPED, 3)


def test_what_is_shown_stands_still_while_an_older_state_is_saved(scene):
    """a, which was silent for long, is back with more steps than are being saved: it comes too late."""
    scene.parted()
    scene.train("a", 7)
    scene.does(Disconnected("a"))
    scene.does(StopJob("j"))
    scene.after(scene.job.spec.step_timeout + 1.0)  # no boundary was reached
    scene.register("b")
    scene.holds_on("b")
    scene.after(scene.policy.halt_limit + 1.0, heard="b")  # a answers nothing
    scene.holds_on("b")  # so b is asked, too
    scene.halt("b", (1, 3))
    scene.after(scene.policy.halt_limit + 1.0, heard="b")
    assert (scene.job.saver.worker, scene.job.step) == ("b", 3)
    scene.register("a")
    scene.train("a", 7)
    scene.does(KeepSteps())
    assert (reached(scene.job, scene.cluster.watches["j"]), scene.job.step) == (3, 3)
    scene.saved("b", (1, 3))
    assert (scene.job.phase, scene.job.step) == (JobPhase.STOPPED, 3)


def test_a_job_does_not_end_without_a_state_that_a_slow_member_said_it_holds(scene):
    """a alone was to go on from step 3, and died; b holds step 3 as well, and its answer takes its time."""
    scene.parted()
    scene.register("b")
    scene.holds_on("b")
    scene.exits("a")
    scene.does(StopJob("j"))
    for _ in range(8):
        scene.after(scene.policy.halt_limit + 0.1)
        scene.holds_on("b")
        assert not scene.job.ended
    assert "may be b's" in "; ".join(note.reason for note in scene.noted("waiting"))
    assert not scene.noted("evicted")
    scene.halt("b", (1, 3))
    assert (scene.job.saver.worker, scene.job.step) == ("b", 3)


def test_a_holder_that_gives_no_sign_for_the_detached_limit_holds_up_a_stop_no_longer(scene):
    scene.parted()
    scene.register("b")
    scene.holds_on("b")
    scene.exits("a")
    scene.does(StopJob("j"))
    began = scene.now
    while not scene.job.ended and scene.now < began + 200:
        scene.after(1.0)
        scene.holds_on("b")
    assert scene.policy.detached_limit < scene.now - began < scene.policy.detached_limit + 3 * scene.policy.halt_limit
    assert [note.worker for note in scene.noted("evicted")] == ["b"]
    assert scene.job.reason == "stopped without a checkpoint: no state is left"


def test_a_cluster_that_was_stopped_in_good_order_costs_its_jobs_no_restart(scene):
    scene.running("a", "b", max_restarts=0)
    scene.train("ab", 4)
    for name in "ab":
        scene.says(name, TrainerExited(job="j", incarnation="i1", cause="killed by SIGKILL", asked=True))
        scene.says(name, AgentLeft(boot="b1"))
    scene.restart()
    scene.register("a", "b", boot="b2")
    scene.prepare("a", "b", incarnation="i2")
    scene.halt("ab", None, incarnation="i2")
    assert (scene.job.phase, scene.job.formation.base, scene.job.restarts) == (JobPhase.REGROUPING, ORIGIN, 0)
    assert scene.noted("rolled_back")


def test_stopping_twice_is_once(scene):
    scene.running("a")
    scene.does(StopJob("j"))
    before = scene.job
    scene.does(StopJob("j"))
    assert scene.job == before


# --- The final save


def test_a_failed_save_is_retried_by_another_member_and_never_called_completed(scene):
    scene.finished("a", "b")
    n = scene.job.generation
    scene.says("a", SaveFailed(job="j", incarnation="i1", generation=n, error="OSError: disk full"))
    assert not scene.job.ended
    assert "disk full" in scene.job.reason
    scene.after(0.5)
    assert scene.job.round is None
    scene.after(1.0)
    assert (scene.job.phase, scene.job.round.boundary) == (JobPhase.RUNNING, False)
    scene.halt("ab", (1, 10))
    assert scene.job.saver.worker == "b"
    scene.saved("b", (1, 10))
    assert scene.job.phase is JobPhase.COMPLETED


def test_the_place_of_a_machine_that_is_gone_is_for_whoever_takes_the_state_that_cannot_be_saved(scene):
    """There are as many places as there were members, and none of those left can write."""
    scene.finished("a", "b")
    n = scene.job.generation
    assert scene.job.saver.worker == "a"
    scene.does(Disconnected("b"))
    scene.register("c")
    scene.says("a", SaveFailed(job="j", incarnation="i1", generation=n, error="no space left on device"))
    assert "no space left" in scene.job.reason
    scene.after(scene.policy.absent_limit + 1.0, heard="ac")
    scene.beat("c")
    assert scene.cluster.workers["c"].job == "j"


@pytest.mark.parametrize("late", [0.0, 60.0])
def test_one_worker_is_enough_to_ask_for_the_report_of_a_state_that_is_durable(scene, late):
    """Both members are gone once the file is told, and the task is to be asked by two workers no more. The other one
    may come when they are expected no more."""
    scene.finished("a", "b")
    assert scene.job.spec.min_workers == 2
    n, file = scene.job.generation, Checkpoint(Version(1, 10), "s3://c/j/10", "sum", 1)
    scene.beat("a", TrainerPhase.SAVING, promised=n, generation=1, version=Version(1, 10), written=(file,))
    for name in "ab":
        scene.exits(name)
        scene.beat(name)
        scene.does(Disconnected(name))
    scene.after(late)
    scene.register("c")
    scene.after(scene.policy.detached_limit, heard="c")
    scene.beat("c")
    scene.prepare("c")
    scene.after(1.0, heard="c")
    scene.halt("c", None)
    assert (scene.members, scene.job.formation.checkpoint) == (["c"], scene.job.checkpoint)
    assert scene.job.formation.generation == scene.job.generation


def test_after_a_new_beginning_the_failed_saves_of_the_old_one_are_forgotten(scene):
    scene.finished("a")
    scene.says("a", SaveFailed(job="j", incarnation="i1", generation=scene.job.generation, error="OSError: full"))
    scene.exits("a")
    scene.prepare("a", incarnation="i2")
    scene.after(scene.policy.save_retry)
    scene.prepare("a", incarnation="i2")
    scene.halt("a", None, incarnation="i2")
    scene.train("a", incarnation="i2")
    assert (scene.job.phase, scene.job.step) == (JobPhase.RUNNING, 0)
    scene.breaks("a", scene.job.generation, "i2")
    assert scene.job.phase is JobPhase.REGROUPING


def test_a_saver_that_dies_is_replaced(scene):
    scene.finished("a", "b")
    scene.exits("a")
    scene.halt("b", (1, 10))
    assert scene.job.saver.worker == "b"


def test_a_saver_that_hangs_is_replaced(scene):
    scene.finished("a", "b")
    scene.after(scene.job.spec.step_timeout + 1.0)
    assert scene.job.saver is None
    scene.halt("b", (1, 10))
    scene.after(scene.policy.halt_limit + 0.5)
    assert scene.job.saver.worker == "b"


def test_what_a_slow_saver_wrote_at_last_counts_if_it_is_the_state_to_save(scene):
    """Else a state that takes longer than the limit could never be saved."""
    scene.finished("a")
    first = scene.job.generation
    scene.after(scene.job.spec.step_timeout + 1.0)
    scene.halt("a", (1, 10))
    assert scene.job.saver.worker == "a"
    scene.saved("a", (1, 9), generation=first)
    assert not scene.job.ended
    scene.saved("a", (1, 10), generation=first)
    assert scene.job.phase is JobPhase.COMPLETED


def test_a_state_that_nobody_was_asked_to_save_moves_nothing(scene):
    scene.running("a", "b")
    scene.saved("a", (1, 3))
    assert scene.job.checkpoint is None
    assert scene.job.phase is JobPhase.RUNNING


@pytest.mark.parametrize("end", ["all is lost", "the task fails"])
def test_a_job_that_ends_without_its_state_shows_the_steps_that_it_had_reached(scene, end):
    scene.running("a", max_restarts=0)
    scene.train("a", 7)
    assert scene.job.step == 0, "not persisted yet"
    if end == "all is lost":
        scene.exits("a")
        scene.prepare("a", incarnation="i2")
        scene.halt("a", None, "i2")
    else:
        scene.raises("a", step=7)
        scene.halt("a", (1, 7))
        scene.train("a")
        scene.raises("a", generation=scene.job.generation, step=7)
    assert scene.job.phase is JobPhase.FAILED
    assert scene.job.step == 7


def test_asking_twice_to_stop_is_told_once(scene):
    scene.running("a")
    scene.does(StopJob("j"))
    scene.does(StopJob("j"))
    assert len(scene.noted("stopping")) == 1


def test_a_job_that_waits_and_is_asked_to_stop_says_so(scene):
    scene.running("a", "b")
    scene.does(Disconnected("b"))
    scene.exits("a")
    scene.after(scene.policy.halt_limit + 0.1)
    scene.does(StopJob("j"))
    assert scene.job.phase is JobPhase.WAITING
    assert scene.job.reason.startswith("asked to stop; the state of generation 1 may live on b: ")


def test_a_report_that_failed_is_told_with_the_end(scene):
    scene.finished("a")
    told = {"job": "j", "incarnation": "i1", "generation": scene.job.generation}
    checkpoint = Checkpoint(Version(1, 10), "/c/j", "sum", 1)
    scene.says("a", StateSaved(**told, checkpoint=checkpoint, remark="report() failed: KeyError: 'x'"))
    assert scene.job.phase is JobPhase.COMPLETED
    assert scene.job.reason == "completed at step 10; its state is in /c/j; report() failed: KeyError: 'x'"


def test_to_stop_at_once_what_has_no_checkpoint_gives_up_no_measurement(scene):
    """What it reached is still worth knowing."""
    scene.running("a", step=3)
    scene.does(StopJob("j", now=True))
    (note,) = scene.noted("rolled_back")
    assert (scene.job.step, note.data["base_step"]) == (3, 3)
