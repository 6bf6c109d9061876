"""Which checkpoints are kept, and whom it is due to to delete the others' files."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.core.jobs import Checkpoint, Job, JobPhase, Version
from regroup.core.keeping import taken_in
from regroup.core.messages.agent_reports import Discarded
from regroup.core.messages.commands import DrainWorker, StopJob
from regroup.core.messages.events import Disconnected
from regroup.core.messages.orders import Discard
from regroup.core.spec import JobSpec
from regroup.core.workers import TrainerPhase


def file(step, worker="a", place="/c/j"):
    return Checkpoint(Version(1, step), f"{place}/s{step}", "sum", 1, worker, host="h")


OLDEST = Discard("j", ("/c/j/s4",), below=Version(1, 12), keep=("/c/j/s12", "/c/j/s8"))  # of 4, 8 and 12


@pytest.fixture
def kept(scene):
    """a and b train a job of which two checkpoints are kept; a writes one after each of these steps."""

    def write(*steps, place="/c/j"):
        scene.running("a", "b", keep_last=2, steps=100)
        for step in steps:
            scene.train("b", step)
            written = replace(file(step, "", place), worker="", host="")
            scene.beat(
                "a", TrainerPhase.TRAINING, promised=1, generation=1, version=Version(1, step), written=(written,)
            )
        return scene

    return write


def test_the_newest_are_kept_and_who_wrote_an_older_one_is_to_delete_it(kept):
    scene = kept(4, 8, 12)
    assert (scene.job.checkpoint, scene.job.older, scene.job.doomed) == (file(12), (file(8),), (file(4),))
    assert scene.told("a", Discard) == [OLDEST]
    scene.train("b", 12)
    assert scene.told("b", Discard) == []


def test_what_is_to_be_deleted_is_said_again_until_it_is_told_gone(kept):
    scene = kept(4, 8, 12)
    scene.train("a", 12)
    assert scene.told("a", Discard) == [OLDEST]
    for _ in range(2):
        scene.says("a", Discarded(job="j", paths=("/c/j/s4",)))
    assert scene.job.doomed == ()
    scene.train("a", 12)
    assert scene.told("a", Discard) == []
    assert scene.noted("not_deleted") == []


def test_a_file_is_gone_once_who_is_to_delete_it_says_so(kept):
    """Two machines with folders of their own may have written the same state, under one name."""
    scene = kept(4, 8, 12)
    scene.says("b", Discarded(job="j", paths=("/c/j/s4",)))
    assert scene.job.doomed == (file(4),)
    scene.train("a", 12)
    assert scene.told("a", Discard) == [OLDEST]


def test_a_file_that_cannot_be_deleted_is_told_once_and_not_tried_for_ever(kept):
    scene = kept(4, 8, 12)
    scene.says("a", Discarded(job="j", paths=("/c/j/s4",), error="/c/j/s4 cannot be deleted (Read-only)"))
    (note,) = scene.noted("not_deleted")
    told = "a could not delete a checkpoint that is not kept any more: /c/j/s4 cannot be deleted (Read-only)"
    assert note.reason == told
    assert scene.job.doomed == ()


def test_what_a_worker_wrote_waits_until_that_worker_is_back(kept):
    scene = kept(4, 8, 12)
    scene.does(Disconnected("a"))
    scene.train("b", 12)
    assert scene.told("b", Discard) == []
    scene.register("a")
    assert scene.told("a", Discard) == [OLDEST]


@pytest.mark.parametrize(("place", "told"), [("s3://c/j", ["b"]), ("/c/j", [])], ids=["url", "disk"])
def test_of_a_worker_that_is_forgotten_anybody_can_delete_what_has_a_url(kept, place, told):
    scene = kept(4, 8, 12, place=place)
    workers = {name: worker for name, worker in scene.cluster.workers.items() if name != "a"}
    sightings = {name: seen for name, seen in scene.cluster.sightings.items() if name != "a"}
    scene.cluster = replace(scene.cluster, workers=workers, sightings=sightings)
    scene.train("b", 12)
    assert [name for name, order in scene.orders if isinstance(order, Discard)] == told


def test_an_ended_job_whose_files_nobody_can_delete_is_over_until_their_writer_is_back(scene):
    """Else each job that lost a machine for good would be looked at in every decision, for ever."""
    scene.submit()
    scene.does(StopJob("j"))
    ended = replace(scene.job, doomed=(file(4),))
    scene.cluster = replace(scene.cluster, jobs={"j": ended})
    scene.register("b")
    scene.beat("b")
    assert "j" not in scene.cluster.live
    scene.register("a")
    scene.beat("a")
    assert [order.paths for order in scene.told("a", Discard)] == [("/c/j/s4",)]


def test_when_a_job_has_ended_its_last_checkpoints_are_kept_and_the_others_deleted(scene):
    scene.finished("a", "b")
    saver = scene.job.saver.worker
    settled = replace(scene.job, checkpoint=file(8), older=(file(4),), spec=replace(scene.job.spec, keep_last=2))
    scene.cluster = replace(scene.cluster, jobs={"j": settled})
    scene.saved(saver, (1, 10))
    assert scene.job.phase is JobPhase.COMPLETED
    assert [one.version.step for one in (scene.job.checkpoint, *scene.job.older)] == [10, 8]
    assert scene.job.doomed == (file(4),)
    assert ("/c/j/s4",) in [order.paths for order in scene.told("a", Discard)]


def test_a_state_that_is_written_twice_to_one_file_is_one_and_the_file_stays(scene):
    scene.finished("a", "b")
    saver = scene.job.saver.worker
    again = replace(file(10), path="/c/j")
    settled = replace(scene.job, checkpoint=again, older=(file(4),), spec=replace(scene.job.spec, keep_last=1))
    scene.cluster = replace(scene.cluster, jobs={"j": settled})
    scene.saved(saver, (1, 10))
    assert scene.job.checkpoint.path == "/c/j"
    assert scene.job.doomed == (file(4),)


def test_a_state_that_is_written_again_to_a_file_that_is_kept_is_kept_once():
    job = Job(id="j", spec=JobSpec(task="digits", steps=99, keep_last=3), submitted=0.0)
    job = replace(job, checkpoint=file(8), older=(file(4),))
    again = replace(file(8), checksum="another")
    job = replace(job, **taken_in(job, again))
    assert (job.kept, job.doomed) == ((again, file(4)), ())


def test_a_file_that_was_to_be_deleted_stays_once_a_state_is_written_to_it_again():
    job = Job(id="j", spec=JobSpec(task="digits", steps=99, keep_last=1), submitted=0.0)
    job = replace(job, checkpoint=file(4), doomed=(file(8), file(2)))
    job = replace(job, **taken_in(job, file(8)))
    assert (job.kept, job.doomed) == ((file(8),), (file(2), file(4)))


SCORES = st.lists(st.none() | st.floats(-9, 9) | st.sampled_from([1.0, 2.0]), min_size=1, max_size=20)


@given(SCORES, st.integers(1, 4), st.integers(0, 4))
def test_the_newest_and_the_best_are_kept_and_each_other_one_is_to_be_deleted(scores, last, best):
    spec = JobSpec(task="digits", steps=99, keep_last=last, keep_best=best, evaluate_every=1)
    job = Job(id="j", spec=spec, submitted=0.0)
    files = [replace(file(step), score=score) for step, score in enumerate(scores, start=1)]
    for one in files:
        job = replace(job, **taken_in(job, one))
    scored = sorted((one for one in files if one.score is not None), key=lambda one: (one.score, -one.version.step))
    wanted = [one for one in reversed(files) if one in files[-last:] or one in scored[:best]]
    assert [job.checkpoint, *job.older] == wanted
    assert set(job.doomed) == set(files) - set(wanted)


def test_to_keep_the_best_there_must_be_evaluations():
    (problem,) = JobSpec(task="digits", steps=9, keep_best=1).problems()
    assert (problem.field, problem.message.partition(":")[0]) == ("keep_best", "needs evaluate_every")
    assert JobSpec(task="digits", steps=9, keep_best=1, evaluate_every=3).problems() == ()
    (problem,) = JobSpec(task="digits", steps=9, keep_best=-1).problems()
    assert problem.message == "must be between 0 and 1000"
    assert [one.field for one in JobSpec(task="digits", steps=9, keep_best=-1, evaluate_every=3).problems()] == [
        "keep_best"
    ]


def test_a_file_with_a_url_is_deleted_by_another_where_who_wrote_it_is_not_there(kept):
    """One that was drained is never forgotten, and its machine may be gone."""
    scene = kept(4, 8, 12, place="s3://c/j")
    scene.does(DrainWorker("a"))
    scene.does(Disconnected("a"))
    scene.train("b", 12)
    assert [order.paths for order in scene.told("b", Discard)] == [("s3://c/j/s4",)]
    scene.says("b", Discarded(job="j", paths=("s3://c/j/s4",)))
    assert scene.job.doomed == ()
