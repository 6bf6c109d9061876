"""Members that fail to form together: who is suspected, whatever happened before."""

import pytest

from regroup.core.jobs import JobPhase, Version
from regroup.core.messages.agent_reports import Heartbeat, TrainerExited
from regroup.core.messages.commands import ClearWorker
from regroup.core.messages.events import Disconnected, Tick
from regroup.core.messages.trainer_reports import GroupBroke
from regroup.core.workers import Hang, LoopPhase, TrainerPhase


def fails_to_form(scene, reporter, *names):
    """A round in which all answer, and only `reporter` says in the end that the group did not form."""
    for name in names:
        scene.halt(name, (1, 3), incarnation=scene.incarnations[name])
    assert scene.members == sorted(names)
    n = scene.job.generation
    scene.passes(scene.policy.form_limit - 1.0, heard="".join(names))  # their own limit is the shorter one
    for name in names:
        scene.beat(name, TrainerPhase.FORMING, scene.incarnations[name], promised=n, generation=n)
    told = {"job": "j", "incarnation": scene.incarnations[reporter], "generation": n}
    scene.says(reporter, GroupBroke(**told, reason="could not form in time"))


def test_a_member_that_keeps_others_from_forming_is_found_although_somebody_died_before(scene):
    """c answers every Halt, and never connects. That d died long ago is no reason to go on with c for ever."""
    scene.running("a", "b", "c", "d", min_workers=1)
    scene.incarnations = dict.fromkeys("abcd", "i1")
    scene.says("d", TrainerExited(job="j", incarnation="i1", cause="killed by SIGKILL", asked=False))
    scene.register("d", boot="b2")
    scene.halt("abc", (1, 3))
    scene.train("abc")
    told = {"job": "j", "incarnation": "i1", "generation": scene.job.generation}
    scene.says("a", GroupBroke(**told, reason="a collective failed"))
    for reporter in "ab":
        assert not scene.noted("evicted")
        fails_to_form(scene, reporter, "a", "b", "c")
    assert [note.worker for note in scene.noted("evicted")] == ["c"]


def test_a_newcomer_that_cannot_connect_goes_before_any_holder_of_the_state(scene):
    """It reports at once that it could not form: a witness, if the others did not hold what it lacks."""
    scene.running("a", "c", min_workers=1, max_workers=3)
    scene.register("b")
    scene.after(scene.policy.halt_limit, heard="abc")
    scene.prepare("b")
    scene.halt("b", None)
    for attempt in (1, 2):
        assert not scene.noted("evicted")
        scene.halt("ac", (1, 3))
        if attempt == 2:
            scene.halt("b", None)
        assert scene.members == ["a", "b", "c"]
        n = scene.job.generation
        for name in "abc":
            scene.beat(name, TrainerPhase.FORMING, promised=n, generation=n)
        scene.says("b", GroupBroke(job="j", incarnation="i1", generation=n, reason="connection refused"))
    assert [note.worker for note in scene.noted("evicted")] == ["b"]
    assert scene.cluster.workers["b"].errors == 0, "the fault may be of the network between them"


def test_whoever_reports_that_it_could_not_form_is_no_suspect_and_counts_outlive_a_wrong_guess(scene):
    """b alone hangs. Twice it is a that reports, so c is taken first, being the last by name; then b."""
    scene.running("a", "b", "c", min_workers=1)
    scene.incarnations = dict.fromkeys("abc", "i1")
    told = {"job": "j", "incarnation": "i1", "generation": 1}
    scene.says("a", GroupBroke(**told, reason="a collective failed"))
    fails_to_form(scene, "a", "a", "b", "c")
    fails_to_form(scene, "a", "a", "b", "c")
    assert [note.worker for note in scene.noted("evicted")] == ["c"]
    fails_to_form(scene, "a", "a", "b")
    assert [note.worker for note in scene.noted("evicted")] == ["c", "b"]


def test_a_task_that_raised_is_why_its_members_did_not_form_and_nobody_is_suspected(scene):
    scene.running("a", "b", "c", min_workers=1)
    scene.incarnations = dict.fromkeys("abc", "i1")
    scene.breaks("a", 1)
    fails_to_form(scene, "a", "a", "b", "c")
    scene.halt("abc", (1, 3))
    scene.raises("b", generation=scene.job.generation)
    fails_to_form(scene, "a", "a", "b", "c")
    assert scene.noted("evicted") == []


def test_nobody_is_suspected_where_all_that_have_the_state_hang(scene):
    """c does not answer. The others did, and hang since, as their agents say, before they are to form again."""
    scene.running("a", "b", "c", min_workers=1, step=3)
    scene.incarnations = dict.fromkeys("abc", "i1")
    scene.breaks("a", 1)
    fails_to_form(scene, "a", "a", "b", "c")
    scene.halt("ab", (1, 3))
    hang = Hang(phase=LoopPhase.IDLE, lasts=5.0, limit=4.0, stands=True)
    for name in "ab":
        sighting = scene.cluster.sightings[name]
        scene.says(name, Heartbeat(boot="b1", sequence=sighting.sequence + 1, trainer=sighting.trainer, hang=hang))
    scene.after(scene.policy.halt_limit + 0.1, heard="abc")
    assert scene.members == ["a", "b"]
    scene.after(scene.policy.form_limit + 0.1, heard="abc")
    assert not {"a", "b"} & {note.worker for note in scene.noted("evicted")}


@pytest.mark.parametrize(("survivor", "dying"), ["ab", "ba"])
def test_who_is_left_of_two_is_not_suspected_for_one_that_is_away(scene, survivor, dying):
    """Its machine failed before it was off. What the other holds may be the last copy."""
    scene.running("a", "b", min_workers=1, step=3)
    scene.after(scene.policy.halt_limit, heard="ab")
    for _ in range(2):
        scene.breaks(survivor, scene.job.generation)
        scene.halt("ab", (1, 3))
    scene.does(Disconnected(dying))
    scene.breaks(survivor, scene.job.generation)
    assert scene.noted("evicted") == []
    scene.halt(survivor, (1, 3))
    assert (scene.members, scene.job.formation.base) == ([survivor], Version(1, 3))


def fruitless(scene, *names: str) -> None:
    """They form, and their first exchange breaks, with everybody alive."""
    scene.train(names)
    for name in names:
        scene.breaks(name, scene.job.formation.generation)
    scene.after(1.0, heard="".join(names))
    for name in names:
        scene.halt(name, (scene.job.formation.generation, scene.job.formation.base.step))


def test_members_that_form_again_and_again_and_make_no_step_go_on_without_one_of_them(scene):
    """Such as where small messages pass and large ones do not: else they would regroup for ever."""
    scene.running("a", "b", min_workers=1, step=3)
    scene.after(scene.policy.halt_limit, heard="ab")
    for name in "ab":
        scene.breaks(name, 1)
    scene.halt("ab", (1, 3))
    for _ in range(2):
        assert scene.noted("evicted") == []
        fruitless(scene, "a", "b")
    fruitless(scene, "a", "b")
    assert [note.worker for note in scene.noted("evicted")] == ["b"]
    assert scene.members == ["a"]
    assert scene.cluster.workers["b"].errors == 0


def fruitless_twice(scene, *names: str) -> None:
    scene.running(*names, min_workers=1, max_workers=3, step=3)
    scene.after(scene.policy.halt_limit, heard="".join(names))
    for name in names:
        scene.breaks(name, 1)
    scene.halt(names, (1, 3))
    for _ in range(2):
        fruitless(scene, *names)


def test_nobody_is_doubted_for_one_that_is_away(scene):
    fruitless_twice(scene, "a", "b")
    generation = scene.job.generation
    scene.train("ab")
    scene.does(Disconnected("a"))
    scene.breaks("b", generation)
    assert scene.noted("evicted") == []
    scene.halt("b", (generation, 3))
    assert scene.members == ["b"]


def test_nobody_is_doubted_for_one_that_died(scene):
    fruitless_twice(scene, "a", "b", "c")
    generation = scene.job.generation
    scene.train("abc")
    scene.exits("c")
    scene.breaks("a", generation)
    scene.halt("ab", (generation, 3))
    assert scene.noted("evicted") == []
    assert scene.members == ["a", "b"]


def test_a_step_clears_everybody_also_where_its_generation_ended_at_a_boundary(scene):
    fruitless_twice(scene, "a", "b")
    generation = scene.job.generation
    scene.train("ab", 4)
    scene.register("c")
    scene.prepare("c")
    assert scene.job.reason == "prepared to join: c"
    scene.halt("ab", (generation, 4))
    scene.halt("c", None)
    fruitless(scene, "a", "b", "c")
    assert scene.noted("evicted") == []


def test_a_step_in_between_clears_everybody(scene):
    scene.running("a", "b", min_workers=1, step=3)
    scene.after(scene.policy.halt_limit, heard="ab")
    for number in range(6):
        if number % 2:
            fruitless(scene, "a", "b")
            continue
        formation = scene.job.formation
        scene.train("ab", formation.base.step + 1)
        for name in "ab":
            scene.breaks(name, formation.generation)
        scene.halt("ab", (formation.generation, formation.base.step + 1))
    assert scene.noted("evicted") == []


def suspected_again(scene, number: int, held: tuple[int, int]) -> tuple[int, int]:
    incarnation = f"i{number}"
    scene.prepare("b", incarnation=incarnation)
    for _ in range(2):
        scene.halt("a", held)
        scene.halt("b", None, incarnation)
        n = scene.job.generation
        for name, each in (("a", "i1"), ("b", incarnation)):
            scene.beat(name, TrainerPhase.FORMING, each, promised=n, generation=n)
        scene.after(scene.policy.form_limit + 0.1, heard="ab")
    scene.exits("b", incarnation, asked=True)
    scene.halt("a", held)
    scene.train("a")
    scene.beat("b")
    return scene.job.formation.generation, 3


def suspected_thrice(scene) -> tuple[int, int]:
    """b, which the job lends besides a."""
    scene.running("a", max_workers=2, min_workers=1, step=3)
    scene.register("b")
    scene.after(scene.policy.halt_limit, heard="ab")
    held = (1, 3)
    for number in range(1, 4):
        held = suspected_again(scene, number, held)
    return held


def test_a_worker_that_is_suspected_again_and_again_is_left_out_of_this_job_alone(scene):
    """The only holder of the state may have the broken network: then it is not the others' error."""
    suspected_thrice(scene)
    assert scene.job.refused == {"b": "it was suspected 3 times of keeping the others from training"}
    assert (scene.cluster.workers["b"].errors, scene.cluster.workers["b"].job) == (0, None)


def test_suspicions_that_lie_far_apart_leave_nobody_out(make_scene):
    scene = make_scene(error_forget=30.0)
    scene.running("a", max_workers=2, min_workers=1, step=3)
    scene.register("b")
    scene.after(scene.policy.halt_limit, heard="ab")
    held = (1, 3)
    for number in range(1, 7):
        held = suspected_again(scene, number, held)
        scene.after(31.0, heard="ab")
    assert len(scene.noted("evicted")) == 6
    assert scene.job.refused == {}
    assert scene.cluster.watches["j"].doubted == {}


def both_hang_while_they_form(scene, *held: str) -> None:
    """a, which leads, and b: neither of them connects in time, for the first time."""
    scene.running("a", "b", min_workers=1, step=3)
    scene.after(scene.policy.halt_limit, heard="ab")
    scene.breaks("a", 1)
    for name in "ab":
        scene.halt(name, (1, 3) if name in held else None)
    stand_still(scene)
    scene.after(0.1, heard="ab")
    for name in "ab":
        scene.halt(name, (1, 3) if name in held else None)
    stand_still(scene)


def stand_still(scene) -> None:
    n = scene.job.generation
    for name in "ab":
        version = scene.cluster.sightings[name].trainer.version
        scene.beat(name, TrainerPhase.FORMING, promised=n, generation=n, version=version)
    scene.passes(scene.policy.form_limit, heard="ab")


@pytest.mark.parametrize(("dead", "left"), ["ba", "ab"])
def test_the_last_that_holds_the_state_is_not_suspected_when_the_other_dies(scene, dead, left):
    """The word of that is the first that comes after the limit."""
    both_hang_while_they_form(scene, "a", "b")
    scene.passes(0.1, heard="ab")
    scene.exits(dead)
    assert scene.noted("evicted") == []
    scene.halt(left, (1, 3))
    assert (scene.members, scene.job.formation.base) == ([left], Version(1, 3))


def test_a_newcomer_with_which_nothing_goes_on_is_suspected_before_those_that_made_steps(scene):
    """By name it would be c."""
    scene.running("a", "c", min_workers=2, max_workers=3, step=0)
    scene.train("ac", 3)
    scene.register("b")
    scene.after(scene.policy.halt_limit, heard="abc")
    scene.prepare("b")
    scene.halt("ac", (1, 3))
    scene.halt("b", None)
    for _ in range(3):
        assert scene.members == ["a", "b", "c"]
        fruitless(scene, "a", "b", "c")
    assert [note.worker for note in scene.noted("evicted")] == ["b"]


def test_of_those_that_made_the_last_step_who_was_suspected_least_is_next(scene):
    """c was, and is back; b is the one whose large messages do not pass."""
    fruitless_twice(scene, "a", "b", "c")
    fruitless(scene, "a", "b", "c")
    assert [note.worker for note in scene.noted("evicted")] == ["c"]
    scene.exits("c", asked=True)
    scene.beat("c")
    for _ in range(3):
        fruitless(scene, "a", "b")
    assert [note.worker for note in scene.noted("evicted")] == ["c", "b"]


def test_who_is_left_out_on_a_suspicion_and_killed_in_a_pass_hangs_in_no_task(scene):
    fruitless_twice(scene, "a", "b", "c")
    fruitless(scene, "a", "b", "c")
    scene.exits("c", asked=True, step=3, shard=1)
    assert scene.job.failures == ()
    assert not scene.job.ended


def test_who_is_cleared_is_suspected_anew(scene):
    held = suspected_thrice(scene)
    assert set(scene.job.refused) == {"b"}
    scene.does(ClearWorker("b"))
    scene.beat("b")
    suspected_again(scene, 4, held)
    assert not scene.job.refused


def test_deaths_while_they_form_make_nobody_suspect(scene):
    scene.running("a", "b", "c", "d", step=3, min_workers=1)
    scene.after(3.0, heard="abcd")  # they are there for long enough to be given up
    scene.breaks("a", 1)
    scene.halt("abcd", (1, 3))
    for gone, others in (("d", "abc"), ("c", "ab")):
        scene.exits(gone)
        scene.halt(others, (1, 3))
        assert scene.members == [*others]
    assert scene.noted("evicted") == []


@pytest.mark.parametrize("how", ["coordinator", "connection"])
def test_who_formed_and_is_not_heard_of_is_not_left_out_where_the_others_make_steps(scene, how):
    """Each step needs every member, so c has formed, too, and trains on under its lease."""
    scene.running("a", "b", "c", min_workers=3, steps=10**6)
    scene.train("abc", 3)
    scene.breaks("a", 1)
    scene.halt("abc", (1, 3))
    if how == "coordinator":  # it is away while all of them form
        scene.now += 60.0
        scene.restart()
        scene.register("a", "b")
    else:
        scene.does(Disconnected("c"))
    for second in range(20):
        scene.now += 1.0
        scene.train("ab", 1000 + second)
        scene.does(Tick())
        assert scene.job.round is None
    assert scene.job.phase is JobPhase.RUNNING
