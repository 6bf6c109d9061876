"""Whose code or data differ, while those that it is compared with are only not heard of."""

from dataclasses import replace

import pytest

from regroup.core.jobs import Beginning, Checkpoint, Fingerprint, Version
from regroup.core.messages.agent_reports import Heartbeat
from regroup.core.messages.events import Disconnected
from regroup.core.workers import Hang, LoopPhase, TrainerPhase

MENDED = Fingerprint("mended code", "data", 100)
UNMOUNTED = Fingerprint("code", "an empty mount", 100)


@pytest.mark.parametrize("how", ["coordinator", "connection"])
def test_whose_code_is_another_does_not_set_it_while_those_that_set_it_are_only_not_heard_of(scene, how):
    scene.submit(min_workers=3, max_workers=3)
    scene.register("a", "b", "c", "d")
    scene.prepare("a", "b")
    scene.beat("c", TrainerPhase.PREPARING)
    if how == "coordinator":
        scene.restart()
        scene.register(*"cabd")
    else:
        scene.does(Disconnected("a"))
        scene.does(Disconnected("b"))
    ours = scene.job.fingerprint
    scene.beat("c", TrainerPhase.PREPARED, fingerprint=Fingerprint("other code", "data", 100))
    assert scene.job.fingerprint == ours
    scene.prepare("a", "b")
    scene.beat("c", TrainerPhase.PREPARED, fingerprint=Fingerprint("other code", "data", 100))
    assert (set(scene.job.refused), scene.job.fingerprint) == ({"c"}, ours)


def test_where_nobody_comes_back_that_set_the_code_others_set_it_anew(scene):
    scene.submit(min_workers=3, max_workers=3)
    scene.register("a", "b", "c", "d", "e")
    scene.prepare("a", "b")
    for name in "ab":
        scene.does(Disconnected(name))
    for _ in range(4):
        scene.after(10.0, heard="cde")
    other = Fingerprint("mended code", "data", 100)
    for name in "cde":
        scene.beat(name, TrainerPhase.PREPARED, fingerprint=other)
    assert scene.job.fingerprint == other
    assert scene.job.refused == {}


def test_data_of_one_worker_fails_no_job_while_the_others_are_only_not_heard_of(scene):
    scene.submit(min_workers=2, max_workers=3, steps=10**6)
    begins = Beginning("old", Checkpoint(Version(7, 100), "/c/old", "sum", 1), Fingerprint("code", "data", 100))
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, beginning=begins, step=100)})
    scene.register("a", "b", "c")
    for name in "abc":
        scene.beat(name, TrainerPhase.PREPARING)
    scene.restart()
    scene.register("a")
    scene.beat("a", TrainerPhase.PREPARED, fingerprint=Fingerprint("code", "empty mount", 3))
    assert set(scene.job.refused) == {"a"}


@pytest.mark.parametrize("durable", [False, True], ids=["nothing", "a checkpoint"])
def test_once_nothing_is_left_that_was_trained_with_it_mended_code_is_taken(scene, durable):
    scene.running("a", step=3, checkpoint_every=3)
    if durable:
        kept = Checkpoint(Version(1, 3), "/c/j/s3", "sum", 1, "a", host="h")
        scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, checkpoint=kept)})
    scene.register("a", boot="b2")
    scene.beat("a", TrainerPhase.PREPARED, incarnation="i2", fingerprint=MENDED)
    assert set(scene.job.refused) == ({"a"} if durable else set())
    assert (scene.job.fingerprint == MENDED) is not durable


@pytest.mark.parametrize("back", [False, True])
def test_whose_code_is_another_is_refused_only_as_long_as_a_member_is_waited_for_that_may_have_the_state(scene, back):
    scene.running("a", "b", min_workers=1, step=3)
    scene.does(Disconnected("b"))
    scene.register("a", boot="b2")
    scene.beat("a", TrainerPhase.PREPARED, incarnation="i2", fingerprint=MENDED)
    assert set(scene.job.refused) == {"a"}
    scene.after(scene.policy.detached_limit - 1.0, heard="a")
    scene.register("a", boot="b3")
    scene.beat("a", TrainerPhase.PREPARED, incarnation="i3", fingerprint=MENDED)
    assert set(scene.job.refused) == {"a"}
    if back:
        scene.register("b", boot="b2")
        scene.beat("b", TrainerPhase.PREPARED, incarnation="i4", fingerprint=MENDED)
    else:
        scene.after(scene.policy.detached_margin + 2.0, heard="a")
    scene.register("a", boot="b4")
    for name in "aba" if back else "a":  # each says it with its next heartbeat, too
        scene.beat(name, TrainerPhase.PREPARED, incarnation="i4", fingerprint=MENDED)
    assert (scene.job.refused, scene.job.fingerprint) == ({}, MENDED)


def test_whose_code_is_another_does_not_take_a_job_over_while_who_trained_it_prepares_again(scene):
    """All that was trained is lost; whoever trained is told apart from a newcomer only by what it prepared."""
    scene.running("a", min_workers=1, max_workers=2, step=3)
    scene.register("b")
    ours = scene.job.fingerprint
    scene.exits("a")
    scene.beat("a", TrainerPhase.PREPARING, incarnation="i2")
    other = Fingerprint("other code", "data", 100)
    scene.beat("b", TrainerPhase.PREPARED, fingerprint=other)
    scene.after(1.0, heard="ab")
    assert (dict(scene.job.refused), scene.job.fingerprint, scene.job.round) == ({}, ours, None)
    scene.prepare("a", incarnation="i2")
    scene.beat("b", TrainerPhase.PREPARED, fingerprint=other)
    assert (set(scene.job.refused), scene.job.fingerprint) == ({"b"}, ours)
    assert [member.worker for member in scene.job.round.participants] == ["a"]


def test_whose_code_is_given_up_by_its_job_is_not_lent_again_for_a_state_that_only_it_has(scene):
    """c is cut off. The coordinator is another one by then, and nobody else knows of it."""
    scene.running("a", "b", "c", min_workers=2, max_workers=3, step=3)
    scene.left_behind("c", "ab", 5)
    scene.after(scene.policy.absent_limit + 1.0, heard="ab")
    scene.restart()
    scene.register("a", "b", boot="b2")
    scene.after(scene.policy.halt_limit + 1.0, heard="ab")
    for name in "aba":
        scene.beat(name, TrainerPhase.PREPARED, incarnation="i2", fingerprint=MENDED)
    assert scene.job.fingerprint == MENDED
    scene.register("c")
    for _ in range(3):
        scene.beat("c", TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, 3))
        scene.after(1.0, heard="abc")
    assert [note.worker for note in scene.noted("lent")] == list("abc"), "as the job began"
    assert {member.worker for member in scene.job.round.participants} == {"a", "b"}


@pytest.mark.parametrize("how", ["is not heard", "does not end"])
def test_mended_code_does_not_wait_for_ever_for_a_worker_of_which_nothing_is_to_be_had(scene, how):
    """It trained, too, and was started anew; then its agent falls silent, or its trainer hangs as it prepares, is
    evicted, and stays in the kernel."""
    scene.running("a", "b", min_workers=1, step=3)
    scene.register("a", "b", boot="b2")
    if how == "does not end":
        scene.beat("b", TrainerPhase.PREPARING, "i2")
    scene.beat("a", TrainerPhase.PREPARED, "i2", fingerprint=MENDED)
    assert scene.job.fingerprint != MENDED, "b may have mended code of its own"
    limit = scene.policy.absent_limit + (scene.policy.prepare_limit if how == "does not end" else 0.0)
    for _ in range(round(limit / 5.0) + 3):
        scene.after(5.0, heard="a" if how == "is not heard" else "ab")
        if how == "does not end":
            scene.beat("b", TrainerPhase.PREPARING, "i2")
        scene.beat("a", TrainerPhase.PREPARED, "i2", fingerprint=MENDED)
    assert scene.job.fingerprint == MENDED


@pytest.mark.parametrize("restarted", [False, True])
def test_mended_code_waits_for_who_may_bring_back_what_was_trained_with_the_old_one(scene, restarted):
    """c was cut off with step 3, and taken off the job. a went on alone, and died; its user mended the code."""
    scene.running("a", "c", min_workers=1, step=3)
    scene.left_behind("c", "a", 5)
    scene.after(scene.policy.absent_limit + 1.0, heard="a")
    scene.train("a", 6)
    assert scene.cluster.workers["c"].job is None
    scene.exits("a")
    scene.beat("a", TrainerPhase.PREPARING, "i2")
    if restarted:
        scene.restart()
        scene.register("a")
        scene.after(1.0, heard="a")
    scene.beat("a", TrainerPhase.PREPARED, "i2", fingerprint=Fingerprint("mended", "data", 100))
    scene.register("c")
    scene.holds_on("c")
    scene.halt("c", (1, 3))
    assert scene.job.formation.base == Version(1, 3)
    assert scene.job.fingerprint.code == "code"


@pytest.mark.parametrize("restarted", [False, True])
def test_who_trained_is_back_before_anything_is_formed_with_the_data_that_were_set_anew(scene, restarted):
    """a and b are cut off for longer than rule 7 waits. d and e are lent; d has other data, and e still prepares."""
    scene.running("a", "b", min_workers=2, max_workers=2, step=3)
    scene.register("d", "e")
    scene.does(Disconnected("a"))
    scene.does(Disconnected("b"))
    for _ in range(28):  # detached_limit, detached_margin and more
        scene.after(5.0, heard="de")
    assert [scene.cluster.workers[name].job for name in "de"] == ["j", "j"]
    scene.beat("e", TrainerPhase.PREPARING)
    scene.beat("d", TrainerPhase.PREPARED, fingerprint=UNMOUNTED)
    assert (scene.job.fingerprint, scene.job.round) == (UNMOUNTED, None)
    if restarted:
        scene.restart()
        scene.register("d", "e")
    for name in "ab":
        scene.register(name)
        scene.beat(name, TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, 3))
    for _ in range(3):
        scene.after(1.0, heard="abe")
        scene.halt("ab", (1, 3))
    assert (scene.job.formation.base, scene.members) == (Version(1, 3), ["a", "b"])
    assert not {"a", "b"} & {*scene.job.refused}
    assert restarted or "d" in scene.job.refused
    assert scene.job.fingerprint != UNMOUNTED


def test_who_hangs_and_was_given_up_does_not_set_back_what_was_set_anew(scene):
    scene.running("a", min_workers=1, max_workers=1, step=3)
    scene.register("d")
    trainer = scene.cluster.sightings["a"].trainer
    for beat in range(50):
        hang = Hang(phase=LoopPhase.COMPUTE, lasts=60.2 + 5.0 * beat, limit=60.0)
        scene.after(5.0, heard="d")
        scene.says("a", Heartbeat(boot="b1", sequence=100 + beat, trainer=trainer, hang=hang))
        if scene.job.reason.startswith("waits for workers"):
            scene.beat("d", TrainerPhase.PREPARED, fingerprint=UNMOUNTED)
    assert scene.noted("evicted")
    assert (scene.job.fingerprint, scene.cluster.workers["d"].job) == (UNMOUNTED, "j")


def test_mended_code_of_all_is_refused_on_nobody_because_the_coordinator_began_anew(scene):
    """a and b lost all, and prepare mended code. a is ready, and waits for b; after the restart it is back first."""
    scene.running("a", "b", min_workers=1, step=3)
    scene.register("a", "b", boot="b2")
    scene.beat("b", TrainerPhase.PREPARING, "i2")
    scene.beat("a", TrainerPhase.PREPARED, "i2", fingerprint=MENDED)
    scene.restart()
    scene.register("a", boot="b2")
    scene.beat("a", TrainerPhase.PREPARED, "i2", fingerprint=MENDED)
    scene.register("b", boot="b2")
    for name in "baba":
        scene.beat(name, TrainerPhase.PREPARED, "i2", fingerprint=MENDED)
    scene.after(1.0, heard="ab")
    assert (dict(scene.job.refused), scene.job.fingerprint) == ({}, MENDED)


def test_who_is_back_and_hangs_does_not_set_back_what_was_set_anew(scene):
    """a was cut off for longer than rule 7 waits; its line is back, and its trainer hangs in a pass."""
    scene.running("a", min_workers=1, max_workers=1, step=3)
    scene.register("d", "e")
    trainer = scene.cluster.sightings["a"].trainer
    scene.does(Disconnected("a"))
    for _ in range(28):
        scene.after(5.0, heard="de")
    assert scene.cluster.workers["d"].job == "j"
    scene.beat("d", TrainerPhase.PREPARED, fingerprint=UNMOUNTED)
    scene.register("a")
    hang = Hang(phase=LoopPhase.COMPUTE, lasts=160.0, limit=60.0)
    scene.says("a", Heartbeat(boot="b1", sequence=200, trainer=trainer, hang=hang))
    assert (scene.job.fingerprint, "d" in scene.job.refused) == (UNMOUNTED, False)
