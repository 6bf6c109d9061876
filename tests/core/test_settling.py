"""Whom a job no longer waits for: members of the last formation that are known dead, or silent for long enough."""

from dataclasses import replace

import pytest

from regroup.core.cluster import Rest
from regroup.core.jobs import Checkpoint, JobPhase, Member, Version
from regroup.core.messages.commands import PauseJob, ResumeJob, StopJob, SubmitJob
from regroup.core.messages.events import Disconnected, Tick
from regroup.core.messages.orders import Halt, Heard, Kill
from regroup.core.messages.trainer_reports import CheckpointUnreadable, GroupBroke, PeersUnreached, ReplicasDiffered
from regroup.core.roster import passed
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
    scene.train("ab", 3)
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
    scene.halt("ab", (1, 3))
    scene.train("ab", 4)
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
    scene.halt("abc", None)
    assert scene.members == ["a", "b", "c"]


# --- Who holds as much


@pytest.mark.parametrize("least", [1, 3])
def test_an_older_state_that_is_heard_is_no_reason_to_give_up_who_may_alone_hold_the_newest(scene, least):
    """x answered with it, and is not heard any more. y, which came back, has an older one; z has yet to answer."""
    scene.running("x", "y", "z", min_workers=1, step=3)
    scene.left_behind("y", "xz", 8)
    spec = replace(scene.job.spec, min_workers=least)
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, spec=spec)})
    scene.passes(5.0, heard="xz")
    scene.register("y")
    scene.holds_on("y")
    scene.passes(5.0, heard="xyz")
    scene.breaks("x", 2)
    scene.halt("x", (2, 8))
    scene.halt("y", (1, 3))
    scene.after(scene.policy.halt_limit + 0.1, heard="yz")
    assert scene.noted("evicted") == []


# --- Who was taken off its job has no lease


def sent_away(scene):
    """b, whose replica was the odd one, was taken off the job with nothing, and its process does not end. Then a, which
    had the state, is lost: nobody asked b for its promise."""
    scene.running("a", "b", step=3)
    scene.passes(5.0, heard="ab")
    worker = replace(scene.cluster.workers["b"], errors=5)
    scene.cluster = replace(scene.cluster, workers={**scene.cluster.workers, "b": worker})
    scene.says("a", ReplicasDiffered(job="j", incarnation="i1", generation=1, step=3, digests=("x", "y")))
    assert scene.cluster.workers["b"].quarantined
    scene.register("a", boot="b2")


def clings(scene):
    scene.now += 1.0
    scene.beat("b", TrainerPhase.BROKEN, promised=1, generation=1)
    assert [order.generation for order in scene.told("b", Heard)] == [0]


def test_a_job_goes_on_once_the_lease_of_who_was_taken_off_it_and_does_not_end_is_over(scene):
    sent_away(scene)
    scene.register("c")
    began = scene.now
    while scene.job.phase is not JobPhase.RUNNING and scene.now < began + 1000.0:
        clings(scene)
        for name, incarnation in (("a", "i2"), ("c", "i1")):
            if scene.cluster.workers[name].job is None:
                scene.beat(name)
            elif scene.job.round is not None:
                scene.halt(name, None, incarnation)
            elif scene.job.formation.generation == scene.job.generation:
                scene.train(name, incarnation=incarnation)
            else:
                scene.prepare(name, incarnation=incarnation)
        scene.does(Tick())
    assert scene.members == ["a", "c"]
    assert scene.now - began > scene.policy.detached_limit


def test_a_stop_waits_for_who_was_taken_off_its_job_no_longer_than_for_anybody(scene):
    sent_away(scene)
    scene.does(StopJob("j"))
    began = scene.now
    while not scene.job.ended and scene.now < began + 1000.0:
        clings(scene)
        scene.beat("a")
        scene.does(Tick())
    assert scene.job.phase is JobPhase.STOPPED
    assert scene.now - began < 2 * scene.policy.absent_limit


def test_what_renews_the_lease_of_another_job_renews_none_of_the_trainer_that_its_worker_still_has(scene):
    """The numbers of their generations may be the same."""
    scene.running("a", "b", min_workers=1, step=3)
    scene.does(SubmitJob("k", replace(scene.job.spec, min_workers=1, max_workers=1), 0.0))
    worker = replace(scene.cluster.workers["b"], job="k")
    jobs = {**scene.cluster.jobs, "k": replace(scene.job, id="k")}
    scene.cluster = replace(scene.cluster, jobs=jobs, workers={**scene.cluster.workers, "b": worker})
    renewed = scene.cluster.sightings["b"].renewed
    scene.now += 1.0
    scene.train("b", 3)
    assert [order.generation for order in scene.told("b", Heard)] == [0]
    assert scene.cluster.sightings["b"].renewed == renewed


def test_a_sound_member_that_was_left_out_on_a_suspicion_is_waited_for_as_any_that_is_cut_off(scene):
    scene.running("a", "b", min_workers=1, step=3)
    scene.passes(scene.policy.halt_limit, heard="ab")
    scene.breaks("a", 1)
    for n in (2, 3):
        scene.forms("ab", n)
        told = {"job": "j", "incarnation": "i1", "generation": n}
        scene.says("b", PeersUnreached(**told, peers=(Member("a", "i1"),)))
        scene.says("b", GroupBroke(**told, reason="no way leads there"))
    assert [note.worker for note in scene.noted("evicted")] == ["b"]
    scene.does(Disconnected("b"))
    scene.halt("a", (1, 3))
    scene.train("a", 5)
    scene.exits("a")
    scene.prepare("a", incarnation="i2")
    scene.halt("a", None, incarnation="i2")
    assert (scene.job.phase, scene.job.formation.generation) == (JobPhase.WAITING, 4)
    assert "may be b's: waiting for it to answer" in scene.job.reason
    scene.register("b")
    scene.holds_on("b")
    assert (scene.told("b", Kill), len(scene.told("b", Halt))) == ([], 1)


# --- What begins anew


def test_who_answered_and_was_listed_owes_its_word_anew(scene):
    """Its group did not form: what it owed before, it gave."""
    scene.running("a", "b", step=3)
    scene.breaks("a", 1)
    scene.forms("ab", 2)
    scene.after(scene.policy.detached_limit - 2.0, heard="ab")
    assert scene.job.round.generation == 3
    scene.after(scene.policy.halt_limit + 0.1, heard="ab")
    assert not scene.noted("evicted")


def test_a_total_loss_that_is_settled_as_the_job_rests_is_a_restart(scene):
    scene.running("a", "b", step=3)
    scene.does(PauseJob("j", hold=True))
    scene.exits("a")
    scene.exits("b")
    assert scene.noted("rolled_back")
    scene.does(ResumeJob("j"))
    scene.prepare("a", "b", incarnation="i2")
    scene.halt("ab", None, "i2")
    assert scene.job.restarts == 1


def test_a_job_that_rests_fails_as_it_loses_all_state_more_often_than_it_may(scene):
    scene.running("a", "b", step=3, max_restarts=0)
    scene.does(PauseJob("j"))
    scene.exits("a")
    scene.exits("b")
    assert (scene.job.phase, scene.job.restarts) == (JobPhase.FAILED, 1)
    assert scene.job.reason == "all state was lost more often than max_restarts (0)"
    assert not scene.noted("rolled_back"), "what was measured of the steps that it shows stays"
    assert scene.job.step == 3


def test_nobody_is_given_up_that_was_not_heard_since_it_was_asked(make_scene):
    """Heartbeats may be rarer than a round lasts."""
    scene = make_scene(heartbeat_interval=2.0, halt_limit=2.0)
    scene.running("a", "b", min_workers=1, step=3)
    scene.passes(scene.policy.halt_limit, heard="ab")
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    scene.after(scene.policy.halt_limit + 0.1, heard="a")
    assert not scene.noted("evicted")


@pytest.mark.parametrize("lost", [False, True])
def test_what_was_evaluated_before_all_was_lost_hides_no_evaluation_that_gets_on_after_it(scene, lost):
    """Their group breaks in each evaluation of step 2, and each time one more chunk of it was done."""
    scene.running("a", "b", "c", evaluate_every=2)
    incarnation = "i1"
    if lost:
        scene.train("abc", 6)
        scene.train("abc", 6, evaluated=1)
        for name in "abc":
            scene.exits(name)
            scene.beat(name)
        incarnation = "i2"
        scene.prepare("a", "b", "c", incarnation=incarnation)
        scene.halt("abc", None, incarnation)
    assert scene.members == ["a", "b", "c"]
    for chunk in range(1, 6):
        scene.train("abc", 2, incarnation)
        scene.passes(3.0, heard="abc")
        scene.train("abc", 2, incarnation, evaluated=chunk)
        scene.passes(3.0, heard="abc")
        n = scene.job.formation.generation
        scene.breaks("a", n, incarnation)
        scene.halt("abc", (n, 2), incarnation)
    assert scene.noted("evicted") == []


def test_what_is_remembered_of_trainers_does_not_grow_with_those_that_died(scene):
    scene.running("a", "b", min_workers=2, step=3)
    for number in range(2, 7):
        scene.exits("b", f"i{number - 1}")
        held = scene.cluster.sightings["a"].trainer.version
        scene.halt("a", (held.generation, held.step))
        scene.prepare("b", incarnation=f"i{number}")
        scene.halt("a", (held.generation, held.step))
        scene.halt("b", None, f"i{number}")
        assert scene.job.formation.members[1].incarnation == f"i{number}"
        scene.train("a", held.step)
        scene.train("b", held.step, f"i{number}")
    assert len(scene.cluster.watches["j"].dead) <= 2
