"""Whom a round no longer waits for: members of the last formation that are known dead, or silent for long enough."""

from dataclasses import replace

import pytest

from regroup.core.jobs import Member
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
