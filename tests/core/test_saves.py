"""What the task's own code does to a save: its state() raises, its report() dies or hangs; and who does not wait."""

from dataclasses import replace
from itertools import pairwise

import pytest

from regroup.core.cluster import Rest
from regroup.core.jobs import IN_REPORT, IN_STATE, Checkpoint, JobPhase, Version
from regroup.core.messages.agent_reports import Heartbeat, TrainerExited
from regroup.core.messages.commands import PauseJob, ResumeJob, StopJob
from regroup.core.messages.events import Disconnected
from regroup.core.messages.orders import Discard, Heard, Kill, Release, Save
from regroup.core.messages.trainer_reports import SaveFailed, StateSaved
from regroup.core.workers import Hang, LoopPhase, TrainerPhase, TrainerStatus

FILE = Checkpoint(Version(1, 10), "/c/j", "sum", 1)


def writes(scene, name, hang=None, version=(1, 10), **more):
    """Its heartbeat says that it saves, or, with `written`, that it asks the task for its report."""
    known = scene.cluster.sightings[name].trainer
    facts = {"phase": TrainerPhase.SAVING, "promised": scene.job.generation, "version": Version(*version)}
    trainer = replace(known, **facts, at_work=True, **more)
    scene.sequence += 1
    boot = scene.cluster.workers[name].boot
    scene.says(name, Heartbeat(boot=boot, sequence=scene.sequence, trainer=trainer, hang=hang))


def dies(scene, name, shard, step=10, cause="killed by SIGSEGV", incarnation="i1", asked=False):
    told = {"job": "j", "incarnation": incarnation, "cause": cause, "asked": asked, "step": step, "shard": shard}
    scene.says(name, TrainerExited(**told))


def raises(scene, name, incarnation="i1"):
    told = {"error": "ValueError: no", "traceback": "Traceback ...\nValueError: no"}
    scene.says(name, SaveFailed(job="j", incarnation=incarnation, generation=scene.job.generation, **told))


def hangs(phase):
    return Hang(phase=phase, lasts=60.5, limit=60.0)


def answer_again(scene, *names):
    scene.after(scene.policy.save_retry + 0.1, heard="".join(names))
    scene.halt(names, (1, 10))


# --- A report that kills its process


def test_what_was_written_as_ordered_counts_before_the_report_is_over(scene):
    scene.finished("a", "b")
    writes(scene, "a", written=(FILE,))
    assert scene.job.checkpoint == replace(FILE, worker="a", host="h")
    assert (scene.job.phase, scene.job.saver.worker) == (JobPhase.RUNNING, "a")
    assert [note.reason for note in scene.noted("checkpoint")] == ["the state of step 10 is durable: /c/j"]


def test_a_report_that_kills_two_workers_fails_the_job_with_its_state_durable_and_blames_nobody(scene):
    scene.finished("a", "b")
    writes(scene, "a", written=(FILE,))
    dies(scene, "a", IN_REPORT)
    scene.halt("b", (1, 10))
    assert scene.told("b", Save) == [Save("j", scene.job.generation, Version(1, 10))]
    writes(scene, "b", written=(FILE,))
    dies(scene, "b", IN_REPORT)
    assert (scene.job.phase, scene.job.step, scene.job.restarts) == (JobPhase.FAILED, 10, 0)
    assert scene.job.reason == (
        "the task failed in step 10, in its report() on a, b: killed by SIGSEGV; "
        "what is durable is the state of step 10, in /c/j"
    )
    assert scene.job.checkpoint.path == "/c/j"
    assert [worker.errors for worker in scene.cluster.workers.values()] == [0, 0]


def test_a_final_state_that_is_durable_and_held_by_nobody_is_read_for_its_report_and_not_trained_again(scene):
    scene.finished("a")
    writes(scene, "a", written=(FILE,))
    dies(scene, "a", IN_REPORT)
    scene.prepare("a", incarnation="i2")
    scene.after(scene.policy.halt_limit)
    scene.halt("a", None, incarnation="i2")
    assert scene.job.formation.base == Version(1, 10)
    assert scene.job.formation.checkpoint.path == "/c/j"
    assert (scene.job.step, scene.job.restarts) == (10, 0)
    n = scene.job.generation
    scene.train("a", incarnation="i2")
    scene.beat("a", TrainerPhase.FINISHED, "i2", promised=n, generation=n, version=Version(n, 10))
    scene.halt("a", (n, 10), incarnation="i2")
    assert scene.job.saver.incarnation == "i2"
    dies(scene, "a", IN_REPORT, incarnation="i2")
    assert scene.job.phase is JobPhase.FAILED
    assert scene.cluster.workers["a"].errors == 0


def test_a_job_that_stops_ends_with_what_is_durable_when_its_report_dies(scene):
    scene.running("a", "b", step=4)
    scene.does(StopJob("j"))
    scene.halt("ab", (1, 4))
    writes(scene, "a", version=(1, 4), written=(replace(FILE, version=Version(1, 4)),))
    dies(scene, "a", IN_REPORT, step=4)
    scene.halt("b", (1, 4))
    assert (scene.job.phase, scene.job.step) == (JobPhase.STOPPED, 4)
    assert scene.job.reason == "stopped at step 4; its state is in /c/j"


def test_another_file_than_the_one_that_was_ordered_does_not_count_at_once(scene):
    scene.finished("a", "b")
    writes(scene, "b", written=(replace(FILE, version=Version(1, 11)),))
    assert scene.job.checkpoint is None


def test_a_save_that_comes_off_after_it_was_said_to_have_failed_counts(scene):
    """The order came twice, and only its first try failed. Of the last step b never told that it committed it."""
    scene.running("a", "b", step=9)
    scene.beat("a", TrainerPhase.FINISHED, promised=1, generation=1, version=Version(1, 10))
    scene.exits("b")
    scene.halt("a", (1, 10))
    assert scene.job.saver.worker == "a"
    failed = {"job": "j", "incarnation": "i1", "generation": scene.job.generation, "error": "OSError: disk full"}
    scene.says("a", SaveFailed(**failed))
    assert scene.job.saver is None
    writes(scene, "a", written=(FILE,))
    assert scene.job.checkpoint == replace(FILE, worker="a", host="h")
    dies(scene, "a", IN_REPORT)
    assert (scene.job.ended, scene.job.saved) == (False, Version(1, 10))


def test_a_save_that_ends_after_it_was_given_up_counts_as_well_for_a_job_that_rests(scene):
    """It took too long; and nobody else holds that state any more when the word of it comes."""
    scene.running("a", "b", step=3)
    scene.does(PauseJob("j"))
    scene.halt("ab", (1, 3))
    given_up = scene.job.generation
    scene.after(scene.job.spec.step_timeout + 0.1, heard="ab")
    assert (scene.job.saver, scene.job.reason) == (None, "a did not save in 60 s")
    scene.exits("b")
    scene.saved("a", (1, 3), generation=given_up)
    assert (scene.job.ended, scene.job.checkpoint.version) == (False, Version(1, 3))
    scene.halt("a", (1, 3))
    assert (scene.job.phase, scene.job.reason) == (JobPhase.PAUSED, "paused at step 3; its state is in /c/j")


def test_a_newer_state_that_came_off_late_is_not_replaced_by_an_older_one(scene):
    """a was given up, and cut off; b was to save what it had, and then it was heard that a had written all."""
    scene.running("a", "b", step=5, min_workers=1, steps=100, keep_last=1)
    scene.does(Disconnected("b"))
    scene.breaks("a", 1)
    scene.halt("a", (1, 5))
    scene.train("a", 8)
    scene.does(StopJob("j"))
    scene.halt("a", (2, 8))
    scene.register("b")
    scene.beat("b", TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, 6))
    scene.after(scene.job.spec.step_timeout + 0.1, heard="ab")
    assert scene.job.reason == "a did not save in 60 s"
    scene.does(Disconnected("a"))
    scene.halt("b", (1, 6))
    scene.after(scene.policy.absent_limit + 0.1, heard="b")
    assert (scene.job.saver.worker, scene.job.step) == ("b", 6)
    scene.register("a")
    written = (replace(FILE, version=Version(2, 8)),)
    scene.beat("a", TrainerPhase.HALTED, promised=3, generation=2, version=Version(2, 8), written=written)
    assert scene.job.saved == Version(2, 8)
    scene.saved("b", (1, 6))
    assert (scene.job.saved, scene.job.doomed) == (Version(2, 8), ())
    scene.after(scene.policy.save_retry + 0.1, heard="ab")
    scene.halt("a", (2, 8))
    scene.halt("b", (1, 6))
    assert (scene.job.phase, scene.job.step) == (JobPhase.STOPPED, 8)
    assert scene.job.reason == "stopped at step 8; its state is in /c/j"


def test_what_the_saver_wrote_before_counts_with_what_it_saves(scene):
    """Else it would be deleted, as files are that were overtaken before anybody told of them."""
    scene.running("a", "b", step=3, keep_last=2)
    scene.does(StopJob("j"))
    scene.halt("a", (1, 6))
    scene.halt("b", (1, 6))
    older = replace(FILE, version=Version(1, 5), path="/c/older")
    writes(scene, "a", version=(1, 6), written=(older, replace(FILE, version=Version(1, 6))))
    assert [one.path for one in scene.job.kept] == ["/c/j", "/c/older"]
    assert scene.job.doomed == ()


@pytest.mark.parametrize(("wrote", "step"), [(3, 4), (3, 5), (4, 5)])
def test_what_was_told_before_counts_once_it_or_what_came_from_it_is_to_be_saved(scene, wrote, step):
    """Whoever told may be gone before it tells again."""
    scene.running("a", "b", step=2)
    scene.does(PauseJob("j"))
    file = replace(FILE, version=Version(1, wrote))
    scene.beat("a", TrainerPhase.TRAINING, version=Version(1, 3), written=(file,))
    assert scene.job.checkpoint is None
    scene.exits("b")
    scene.halt("a", (1, step))
    assert scene.job.saver.worker == "a"
    assert scene.job.saved == Version(1, wrote)


def test_what_was_told_beyond_what_is_to_be_saved_does_not_count(scene):
    scene.running("a", "b", step=3)
    scene.does(PauseJob("j"))
    scene.beat("a", TrainerPhase.TRAINING, version=Version(1, 4), written=(replace(FILE, version=Version(1, 4)),))
    scene.exits("a")
    scene.halt("b", (1, 3))
    assert scene.job.saver.worker == "b"
    assert scene.job.checkpoint is None


def test_what_was_written_beyond_the_last_base_counts_for_no_job(scene):
    """a made step 4 of generation 1, and the others went on from step 3 without it; it is back, and promised."""
    scene.running("a", "b", step=3, min_workers=1)
    scene.does(Disconnected("a"))
    scene.breaks("b", 1)
    scene.halt("b", (1, 3))
    scene.train("b", 4)
    scene.does(PauseJob("j"))
    scene.register("a")
    file = replace(FILE, version=Version(1, 4))
    scene.prepare("a", promised=scene.job.generation, generation=1, version=Version(1, 4), written=(file,))
    assert scene.job.checkpoint is None


def test_a_step_that_not_all_committed_does_not_count_while_the_job_trains_on(scene):
    scene.running("a", "b", step=3)
    scene.breaks("b", 1)
    writes(scene, "a", version=(1, 4), written=(replace(FILE, version=Version(1, 4)),))
    assert scene.job.round is not None
    assert scene.job.checkpoint is None


def test_the_last_step_does_not_count_before_all_committed_it(scene):
    scene.running("a", "b", step=9)
    told = {"promised": 1, "generation": 1, "version": Version(1, 10), "written": (FILE,)}
    scene.beat("a", TrainerPhase.FINISHED, **told)
    assert scene.job.checkpoint is None


# --- A state() that dies, or raises


def test_a_state_that_kills_its_process_at_whatever_steps_is_the_tasks_error(scene):
    scene.running("a", "b", step=3, min_workers=1)
    dies(scene, "a", IN_STATE, step=3)
    assert not scene.job.ended
    dies(scene, "b", IN_STATE, step=5)
    assert scene.job.reason == (
        "the task failed in step 5, in its state() on a, b: killed by SIGSEGV; nothing of its training is durable"
    )
    assert [worker.errors for worker in scene.cluster.workers.values()] == [0, 0]


def test_a_state_that_raises_on_two_workers_fails_the_job_with_its_traceback(scene):
    scene.finished("a", "b")
    raises(scene, "a")
    assert scene.job.reason == "a could not save, another try follows: ValueError: no"
    answer_again(scene, "a", "b")
    raises(scene, "b")
    assert scene.job.phase is JobPhase.FAILED
    assert scene.job.reason.startswith("the task failed in step 10, in its state() on a, b: ValueError: no; ")
    assert scene.job.error == "Traceback ...\nValueError: no"


def test_a_state_that_raises_again_where_there_is_no_other_worker_fails_the_job(scene):
    scene.finished("a")
    raises(scene, "a")
    answer_again(scene, "a")
    raises(scene, "a")
    assert scene.job.phase is JobPhase.FAILED


def test_a_state_that_came_off_since_is_not_blamed_for_what_it_did_before(scene):
    def pauses(incarnation, *version, often):
        scene.does(PauseJob("j"))
        scene.halt("a", version, incarnation)
        for _ in range(often):
            raises(scene, "a", incarnation)
            scene.after(scene.policy.save_retry + 0.1, heard="a")
            scene.halt("a", version, incarnation)
        written = replace(FILE, version=Version(*version), path=f"/c/{version[1]}")
        told = {"job": "j", "incarnation": incarnation, "generation": scene.job.generation}
        scene.says("a", StateSaved(checkpoint=written, **told))
        scene.exits("a", incarnation=incarnation, asked=True)
        scene.beat("a")

    def goes_on(incarnation, step):
        scene.does(ResumeJob("j"))
        scene.prepare("a", incarnation=incarnation)
        scene.halt("a", None, incarnation)
        scene.train("a", incarnation=incarnation)
        scene.train("a", step, incarnation)
        return scene.job.formation.generation

    scene.running("a", step=3)
    pauses("i1", 1, 3, often=1)
    assert (scene.job.phase, scene.job.saved.step, scene.job.failures) == (JobPhase.PAUSED, 3, ())
    pauses("i2", goes_on("i2", 5), 5, often=1)
    assert (scene.job.phase, scene.job.saved.step) == (JobPhase.PAUSED, 5)
    pauses("i3", goes_on("i3", 7), 7, often=2)  # twice at one save is the task's error
    assert (scene.job.phase, scene.job.saved.step) == (JobPhase.FAILED, 5)


def test_a_file_beside_the_training_shows_too_that_state_came_off(scene):
    scene.running("a", "b", step=3, min_workers=1)
    dies(scene, "a", IN_STATE, step=3)
    assert scene.job.failures
    scene.halt("b", (1, 3))
    scene.train("b")
    generation = scene.job.formation.generation
    scene.train("b", 4)
    state = (generation, 4)
    facts = {"promised": generation, "generation": generation, "version": Version(*state)}
    scene.beat("b", TrainerPhase.TRAINING, **facts, written=(replace(FILE, version=Version(*state)),))
    assert scene.job.saved == Version(*state)
    assert scene.job.failures == ()


def test_a_storage_that_fails_is_nobodys_error_however_often(scene):
    scene.finished("a")
    for _ in range(6):
        failed = SaveFailed(job="j", incarnation="i1", generation=scene.job.generation, error="disk full")
        scene.says("a", failed)
        answer_again(scene, "a")
    assert not scene.job.ended
    assert scene.job.failures == ()


# --- One that hangs


def test_who_hangs_in_its_report_is_left_for_another_and_evicted(scene):
    scene.finished("a", "b")
    scene.passes(scene.policy.halt_limit, heard="ab")
    writes(scene, "a", written=(FILE,), hang=hangs(LoopPhase.REPORT))
    reason = "a hangs in phase report since 60.5 s (limit 60.0 s), and was to save"
    assert (scene.job.reason, scene.job.saver) == (reason, None)
    n = scene.job.generation
    writes(scene, "a", hang=hangs(LoopPhase.REPORT), written=(FILE,))
    scene.halt("b", (1, 10))
    stuck = replace(scene.cluster.sightings["a"].trainer, phase=TrainerPhase.HALTED, promised=n)
    scene.sequence += 1
    hang = hangs(LoopPhase.REPORT)
    scene.says("a", Heartbeat(boot="b1", sequence=scene.sequence, trainer=stuck, hang=hang))
    scene.after(1.1, heard="ab")
    assert [note.worker for note in scene.noted("evicted")] == ["a"]
    assert scene.job.saver.worker == "b"
    assert scene.told("a", Kill)


def test_who_hangs_in_the_evaluation_that_it_ends_alone_is_left_for_another(scene):
    scene.finished("a", "b")
    writes(scene, "a", hang=hangs(LoopPhase.LONE_EVALUATION))
    reason = "a hangs in phase lone evaluation since 60.5 s (limit 60.0 s), and was to save"
    assert (scene.job.reason, scene.job.saver) == (reason, None)


def test_who_tells_that_its_evaluation_goes_on_is_waited_for_from_then_on(scene):
    scene.finished("a", "b")
    facts = {"promised": scene.job.generation, "generation": 1, "version": Version(1, 10), "at_work": True}
    scene.beat("b", TrainerPhase.HALTED, evaluated=5, **facts)  # which says nothing of a
    for chunks in (1, 2, 3):
        scene.after(scene.job.spec.step_timeout - 1.0, heard="ab")
        scene.beat("a", TrainerPhase.SAVING, evaluated=chunks, **facts)
    scene.after(scene.job.spec.step_timeout, heard="ab")
    assert scene.job.saver.worker == "a"
    scene.after(1.0, heard="ab")
    assert scene.job.reason == f"a did not save in {scene.job.spec.step_timeout:g} s"


def stuck_alone(scene, written, asked=True, said=TrainerPhase.HALTED):
    """The only holder hangs in its save, and its promise is not told. `asked`: this coordinator knows that it saves;
    `said`: the phase that its heartbeat tells of."""
    scene.finished("a")
    scene.passes(scene.job.spec.step_timeout, heard="a")
    phase = LoopPhase.REPORT if written else LoopPhase.STATE
    writes(scene, "a", written=written, hang=hangs(phase))
    if not asked:
        watch = replace(scene.cluster.watches["j"], failed_savers=())
        scene.cluster = replace(scene.cluster, watches={"j": watch})
    trainer = replace(scene.cluster.sightings["a"].trainer, phase=said, promised=scene.job.generation)
    scene.sequence += 1
    scene.says("a", Heartbeat(boot="b1", sequence=scene.sequence, trainer=trainer, hang=hangs(phase)))
    scene.after(scene.policy.halt_limit + 0.1, heard="a")
    return [note.worker for note in scene.noted("evicted")]


@pytest.mark.parametrize("said", [TrainerPhase.HALTED, TrainerPhase.SAVING])
def test_who_alone_holds_a_state_that_is_durable_is_not_spared_when_it_hangs_in_its_report(scene, said):
    assert stuck_alone(scene, written=(FILE,), said=said) == ["a"]


def test_another_coordinator_does_not_spare_it_either_although_it_asked_nobody_to_save(scene):
    assert stuck_alone(scene, written=(FILE,), asked=False) == ["a"]


def test_who_alone_holds_a_state_is_spared_for_the_detached_limit_when_it_hangs_in_its_state(scene):
    assert stuck_alone(scene, written=()) == []
    scene.after(scene.policy.detached_limit, heard="a")
    assert [note.worker for note in scene.noted("evicted")] == ["a"]


def test_a_storage_that_takes_long_is_no_hang(scene):
    scene.finished("a", "b")
    writes(scene, "a", hang=Hang(phase=LoopPhase.SAVING, lasts=5.0, limit=4.0))
    assert scene.job.saver.worker == "a"


def test_a_report_has_its_own_time_once_the_state_is_durable(scene):
    scene.finished("a", "b")
    scene.passes(scene.job.spec.step_timeout - 1.0, heard="ab")
    writes(scene, "a", written=(FILE,))
    scene.after(2.0, heard="ab")
    assert scene.job.saver.worker == "a"
    scene.after(scene.job.spec.step_timeout, heard="ab")
    assert scene.job.reason == f"a did not save in {scene.job.spec.step_timeout:g} s"


# --- Who does not wait


def test_to_stop_at_once_ends_with_what_is_durable_and_says_what_is_given_up(scene):
    scene.running("a", "b", step=7)
    settled = replace(scene.job, checkpoint=replace(FILE, version=Version(1, 4)))
    scene.cluster = replace(scene.cluster, jobs={"j": settled})
    scene.does(StopJob("j", now=True))
    assert (scene.job.phase, scene.job.step) == (JobPhase.STOPPED, 4)
    assert scene.job.reason == (
        "stopped at once, at step 4; its state is in /c/j; what its workers held of step 7 is given up, "
        "as its user asked"
    )
    assert [note.data["base_step"] for note in scene.noted("rolled_back")] == [4]
    assert scene.told("a", Release) == [Release("j")]


def test_to_stop_at_once_ends_a_stop_that_cannot_be_saved(scene):
    scene.running("a", step=3)
    scene.does(StopJob("j"))
    scene.halt("a", (1, 3))
    scene.says("a", SaveFailed(job="j", incarnation="i1", generation=scene.job.generation, error="disk full"))
    scene.does(StopJob("j"))
    assert not scene.job.ended
    scene.does(StopJob("j", now=True))
    assert (scene.job.phase, scene.job.step, scene.job.checkpoint) == (JobPhase.STOPPED, 3, None)
    assert scene.job.reason.startswith("stopped at once, without a checkpoint; what its workers held of step 3 ")


def test_a_file_that_is_told_of_after_a_pause_closed_its_generation_does_not_count(scene):
    """It was said then what is left; and how far the job is must not change while it rests."""
    scene.running("a", checkpoint_every=4)
    scene.train("a", 4)
    one = replace(FILE, version=Version(1, 4), worker="")
    scene.beat("a", TrainerPhase.TRAINING, promised=1, generation=1, version=Version(1, 4), written=(one,))
    assert scene.job.saved == Version(1, 4)
    scene.exits("a")
    scene.prepare("a", incarnation="i2")
    scene.halt("a", None, "i2")
    scene.train("a", incarnation="i2")
    n = scene.job.generation
    scene.does(PauseJob("j"))
    scene.exits("a", "i2")
    assert (scene.job.phase, scene.job.saved) == (JobPhase.PAUSED, Version(1, 4))
    late = replace(one, version=Version(n, 4), path="/c/late")
    told = {"promised": n + 1, "generation": n, "version": Version(n, 4), "written": (late,)}
    scene.beat("a", TrainerPhase.HALTED, "i2", **told)
    assert scene.job.saved == Version(1, 4)


def test_a_report_that_takes_its_time_is_not_given_up_for_a_connection_that_was_lost(scene):
    """Its file counts, its agent says nothing of a hang, and step_timeout is not over."""
    scene.finished("a")
    scene.passes(50.0, heard="a")  # the last evaluation
    writes(scene, "a", written=(FILE,))
    assert scene.job.saved == Version(1, 10)
    scene.passes(15.0, heard="a")  # of its report
    scene.does(Disconnected("a"))
    scene.after(scene.policy.halt_limit + 0.1)
    scene.register("a")
    known = scene.cluster.sightings["a"].trainer
    for _ in range(8):
        scene.sequence += 1
        trainer = replace(known, phase=TrainerPhase.HALTED, promised=scene.job.generation, at_work=True)
        scene.says("a", Heartbeat(boot="b1", sequence=scene.sequence, trainer=trainer))
        scene.after(1.0, heard="a")
    assert scene.noted("evicted") == []


def test_a_saver_that_writes_for_long_is_not_given_up_for_a_connection_that_is_lost_for_a_moment(scene):
    scene.finished("a", "b")
    scene.passes(2 * scene.policy.halt_limit, heard="ab")
    scene.does(Disconnected("a"))
    scene.after(1.0, heard="b")
    assert scene.job.saver.worker == "a"
    scene.after(scene.policy.halt_limit, heard="b")
    assert scene.job.saver is None
    assert scene.job.reason == "a is gone and did not save: another member will"


# --- A saver that ended while nobody heard it


def left(scene, name="a", file=FILE):
    """What its agent, which is back, tells of a trainer that saved as it was asked, and ended."""
    known = scene.cluster.sightings[name].trainer
    last = replace(known, phase=TrainerPhase.HALTED, promised=scene.job.generation, version=file.version)
    return replace(last, written=(file,))


def rests_and_saves(scene, *names):
    """A job that is to pause after step 3; a is to save that."""
    scene.running(*names, min_workers=1)
    scene.train(names, 3)
    scene.does(PauseJob("j"))
    scene.halt(names, (1, 3))
    assert scene.job.saver.worker == "a"
    return replace(FILE, version=Version(1, 3))


def test_what_a_trainer_saved_that_ended_unheard_counts_before_its_end_does(scene):
    last = left(scene, file=rests_and_saves(scene, "a"))
    scene.does(Disconnected("a"))
    scene.register("a")
    scene.beat("a", left=(last,))
    assert (scene.job.phase, scene.job.step, scene.job.saved) == (JobPhase.PAUSED, 3, Version(1, 3))
    assert scene.job.checkpoint == replace(FILE, version=Version(1, 3), worker="a", host="h")
    (heard,) = scene.told("a", Heard)
    assert heard.settled == ("/c/j",)


def test_another_coordinator_takes_in_what_the_saver_left(scene):
    last = left(scene, file=rests_and_saves(scene, "a"))
    scene.restart()
    scene.register("a")
    scene.beat("a", left=(last,))
    assert (scene.job.phase, scene.job.saved) == (JobPhase.PAUSED, Version(1, 3))


@pytest.mark.parametrize("restarted", [False, True])
def test_a_saver_that_is_away_for_long_and_ended_did_not_save_in_vain(scene, restarted):
    """It was given up; nobody else has the state."""
    last = left(scene, file=rests_and_saves(scene, "a"))
    scene.does(Disconnected("a"))
    scene.after(scene.policy.halt_limit + 0.1)
    assert scene.job.saver is None
    if restarted:
        scene.restart()
    scene.register("a")
    scene.beat("a", left=(last,))
    scene.after(scene.policy.save_retry + 0.1, heard="a")
    assert (scene.job.phase, scene.job.saved) == (JobPhase.PAUSED, Version(1, 3))
    assert scene.noted("rolled_back") == []


def test_what_a_saver_that_was_given_up_wrote_of_the_generation_before_counts_if_it_was_all_that_was_left(scene):
    """a went on alone in the next one, and died; the job is to stop."""
    scene.parted()
    scene.train("a", 9)
    scene.register("b")
    scene.exits("a")
    scene.beat("a")
    scene.beat("b", TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, 4))
    scene.does(StopJob("j"))
    scene.halt("b", (1, 4))
    assert scene.job.saver.worker == "b"
    last = left(scene, name="b", file=replace(FILE, version=Version(1, 4)))
    scene.does(Disconnected("b"))
    scene.after(scene.policy.halt_limit + 0.1, heard="a")
    assert scene.job.saver is None
    scene.register("b")
    scene.beat("b", left=(last,))
    assert (scene.job.saved, scene.told("b", Discard)) == (Version(1, 4), [])


def test_what_a_trainer_left_of_a_job_that_nobody_knows_is_told_once(scene):
    scene.register("a")
    last = TrainerStatus(job="gone", incarnation="i1", phase=TrainerPhase.HALTED, written=(FILE,))
    scene.beat("a", left=(last,))
    (heard,) = scene.told("a", Heard)
    assert heard.settled == ("/c/j",)


def test_what_a_trainer_left_of_a_job_that_ended_is_to_be_deleted(scene):
    scene.finished("a")
    scene.saved("a", (1, 10))
    assert scene.job.phase is JobPhase.COMPLETED
    last = left(scene, file=replace(FILE, version=Version(1, 4), path="/c/j4"))
    scene.beat("a", left=(last,))
    (heard,) = scene.told("a", Heard)
    assert (heard.settled, [one.path for one in scene.job.doomed]) == (("/c/j4",), ["/c/j4"])


def test_a_disk_that_stays_full_is_tried_less_and_less_often(scene):
    scene.finished("a")
    tries, began = [], scene.now
    for _ in range(10):
        tries.append(scene.now - began)
        raises_no_space = SaveFailed(job="j", incarnation="i1", generation=scene.job.generation, error="disk full")
        scene.says("a", raises_no_space)
        assert scene.job.saver is None
        while scene.job.round is None:
            scene.after(scene.policy.save_retry / 2, heard="a")
        scene.halt("a", (1, 10))
        assert scene.job.saver is not None
    waits = [round(later - earlier) for earlier, later in pairwise(tries)]
    assert waits == [1, 2, 4, 8, 16, 32, 32, 32, 32]


def test_a_job_that_is_asked_to_go_on_does_so_at_once_however_often_its_save_failed(scene):
    scene.running("a", "b", step=3)
    scene.does(PauseJob("j"))
    for _ in range(6):
        scene.halt("ab", (1, 3))
        failed = SaveFailed(job="j", incarnation="i1", generation=scene.job.generation, error="disk full")
        scene.says(scene.job.saver.worker, failed)
        for _ in range(100):
            if scene.job.round is None:
                scene.after(scene.policy.save_retry, heard="ab")
    scene.halt("ab", (1, 3))
    scene.says(scene.job.saver.worker, replace(failed, generation=scene.job.generation))
    assert scene.job.round is None
    scene.does(ResumeJob("j"))
    scene.after(0.1, heard="ab")
    assert scene.job.round is not None


# --- The report's own time, whoever saves


def saves_for_long(scene, name, report):
    """It writes for 40 s, then its task reports for as long as this. Whether it is still the saver after that."""
    writes(scene, name, written=())
    for _ in range(40):
        scene.after(1.0, heard="abc")
    writes(scene, name, written=(FILE,))
    for _ in range(report):
        scene.after(1.0, heard="abc")
    return scene.job.saver is not None and scene.job.saver.worker == name


def test_a_second_saver_has_the_same_time_for_its_report_as_the_first_one(scene):
    """A step may take 60 s. The machine of the first saver fails as its task reports, once its file counts."""
    scene.finished("a", "b", "c")
    assert saves_for_long(scene, "a", report=59)
    assert scene.job.saved == FILE.version
    dies(scene, "a", IN_REPORT)
    scene.beat("a")
    scene.halt("bc", (1, 10))
    assert saves_for_long(scene, "b", report=59)
    scene.after(2.0, heard="abc")
    assert scene.job.saver is None, "and not for ever"


def test_nor_does_a_file_that_was_told_of_before_the_order_cost_the_report_its_time(scene):
    """It was written beside the training, and the answer to that word is on its way as the save begins."""
    scene.running("a", "b", "c")
    facts = {"promised": 1, "generation": 1, "version": Version(1, 10)}
    for name in "abc":
        scene.beat(name, TrainerPhase.FINISHED, written=(FILE,) if name == "a" else (), **facts)
    scene.halt("abc", (1, 10))
    assert (scene.job.saved, scene.job.saver.worker) == (FILE.version, "a")
    writes(scene, "a", written=(FILE,))
    assert saves_for_long(scene, "a", report=59)


def test_a_final_state_that_could_not_be_saved_is_given_to_others_no_more_often_than_it_is_tried(scene):
    """c is there, rests, since it and a could not reach each other, and is not asked."""
    scene.running("a", min_workers=1, max_workers=2)
    scene.beat("a", TrainerPhase.FINISHED, promised=1, generation=1, version=Version(1, 10))
    scene.register("c")
    watch = replace(scene.cluster.watches["j"], resting={"c": Rest(9, scene.now + 600.0, frozenset("a"))})
    scene.cluster = replace(scene.cluster, watches={"j": watch})
    scene.prepare("c")
    scene.halt("a", (1, 10))
    for _ in range(20):
        if scene.job.saver is not None:
            raises(scene, "a")
        if scene.job.round is not None:
            scene.halt("a", (1, 10))
        scene.after(0.1, heard="ac")
    assert len(scene.noted("saving")) < 4
