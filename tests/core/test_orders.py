"""What is due to a worker follows from the state alone, so it can be said again at any time."""

from dataclasses import replace

from regroup.core.jobs import JobPhase, Version
from regroup.core.messages.agent_reports import TrainerExited
from regroup.core.messages.commands import StopJob
from regroup.core.messages.events import Disconnected
from regroup.core.messages.orders import Form, Halt, Kill, Prepare, Release, Save
from regroup.core.messages.trainer_reports import GroupBroke, PrepareFailed
from regroup.core.orders import due
from regroup.core.workers import TrainerPhase


def orders(scene, name):
    return due(scene.cluster, name)


def test_nothing_is_due_to_the_unknown_the_disconnected_and_the_free(scene):
    assert orders(scene, "nobody") == ()
    scene.register("a")
    assert orders(scene, "a") == ()
    scene.submit()
    assert orders(scene, "a") == (Prepare("j", scene.job.spec),)
    scene.does(Disconnected("a"))
    assert orders(scene, "a") == ()


def test_prepare_is_due_until_a_trainer_runs(scene):
    scene.register("a")
    scene.submit(max_workers=1)
    for _ in range(2):
        scene.beat("a")
        assert scene.told("a", Prepare) == [Prepare("j", scene.job.spec)]
    scene.beat("a", TrainerPhase.PREPARING)
    assert orders(scene, "a") == ()


def test_a_halt_is_due_again_at_every_heartbeat_until_it_is_promised(scene):
    scene.running("a", "b")
    scene.says("b", TrainerExited(job="j", incarnation="i1", cause="killed by SIGKILL", asked=False))
    for _ in range(3):
        scene.train("a")
        assert scene.told("a", Halt) == [Halt("j", 2, boundary=False)]


def test_a_form_is_due_to_its_halted_members_until_they_accept(scene):
    scene.submit(max_workers=1)
    scene.register("a")
    scene.prepare("a")
    for _ in range(3):
        scene.halt("a", None)
        assert scene.told("a", Form) == [Form("j", scene.job.formation, 10)]
    scene.beat("a", TrainerPhase.FORMING, promised=1, generation=1)
    assert orders(scene, "a") == ()


def test_a_form_is_not_due_to_whoever_promised_something_else(scene):
    scene.submit(max_workers=1)
    scene.register("a")
    scene.prepare("a")
    scene.halt("a", None)
    formation = scene.job.formation
    assert formation is not None
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, generation=5)})
    assert orders(scene, "a") == ()


def test_no_form_is_due_to_a_worker_that_has_no_seat(scene):
    scene.submit(max_workers=1, min_workers=1)
    scene.register("a", "b")
    scene.cluster = replace(
        scene.cluster, workers={**scene.cluster.workers, "b": replace(scene.cluster.workers["b"], job="j")}
    )
    scene.prepare("a", "b")
    scene.halt("a", None)
    scene.halt("b", None)
    assert len(scene.members) == 1
    spare = "b" if scene.members == ["a"] else "a"
    assert not [order for order in orders(scene, spare) if isinstance(order, Form)]


def test_a_save_is_due_to_the_saver_alone_and_names_what_it_holds(scene):
    scene.running("a", "b")
    scene.does(StopJob("j"))
    scene.halt("a", (1, 3))
    scene.halt("b", (1, 3))
    assert orders(scene, "a") == (Save("j", 2, Version(1, 3)),)
    assert orders(scene, "b") == ()
    n = scene.job.generation
    scene.beat("a", TrainerPhase.SAVING, promised=n, generation=1, version=Version(1, 3))
    assert orders(scene, "a") == ()


def test_release_is_due_to_a_trainer_of_a_job_that_its_worker_is_not_lent_to(scene):
    scene.running("a")
    scene.says("a", PrepareFailed(job="other", incarnation="i1", field="task", message="no"))
    assert orders(scene, "a") == ()
    scene.does(StopJob("j"))
    scene.halt("a", (1, 2))
    scene.saved("a", (1, 2))
    assert scene.job.phase is JobPhase.STOPPED
    assert scene.told("a", Release) == [Release("j")]
    scene.beat("a")
    assert orders(scene, "a") == ()


def test_kill_is_due_to_the_evicted_incarnation_alone(scene):
    scene.running("a", "b")
    scene.says("a", GroupBroke(job="j", incarnation="i1", generation=1, reason="no answer"))
    scene.halt("a", (1, 3))
    scene.now += 3.0
    scene.train("b")
    scene.after(2.0, heard="ab")
    assert [order.incarnation for order in orders(scene, "b") if isinstance(order, Kill)] == ["i1"]
    scene.beat("b", TrainerPhase.PREPARING, "i2")
    assert orders(scene, "b") == ()
