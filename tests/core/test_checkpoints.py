"""Checkpoints beside the training: when one counts, and what a total loss then costs."""

from dataclasses import replace

from regroup.core.cluster import behind_all
from regroup.core.jobs import Checkpoint, JobPhase, Member, Version
from regroup.core.messages.agent_reports import Discarded, Heartbeat
from regroup.core.messages.commands import PauseJob, StopJob
from regroup.core.messages.events import Disconnected
from regroup.core.messages.orders import Discard, Heard, Save
from regroup.core.messages.trainer_reports import CheckpointFailed
from regroup.core.workers import TrainerPhase, TrainerStatus


def file(generation, step):
    """Of a checkpoint that counts, and that a wrote."""
    return Checkpoint(Version(generation, step), f"/c/j/g{generation}-s{step}", "sum", 1, "a", host="h")


TOLD = replace(file(1, 4), worker="", host="")  # as its writer tells of it


def writes(scene, name, generation, *steps, at):
    """Its next heartbeat, at this step, says that it wrote the states of other ones."""
    n = scene.job.formation.generation
    # the coordinator knows who tells it
    written = tuple(replace(file(generation, step), worker="", host="") for step in steps)
    scene.beat(name, TrainerPhase.TRAINING, promised=n, generation=n, version=Version(n, at), written=written)


def writes_beyond_what_survived(scene):
    """The next generation begins at the state of step 4; then a tells of one that the last one wrote at step 5."""
    scene.running("a", "b", min_workers=1)
    scene.train("b", 4)
    scene.train("a", 4)
    scene.exits("b")
    scene.halt("a", (1, 4))
    scene.train("a")
    writes(scene, "a", 1, 5, at=4)


def test_a_checkpoint_counts_once_all_members_committed_its_step(scene):
    scene.running("a", "b", checkpoint_every=4)
    writes(scene, "a", 1, 4, at=4)
    assert scene.job.checkpoint is None
    scene.train("b", 3)
    writes(scene, "a", 1, 4, at=4)
    assert scene.job.checkpoint is None
    scene.train("b", 4)
    writes(scene, "a", 1, 4, at=4)
    assert scene.job.checkpoint == file(1, 4)
    (note,) = scene.noted("checkpoint")
    assert note.reason == "the state of step 4 is durable: /c/j/g1-s4"
    writes(scene, "a", 1, 4, at=6)
    assert len(scene.noted("checkpoint")) == 1


def test_a_step_beyond_it_says_that_all_members_made_it_though_one_is_cut_off(scene):
    """Each step takes a part of every member."""
    scene.running("a", "b", min_workers=1, checkpoint_every=4)
    scene.does(Disconnected("b"))
    writes(scene, "a", 1, 4, at=4)
    assert scene.job.checkpoint is None
    writes(scene, "a", 1, 4, at=5)
    assert scene.job.checkpoint == file(1, 4)
    scene.register("a", "b", boot="b2")  # all of their memory is lost
    scene.prepare("a", "b", incarnation="i2")
    scene.halt("a", None, incarnation="i2")
    scene.halt("b", None, incarnation="i2")
    assert scene.job.formation.base == Version(1, 4)


def test_a_checkpoint_counts_as_soon_as_all_committed_its_step_though_its_writer_is_cut_off(scene):
    scene.running("a", "b", checkpoint_every=4)
    writes(scene, "a", 1, 4, at=4)
    scene.does(Disconnected("a"))
    scene.train("b", 4)
    assert scene.job.checkpoint == file(1, 4)
    assert len(scene.noted("checkpoint")) == 1


def test_a_checkpoint_counts_also_of_a_worker_that_was_taken_off_the_job(scene):
    """It hung, was quarantined for that, and is heard again before it is gone: nobody else has its last step."""
    scene.running("a", step=3)
    worker = replace(scene.cluster.workers["a"], job=None, quarantined=True)
    scene.cluster = replace(scene.cluster, workers={"a": worker})
    writes(scene, "a", 1, 4, at=4)
    assert scene.job.checkpoint == file(1, 4)


def test_a_checkpoint_counts_once_the_training_goes_on_from_it_though_its_writer_is_cut_off(scene):
    """b holds step 4, and c was not heard since step 3: whether it made the fourth is known from nobody. Seed 316747"""
    scene.running("a", "b", "c", min_workers=1, checkpoint_every=4)
    scene.does(Disconnected("c"))
    scene.train("b", 4)
    writes(scene, "a", 1, 4, at=4)
    scene.exits("a")
    scene.does(Disconnected("a"))
    assert scene.job.checkpoint is None
    while scene.job.formation.generation == 1:
        scene.halt("b", (1, 4))
        scene.after(1.0, heard="b")
    assert scene.job.formation.base == Version(1, 4)
    assert scene.job.checkpoint == file(1, 4)
    scene.exits("b")
    scene.prepare("b", incarnation="i2")
    while scene.job.formation.generation == 2:
        scene.halt("b", None, incarnation="i2")
        scene.after(1.0, heard="b")
    assert scene.job.formation.base == Version(1, 4)


def settled(scene, name):
    """What the answer to its last heartbeat says of what it told."""
    (heard,) = scene.told(name, Heard)
    return heard.settled


def test_each_file_is_told_until_the_answer_to_a_heartbeat_says_that_it_counts(scene):
    scene.running("a", "b", checkpoint_every=4)
    writes(scene, "a", 1, 4, at=4)
    assert settled(scene, "a") == ()
    scene.train("b", 4)
    writes(scene, "a", 1, 4, 8, at=8)
    assert settled(scene, "a") == ("/c/j/g1-s4",)
    assert scene.job.checkpoint == file(1, 4)


def test_files_that_are_told_together_all_count_the_older_ones_first(scene):
    scene.running("a", "b", checkpoint_every=4, keep_last=2)
    scene.train("b", 12)
    writes(scene, "a", 1, 4, 8, 12, at=12)
    assert (scene.job.kept, scene.job.doomed) == ((file(1, 12), file(1, 8)), (file(1, 4),))
    assert [note.data["step"] for note in scene.noted("checkpoint")] == [4, 8, 12]
    assert settled(scene, "a") == ("/c/j/g1-s4", "/c/j/g1-s8", "/c/j/g1-s12")


def test_a_file_that_was_overtaken_before_it_was_told_is_to_be_deleted(scene):
    """As of who led before, and whose disk is slow."""
    scene.running("a", "b")
    scene.train("ab", 8)
    writes(scene, "a", 1, 8, at=8)
    writes(scene, "b", 1, 4, at=8)
    assert settled(scene, "b") == ("/c/j/g1-s4",)
    assert scene.job.doomed == (replace(file(1, 4), worker="b"),)
    assert [order.paths for order in scene.told("b", Discard)] == [("/c/j/g1-s4",)]
    scene.says("b", Discarded(job="j", paths=("/c/j/g1-s4",)))
    writes(scene, "b", 1, 4, at=8)  # it did not hear the answer
    assert settled(scene, "b") == ("/c/j/g1-s4",)
    assert scene.job.checkpoint == file(1, 8)


def test_a_copy_that_another_one_wrote_of_what_is_to_be_deleted_is_deleted_by_whoever_wrote_it(scene):
    """Where each machine has its own folder both are there; where they share one, it may be written once more."""
    scene.running("a", "b", checkpoint_every=4, keep_last=1)
    scene.train("ab", 8)
    writes(scene, "a", 1, 4, 8, at=8)
    assert scene.job.doomed == (file(1, 4),)
    writes(scene, "b", 1, 4, at=8)
    assert scene.job.doomed == (file(1, 4), replace(file(1, 4), worker="b"))
    assert [order.paths for order in scene.told("b", Discard)] == [("/c/j/g1-s4",)]
    scene.says("a", Discarded(job="j", paths=("/c/j/g1-s4",)))
    assert scene.job.doomed == (replace(file(1, 4), worker="b"),)


def test_a_file_of_which_an_old_heartbeat_tells_is_told_until_a_new_one_is_taken_in(scene):
    """Else nobody would delete it: what the old one told was not taken in."""
    scene.running("a", "b", checkpoint_every=4)
    trainer = replace(scene.cluster.sightings["b"].trainer, written=(replace(file(1, 4), worker=""),))
    scene.train("ab", 8)
    writes(scene, "a", 1, 8, at=8)
    scene.says("b", Heartbeat(boot="b1", sequence=scene.sequence - 1, trainer=trainer))
    assert (settled(scene, "b"), scene.job.doomed) == ((), ())
    writes(scene, "b", 1, 4, at=8)
    assert settled(scene, "b") == ("/c/j/g1-s4",)
    assert scene.job.doomed == (replace(file(1, 4), worker="b"),)


def test_a_file_beyond_what_survived_is_told_until_a_newer_one_counts(scene):
    writes_beyond_what_survived(scene)
    assert (settled(scene, "a"), scene.job.checkpoint, scene.job.doomed) == ((), None, ())
    n = scene.job.formation.generation
    both = (replace(file(1, 5), worker=""), replace(file(n, 8), worker=""))
    scene.beat("a", TrainerPhase.TRAINING, promised=n, generation=n, version=Version(n, 8), written=both)
    assert (scene.job.checkpoint, scene.job.doomed) == (file(n, 8), (file(1, 5),))
    assert settled(scene, "a") == tuple(one.path for one in both)


def test_what_a_coordinator_took_in_and_lost_it_is_told_again(scene):
    scene.running("a", "b", checkpoint_every=4)
    writes(scene, "a", 1, 4, at=4)
    scene.restart()
    scene.register("a", "b")
    scene.train("b", 4)
    writes(scene, "a", 1, 4, at=4)
    assert scene.job.checkpoint == file(1, 4)


def test_after_a_regroup_a_checkpoint_of_before_still_counts_but_not_beyond_the_base(scene):
    writes_beyond_what_survived(scene)
    assert scene.job.checkpoint is None
    writes(scene, "a", 1, 4, at=4)
    assert scene.job.checkpoint == file(1, 4)


def test_an_older_checkpoint_never_takes_the_place_of_a_newer_one(scene):
    scene.running("a", "b")
    scene.train("ab", 8)
    writes(scene, "a", 1, 8, at=8)
    writes(scene, "b", 1, 4, at=8)
    assert scene.job.checkpoint == file(1, 8)


def test_when_all_die_at_once_the_job_goes_on_from_its_last_checkpoint(scene):
    scene.running("a", "b", checkpoint_every=4)
    scene.train("ab", 6)
    writes(scene, "a", 1, 4, at=6)
    for name in "ab":
        scene.exits(name)
    for name in "ab":
        scene.prepare(name, incarnation="i2")
    scene.halt("ab", None, incarnation="i2")
    formation = scene.job.formation
    assert (formation.base, formation.checkpoint) == (Version(1, 4), file(1, 4))
    assert (scene.job.step, scene.job.restarts) == (4, 1)
    (note,) = scene.noted("rolled_back")
    assert note.reason == "the last generation is lost: from the checkpoint of step 4 on a, b"


def last_holder_dies(scene, hold=False, **spec):
    """b died before it told of step 4. a alone holds that by then, so that the file counts of which it told. It waited
    for long, and dies. Its agent tells of the file on."""
    scene.running("a", "b", min_workers=1 if hold else 2, checkpoint_every=4, **spec)
    scene.train("ab", 3)
    writes(scene, "a", 1, 4, at=4)
    if hold:
        scene.does(PauseJob("j", hold=True))
    scene.exits("b")
    scene.halt("a", (1, 4))
    scene.after(1000.0, heard="ab")
    assert "step 4" in scene.job.reason
    assert scene.job.saved == Version(1, 4)
    facts = {"promised": scene.job.generation, "generation": 1, "version": Version(1, 4), "written": (TOLD,)}
    ended = TrainerStatus(job="j", incarnation="i1", phase=TrainerPhase.HALTED, **facts)
    scene.beat("a", left=(ended,))
    scene.exits("a")
    return ended


def test_what_was_told_counts_where_nobody_is_left_that_holds_as_much(scene):
    ended = last_holder_dies(scene, max_restarts=0)
    scene.prepare("a", "b", incarnation="i2", left=(ended,))
    scene.halt("ab", None, "i2")
    assert (scene.job.phase, scene.job.formation.base) == (JobPhase.REGROUPING, Version(1, 4))
    assert scene.job.formation.checkpoint == scene.job.checkpoint == file(1, 4)
    assert not scene.told("a", Discard)


def test_what_was_told_counts_where_all_that_held_a_job_are_gone(scene):
    last_holder_dies(scene, hold=True)
    assert (scene.job.phase, scene.job.checkpoint) == (JobPhase.PAUSED, file(1, 4))
    assert scene.job.reason == "held at step 4; its state is in /c/j/g1-s4"
    assert not scene.noted("lost_state")


def test_what_was_told_counts_where_nobody_is_left_to_pause(scene):
    scene.running("a", "b", checkpoint_every=4)
    scene.train("b", 3)
    writes(scene, "a", 1, 4, at=4)
    scene.does(PauseJob("j"))
    scene.exits("a")
    scene.exits("b")
    scene.after(0.1)
    assert (scene.job.phase, scene.job.checkpoint, scene.job.step) == (JobPhase.PAUSED, file(1, 4), 4)


def test_what_was_told_counts_where_a_user_stops_the_job_at_once(scene):
    scene.running("a", "b", checkpoint_every=4)
    scene.train("b", 3)
    writes(scene, "a", 1, 4, at=4)
    scene.does(StopJob("j", now=True))
    assert (scene.job.phase, scene.job.checkpoint, scene.job.step) == (JobPhase.STOPPED, file(1, 4), 4)


def test_what_was_told_counts_where_the_task_fails_the_job(scene):
    scene.running("a", "b", checkpoint_every=4, min_workers=1)
    scene.train("ab", 3)
    scene.raises("b", 1, 4, 1)
    scene.breaks("a", 1)
    scene.halt("ab", (1, 3))
    scene.train("ab", 3)
    writes(scene, "a", 2, 4, at=4)
    scene.raises("a", 2, 4, 1)
    assert (scene.job.phase, scene.job.checkpoint) == (JobPhase.FAILED, file(2, 4))


def test_what_was_told_counts_once_all_are_known_dead_though_the_job_waits(scene):
    scene.running("a", "b", checkpoint_every=4)
    scene.train("b", 3)
    writes(scene, "a", 1, 4, at=4)
    scene.exits("a")
    assert scene.job.checkpoint is None
    scene.exits("b")
    assert (scene.job.phase, scene.job.checkpoint) == (JobPhase.WAITING, file(1, 4))


def test_what_was_told_does_not_count_where_somebody_goes_on_with_less(scene):
    scene.running("a", "b", min_workers=1, checkpoint_every=4)
    scene.train("b", 3)
    writes(scene, "a", 1, 4, at=4)
    scene.exits("a")
    scene.halt("b", (1, 3))
    assert (scene.job.formation.base, scene.job.checkpoint) == (Version(1, 3), None)


def test_a_checkpoint_that_could_not_be_written_is_told_and_the_training_goes_on(scene):
    scene.running("a", "b")
    failed = CheckpointFailed(job="j", incarnation="i1", step=4, error="OSError: disk full")
    scene.says("a", failed)
    (note,) = scene.noted("checkpoint_failed")
    assert note.reason == "a could not write the checkpoint of step 4, and trains on: OSError: disk full"
    assert (scene.job.phase, scene.job.round) == (JobPhase.RUNNING, None)


def test_to_pause_right_at_a_checkpoint_needs_no_other_one(scene):
    scene.running("a", "b", checkpoint_every=4)
    scene.train("ab", 4)
    writes(scene, "a", 1, 4, at=4)
    scene.does(PauseJob("j"))
    scene.halt("ab", (1, 4))
    assert (scene.job.phase, scene.job.checkpoint) == (JobPhase.PAUSED, file(1, 4))
    assert scene.told("a", Save) == []


def test_a_checkpoint_that_is_told_after_the_end_is_to_be_deleted(scene):
    scene.finished("a", "b")
    saver = scene.job.saver.worker
    scene.saved(saver, (1, 10))
    assert scene.job.phase is JobPhase.COMPLETED
    n = scene.job.generation
    scene.beat("a", TrainerPhase.HALTED, promised=n, generation=1, version=Version(1, 10), written=(file(1, 8),))
    assert scene.job.checkpoint.version == Version(1, 10)
    assert scene.job.doomed == (file(1, 8),)
    assert settled(scene, "a") == ("/c/j/g1-s8",)
    assert [order.paths for order in scene.told("a", Discard)] == [("/c/j/g1-s8",)]


def test_a_write_that_ends_is_no_sign_of_a_step_loop_that_hangs(scene):
    """Its trainer promised, and does not come back; meanwhile a copy that it took before was written."""
    scene.running("a", "b")
    scene.train("ab", 6)
    scene.breaks("b", 1)
    n = scene.job.generation
    stuck = {"promised": n, "generation": 1, "version": Version(1, 6), "at_work": True}
    scene.beat("a", TrainerPhase.HALTED, **stuck)
    moved = scene.cluster.sightings["a"].moved
    scene.passes(1.0, "ab")
    scene.beat("a", TrainerPhase.HALTED, **stuck, written=(file(1, 4),))
    assert scene.cluster.sightings["a"].moved == moved
    assert scene.job.checkpoint == file(1, 4)


def test_a_file_that_a_dead_trainer_left_counts_with_the_steps_that_it_had_made(scene):
    """All died while nobody heard them; what its agent tells of them is taken in before their deaths are."""
    scene.running("a", "b", checkpoint_every=4)
    ran = scene.cluster.sightings["a"].trainer
    scene.train("b", 6)
    scene.restart()
    scene.register("b")
    scene.train("b", 6)
    scene.register("a")
    last = replace(ran, version=Version(1, 5), written=(replace(file(1, 4), worker="", host=""),))
    scene.beat("a", left=(last,))
    assert settled(scene, "a") == ("/c/j/g1-s4",)
    assert scene.job.checkpoint == file(1, 4)
    assert scene.dead("a")


def test_what_a_dead_trainer_left_is_answered_only_once_the_job_names_it_though_a_newer_one_counts(scene):
    """Else nobody would delete it."""
    writes_beyond_what_survived(scene)
    (mine,), n = scene.job.formation.members, scene.job.formation.generation
    ended = replace(scene.cluster.trainer(mine), incarnation="i0", written=(replace(file(1, 5), worker="", host=""),))
    newer = (replace(file(n, 8), worker="", host=""),)
    facts = {"promised": n, "generation": n, "version": Version(n, 8), "written": newer}
    scene.beat("a", TrainerPhase.TRAINING, left=(ended,), **facts)
    assert (settled(scene, "a"), scene.job.doomed) == ((newer[0].path,), ())
    scene.beat("a", TrainerPhase.TRAINING, left=(ended,), **facts)
    assert (settled(scene, "a"), scene.job.doomed) == (("/c/j/g1-s5", newer[0].path), (file(1, 5),))


def test_what_is_behind_all_is_not_counted_without_an_evicted_trainer_that_lives(scene):
    scene.running("a", "b", min_workers=1)
    scene.train("a", 5)
    scene.train("b", 3)
    watch, b = scene.cluster.watches["j"], Member("b", "i1")
    assert behind_all(scene.job, replace(watch, evicted=frozenset({b}))) == 4
    assert behind_all(scene.job, replace(watch, dead={b: "killed"})) == 5
