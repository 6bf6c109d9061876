"""Checkpoints beside the training: when one counts, and what a total loss then costs."""

from dataclasses import replace

from regroup.core.jobs import Checkpoint, JobPhase, Version
from regroup.core.messages.commands import PauseJob
from regroup.core.messages.orders import Heard, Save
from regroup.core.messages.trainer_reports import CheckpointFailed
from regroup.core.workers import TrainerPhase


def file(generation, step):
    """Of a checkpoint that counts, and that a wrote."""
    return Checkpoint(Version(generation, step), f"/c/j/g{generation}-s{step}", "sum", 1, "a", host="h")


def writes(scene, name, generation, step, at):
    """Its next heartbeat, at this step, says that it wrote the state of another one."""
    n = scene.job.formation.generation
    written = replace(file(generation, step), worker="", host="")  # the coordinator knows who tells it
    scene.beat(name, TrainerPhase.TRAINING, promised=n, generation=n, version=Version(n, at), written=written)


def test_a_checkpoint_counts_once_all_members_committed_its_step(scene):
    scene.running("a", "b", checkpoint_every=4)
    writes(scene, "a", 1, 4, at=5)
    assert scene.job.checkpoint is None
    scene.train("b", 3)
    writes(scene, "a", 1, 4, at=5)
    assert scene.job.checkpoint is None
    scene.train("b", 4)
    writes(scene, "a", 1, 4, at=5)
    assert scene.job.checkpoint == file(1, 4)
    (note,) = scene.noted("checkpoint")
    assert note.reason == "the state of step 4 is durable: /c/j/g1-s4"
    writes(scene, "a", 1, 4, at=6)
    assert len(scene.noted("checkpoint")) == 1


def test_the_answer_to_a_heartbeat_names_the_newest_checkpoint_that_counts(scene):
    """Else its writer could not know when it may write the next one."""
    scene.running("a", "b", checkpoint_every=4)
    writes(scene, "a", 1, 4, at=4)
    assert scene.told("a", Heard) == [Heard(scene.sequence, 1, None)]
    scene.train("b", 4)
    writes(scene, "a", 1, 4, at=5)
    assert scene.told("a", Heard) == [Heard(scene.sequence, 1, Version(1, 4))]


def test_what_a_coordinator_took_in_and_lost_it_is_told_again(scene):
    scene.running("a", "b", checkpoint_every=4)
    writes(scene, "a", 1, 4, at=4)
    scene.restart()
    scene.register("a", "b")
    scene.train("b", 4)
    writes(scene, "a", 1, 4, at=4)
    assert scene.job.checkpoint == file(1, 4)


def test_after_a_regroup_a_checkpoint_of_before_still_counts_but_not_beyond_the_base(scene):
    scene.running("a", "b", min_workers=1)
    scene.train("b", 4)
    scene.train("a", 4)
    scene.exits("b")
    scene.halt("a", (1, 4))
    scene.train("a")
    writes(scene, "a", 1, 5, at=4)
    assert scene.job.checkpoint is None
    writes(scene, "a", 1, 4, at=4)
    assert scene.job.checkpoint == file(1, 4)


def test_an_older_checkpoint_never_takes_the_place_of_a_newer_one(scene):
    scene.running("a", "b")
    for name in "ab":
        scene.train(name, 8)
    writes(scene, "a", 1, 8, at=8)
    writes(scene, "b", 1, 4, at=8)
    assert scene.job.checkpoint == file(1, 8)


def test_when_all_die_at_once_the_job_goes_on_from_its_last_checkpoint(scene):
    scene.running("a", "b", checkpoint_every=4)
    for name in "ab":
        scene.train(name, 6)
    writes(scene, "a", 1, 4, at=6)
    for name in "ab":
        scene.exits(name)
    for name in "ab":
        scene.prepare(name, incarnation="i2")
    for name in "ab":
        scene.halt(name, None, incarnation="i2")
    formation = scene.job.formation
    assert (formation.base, formation.checkpoint) == (Version(1, 4), file(1, 4))
    assert (scene.job.step, scene.job.restarts) == (4, 1)
    (note,) = scene.noted("rolled_back")
    assert note.reason == "the last generation is lost: from the checkpoint of step 4 on a, b"


def test_a_checkpoint_that_could_not_be_written_is_told_and_the_training_goes_on(scene):
    scene.running("a", "b")
    failed = CheckpointFailed(job="j", incarnation="i1", step=4, error="OSError: disk full")
    scene.says("a", failed)
    (note,) = scene.noted("checkpoint_failed")
    assert note.reason == "a could not write the checkpoint of step 4, and trains on: OSError: disk full"
    assert (scene.job.phase, scene.job.round) == (JobPhase.RUNNING, None)


def test_to_pause_right_at_a_checkpoint_needs_no_other_one(scene):
    scene.running("a", "b", checkpoint_every=4)
    for name in "ab":
        scene.train(name, 4)
    writes(scene, "a", 1, 4, at=4)
    scene.does(PauseJob("j"))
    for name in "ab":
        scene.halt(name, (1, 4))
    assert (scene.job.phase, scene.job.checkpoint) == (JobPhase.PAUSED, file(1, 4))
    assert scene.told("a", Save) == []


def test_a_checkpoint_that_is_told_after_the_end_changes_nothing(scene):
    scene.finished("a", "b")
    saver = scene.job.saver.worker
    scene.saved(saver, (1, 10))
    assert scene.job.phase is JobPhase.COMPLETED
    n = scene.job.generation
    scene.beat("a", TrainerPhase.HALTED, promised=n, generation=1, version=Version(1, 10), written=file(1, 8))
    assert scene.job.checkpoint.version == Version(1, 10)


def test_a_write_that_ends_is_no_sign_of_a_step_loop_that_hangs(scene):
    """Its trainer promised, and does not come back; meanwhile a copy that it took before was written."""
    scene.running("a", "b")
    for name in "ab":
        scene.train(name, 6)
    scene.breaks("b", 1)
    n = scene.job.generation
    stuck = {"promised": n, "generation": 1, "version": Version(1, 6), "at_work": True}
    scene.beat("a", TrainerPhase.HALTED, **stuck)
    moved = scene.cluster.sightings["a"].moved
    scene.passes(1.0, "ab")
    scene.beat("a", TrainerPhase.HALTED, **stuck, written=file(1, 4))
    assert scene.cluster.sightings["a"].moved == moved
    assert scene.job.checkpoint == file(1, 4)
