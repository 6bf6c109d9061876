"""How a job rests and goes on: paused into a checkpoint with its workers freed, or held in their memory."""

from dataclasses import replace

import pytest

from regroup.core.cluster import Conflict, JobEnded
from regroup.core.jobs import ORIGIN, OUTSIDE, Checkpoint, JobPhase, StepPoint, Version, Wanted
from regroup.core.messages.agent_reports import AgentLeft, TrainerExited
from regroup.core.messages.commands import PauseJob, ResumeJob, StopJob
from regroup.core.messages.events import Disconnected, KeepSteps
from regroup.core.messages.orders import Halt, Release
from regroup.core.messages.trainer_reports import (
    WORKER,
    CheckpointUnreadable,
    PrepareFailed,
    StateSaved,
    StepsCommitted,
)
from regroup.core.workers import TrainerPhase


def pause(scene, hold=False):
    return scene.does(PauseJob("j", hold))


def resume(scene):
    return scene.does(ResumeJob("j"))


def paused(scene, *names, step=3):
    """A job that these workers trained to a step, and that was paused there; they are free again."""
    scene.running(*names)
    scene.train(names, step)
    pause(scene)
    scene.halt(names, (1, step))
    scene.saved("a", (1, step))
    for name in names:
        scene.exits(name, asked=True)
        scene.beat(name)
    assert (scene.job.phase, scene.job.checkpoint.version) == (JobPhase.PAUSED, Version(1, step))


def held(scene, *names, step=3):
    scene.running(*names, min_workers=1)
    scene.train(names, step)
    pause(scene, hold=True)
    scene.halt(names, (1, step))
    assert scene.job.phase is JobPhase.PAUSED


# --- Paused


def test_a_running_job_pauses_at_a_boundary_into_a_checkpoint_and_frees_its_workers(scene):
    scene.running("a", "b")
    pause(scene)
    assert (scene.job.round.boundary, scene.job.phase) == (True, JobPhase.RUNNING)
    scene.halt("ab", (1, 3))
    assert scene.job.reason == "a saves the state of step 3, to pause"
    scene.saved("a", (1, 3))
    assert (scene.job.phase, scene.job.step, scene.job.formation) == (JobPhase.PAUSED, 3, None)
    assert scene.job.reason == "paused at step 3; its state is in /c/j"
    assert [worker.job for worker in scene.cluster.workers.values()] == [None, None]
    scene.beat("b", TrainerPhase.HALTED, promised=2, generation=1, version=Version(1, 3))
    assert scene.told("b", Release)


def test_a_resumed_job_waits_for_its_turn_and_begins_from_its_checkpoint(scene):
    paused(scene, "a", "b")
    scene.register("c", "d")
    resume(scene)
    assert (scene.job.phase, scene.job.wanted) == (JobPhase.PREPARING, Wanted.RUN)  # it was its turn at once
    scene.prepare("a", "b", incarnation="i2")
    scene.halt("ab", None, incarnation="i2")
    formation = scene.job.formation
    assert (formation.base, formation.checkpoint) == (Version(1, 3), scene.job.checkpoint)
    assert formation.receivers == (1,)  # the leader reads it
    assert scene.job.reason == "from the checkpoint of step 3 on a, b"
    scene.train("ab", incarnation="i2")
    assert (scene.job.phase, scene.job.step, scene.job.restarts) == (JobPhase.RUNNING, 3, 0)
    assert not scene.noted("rolled_back")


def test_the_trailing_step_of_a_generation_that_a_pause_closed_is_void(scene):
    """b committed one step more than the others when its connection was cut, and comes back with it."""
    scene.running("a", "b")
    scene.train("ab", 3)
    scene.does(Disconnected("b"))
    pause(scene)
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    scene.saved("a", (1, 3))
    resume(scene)
    scene.register("c")
    scene.exits("a", asked=True)
    scene.beat("a")
    scene.prepare("a", incarnation="i2")
    scene.prepare("c")
    scene.halt("a", None, incarnation="i2")
    scene.halt("c", (1, 4))  # whoever holds it
    assert scene.job.formation.base == Version(1, 3)
    assert scene.job.formation.receivers == (1,)


def test_whoever_still_holds_what_was_saved_leads_and_nothing_is_read(scene):
    paused(scene, "a", "b")
    resume(scene)
    scene.prepare("a", "b", incarnation="i2")
    scene.halt("a", None, incarnation="i2")
    scene.halt("b", (1, 3), incarnation="i2")
    assert (scene.job.formation.leader, scene.job.formation.checkpoint) == (1, None)


def test_a_queued_job_and_one_that_prepares_pause_at_once(scene):
    scene.submit()
    pause(scene)
    assert (scene.job.phase, scene.job.reason) == (JobPhase.PAUSED, "paused before its first step")
    resume(scene)
    assert scene.job.phase is JobPhase.QUEUED
    scene.register("a")
    assert scene.job.phase is JobPhase.PREPARING
    pause(scene)
    assert (scene.job.phase, scene.cluster.workers["a"].job) == (JobPhase.PAUSED, None)


def test_a_paused_job_gets_no_workers(scene):
    scene.submit()
    pause(scene)
    scene.register("a", "b")
    assert [worker.job for worker in scene.cluster.workers.values()] == [None, None]


def test_a_job_that_waits_for_workers_saves_what_is_kept_in_memory(scene):
    scene.running("a", "b")
    scene.exits("b")
    scene.halt("a", (1, 3))
    assert scene.job.phase is JobPhase.WAITING
    pause(scene)
    scene.halt("a", (1, 3))
    scene.saved("a", (1, 3))
    assert (scene.job.phase, scene.job.step) == (JobPhase.PAUSED, 3)


def test_a_job_whose_last_step_is_committed_while_it_is_to_pause_completes(scene):
    scene.finished("a", "b")
    pause(scene)
    scene.saved("a", (1, 10))
    assert scene.job.phase is JobPhase.COMPLETED


def test_resumed_while_its_state_is_being_saved_it_goes_on_and_keeps_the_checkpoint(scene):
    scene.running("a", "b")
    pause(scene)
    scene.halt("ab", (1, 3))
    resume(scene)
    assert scene.job.saver is not None
    scene.saved("a", (1, 3))
    assert scene.job.checkpoint.version == Version(1, 3)
    scene.halt("ab", (1, 3))
    assert (scene.job.formation.base, scene.job.formation.checkpoint) == (Version(1, 3), None)


def test_a_pause_that_finds_no_state_goes_back_and_says_so(scene):
    scene.running("a")
    scene.train("a", 3)
    scene.exits("a")
    pause(scene)
    scene.after(scene.policy.halt_limit + 1.0)
    assert (scene.job.phase, scene.job.step) == (JobPhase.PAUSED, 0)
    assert scene.job.reason == "paused without a checkpoint: no state is left"
    assert [note.data["base_step"] for note in scene.noted("rolled_back")] == [0]


def test_after_a_total_loss_the_checkpoint_of_a_pause_is_the_most_advanced_state_left(scene):
    paused(scene, "a")
    resume(scene)
    scene.prepare("a", incarnation="i2")
    scene.halt("a", None, incarnation="i2")
    scene.train("a", incarnation="i2")
    scene.train("a", 7, incarnation="i2")
    scene.exits("a", incarnation="i2")
    scene.prepare("a", incarnation="i3")
    scene.halt("a", None, incarnation="i3")
    assert (scene.job.formation.base, scene.job.step, scene.job.restarts) == (Version(1, 3), 3, 1)
    assert scene.job.reason == "the last generation is lost: from the checkpoint of step 3 on a"


@pytest.mark.parametrize("restarted", [False, True])
def test_a_total_loss_after_many_steps_counts_also_where_another_coordinator_goes_back(scene, restarted):
    """It does not know any more that the last generation, which read the checkpoint, formed."""
    paused(scene, "a")
    resume(scene)
    scene.prepare("a", incarnation="i2")
    scene.halt("a", None, incarnation="i2")
    scene.train("a", 7, incarnation="i2")
    scene.does(KeepSteps())
    scene.exits("a", incarnation="i2")
    if restarted:
        scene.restart()
        scene.register("a")
    scene.beat("a")
    scene.prepare("a", incarnation="i3")
    scene.halt("a", None, incarnation="i3")
    assert (scene.job.formation.base, scene.job.restarts) == (Version(1, 3), 1)


def test_total_losses_count_also_where_not_all_had_told_their_steps(scene):
    paused(scene, "a", "b")
    resume(scene)
    for incarnation in ("i2", "i3", "i4"):
        scene.prepare("a", "b", incarnation=incarnation)
        scene.halt("ab", None, incarnation=incarnation)
        scene.train("ab", incarnation=incarnation)
        scene.train("a", 7, incarnation=incarnation)
        for name in "ab":
            scene.exits(name, incarnation=incarnation)
            scene.beat(name)
    assert scene.job.restarts == 2  # the third is counted once it goes on
    scene.prepare("a", "b", incarnation="i5")
    scene.halt("ab", None, incarnation="i5")
    assert (scene.job.formation.base, scene.job.restarts) == (Version(1, 3), 3)


def test_a_job_that_lost_all_since_its_pause_stops_at_its_checkpoint_and_says_so(scene):
    paused(scene, "a")
    resume(scene)
    scene.prepare("a", incarnation="i2")
    scene.halt("a", None, incarnation="i2")
    scene.train("a", incarnation="i2")
    scene.train("a", 7, incarnation="i2")
    scene.exits("a", incarnation="i2")
    scene.does(StopJob("j"))
    scene.prepare("a", incarnation="i3")
    scene.halt("a", None, incarnation="i3")
    assert (scene.job.phase, scene.job.step) == (JobPhase.STOPPED, 3)
    assert scene.job.reason == "stopped at step 3; its state is in /c/j: no newer state is left"
    assert scene.noted("rolled_back")[-1].data["base_step"] == 3


def test_nobody_is_given_up_for_a_rest_because_it_is_silent(scene):
    """Both are cut off for longer than their lease; a job that is to rest can wait for them."""
    scene.running("a", "b")
    scene.train("ab", 3)
    for name in "ab":
        scene.does(Disconnected(name))
    pause(scene)
    scene.after(scene.job.spec.step_timeout + 1.0)
    for _ in range(4):
        scene.after(scene.policy.detached_limit)
    assert not scene.job.ended
    assert "may live on a, b" in scene.job.reason
    scene.register("a", "b")
    for name in "ab":
        scene.holds_on(name)
    scene.halt("ab", (1, 3))
    scene.saved("a", (1, 3))
    assert (scene.job.phase, scene.job.step) == (JobPhase.PAUSED, 3)


def test_a_checkpoint_that_is_ahead_of_who_is_left_is_what_counts(scene):
    """a wrote step 4, which b had not applied; it was resumed meanwhile, and a died."""
    scene.running("a", "b")
    pause(scene)
    scene.halt("a", (1, 4))
    scene.halt("b", (1, 3))
    resume(scene)
    scene.saved("a", (1, 4))
    scene.exits("a")
    pause(scene)
    scene.halt("b", (1, 3))
    assert (scene.job.phase, scene.job.checkpoint.version) == (JobPhase.PAUSED, Version(1, 4))
    assert not scene.noted("rolled_back")


def test_a_user_may_pause_a_job_that_has_just_made_room(scene):
    paused(scene, "a")
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, wanted=Wanted.YIELD)})
    pause(scene)
    scene.after(0.2)
    assert (scene.job.phase, scene.job.wanted) == (JobPhase.PAUSED, Wanted.PAUSE)


# --- The checkpoint cannot be read


def unreadable(scene, name, incarnation="i2"):
    n = scene.job.generation
    scene.beat(name, TrainerPhase.FORMING, incarnation, promised=n, generation=n)
    report = CheckpointUnreadable(job="j", incarnation=incarnation, generation=n, error="no such file")
    return scene.says(name, report)


def test_whoever_cannot_read_the_checkpoint_does_not_lead(scene):
    paused(scene, "a", "b")
    resume(scene)
    scene.prepare("a", "b", incarnation="i2")
    scene.halt("ab", None, incarnation="i2")
    unreadable(scene, "a")
    scene.halt("ab", None, incarnation="i2")
    assert (scene.job.formation.leader, scene.job.restarts) == (1, 0)


def test_where_nobody_can_read_the_checkpoint_the_job_waits_and_says_why(scene):
    paused(scene, "a", "b")
    resume(scene)
    scene.prepare("a", "b", incarnation="i2")
    for reader in "ab":
        scene.halt("ab", None, incarnation="i2")
        unreadable(scene, reader)
    scene.halt("ab", None, incarnation="i2")
    why = "no worker can read the checkpoint of step 3: a: no such file; b: no such file"
    assert (scene.job.phase, scene.job.reason) == (JobPhase.WAITING, why)
    assert not scene.noted("evicted")
    scene.after(scene.policy.read_retry + 1.0, heard="ab")  # it may be there again
    scene.halt("ab", None, incarnation="i2")
    assert scene.job.formation.checkpoint is not None
    scene.does(StopJob("j"))
    unreadable(scene, "a")
    scene.halt("ab", None, incarnation="i2")
    assert (scene.job.phase, scene.job.checkpoint.version) == (JobPhase.STOPPED, Version(1, 3))


def test_a_worker_that_cannot_read_it_makes_way_for_one_that_was_not_asked(scene):
    scene.running("a", max_workers=1)
    scene.train("a", 3)
    pause(scene)
    scene.halt("a", (1, 3))
    scene.saved("a", (1, 3))
    scene.exits("a", asked=True)
    scene.beat("a")
    resume(scene)
    scene.prepare("a", incarnation="i2")
    scene.halt("a", None, incarnation="i2")
    scene.register("b")
    unreadable(scene, "a")
    scene.halt("a", None, incarnation="i2")
    for _ in range(2):
        scene.after(0.2, heard="ab")
    assert [scene.cluster.workers[name].job for name in "ab"] == [None, "j"]
    scene.exits("a", "i2", asked=True)
    scene.prepare("b")
    scene.halt("b", None)
    assert (scene.members, scene.job.formation.checkpoint) == (["b"], scene.job.checkpoint)


def test_who_could_not_read_the_checkpoint_once_is_as_good_a_holder_as_any_later(scene):
    paused(scene, "a", "b")
    resume(scene)
    scene.prepare("a", "b", incarnation="i2")
    scene.halt("ab", None, incarnation="i2")
    unreadable(scene, "a")
    scene.halt("ab", None, incarnation="i2")
    scene.train("ab", 9, incarnation="i2")
    scene.register("e")
    n = scene.job.formation.generation
    scene.exits("b", "i2")
    scene.halt("a", (n, 9), incarnation="i2")
    scene.after(0.2, heard="ae")
    assert scene.cluster.workers["a"].job == "j"
    assert not scene.told("a", Release)


# --- Held


def test_a_held_job_keeps_its_workers_and_its_state_in_their_memory(scene):
    held(scene, "a", "b")
    assert scene.job.reason == "held at step 3, in the memory of a, b"
    assert [worker.job for worker in scene.cluster.workers.values()] == ["j", "j"]
    scene.after(scene.policy.detached_limit)
    scene.halt("ab", (1, 3))
    assert scene.job.phase is JobPhase.PAUSED
    assert scene.orders == [] or not scene.told("b", Halt)


def test_a_held_job_goes_on_in_a_new_generation_from_what_was_held(scene):
    held(scene, "a", "b")
    resume(scene)
    assert scene.job.phase is JobPhase.REGROUPING
    scene.halt("ab", (1, 3))
    assert (scene.job.formation.generation, scene.job.formation.base) == (3, Version(1, 3))
    assert scene.job.formation.receivers == ()


def test_a_held_job_survives_the_loss_of_all_but_one(scene):
    held(scene, "a", "b")
    scene.exits("b")
    assert scene.job.phase is JobPhase.PAUSED
    resume(scene)
    scene.halt("a", (1, 3))
    assert (scene.members, scene.job.formation.base) == (["a"], Version(1, 3))


def test_a_held_job_says_so_when_all_that_held_its_state_are_gone(scene):
    held(scene, "a", "b")
    scene.exits("b")
    assert scene.job.reason == "held at step 3, in the memory of a, b"
    scene.exits("a")
    assert scene.job.reason == "held, but all that had step 3 in memory are gone; what is left: before its first step"
    assert scene.noted("lost_state")


def test_a_held_job_that_is_paused_saves_and_frees_its_workers(scene):
    held(scene, "a", "b")
    pause(scene)
    scene.halt("ab", (1, 3))
    scene.saved("a", (1, 3))
    assert (scene.job.phase, scene.job.formation) == (JobPhase.PAUSED, None)
    assert scene.cluster.workers["a"].job is None


def test_a_job_is_held_while_it_prepares_and_its_workers_stay_prepared(scene):
    scene.submit(min_workers=2)
    scene.register("a", "b")
    scene.prepare("a")
    pause(scene, hold=True)
    assert (scene.job.phase, scene.job.reason) == (JobPhase.PAUSED, "held before its first step")
    scene.prepare("b")
    assert scene.job.round is None
    resume(scene)
    scene.halt("ab", None)
    assert scene.job.formation.base == ORIGIN


def test_who_cannot_prepare_for_a_job_that_is_held_by_then_leaves_it(scene):
    scene.submit(min_workers=2)
    scene.register("a", "b")
    scene.prepare("a")
    scene.beat("b", TrainerPhase.PREPARING)
    pause(scene, hold=True)
    scene.says("b", PrepareFailed(job="j", incarnation="i1", field=WORKER, message="its disk is full"))
    assert scene.job.refused == {"b": "worker: its disk is full"}
    assert scene.cluster.workers["b"].job is None
    assert scene.told("b", Release) != []


def test_held_in_the_middle_of_its_first_round_it_holds_when_the_round_is_over(scene):
    scene.submit(min_workers=1, max_workers=1)
    scene.register("a")
    scene.prepare("a")
    pause(scene, hold=True)
    assert scene.job.phase is JobPhase.PREPARING
    scene.halt("a", None)
    assert (scene.job.phase, scene.job.formation) == (JobPhase.PAUSED, None)


def test_a_generation_that_a_held_worker_knows_is_jumped_over_when_it_is_resumed(scene):
    held(scene, "a")
    scene.beat("a", TrainerPhase.HALTED, promised=9, generation=1, version=Version(1, 3))
    assert (scene.job.phase, scene.job.round) == (JobPhase.PAUSED, None)
    resume(scene)
    assert scene.job.generation == 10


# --- Stopped while it rests


def test_a_paused_job_stops_at_once_with_its_checkpoint(scene):
    paused(scene, "a")
    scene.does(StopJob("j"))
    assert (scene.job.phase, scene.job.step) == (JobPhase.STOPPED, 3)
    assert scene.job.reason == "stopped at step 3; its state is in /c/j"


def test_a_held_job_is_saved_before_it_stops(scene):
    held(scene, "a", "b")
    scene.does(StopJob("j"))
    scene.halt("ab", (1, 3))
    scene.saved("a", (1, 3))
    assert (scene.job.phase, scene.job.checkpoint.version) == (JobPhase.STOPPED, Version(1, 3))


# --- Restarts of the coordinator


def test_a_restarted_coordinator_leaves_a_held_job_alone(scene):
    held(scene, "a", "b")
    scene.restart()
    scene.register("a", "b")
    scene.halt("ab", (1, 3))
    scene.after(scene.policy.absent_limit + 1.0, heard="ab")
    assert (scene.job.phase, scene.job.round) == (JobPhase.PAUSED, None)
    resume(scene)
    scene.halt("ab", (1, 3))
    assert scene.job.formation.base == Version(1, 3)


def test_a_restarted_coordinator_goes_on_pausing(scene):
    scene.running("a")
    pause(scene)
    scene.restart()
    scene.register("a")
    scene.halt("a", (1, 3))
    assert scene.job.saver is not None


# --- Asked for what cannot be


@pytest.mark.parametrize("hold", [False, True])
def test_to_pause_and_to_resume_twice_is_once(scene, hold):
    scene.running("a")
    resume(scene)
    pause(scene, hold)
    before = scene.job
    pause(scene, hold)
    assert scene.job is before
    resume(scene)
    before = scene.job
    resume(scene)
    assert scene.job is before


def test_a_queued_or_a_paused_job_has_nobody_to_hold(scene):
    scene.submit()
    with pytest.raises(Conflict, match="no workers that could be held"):
        pause(scene, hold=True)
    pause(scene)
    with pytest.raises(Conflict, match="resume it first"):
        pause(scene, hold=True)


def test_a_job_that_is_being_stopped_or_has_ended_neither_pauses_nor_goes_on(scene):
    scene.running("a")
    scene.does(StopJob("j"))
    for asked in (PauseJob("j"), ResumeJob("j")):
        with pytest.raises(Conflict, match="being stopped"):
            scene.does(asked)
    scene.halt("a", (1, 3))
    scene.saved("a", (1, 3))
    for asked in (PauseJob("j"), ResumeJob("j")):
        with pytest.raises(JobEnded):
            scene.does(asked)


def test_a_worker_that_cannot_prepare_a_resumed_job_is_refused_and_the_job_lives(scene):
    paused(scene, "a")
    resume(scene)
    scene.beat("a", TrainerPhase.PREPARING, "i2")
    scene.says("a", PrepareFailed(job="j", incarnation="i2", field="options.lr", message="is odd"))
    assert not scene.job.ended
    assert scene.job.refused == {"a": "options.lr: is odd"}


# --- Asked for by the queue


def test_the_younger_of_two_jobs_that_lack_workers_is_saved_and_queued_again(scene):
    scene.running("a", "b")
    scene.submit("k", min_workers=2)
    scene.register("c", "d")
    for name in "cd":
        scene.beat(name, TrainerPhase.PREPARED, job="k")
    n = scene.cluster.jobs["k"].generation
    for name in "cd":
        scene.beat(name, TrainerPhase.HALTED, job="k", promised=n)
    for name in "cd":
        scene.beat(name, TrainerPhase.TRAINING, job="k", promised=n, generation=n, version=Version(n, 5))
    for name, job in (("b", "j"), ("d", "k")):
        scene.says(name, TrainerExited(job=job, incarnation="i1", cause="killed by SIGKILL", asked=False))
        scene.says(name, AgentLeft(boot="b1"))
    scene.halt("a", (1, 3))
    scene.beat("c", TrainerPhase.HALTED, job="k", promised=n + 1, generation=n, version=Version(n, 5))
    assert {job.phase for job in scene.cluster.jobs.values()} == {JobPhase.WAITING}
    scene.after(scene.policy.absent_limit + 1.0, heard="ac")
    younger = scene.cluster.jobs["k"]
    assert younger.wanted is Wanted.YIELD
    assert scene.noted("yielding")[0].reason == "makes room for j, which can go on with its workers"
    n = younger.generation
    scene.beat("c", TrainerPhase.HALTED, job="k", promised=n, generation=1, version=Version(1, 5))
    saved = StateSaved(job="k", incarnation="i1", generation=n, checkpoint=Checkpoint(Version(1, 5), "/c/k", "s", 1))
    scene.says("c", saved)
    assert scene.cluster.jobs["k"].reason == "made room at step 5; its state is in /c/k"
    assert scene.told("c", Release)
    scene.says("c", TrainerExited(job="k", incarnation="i1", cause="killed by SIGKILL", asked=True))
    scene.beat("c")
    assert scene.cluster.workers["c"].job == "j"
    scene.after(0.2, heard="ac")
    again = scene.cluster.jobs["k"]
    assert (again.phase, again.wanted, again.step) == (JobPhase.QUEUED, Wanted.RUN, 5)


def test_a_job_that_is_resumed_has_waited_for_nothing_yet(scene):
    """Its trainers ended when it was paused. Else another job would have to make room for it at once."""
    scene.running("a", step=3)
    scene.does(PauseJob("j"))
    scene.halt("a", (1, 3))
    scene.saved("a", (1, 3))
    scene.exits("a", asked=True)
    scene.after(1000.0, heard="a")
    scene.does(ResumeJob("j"))
    scene.after(0.1, heard="a")
    assert scene.job.phase is JobPhase.PREPARING
    assert scene.cluster.watches["j"].since >= scene.now - 0.2


@pytest.mark.parametrize("connected", [False, True])
def test_two_jobs_that_lack_workers_of_which_nothing_is_heard_keep_them_from_each_other_no_longer(scene, connected):
    """b of j and d of k: their connections may stand."""
    for job, names in (("j", "ab"), ("k", "cd")):
        scene.submit(job, min_workers=2)
        scene.register(*names)
    for name in "bd" if not connected else "":
        scene.does(Disconnected(name))
    scene.after(scene.policy.absent_limit + 1.0, heard="ac")
    scene.after(scene.policy.absent_limit + 1.0, heard="ac")
    scene.after(1.0, heard="ac")
    assert scene.cluster.jobs["k"].phase is JobPhase.QUEUED


def test_nor_has_one_that_was_held(scene):
    """For an hour, and meanwhile one of its machines began anew; the other job waits for workers, too."""
    held(scene, "a", "b")
    scene.submit("k", min_workers=2)
    scene.register("c", "d")
    scene.prepare("c", job="k")
    for name in "db":
        scene.says(name, AgentLeft(boot="b1"))
    scene.after(3600.0, heard="ac")
    asked = replace(scene.job, spec=replace(scene.job.spec, min_workers=2))
    scene.cluster = replace(scene.cluster, jobs={**scene.cluster.jobs, "j": asked})
    resume(scene)
    scene.after(0.2, heard="ac")
    assert scene.noted("yielding") == []
    scene.after(scene.policy.absent_limit, heard="ac")
    assert [note.job for note in scene.noted("yielding")] == ["k"]


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_lost_as_a_job_was_held_is_not_shown_again(scene, restarted, resumed):
    """Its agent says again what its trainer had when it ended, since a file of it may yet count."""
    scene.running("a", "b", max_restarts=1)
    scene.train("ab", 9)
    file = Checkpoint(Version(0, 6), "/c/void", "sum", 1)
    last = replace(scene.cluster.sightings["a"].trainer, written=(file,))
    pause(scene, hold=True)
    for name in "ab":
        scene.exits(name)
    scene.beat("a", left=(last,))
    scene.after(scene.policy.halt_limit + 1.0, heard="ab")
    assert (scene.job.phase, scene.job.step, scene.job.restarts) == (JobPhase.PAUSED, 0, 1)
    if restarted:
        scene.restart()
        scene.register("a", "b")
    if resumed:
        resume(scene)
    scene.beat("a", left=(last,))
    scene.does(KeepSteps())
    assert scene.job.step == 0
    scene.beat("b")
    scene.prepare("a", "b", incarnation="i2")
    resume(scene)
    scene.halt("ab", None, incarnation="i2")
    assert (scene.job.phase, scene.job.restarts) == (JobPhase.REGROUPING, 1), scene.job.reason


def test_nor_is_what_was_measured_of_it_as_its_agent_connects_anew_and_says_that_once_more(scene):
    """Its optimizer raised in a step: the state is torn, and what counts is the checkpoint of step 4."""
    scene.running("a", checkpoint_every=4)
    file = Checkpoint(Version(1, 4), "/c/j/4", "sum", 1)
    scene.beat("a", TrainerPhase.TRAINING, promised=1, generation=1, version=Version(1, 7), written=(file,))
    points = tuple(StepPoint(step, 1.0, 8.0, 8, 0.1, 0.1) for step in range(7))
    measured = StepsCommitted(job="j", incarnation="i1", generation=1, step=7, points=points)
    assert scene.says("a", measured).points
    pause(scene, hold=True)
    scene.raises("a", step=7, shard=OUTSIDE)
    scene.beat("a", TrainerPhase.HALTED, promised=scene.job.generation, generation=1, version=None)
    assert (scene.job.phase, scene.job.step) == (JobPhase.PAUSED, 4)
    scene.does(Disconnected("a"))
    scene.register("a")
    assert not scene.says("a", measured).points
