"""Whom a job no longer waits for: members of the last formation that are known dead, or silent for long enough."""

from dataclasses import replace

import pytest

from regroup.core.jobs import JobPhase, Member
from regroup.core.messages.commands import PauseJob, StopJob
from regroup.core.settling import passed
from regroup.core.turn import Turn


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
        scene.after(1.0, heard="a")
        if scene.job.round is not None:
            scene.halt("a", None, incarnation="i2")
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
