"""Jobs that begin from another job's checkpoint: what is refused, where they begin, and what they go back to."""

from dataclasses import replace

import pytest

from regroup.core.cluster import CannotBegin
from regroup.core.jobs import Checkpoint, Fingerprint, Job, JobPhase, Struck, Version
from regroup.core.messages.commands import DrainWorker, PauseJob, ResumeJob, StopJob
from regroup.core.messages.orders import Discard, Form
from regroup.core.messages.trainer_reports import CheckpointUnreadable
from regroup.core.spec import BeginFrom, JobSpec
from regroup.core.workers import TrainerPhase

PRINT = Fingerprint("code", "data", 100)
SOURCE = JobSpec(task="digits", steps=10, global_batch=8, shards=4, max_workers=2, seed=3)


def file(step, generation=3, name="s"):
    return Checkpoint(Version(generation, step), f"/c/j0/{name}{step}", "sum", 1, "z", host="h")


@pytest.fixture
def beside(scene):
    """A job j0 that keeps checkpoints of steps 9 and 6, and has completed."""
    done = Job(id="j0", spec=SOURCE, submitted=0.0, phase=JobPhase.COMPLETED, step=9, fingerprint=PRINT)
    scene.cluster = replace(scene.cluster, jobs={"j0": replace(done, checkpoint=file(9), older=(file(6),))})
    return scene


def begin(scene, step=None, job="j0", **spec):
    scene.submit(**{"seed": 3, "steps": 20, "begin_from": BeginFrom(job, step), **spec})


def source(scene, **changes):
    jobs = scene.cluster.jobs
    scene.cluster = replace(scene.cluster, jobs={**jobs, "j0": replace(jobs["j0"], **changes)})


def formed(scene, *names, incarnation="i1", **spec):
    """These workers are asked, and a formation is issued."""
    begin(scene, **{"min_workers": len(names), **spec})
    scene.register(*names)
    scene.prepare(*names)
    scene.halt(names, None)


def cannot_read(scene, *, incarnation="i1", **facts):
    """Whoever leads says so, and all halt again."""
    formation = scene.job.formation
    name, n = formation.members[formation.leader].worker, formation.generation
    scene.beat(name, TrainerPhase.FORMING, incarnation, promised=n, generation=n)
    told = {"generation": n, "error": "/c/j0/s9 is not there", **facts}
    scene.says(name, CheckpointUnreadable(job="j", incarnation=incarnation, **told))
    if not scene.job.ended:
        for member in formation.members:
            scene.halt(member.worker, None, incarnation)


@pytest.mark.parametrize(("asked", "step"), [(None, 9), (9, 9), (6, 6)])
def test_a_job_begins_at_the_step_of_the_checkpoint_that_it_names_or_of_the_newest(beside, asked, step):
    formed(beside, "a", "b", step=asked)
    formation = beside.job.formation
    assert (beside.job.step, beside.job.saved, formation.base) == (step, Version(0, step), Version(0, step))
    assert formation.checkpoint == file(step)
    assert formation.receivers == (1,)
    assert beside.told("a", Form)[0].steps == 20
    assert beside.noted("form")[0].reason == f"from the checkpoint of step {step} of job j0 on a, b"
    assert beside.noted("submitted")[0].reason == f"submitted: digits, which begins at step {step}, from /c/j0/s{step}"
    beside.train("ab")
    assert (beside.job.phase, beside.job.reason) == (JobPhase.RUNNING, "started in generation 1: a, b")


@pytest.mark.parametrize(
    ("asked", "field", "message"),
    [
        ({"job": "j7"}, "begin_from.job", "there is no job j7"),
        ({"step": 7}, "begin_from.step", "job j0 keeps no checkpoint of step 7; it keeps those of steps 9, 6"),
        ({"task": "gpt"}, "task", "is gpt, and the checkpoint's job has digits: they must be the same"),
        ({"global_batch": 16}, "global_batch", "is 16, and the checkpoint's job has 8: they must be the same"),
        ({"shards": 2}, "shards", "is 2, and the checkpoint's job has 4: they must be the same"),
        ({"seed": 4}, "seed", "is 4, and the checkpoint's job has 3: they must be the same"),
        ({"steps": 9}, "steps", "must lead beyond step 9, where it begins: it leads to step 9"),
        ({"steps": None, "epochs": 1, "step": 13}, "begin_from.step", "job j0 keeps no checkpoint of step 13;"),
    ],
)
def test_what_does_not_go_together_is_refused_with_both_values(beside, asked, field, message):
    with pytest.raises(CannotBegin) as refused:
        begin(beside, **asked)
    assert [(one.field, one.message[: len(message)]) for one in refused.value.problems] == [(field, message)]
    assert list(beside.cluster.jobs) == ["j0"]


def test_epochs_that_end_before_it_begins_are_refused(beside):
    source(beside, checkpoint=file(13), older=())  # an epoch of 100 samples has 13 steps of 8
    with pytest.raises(CannotBegin, match="epochs: must lead beyond step 13, where it begins: it leads to step 13"):
        begin(beside, steps=None, epochs=1)
    begin(beside, steps=None, epochs=2)
    assert beside.job.step == 13


def test_all_that_differs_is_told_at_once(beside):
    with pytest.raises(CannotBegin) as refused:
        begin(beside, seed=4, shards=2, steps=5)
    assert [one.field for one in refused.value.problems] == ["shards", "seed", "steps"]


def test_a_job_without_checkpoints_is_no_beginning(beside):
    source(beside, checkpoint=None, older=(), struck=(Struck(file(9), "other bytes"),))
    with pytest.raises(CannotBegin, match="job j0 has no checkpoint: pause it, or give a job checkpoint_every"):
        begin(beside)


def test_shards_that_are_not_given_are_the_other_jobs(beside):
    begin(beside, shards=None, max_workers=1)
    assert beside.job.spec.shards == 4


def test_options_policies_and_names_may_differ(beside):
    begin(beside, name="other", options={"learning_rate": 1e-4}, max_workers=3, keep_last=1, step_timeout=9.0)
    assert beside.job.beginning.checkpoint == file(9)


def test_its_file_is_not_deleted_before_it_has_ended(beside):
    """Whatever it keeps of its own may turn out damaged."""
    formed(beside, "a", checkpoint_every=2)
    source(beside, doomed=(file(9),))
    beside.register("z")
    n = beside.job.generation
    for step in (12, 14):
        written = Checkpoint(Version(1, step), f"/c/j/s{step}", "sum", 1)
        beside.train("a", step)
        state = {"promised": n, "generation": n, "version": Version(1, step)}
        beside.beat("a", TrainerPhase.TRAINING, written=(written,), **state)
        assert beside.job.saved == Version(1, step)
        beside.beat("z")
        assert beside.told("z", Discard) == []


def test_its_file_is_kept_among_those_that_nobody_told_of(beside):
    begin(beside)
    source(beside, checkpoint=file(15), older=(), doomed=(file(9), file(6)))
    beside.register("z")
    (order,) = beside.told("z", Discard)
    assert order == Discard("j0", ("/c/j0/s6",), below=file(15).version, keep=("/c/j0/s15", "/c/j0/s9"))


def test_its_file_is_not_kept_for_a_job_that_has_ended(beside):
    begin(beside)
    beside.does(StopJob("j"))
    assert (beside.job.phase, beside.job.reason, beside.job.step) == (
        JobPhase.STOPPED,
        "stopped at step 9; its state is in /c/j0/s9",
        9,
    )
    source(beside, doomed=(file(9),))
    beside.register("z")
    assert [order.paths for order in beside.told("z", Discard)] == [("/c/j0/s9",)]


def test_what_the_other_job_keeps_later_changes_nothing(beside):
    begin(beside)
    source(beside, checkpoint=file(15), older=())
    beside.register("a")
    beside.prepare("a")
    beside.halt("a", None)
    assert beside.job.formation.checkpoint == file(9)


def test_when_all_is_lost_before_its_first_checkpoint_it_goes_back_to_where_it_began(beside):
    formed(beside, "a")
    beside.train("a", 12)
    beside.exits("a")
    beside.beat("a")
    beside.prepare("a", incarnation="i2")
    beside.halt("a", None, "i2")
    formation = beside.job.formation
    assert (formation.base, formation.checkpoint, beside.job.step) == (Version(0, 9), file(9), 9)
    assert beside.job.restarts == 1
    reason = "the last generation is lost: from the checkpoint of step 9 of job j0 on a"
    assert beside.noted("rolled_back")[-1].reason == reason


@pytest.mark.parametrize("missing", [False, True])
def test_where_the_file_is_damaged_or_gone_the_job_fails_and_names_it(beside, missing):
    formed(beside, "a", "b")
    cannot_read(beside, damaged=True, missing=missing)
    assert not beside.job.ended
    cannot_read(beside, damaged=True, missing=missing)
    assert beside.job.phase is JobPhase.FAILED
    reason = "the checkpoint of step 9 that it begins from is damaged: a, b found: /c/j0/s9 is not there"
    assert beside.job.reason == reason
    assert (beside.job.struck, beside.cluster.jobs["j0"].checkpoint) == ((), file(9))


def test_a_storage_that_does_not_answer_fails_nothing(beside):
    formed(beside, "a", "b")
    for _ in range(2):
        cannot_read(beside)
    assert beside.job.phase is JobPhase.WAITING
    assert beside.job.reason.startswith("no worker can read the checkpoint of step 9: a: /c/j0/s9 is not there; b: ")


def test_a_model_that_does_not_fit_fails_the_job_once_two_found_that(beside):
    """One of them may only have another version of a library."""
    formed(beside, "a", "b")
    unfit = {"unfit": True, "error": "/c/j0/s9: the model's 0.weight is of another shape"}
    cannot_read(beside, **unfit)
    assert not beside.job.ended
    cannot_read(beside, **unfit)
    assert beside.job.phase is JobPhase.FAILED
    assert beside.job.reason == f"it cannot begin from another job's checkpoint: a, b found: {unfit['error']}"
    assert all(worker.job is None for worker in beside.cluster.workers.values())


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (Fingerprint("code", "data", 90), "the dataset has 90 samples, and that of job j0, whose checkpoint"),
        (Fingerprint("code", "other", 100), "the dataset's samples are others than those of job j0, whose checkpoint"),
    ],
)
def test_other_data_is_one_workers_fault_until_another_one_finds_the_same(beside, found, why):
    begin(beside, min_workers=2)
    beside.register("a", "b")
    beside.prepare("a", fingerprint=found)
    assert beside.job.refused["a"].startswith(why)
    beside.prepare("b", fingerprint=found)
    assert beside.job.phase is JobPhase.FAILED
    assert beside.job.reason.startswith(f"it cannot begin from another job's checkpoint: {why}")


def test_other_data_fails_the_job_where_nobody_else_could_look(beside):
    begin(beside)
    beside.register("a")
    beside.prepare("a", fingerprint=Fingerprint("code", "data", 90))
    assert beside.job.phase is JobPhase.FAILED


def test_other_data_fails_the_job_where_whoever_else_is_there_gets_nothing_to_do(beside):
    begin(beside)
    beside.register("a", "b", "c")
    beside.does(DrainWorker("b"))
    workers = beside.cluster.workers
    beside.cluster = replace(beside.cluster, workers={**workers, "c": replace(workers["c"], quarantined=True)})
    beside.prepare("a", fingerprint=Fingerprint("code", "data", 90))
    assert beside.job.phase is JobPhase.FAILED


def test_other_data_is_one_workers_fault_while_another_is_there_that_has_something_to_do(beside):
    beside.submit("k", min_workers=1, max_workers=1)
    beside.register("b")
    begin(beside)
    beside.register("a")
    assert beside.cluster.workers["b"].job == "k"
    beside.prepare("a", fingerprint=Fingerprint("code", "data", 90))
    assert not beside.job.ended
    assert "a" in beside.job.refused


def test_when_the_only_one_of_its_own_is_struck_it_begins_again_where_it_began(beside):
    formed(beside, "a", "b")
    beside.train("ab", 12)
    beside.does(PauseJob("j"))
    beside.halt("ab", (1, 12))
    beside.saved(beside.job.saver.worker, (1, 12))
    for name in "ab":
        beside.exits(name, asked=True)
        beside.beat(name)
    beside.does(ResumeJob("j"))
    beside.prepare("a", "b", incarnation="i2")
    beside.halt("ab", None, "i2")
    for _ in range(2):
        cannot_read(beside, damaged=True, incarnation="i2")
    assert beside.noted("struck")[0].data["base_step"] == 9
    assert "the job begins again from step 9, for none is older" in beside.noted("struck")[0].reason
    formation = beside.job.formation
    assert (formation.base, formation.checkpoint, beside.job.restarts) == (Version(0, 9), file(9), 1)
