"""Whom a job lets go, so that others may have them, or take their place."""

from dataclasses import replace

import pytest

from regroup.core.cluster import Rest
from regroup.core.jobs import JobPhase, Member
from regroup.core.messages.commands import PauseJob
from regroup.core.messages.events import Disconnected
from regroup.core.messages.orders import Release
from regroup.core.messages.trainer_reports import PeersUnreached

FREE = "efg"


def goes_on(scene, heard):
    """All that take part answer their Halt, or make a step; whoever is lent is prepared."""
    scene.after(scene.policy.halt_limit + 0.1, heard=heard)
    if scene.job.round is not None:
        for member in [one for one in scene.job.round.participants if one.worker in heard]:
            held = scene.cluster.sightings[member.worker].trainer.version
            scene.halt([member.worker], (held.generation, held.step) if held else None, member.incarnation)
    elif scene.job.formation.generation == scene.job.generation:
        step = scene.job.step + 1
        for member in scene.job.formation.members:
            scene.train([member.worker], step, member.incarnation)
    for name in FREE:
        if scene.cluster.workers[name].job == "j" and scene.cluster.sightings[name].trainer is None:
            scene.prepare(name)


def test_those_that_say_nothing_are_not_lent_and_taken_back_with_every_event(scene):
    """They are connected, and their agents hang; whoever is of use has a place."""
    scene.running("a", min_workers=1, max_workers=2, step=3)
    scene.register("b", "c")
    for name in "bc":
        scene.beat(name)
    for _ in range(20):
        scene.after(1.0 + scene.policy.absent_limit, heard="a")
    assert len(scene.noted("lent")) <= 4


@pytest.mark.parametrize("silent", [False, True], ids=["nobody reaches them", "their agents say nothing"])
@pytest.mark.parametrize("useless", ["d", "cd"])
def test_free_workers_take_the_places_of_all_that_are_of_no_use(scene, useless, silent):
    """As all those of a machine are whose network to the others is cut, or whose agents hang."""
    scene.running(*"abcd", min_workers=1, max_workers=4, step=3)
    scene.register(*FREE)
    others = [name for name in "abcd" if name not in useless]
    if not silent:
        watch = scene.cluster.watches["j"]
        resting = {name: Rest(9, scene.now + 600.0) for name in useless}
        scene.cluster = replace(scene.cluster, watches={"j": replace(watch, resting=resting)})
    for name in others:  # the group is without them by now
        scene.breaks(name, 1)
    for name in useless:
        scene.exits(name, asked=True)
        scene.prepare(name, incarnation="i2")
    scene.halt(others, (1, 3))
    for _ in range(12):
        goes_on(scene, [*others, *FREE] if silent else "abcdefg")
    assert len(scene.members) == 4, "so many are of use, and the job has the places"
    assert not set(scene.members) & set(useless)


def tries(scene, others, seconds):
    """The others are prepared as soon as they are lent, and a cannot reach them. How often it tries in this time."""
    known, number = set(), 0
    for _ in range(int(seconds / 5.0)):
        scene.after(5.0, heard=["a", *others])
        watch = scene.cluster.watches["j"]
        for name in others:
            trainer, lent = scene.cluster.sightings[name].trainer, scene.cluster.workers[name].job == "j"
            if trainer is None and lent:
                number += 1
                scene.prepare(name, incarnation=f"{scene.now}-{number}")
            elif trainer is not None and (not lent or Member(name, trainer.incarnation) in watch.evicted):
                scene.exits(name, trainer.incarnation, asked=True)
                scene.beat(name)
        for member in scene.job.round.participants if scene.job.round is not None else ():
            trainer = scene.cluster.sightings[member.worker].trainer
            held = (trainer.version.generation, trainer.version.step) if trainer.version is not None else None
            scene.halt([member.worker], held, member.incarnation)
        if scene.members == ["a"]:
            scene.train("a", scene.job.step + 1)
        elif scene.job.generation not in known:
            known.add(scene.job.generation)
            peers = tuple(one for one in scene.job.formation.members if one.worker != "a")
            scene.says("a", PeersUnreached(job="j", incarnation="i1", generation=scene.job.generation, peers=peers))
            scene.breaks("a", scene.job.generation)
    return len(known)


@pytest.mark.parametrize("many", [2, 12])
def test_those_that_nobody_reaches_do_not_take_turns_in_stopping_the_one_that_trains(scene, many):
    """As where ports between two sites are closed: two that are lent are tried every ten minutes, and no more are."""
    others = [f"x{number:02}" for number in range(many)]
    scene.running("a", min_workers=1, max_workers=2, step=3, steps=10**7)
    scene.register(*others)
    assert tries(scene, others, 3600.0) > 0
    assert tries(scene, others, 3600.0) <= 15


@pytest.mark.parametrize("restarted", [False, True])
def test_who_was_lent_to_a_held_job_for_an_older_state_goes_once_those_that_hold_the_newest_are_back(scene, restarted):
    """c was cut off with step 3, and taken off the job; it is there before a and b are heard again."""
    scene.running("a", "b", "c", min_workers=1, step=3)
    scene.left_behind("c", "ab", 6)
    scene.after(scene.policy.absent_limit + 1.0, heard="ab")
    scene.does(PauseJob("j", hold=True))
    scene.halt("ab", (2, 6))
    scene.submit("k", max_workers=1)
    if restarted:
        scene.restart()
    for name in "" if restarted else "ab":
        scene.does(Disconnected(name))
    scene.register("c")
    scene.holds_on("c")
    assert scene.cluster.workers["c"].job == "j"
    scene.register("a", "b")
    assert scene.cluster.workers["c"].job == "j", "they have yet to tell"
    scene.halt("ab", (2, 6))
    scene.holds_on("c")
    assert scene.cluster.workers["c"].job is None
    assert scene.told("c", Release)


def test_nobody_leaves_a_held_job_that_holds_what_it_is_held_with(scene):
    """a and b went on without d and e, and died as the job was to be held: it is held with what d and e have."""
    scene.running("a", "b", "d", "e", min_workers=2, step=3)
    for name in "de":
        scene.does(Disconnected(name))
    scene.breaks("a", 1)
    scene.halt("ab", (1, 3))
    scene.train("ab", 6)
    scene.register("d", "e")
    scene.does(PauseJob("j", hold=True))
    for name in "de":
        scene.holds_on(name)
    for name in "ab":
        scene.exits(name)
        scene.beat(name)
    scene.halt("de", (1, 3))
    scene.after(0.2, heard="abde")
    assert scene.job.phase is JobPhase.PAUSED
    assert {scene.cluster.workers[name].job for name in "de"} == {"j"}
