"""What is known of a worker that was cut off, or of all as the coordinator stood still: enough to wait, not to act."""

from dataclasses import replace

import pytest

from regroup.core.hanging import GRACE
from regroup.core.jobs import Checkpoint, JobPhase, Version
from regroup.core.messages.agent_reports import Heartbeat
from regroup.core.messages.commands import PauseJob
from regroup.core.messages.events import Disconnected, Tick
from regroup.core.messages.orders import Go, Kill, Release
from regroup.core.messages.trainer_reports import Formed, StepsCommitted
from regroup.core.workers import Hang, LoopPhase, TrainerPhase


def comes_back(scene, name, told):
    """It was cut off, and connects again before that was noticed; `told`: its trainer is as it was."""
    trainer = scene.cluster.sightings[name].trainer
    scene.register(name)
    if told:
        scene.sequence += 1
        boot = scene.cluster.workers[name].boot
        scene.says(name, Heartbeat(boot=boot, sequence=scene.sequence, trainer=trainer))


def stands_still(scene, seconds, coordinator):
    """Nobody is heard for so long: because the coordinator stood still, or because nothing arrives."""
    scene.now += seconds
    if coordinator:
        scene.cluster = replace(scene.cluster, awake=scene.now)


def says_that_it_starves(scene, name, **facts):
    trainer = replace(scene.cluster.sightings[name].trainer, **facts)
    hang = Hang(phase=LoopPhase.DATA, lasts=4.2, limit=4.0, fetch=7)
    scene.sequence += 1
    scene.says(name, Heartbeat(boot="b1", sequence=scene.sequence, trainer=trainer, hang=hang))


@pytest.mark.parametrize("told", [True, False])
def test_of_two_that_do_not_form_one_is_given_up_only_if_the_other_told_that_it_holds_the_state(scene, told):
    scene.running("a", "b", step=3)
    scene.passes(scene.policy.halt_limit, heard="ab")
    scene.breaks("a", 1)
    for n in (2, 3):
        scene.forms("ab", n)
        scene.after(scene.policy.form_limit - 0.1, heard="ab")
        if n == 3:
            comes_back(scene, "b", told)
        scene.after(0.2, heard="a")
    assert [note.worker for note in scene.noted("evicted")] == (["a"] if told else [])


@pytest.mark.parametrize("told", [True, False])
def test_a_member_is_doubted_only_if_all_others_told_that_they_hold_the_state(scene, told):
    scene.running("a", "b", step=3)
    scene.passes(scene.policy.halt_limit, heard="ab")
    for n in (1, 2, 3):
        scene.breaks("b", n)
        scene.halt("ab", (n, 3))
        scene.train("ab")
    comes_back(scene, "a", told)
    scene.breaks("b", 4)
    assert [note.worker for note in scene.noted("evicted")] == (["b"] if told else [])


@pytest.mark.parametrize("coordinator", [True, False])
def test_who_is_back_with_a_state_stays_until_those_that_train_told_that_they_do(scene, coordinator):
    scene.parted()
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, spec=replace(scene.job.spec, max_workers=1))})
    scene.train("a", 4)
    stands_still(scene, 8.0, coordinator)
    scene.register("b")
    scene.holds_on("b")
    assert scene.told("b", Release) == []
    scene.train("a", 5)
    assert scene.told("b", Release) != []


@pytest.mark.parametrize("coordinator", [True, False])
def test_who_is_to_go_stays_until_another_one_told_that_it_holds_the_state(scene, coordinator):
    scene.running("a", "b", step=3)
    scene.does(PauseJob("j", hold=True))
    scene.halt("ab", (1, 3))
    assert scene.job.phase is JobPhase.PAUSED
    trainers = {name: scene.cluster.sightings[name].trainer for name in "ab"}
    stands_still(scene, 8.0, coordinator)
    scene.says("a", Heartbeat(boot="b1", sequence=scene.sequence + 1, trainer=trainers["a"], leaving=True))
    assert scene.told("a", Go) == []
    scene.says("b", Heartbeat(boot="b1", sequence=scene.sequence + 2, trainer=trainers["b"]))
    assert scene.told("a", Go) != []


@pytest.mark.parametrize("back", [True, False])
def test_who_lacks_its_data_is_not_set_aside_for_what_one_that_is_back_held_before(scene, back):
    scene.running("a", "b", min_workers=1, step=3, step_timeout=60.0)
    scene.passes(scene.policy.halt_limit, heard="ab")
    says_that_it_starves(scene, "a")
    scene.halt("b", (1, 3))
    says_that_it_starves(scene, "a", phase=TrainerPhase.HALTED, promised=2)
    if back:
        comes_back(scene, "b", told=False)
    scene.after(GRACE + 0.1, heard="a")
    assert [note.worker for note in scene.noted("evicted")] == ([] if back else ["a"])


LATE = {
    "steps": StepsCommitted(job="j", incarnation="i1", generation=1, step=3),
    "an overtaken heartbeat": Heartbeat(boot="b1", sequence=1),
}


@pytest.mark.parametrize("word", LATE)
@pytest.mark.parametrize("registered", [True, False])
def test_a_late_word_of_who_was_cut_off_is_no_sign_that_it_holds_what_it_held(scene, word, registered):
    scene.running("a", "b", step=3, step_timeout=5.0)
    scene.passes(scene.policy.halt_limit, heard="ab")
    scene.breaks("a", 1)
    scene.beat("a", TrainerPhase.HALTED, promised=2, generation=1, version=Version(1, 3), at_work=True)
    scene.after(scene.job.spec.step_timeout + 0.1, heard="ab")
    scene.does(Disconnected("b"))
    if registered:
        scene.register("b")
    scene.passes(0.1, heard="a")
    scene.says("b", LATE[word])
    scene.after(0.1, heard="a")
    assert scene.noted("evicted") == []
    scene.train("b", 3)
    assert [note.worker for note in scene.noted("evicted")] == ["a"]


@pytest.mark.parametrize("version", [Version(1, 4), None])
def test_a_late_word_that_it_formed_takes_back_nothing_of_what_it_holds(scene, version):
    """It would count as a holder of what it has no more, or be sent away as one that holds no more than others."""
    scene.running("a", "b", step=3)
    scene.beat("b", TrainerPhase.BROKEN, promised=1, generation=1, version=version)
    scene.says("b", Formed(job="j", incarnation="i1", generation=1))
    trainer = scene.cluster.sightings["b"].trainer
    assert (trainer.phase, trainer.version) == (TrainerPhase.BROKEN, version)


def test_a_late_word_that_it_formed_is_still_one_that_it_did(scene):
    scene.submit(min_workers=2)
    scene.register("a", "b")
    scene.prepare("a", "b")
    scene.halt("ab", None)
    scene.beat("b", TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, 0))
    assert scene.cluster.watches["j"].formed == frozenset()
    scene.says("b", Formed(job="j", incarnation="i1", generation=1))
    assert {member.worker for member in scene.cluster.watches["j"].formed} == {"b"}


def test_who_only_sent_late_words_since_it_is_back_had_no_chance_yet(scene):
    scene.running("a", "b", step=3, min_workers=1)
    scene.breaks("b", 1)
    scene.halt("b", (1, 3))
    scene.register("a")
    for step in (2, 3):
        scene.passes(scene.policy.halt_limit / 2, heard="b")
        scene.says("a", StepsCommitted(job="j", incarnation="i1", generation=1, step=step))
    scene.after(0.1, heard="b")
    assert scene.members == ["b"]
    assert scene.noted("evicted") == []


def test_who_spoke_once_after_a_silence_was_not_asked_since_and_is_left_out_alive(scene):
    """Its one heartbeat may have been under way for long."""
    scene.running("a", "b", step=3, min_workers=1)
    scene.passes(scene.policy.halt_limit, heard="b")
    scene.breaks("b", 1)
    scene.halt("b", (1, 3))
    scene.passes(1.9, heard="b")
    scene.train("a", 3)
    scene.after(2.2, heard="b")
    assert scene.members == ["b"]
    assert scene.told("a", Kill) == []


def test_nothing_is_interrupted_for_a_newcomer_that_is_back_until_it_told_that_it_is_prepared(scene):
    scene.running("a", step=3, min_workers=1, max_workers=2)
    scene.register("c")
    scene.breaks("a", 1)
    scene.prepare("c")
    scene.does(Disconnected("c"))
    scene.halt("a", (1, 3))
    scene.after(scene.policy.halt_limit + 0.1, heard="a")
    scene.train("a", 3)
    assert scene.members == ["a"]
    scene.register("c")
    scene.does(Tick())
    assert scene.job.round is None
    scene.prepare("c")
    assert scene.job.round is not None


def test_what_one_worker_cannot_do_fails_no_job_while_another_holder_has_yet_to_tell(scene):
    scene.running("a", "b", min_workers=1)
    for n in range(1, 6):
        if n == 5:
            scene.register("b")
        scene.raises("a", n, step=0, shard=2)
        for name in "ab":
            if n < 5:
                scene.halt(name, (n, 0))
        for name in "ab":
            if n < 5:
                scene.train(name)
    assert not scene.job.ended
    assert set(scene.job.refused) == {"a"}


# --- What was told of a file outlives the coordinator


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("seen", [True, False])
def test_a_file_counts_once_all_that_held_its_state_are_given_up_though_too_few_are_there_to_go_on(
    scene, seen, restarted
):
    """b dies before it tells of step 4. a waits with it in memory, and its machine goes for good."""
    scene.running("a", "b", checkpoint_every=4)
    scene.train("b", 3)
    file = Checkpoint(Version(1, 4), "s3://c/j/g1-s4", "sum", 1)
    holds = {"generation": 1, "version": file.version, "written": (file,)}
    scene.beat("a", TrainerPhase.TRAINING, promised=1, **holds)
    scene.exits("b")
    scene.beat("b")
    scene.beat("a", TrainerPhase.HALTED, promised=scene.job.generation, **holds)
    assert scene.job.phase is JobPhase.WAITING
    if seen:
        scene.exits("a")
    scene.does(Disconnected("a"))
    scene.after(scene.policy.detached_limit + scene.policy.detached_margin + 1.0, heard="b")
    assert scene.job.saved == file.version
    if restarted:
        scene.restart()
        scene.register("b")
        scene.beat("b")
        scene.after(2 * scene.policy.detached_limit, heard="b")
    scene.register("c")
    scene.after(1.0, heard="bc")
    scene.prepare("b", "c", incarnation="i2")
    for _ in range(2):  # the first may wait for who is about to come back to this coordinator
        scene.halt("bc", None, incarnation="i2")
        scene.after(scene.policy.halt_limit + 0.1, heard="bc")
    assert scene.job.formation.base == file.version


def test_so_it_does_where_somebody_has_an_older_state(scene):
    """c was cut off with step 3, and comes back to wait with it. a and b had gone on, and their rack lost its power."""
    scene.running("a", "b", "c", min_workers=2, max_workers=3, step=3, checkpoint_every=4)
    scene.left_behind("c", "ab", 7)
    file = Checkpoint(Version(2, 8), "s3://c/j/g2-s8", "sum", 1)
    scene.beat("a", TrainerPhase.TRAINING, promised=2, generation=2, version=file.version, written=(file,))
    assert scene.job.checkpoint is None, "b may not have made it"
    for name in "ab":
        scene.does(Disconnected(name))
    scene.register("c")
    scene.holds_on("c")
    for _ in range(20):
        scene.after(5.0, heard="c")
        scene.halt("c", (1, 3))
    assert (scene.job.phase, scene.job.saved) == (JobPhase.WAITING, file.version)
