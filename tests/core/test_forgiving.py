"""Whoever may take no part in a job tries again where the job waits for workers: what kept it out may have passed."""

import pytest

from regroup.core.jobs import JobPhase
from regroup.core.messages.commands import PauseJob
from regroup.core.messages.trainer_reports import WORKER, PrepareFailed
from regroup.core.workers import TrainerPhase


def is_refused(scene, name, incarnation):
    """It cannot prepare, says so, and its trainer is ended."""
    scene.beat(name, TrainerPhase.PREPARING, incarnation)
    why = {"field": WORKER, "message": "its storage does not answer"}
    scene.says(name, PrepareFailed(job="j", incarnation=incarnation, **why))
    assert name in scene.job.refused
    scene.exits(name, incarnation, asked=True)
    scene.beat(name)


@pytest.fixture
def waiting(scene):
    """a holds the state of a job that needs two, and b is refused."""
    scene.running("a", "b", step=3)
    scene.exits("b")
    scene.halt("a", (1, 3))
    scene.beat("b")
    is_refused(scene, "b", "i2")
    assert (scene.job.phase, scene.cluster.workers["b"].job) == (JobPhase.WAITING, None)
    return scene


def test_a_job_that_cannot_go_on_without_it_takes_it_back_after_ever_longer(waiting):
    limit = waiting.policy.absent_limit
    for number, patience in enumerate((limit, 2 * limit, 4 * limit)):
        waiting.after(patience - 0.1, heard="ab")
        assert "b" in waiting.job.refused
        waiting.after(0.2, heard="ab")
        assert (waiting.job.refused, waiting.cluster.workers["b"].job) == ({}, "j")
        is_refused(waiting, "b", f"i{3 + number}")
    readmitted = [note.reason for note in waiting.notes if note.kind == "readmitted"]
    assert readmitted == ["b may take part again: it cannot go on without"] * 3


def test_once_they_form_together_the_next_wait_is_short_again(waiting):
    for patience in (1, 2):
        waiting.after(patience * waiting.policy.absent_limit + 0.1, heard="ab")
        if patience == 1:
            is_refused(waiting, "b", "i3")
    waiting.prepare("b", incarnation="i4")
    waiting.halt("a", (1, 3))
    waiting.halt("b", None, "i4")
    waiting.train("a")
    waiting.train("b", incarnation="i4")
    assert waiting.job.phase is JobPhase.RUNNING
    waiting.exits("b", "i4")
    waiting.halt("a", (waiting.job.formation.generation, 3))
    waiting.beat("b")
    is_refused(waiting, "b", "i5")
    waiting.after(waiting.policy.absent_limit + 0.1, heard="ab")
    assert waiting.job.refused == {}


def test_where_enough_are_left_it_stays_out_for_long(make_scene):
    scene = make_scene(error_forget=50.0)
    scene.running("a", "b", step=3, min_workers=1)
    scene.exits("b")
    scene.halt("a", (1, 3))
    scene.train("a")
    scene.beat("b")
    is_refused(scene, "b", "i2")
    scene.after(49.9, heard="ab")
    assert "b" in scene.job.refused
    scene.after(0.2, heard="ab")
    assert (scene.job.refused, scene.cluster.workers["b"].job) == ({}, "j")


def test_whose_agent_is_not_heard_is_not_enough(scene):
    scene.running("a", "b", "c", step=3, min_workers=2)
    scene.exits("b")
    scene.halt("a", (1, 3))
    scene.halt("c", (1, 3))
    scene.train("a")
    scene.train("c")
    scene.beat("b")
    is_refused(scene, "b", "i2")
    scene.after(scene.policy.absent_limit + 0.1, heard="ab")  # c's connection stands
    scene.breaks("a", scene.job.generation)
    scene.halt("a", (scene.job.formation.generation, 3))
    scene.after(scene.policy.halt_limit + 0.1, heard="ab")
    assert scene.job.phase is JobPhase.WAITING
    scene.after(scene.policy.absent_limit + 0.1, heard="ab")
    assert "b" not in scene.job.refused


def test_after_a_rest_all_may_take_part(waiting):
    waiting.does(PauseJob("j"))
    waiting.halt("a", (1, 3))
    waiting.saved("a", (1, 3))
    assert (waiting.job.phase, waiting.job.refused) == (JobPhase.PAUSED, {})


def test_what_is_told_only_at_the_rest_keeps_nobody_out_after_it(scene):
    """Its trainer died a second time as it prepared, and that is heard of after the rest began."""
    scene.submit(max_workers=1)
    scene.register("a", "b")
    scene.prepare("a")
    scene.halt("a", None)
    for incarnation in ("i2", "i3"):
        scene.beat("a", TrainerPhase.PREPARING, incarnation)
        if incarnation == "i3":
            scene.does(PauseJob("j"))
        scene.exits("a", incarnation, cause="killed by SIGSEGV")
    assert (scene.job.phase, scene.job.refused) == (JobPhase.PAUSED, {})


def test_whoever_dies_again_and_again_as_a_held_job_prepares_it_is_left_out(scene):
    """It has workers while it rests, and what they train is in memory."""
    scene.running("a", "b", min_workers=1, step=3)
    scene.does(PauseJob("j", hold=True))
    scene.halt("ab", (1, 3))
    scene.exits("b", cause="killed by SIGSEGV")
    for incarnation in ("i2", "i3"):
        scene.beat("b", TrainerPhase.PREPARING, incarnation)
        scene.exits("b", incarnation, cause="killed by SIGSEGV")
    assert (scene.job.phase, set(scene.job.refused)) == (JobPhase.PAUSED, {"b"})
