"""Whose code or data differ, while those that it is compared with are only not heard of."""

from dataclasses import replace

import pytest

from regroup.core.jobs import Beginning, Checkpoint, Fingerprint, Version
from regroup.core.messages.events import Disconnected
from regroup.core.workers import TrainerPhase


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
    scene.beat("c", TrainerPhase.PREPARED, fingerprint=Fingerprint("other code", "data", 100))
    scene.prepare("a", "b")
    assert set(scene.job.refused) == {"c"}


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
    mended = Fingerprint("mended code", "data", 100)
    scene.beat("a", TrainerPhase.PREPARED, incarnation="i2", fingerprint=mended)
    assert set(scene.job.refused) == ({"a"} if durable else set())
    assert (scene.job.fingerprint == mended) is not durable


def test_whose_code_is_another_is_refused_as_long_as_a_member_may_be_back_with_the_state(scene):
    scene.running("a", "b", min_workers=1, step=3)
    scene.does(Disconnected("b"))
    scene.register("a", boot="b2")
    mended = Fingerprint("mended code", "data", 100)
    scene.beat("a", TrainerPhase.PREPARED, incarnation="i2", fingerprint=mended)
    assert set(scene.job.refused) == {"a"}
    scene.after(scene.policy.detached_limit + scene.policy.detached_margin + 1.0, heard="a")
    scene.register("a", boot="b3")
    scene.beat("a", TrainerPhase.PREPARED, incarnation="i3", fingerprint=mended)
    assert set(scene.job.refused) == {"a"}
    scene.register("b", boot="b2")
    scene.register("a", boot="b4")
    scene.beat("a", TrainerPhase.PREPARED, incarnation="i4", fingerprint=mended)
    assert (scene.job.refused, scene.job.fingerprint) == ({}, mended)
