"""When a job makes room for another one that can go on with its workers, and what that costs it."""

from dataclasses import replace

import pytest

from regroup.core.absence import useless
from regroup.core.cluster import Rest
from regroup.core.jobs import JobPhase, Member, Version, Wanted
from regroup.core.making_room import ask, could_make_room
from regroup.core.messages.agent_reports import AgentLeft
from regroup.core.messages.commands import DrainWorker
from regroup.core.messages.events import Disconnected, Tick
from regroup.core.messages.trainer_reports import SaveFailed
from regroup.core.rounds import advance
from regroup.core.schedule import Cost
from regroup.core.turn import Turn
from regroup.core.workers import TrainerPhase


def test_a_job_that_only_prepared_makes_room_at_once(scene):
    for job, names in (("j", "ab"), ("k", "cd")):
        scene.submit(job, min_workers=2)
        scene.register(*names)
    for name in "bd":
        scene.says(name, AgentLeft(boot="b1"))
    scene.after(scene.policy.absent_limit + 1.0, heard="ac")
    scene.after(1.0, heard="ac")
    phases = [job.phase for job in scene.cluster.jobs.values()]
    assert phases == [JobPhase.PREPARING, JobPhase.QUEUED]
    assert scene.cluster.workers["c"].job in (None, "j")


def test_a_job_that_is_to_make_room_and_whose_state_is_out_of_reach_goes_on_waiting(scene):
    """Its only holder is cut off right after it was asked."""
    scene.running("a", "b")
    scene.train("a", 3)
    scene.train("b", 3)
    scene.says("b", AgentLeft(boot="b1"))
    scene.halt("a", (1, 3))
    assert scene.job.phase is JobPhase.WAITING
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, wanted=Wanted.YIELD)})
    scene.does(Disconnected("a"))
    scene.after(scene.policy.halt_limit + 1.0)
    assert scene.job.wanted is Wanted.YIELD
    scene.after(scene.policy.absent_limit + 1.0)
    assert (scene.job.wanted, scene.job.phase) == (Wanted.RUN, JobPhase.WAITING)


def test_who_once_could_not_save_may_be_asked_again_to_make_room_and_has_the_time_that_it_takes(scene):
    scene.running("a", "b")
    scene.train("a", 3)
    scene.says("b", AgentLeft(boot="b1"))
    scene.halt("a", (1, 3))
    watch = replace(scene.cluster.watches["j"], failed_savers=(Member("a", "i1"),))
    scene.cluster = replace(scene.cluster, watches={"j": watch})
    assert could_make_room(Turn(scene.cluster, scene.now, scene.policy), scene.job) is None
    scene.now += scene.policy.save_retry + 0.1
    turn = Turn(scene.cluster, scene.now, scene.policy)
    assert could_make_room(turn, scene.job) is Cost.NOTHING
    ask(turn, scene.job, replace(scene.job, id="k"))
    advance(turn, "j")
    scene.cluster = turn.cluster
    scene.after(0.2, heard="a")  # its answer takes longer than until the next look
    assert scene.job.wanted is Wanted.YIELD
    scene.halt("a", (1, 3))
    assert scene.job.saver == Member("a", "i1")


def test_to_make_room_costs_a_job_its_steps_where_all_that_held_them_are_dead(scene):
    scene.running("a", "b")
    scene.train("a", 3)
    scene.train("b", 3)
    scene.exits("a")
    scene.exits("b")
    scene.prepare("a", incarnation="i2")
    scene.halt("a", None, incarnation="i2")
    assert scene.job.phase is JobPhase.WAITING
    turn = Turn(scene.cluster, scene.now, scene.policy)
    assert could_make_room(turn, scene.job) is Cost.STEPS
    job = turn.change_job(scene.job, spec=replace(scene.job.spec, max_restarts=0))
    ask(turn, job, replace(job, id="k"))
    advance(turn, "j")
    scene.cluster = turn.cluster
    scene.after(scene.policy.halt_limit + 1.0, heard="a")
    scene.halt("a", None, incarnation="i2")
    rests = JobPhase.PAUSED, JobPhase.QUEUED, JobPhase.PREPARING
    assert scene.job.phase in rests, "the scheduler means it to lose them: that is no failure"
    assert scene.job.restarts == 0


def test_a_job_whose_only_holder_does_not_come_back_from_the_task_cannot_make_room(scene):
    """Else it would be asked at each look, in vain, and nobody else would be."""
    scene.running("a", "b")
    scene.train("a", 3)
    scene.says("b", AgentLeft(boot="b1"))
    scene.halt("a", (1, 3))
    n = scene.job.generation
    scene.beat("a", TrainerPhase.HALTED, promised=n, generation=1, version=Version(1, 3), at_work=True)
    assert could_make_room(Turn(scene.cluster, scene.now, scene.policy), scene.job) is None
    scene.beat("a", TrainerPhase.HALTED, promised=n, generation=1, version=Version(1, 3))
    assert could_make_room(Turn(scene.cluster, scene.now, scene.policy), scene.job) is Cost.NOTHING


def test_a_job_that_is_to_make_room_and_cannot_save_goes_on_waiting_and_holds_nobody_up(scene):
    scene.running("a", "b")
    scene.train("a", 3)
    scene.says("b", AgentLeft(boot="b1"))
    scene.halt("a", (1, 3))
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, wanted=Wanted.YIELD)})
    scene.does(Tick())
    scene.halt("a", (1, 3))
    n = scene.job.generation
    scene.says("a", SaveFailed(job="j", incarnation="i1", generation=n, error="OSError: disk full"))
    scene.after(0.2, heard="a")
    assert scene.job.wanted is Wanted.RUN


def test_a_job_that_cannot_save_is_asked_to_make_room_no_more_often_than_it_tries(scene):
    """A disk stays full: else its user would be told at every look, and nothing come of it."""
    scene.submit("i", min_workers=2)
    scene.register(*"ab")
    scene.prepare("a", job="i")
    scene.running("c", "d")
    scene.train("c", 3)
    for name in "bd":
        scene.says(name, AgentLeft(boot="b1"))
    scene.halt("c", (1, 3))
    tries = 0
    for _ in range(200):
        scene.after(0.5, heard="ac")
        if scene.job.round is not None:
            scene.halt("c", (1, 3))
        if scene.job.saver is not None:
            n = scene.job.generation
            scene.says("c", SaveFailed(job="j", incarnation="i1", generation=n, error="OSError: disk full"))
            tries += 1
    assert 3 <= len([note for note in scene.noted("yielding") if note.job == "j"]) <= tries


@pytest.mark.parametrize("min_workers", [2, 3])
def test_one_that_once_rested_counts_in_a_job_that_has_too_few_to_try_it_again(scene, min_workers):
    """Three trained, and a newcomer rested; two of them left for good."""
    scene.running("a", "b", "c", "d", min_workers=min_workers, step=3)
    watch = replace(scene.cluster.watches["j"], resting={"d": Rest(1, scene.now)})
    scene.cluster = replace(scene.cluster, watches={"j": watch})
    for name in "bc":
        scene.says(name, AgentLeft(boot="b1"))
    turn = Turn(scene.cluster, scene.now, scene.policy)
    assert ("d" in useless(turn)) is (min_workers == 2)


def test_whoever_rests_as_its_holders_leave_keeps_its_place_in_the_queue(scene):
    """b alone holds j, and is drained; a prepares to join. What is freed by that is j's before it is k's."""
    scene.running("b", step=3, max_workers=2)
    scene.register("a")
    scene.beat("a", TrainerPhase.PREPARING)
    scene.submit("k", max_workers=1)
    scene.does(DrainWorker("b"))
    scene.halt("b", (1, 3))
    scene.saved("b", (1, 3))
    scene.exits("a", asked=True)
    scene.beat("a")
    scene.does(Tick())
    assert scene.cluster.workers["a"].job == "j"


def test_nor_is_what_it_frees_lent_in_the_same_decision(scene):
    """As before; a, lent to j, has no trainer just then."""
    scene.running("b", step=3, max_workers=2)
    scene.register("a")
    scene.submit("k", max_workers=1)
    scene.does(DrainWorker("b"))
    scene.halt("b", (1, 3))
    scene.saved("b", (1, 3))
    scene.does(Tick())
    assert scene.cluster.workers["a"].job == "j"
