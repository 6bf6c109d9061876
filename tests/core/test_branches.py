"""States of a branch that an earlier roll-back left behind: their numbers may be higher, and their steps fewer."""

from dataclasses import replace

import pytest

from regroup.core.cluster import Cluster
from regroup.core.jobs import Checkpoint, Formation, JobPhase, Link, Member, Seat, Version, Wanted
from regroup.core.messages.commands import DrainWorker, PauseJob
from regroup.core.messages.events import Disconnected
from regroup.core.messages.trainer_reports import CheckpointUnreadable
from regroup.core.workers import TrainerPhase

# Generation 1 went on alone to step 40; 2 was put back to step 3 of it and made none; 3 began from the file of step 36.
LINKS = (Link(1, 0, 0), Link(2, 1, 3), Link(3, 1, 36))


def take_up(scene, formation, **changes):
    """The job's last generation is this one, and its history leads to it."""
    job = replace(scene.job, formation=formation, history=(*LINKS[:2], Link(3, 1, formation.base.step)), **changes)
    scene.cluster = replace(scene.cluster, jobs={"j": job})


@pytest.mark.parametrize("other", [False, True])
def test_who_leaves_with_most_steps_is_needed_though_another_branch_has_a_higher_number(scene, other):
    scene.running("a", "b", "d", min_workers=1, max_workers=3, steps=100)
    file = Checkpoint(Version(1, 36), "s3://c/j/36", "sum", 1)
    last = Formation(3, (Seat(Member("d", "i1"), None),), 0, file.version, (0,) * 4, "s")
    take_up(scene, last, generation=4, checkpoint=file, phase=JobPhase.WAITING, step=36)
    scene.does(Disconnected("d"))  # it may train on, and is waited for
    if other:
        scene.beat("a", TrainerPhase.HALTED, promised=4, generation=2, version=Version(2, 3))
    else:
        scene.exits("a")
    scene.beat("b", TrainerPhase.HALTED, promised=4, generation=1, version=Version(1, 40))
    scene.after(20, heard="ab")
    scene.does(DrainWorker("b"))
    scene.after(0.2, heard="ab")
    assert scene.cluster.workers["b"].job == "j"


@pytest.mark.parametrize("other", [False, True])
def test_what_is_held_by_those_alone_that_go_is_saved_though_another_branch_has_a_higher_number(scene, other):
    scene.running("a", "b", min_workers=1, max_workers=3, steps=100)
    last = Formation(3, (Seat(Member("b", "i1"), Version(1, 40)),), 0, Version(1, 40), (0,) * 4, "s")
    take_up(scene, last, generation=3, phase=JobPhase.REGROUPING, step=40)
    scene.does(PauseJob("j", hold=True))
    if other:
        scene.beat("a", TrainerPhase.HALTED, promised=3, generation=2, version=Version(2, 3))
    else:
        scene.beat("a")
    scene.beat("b", TrainerPhase.HALTED, promised=3, generation=1, version=Version(1, 40))
    scene.after(scene.policy.form_limit + 0.1, heard="ab")
    scene.halt("a", (2, 3) if other else None)
    scene.halt("b", (1, 40))
    scene.after(scene.policy.halt_limit + 0.1, heard="ab")
    assert (scene.job.phase, scene.job.reason) == (JobPhase.PAUSED, "held at step 40, in the memory of b")
    scene.does(DrainWorker("b"))
    scene.after(30, heard="ab")
    assert scene.job.wanted is Wanted.PAUSE


def test_a_file_is_read_again_though_another_branch_has_a_higher_number(scene):
    """a took step 3 on in a generation of its own, and was silent; b went on from the step that it had made alone."""
    scene.running("a", "b", min_workers=1, steps=50, checkpoint_every=4)
    scene.train("ab", 3)
    scene.train("b", 4)
    scene.does(Disconnected("b"))
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    scene.train("a")
    scene.does(Disconnected("a"))
    scene.after(scene.policy.detached_limit + scene.policy.detached_margin + 1)
    scene.register("b")
    scene.beat("b", TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, 4))
    scene.after(0.2, heard="b")
    for _ in range(4):
        scene.halt("b", (1, 4))
        scene.halt("b", (1, 4))
        if scene.members == ["b"]:
            break
        scene.after(scene.policy.halt_limit + 0.1, heard="b")
    assert (scene.members, scene.job.formation.base) == (["b"], Version(1, 4))
    n, file = scene.job.formation.generation, Checkpoint(Version(1, 4), "s3://c/j/4", "sum", 1)
    scene.beat("b", TrainerPhase.TRAINING, promised=n, generation=n, version=Version(n, 4))
    scene.beat("b", TrainerPhase.TRAINING, promised=n, generation=n, version=Version(n, 5), written=(file,))
    assert scene.job.saved == Version(1, 4)
    scene.exits("b")
    scene.beat("b")
    scene.does(Disconnected("b"))
    scene.register("a")
    scene.beat("a", TrainerPhase.TRAINING, promised=2, generation=2, version=Version(2, 3))
    scene.after(0.2, heard="a")
    scene.after(20, heard="a")
    for _ in range(4):
        if scene.job.round is not None:
            scene.halt("a", (2, 3))
        scene.after(5, heard="a")
        if scene.members == ["a"]:
            break
    assert (scene.members, scene.job.formation.base) == (["a"], Version(1, 4))
    n = scene.job.formation.generation
    scene.beat("a", TrainerPhase.FORMING, promised=n, generation=n, version=Version(2, 3))
    scene.says("a", CheckpointUnreadable(job="j", incarnation="i1", generation=n, error="503", damaged=False))
    scene.beat("a", TrainerPhase.BROKEN, promised=n, generation=n, version=Version(2, 3))
    if scene.job.round is not None:
        scene.halt("a", (2, 3))
    tried = scene.job.generation
    scene.after(600, heard="a")
    scene.after(60, heard="a")
    assert scene.job.generation > tried


@pytest.mark.parametrize("saved", [False, True])
def test_what_a_generation_made_that_the_store_lost_is_gone_on_from(scene, saved):
    """The formation of generation 2 was sent, and the store forgot it as it crashed."""
    scene.running("a", "b", min_workers=1, steps=50)
    scene.train("ab", 3)
    file = Checkpoint(Version(1, 3), "s3://c/j/3", "sum", 1)
    told = {"promised": 1, "generation": 1, "version": Version(1, 3)}
    for name in "ab" if saved else ():
        scene.beat(name, TrainerPhase.TRAINING, **told, written=(file,) if name == "a" else ())
    before = scene.cluster
    scene.breaks("a", 1)
    scene.halt("ab", (1, 3))
    scene.train("ab", 40)
    assert scene.job.formation.generation == 2
    scene.cluster = Cluster(started=scene.now, jobs=before.jobs, workers=before.workers)
    scene.register("a", "b")
    for name in "ab":
        scene.beat(name, TrainerPhase.TRAINING, promised=2, generation=2, version=Version(2, 40))
    scene.after(0.2, heard="ab")
    scene.halt("ab", (2, 40))
    assert (scene.job.formation.base, scene.noted("rolled_back")) == (Version(2, 40), [])
