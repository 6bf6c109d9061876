"""Whom a job no longer waits for: members of the last formation that are known dead, or silent for long enough."""

from dataclasses import replace

import pytest

from regroup.core.cluster import Rest
from regroup.core.jobs import Checkpoint, JobPhase, Member, Version
from regroup.core.messages.commands import PauseJob, StopJob
from regroup.core.messages.trainer_reports import CheckpointUnreadable
from regroup.core.settling import passed
from regroup.core.turn import Turn
from regroup.core.workers import TrainerPhase


@pytest.mark.parametrize(("later", "given_up"), [(-1.0, set()), (1.0, {Member("a", "i1")})], ids=["before", "after"])
def test_who_was_heard_before_the_coordinator_stood_still_is_silent_only_since_it_is_awake(scene, later, given_up):
    """While it stood still it heard nobody: that is no silence of theirs."""
    scene.running("a")
    scene.passes(1000.0, heard="")
    scene.cluster = replace(scene.cluster, awake=scene.now)
    limit = scene.policy.leader_lease + scene.policy.detached_limit + scene.policy.detached_margin
    turn = Turn(scene.cluster, scene.now + limit + later, scene.policy)
    assert passed(turn, scene.job) == given_up


def silent_but_connected(scene, seconds: float) -> None:
    """a and b trained; b's agent says nothing any more, and its connection stands; a's trainer is another one."""
    scene.running("a", "b", min_workers=1)
    for name in "ab":
        scene.train(name, 3)
    scene.after(scene.policy.halt_limit, heard="ab")
    scene.exits("a")
    scene.beat("a")
    scene.prepare("a", incarnation="i2")
    until = scene.now + seconds
    while scene.now < until:
        a_second_passes(scene)


def a_second_passes(scene) -> None:
    """a's agent is heard, and its new trainer, which holds nothing, answers whatever it is asked."""
    scene.after(1.0, heard="a")
    if scene.job.round is not None:
        scene.halt("a", None, incarnation="i2")


def test_who_is_connected_and_says_nothing_is_waited_for_no_longer_than_whoever_is_cut_off(scene):
    limit = scene.policy.detached_limit + scene.policy.detached_margin
    silent_but_connected(scene, limit - 2 * scene.policy.halt_limit)
    assert scene.job.reason.startswith("the state of generation 1 may live on b")
    begun = scene.job.generation
    assert begun <= 3, "nobody is asked again and again"
    for _ in range(int(4 * scene.policy.halt_limit)):
        a_second_passes(scene)
    assert scene.members == ["a"]


def test_nor_is_a_stop_held_up_by_it(scene):
    silent_but_connected(scene, 1.0)
    scene.does(StopJob("j"))
    scene.halt("a", None, incarnation="i2")
    scene.after(scene.policy.absent_limit + scene.policy.halt_limit, heard="a")
    scene.halt("a", None, incarnation="i2")
    assert scene.job.phase is JobPhase.STOPPED


def test_nothing_is_given_up_for_a_pause_that_it_holds_up(scene):
    silent_but_connected(scene, 1.0)
    scene.does(PauseJob("j"))
    scene.halt("a", None, incarnation="i2")
    scene.after(10 * scene.policy.detached_limit, heard="a")
    scene.halt("a", None, incarnation="i2")
    assert scene.job.phase is JobPhase.WAITING
    assert "waiting for it to answer" in scene.job.reason


def test_a_checkpoint_is_read_again_though_one_that_says_nothing_any_more_held_more(scene):
    silent_but_connected(scene, 1.0)
    file = Checkpoint(Version(1, 2), "/c/j", "sum", 1)
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, checkpoint=file)})
    for _ in range(2):
        until = scene.now + scene.policy.detached_limit + scene.policy.detached_margin + 4 * scene.policy.halt_limit
        while scene.job.formation.generation < scene.job.generation and scene.now < until:
            a_second_passes(scene)
        n = scene.job.generation
        assert (scene.members, scene.job.formation.generation) == (["a"], n)
        scene.beat("a", TrainerPhase.FORMING, "i2", promised=n, generation=n)
        scene.says("a", CheckpointUnreadable(job="j", incarnation="i2", generation=n, error="no such file"))
        scene.beat("a", TrainerPhase.BROKEN, "i2", promised=n, generation=n)


def test_one_that_rests_is_asked_where_the_others_are_enough_only_with_one_that_says_nothing_any_more(scene):
    """b says nothing; c could not be reached a while ago."""
    scene.running("a", "b", "c", min_workers=2, step=3)
    scene.after(1.0, heard="abc")
    scene.exits("c")
    scene.beat("c")
    for name in "ab":
        scene.halt(name, (1, 3))
    for name in "ab":
        scene.train(name, 4)
    watch = replace(scene.cluster.watches["j"], resting={"c": Rest(5, scene.now + 600.0)})
    scene.cluster = replace(scene.cluster, watches={"j": watch})
    scene.prepare("c", incarnation="i2")
    trained = scene.job.generation
    scene.breaks("a", trained)
    while scene.members != ["a", "c"] and scene.job.generation < trained + 10:
        scene.after(1.0, heard="ac")
        if scene.job.round is not None:
            scene.halt("a", (trained, 4))
        if scene.job.round is not None:
            scene.halt("c", None, incarnation="i2")
    assert scene.members == ["a", "c"]


def test_who_beats_more_rarely_than_one_may_be_away_says_enough(make_scene):
    scene = make_scene(heartbeat_interval=60.0, absent_limit=30.0, detached_limit=300.0)
    scene.submit(min_workers=3, max_workers=3)
    scene.register("a", "b", "c")
    for name in "abc":
        scene.passes(20.0, heard="")
        scene.prepare(name)
    for name in "abc":
        scene.halt(name, None)
    assert scene.members == ["a", "b", "c"]
