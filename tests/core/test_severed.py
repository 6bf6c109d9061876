"""Members that reach the coordinator and not each other: who goes, by what they said, and when it is tried again."""

from dataclasses import replace

import pytest

from regroup.core.cluster import Doubt, Rest
from regroup.core.jobs import JobPhase, Member, Version
from regroup.core.messages.commands import DrainWorker, PauseJob, ResumeJob
from regroup.core.messages.events import Disconnected
from regroup.core.messages.orders import Halt, Kill, Release
from regroup.core.messages.trainer_reports import CheckpointUnreadable, GroupBroke, PeersUnreached, StepsCommitted
from regroup.core.severed import LONGEST, apart, let_rest
from regroup.core.turn import Turn
from regroup.core.workers import TrainerPhase


@pytest.fixture
def four(scene):
    """a, b, c and d trained to step 3; then no data passes between some of them."""
    scene.running("a", "b", "c", "d", min_workers=1)
    scene.incarnations = dict.fromkeys("abcd", "i1")
    scene.train("abcd", 3)
    scene.after(scene.policy.halt_limit, heard="abcd")
    scene.breaks("a", 1)
    return scene


def tries(scene, names, unreached, held=(1, 3), newcomers=""):
    """They answer, and try to form; `unreached`: who could not connect to whom, and says so. The last one gives up."""
    for name in names:
        scene.halt(name, None if name in newcomers else held, scene.incarnations[name])
    assert scene.members == sorted(names)
    n = scene.job.generation
    for name in names:
        scene.beat(name, TrainerPhase.FORMING, scene.incarnations[name], promised=n, generation=n)
    for number, (name, peer) in enumerate(unreached):
        told = {"job": "j", "incarnation": scene.incarnations[name], "generation": n}
        scene.says(name, PeersUnreached(**told, peers=(Member(peer, scene.incarnations[peer]),)))
        if number == len(unreached) - 1:
            scene.says(name, GroupBroke(**told, reason="no way leads there"))


def evicted(scene):
    return {note.worker: note.reason for note in scene.noted("evicted")}


def test_the_smaller_side_goes_all_of_it_at_once_after_the_second_failure(four):
    tries(four, "abcd", [("c", "a"), ("d", "a")])
    assert evicted(four) == {}
    tries(four, "abcd", [("d", "a")])
    why = "it cannot reach a, as others can"
    assert evicted(four) == {"c": f"c is evicted: {why}", "d": f"d is evicted: {why}"}
    assert {each.errors for each in four.cluster.workers.values()} == {0}, "the network's fault, perhaps"
    assert four.job.refused == {}


def test_a_leader_that_most_cannot_reach_goes_itself(four):
    for _ in range(2):
        assert evicted(four) == {}
        tries(four, "abcd", [("b", "a"), ("c", "a"), ("d", "a")])
    assert evicted(four) == {"a": "a is evicted: 3 of 4 members cannot reach it"}


def test_before_anybody_holds_a_state_the_leader_that_most_cannot_reach_goes_at_once(scene):
    scene.submit(max_workers=3, min_workers=3)
    scene.register("a", "b", "c")
    scene.after(scene.policy.halt_limit, heard="abc")
    scene.incarnations = dict.fromkeys("abc", "i1")
    scene.prepare("a", "b", "c")
    tries(scene, "abc", [("b", "a"), ("c", "a")], newcomers="abc")
    assert set(evicted(scene)) == {"a"}


def test_of_two_that_cannot_reach_each_other_and_reach_the_leader_one_goes(four):
    for _ in range(2):
        assert evicted(four) == {}
        tries(four, "abcd", [("b", "d"), ("d", "b"), ("c", "b")])
    assert evicted(four) == {"b": "b is evicted: it and c, d cannot reach each other"}


def test_what_was_said_too_late_counts_in_the_next_attempt(four):
    """Its own attempt lasts longer than the others' round."""
    tries(four, "abcd", [("d", "a")])
    told = {"job": "j", "incarnation": "i1", "generation": four.job.generation - 1}
    four.says("c", PeersUnreached(**told, peers=(Member("a", "i1"),)))
    tries(four, "abcd", [("d", "a")])
    assert set(evicted(four)) == {"c", "d"}


def test_who_cannot_reach_one_that_is_away_is_not_the_odd_one(four):
    """The leader's machine is off: that they cannot reach it says nothing of them, and they hold what it held."""
    tries(four, "abcd", [("b", "a")])
    four.halt("abcd", (1, 3))
    n = four.job.generation
    four.does(Disconnected("a"))
    told = {"job": "j", "incarnation": "i1", "generation": n}
    four.says("b", PeersUnreached(**told, peers=(Member("a", "i1"),)))
    four.says("b", GroupBroke(**told, reason="no way leads there"))
    assert evicted(four) == {}
    four.halt("bcd", (1, 3))
    assert four.members == ["b", "c", "d"]


def test_the_only_one_with_the_state_stays_though_nobody_reaches_it(scene):
    scene.running("a", "b", "c", min_workers=1)
    scene.train("a", 3)
    for name in "bc":
        scene.exits(name)
    scene.halt("a", (1, 3))
    scene.incarnations = {"a": "i1", "b": "i2", "c": "i2"}
    scene.prepare("b", "c", incarnation="i2")
    scene.after(scene.policy.halt_limit, heard="abc")
    scene.train("a")
    scene.after(0.1, heard="abc")
    tries(scene, "abc", [("b", "a"), ("c", "a")], held=(scene.job.formation.generation, 3), newcomers="bc")
    assert set(evicted(scene)) == {"b", "c"}, "newcomers go after the first failure"
    scene.halt("a", (scene.job.formation.base.generation, 3))
    assert scene.members == ["a"]


def test_who_went_is_left_alone_for_longer_each_time_and_forgotten_once_all_formed(four):
    for _ in range(2):
        tries(four, "abcd", [("c", "a"), ("d", "a")])
    four.halt("ab", (1, 3))
    limit = four.policy.form_limit
    for times in (1, 2, 3):
        four.train("ab")
        for name in "cd":
            four.incarnations[name] = f"again-{times}"
            four.prepare(name, incarnation=four.incarnations[name])
        four.after(limit * 2 ** (times - 1) - 1.0, heard="abcd")
        assert four.job.round is None, "it would cost those that train a step"
        four.after(1.5, heard="abcd")
        assert four.job.round is not None, "it is tried again"
        held = (four.job.formation.generation, four.job.formation.base.step)
        four.halt("ab", held)
        for name in "cd":
            four.halt(name, None, four.incarnations[name])
        assert four.members == ["a", "b", "c", "d"]
        if times == 3:
            break
        n = four.job.generation
        for name in "cd":
            told = {"job": "j", "incarnation": four.incarnations[name], "generation": n}
            four.says(name, PeersUnreached(**told, peers=(Member("a", "i1"),)))
        four.says("c", GroupBroke(job="j", incarnation=four.incarnations["c"], generation=n, reason="no way"))
        four.halt("ab", held)
        assert four.members == ["a", "b"]
    for name in "abcd":
        four.train(name, incarnation=four.incarnations[name])
    assert four.job.phase == "running"
    watch = four.cluster.watches["j"]
    assert (dict(watch.resting), watch.severed) == ({}, frozenset())


def test_one_that_is_left_alone_is_asked_where_too_few_others_are_there(four):
    """A job that needs three would else wait for nothing."""
    for _ in range(2):
        tries(four, "abcd", [("c", "a"), ("d", "a")])
    job = replace(four.job, spec=replace(four.job.spec, min_workers=3))
    four.cluster = replace(four.cluster, jobs={"j": job})
    four.halt("ab", (1, 3))
    four.incarnations["c"] = "again"
    four.prepare("c", incarnation="again")
    assert (four.job.round, four.job.phase) == (None, JobPhase.WAITING)
    assert four.job.reason == "the others need c, and did not reach it, or had no answer: they soon try again"
    four.after(four.policy.form_limit + 0.1, heard="abcd")
    assert "c" in {member.worker for member in four.job.round.participants}


def left_alone(scene, *names):
    """Could not be reached so often that they are not asked again for long."""
    watch = scene.cluster.watches["j"]
    resting = dict.fromkeys(names, Rest(8, scene.now + 600.0))
    scene.cluster = replace(scene.cluster, watches={"j": replace(watch, resting=resting)})


def cannot_read(scene, name):
    n = scene.job.formation.generation
    scene.beat(name, TrainerPhase.FORMING, "i2", promised=n, generation=n)
    told = {"generation": n, "error": "other bytes", "damaged": False, "missing": False}
    scene.says(name, CheckpointUnreadable(job="j", incarnation="i2", **told))


def test_one_that_is_left_alone_is_asked_where_none_of_the_others_can_read_the_checkpoint(scene):
    """They would ask each other without end: with it there is somebody to lead, and they know of nobody. Seed 122750"""
    scene.running("a", "b", "c", min_workers=2)
    scene.train("abc", 9)
    scene.does(PauseJob("j"))
    scene.halt("abc", (1, 9))
    scene.saved(scene.job.saver.worker, (1, 9))
    for name in "abc":
        scene.exits(name, asked=True)
        scene.beat(name)
    scene.does(ResumeJob("j"))
    scene.prepare("a", "b", incarnation="i2")
    left_alone(scene, "c")
    scene.prepare("c", incarnation="i2")
    for leader in "ab":
        assert {member.worker for member in scene.job.round.participants} == {"a", "b"}
        scene.halt("ab", None, "i2")
        assert scene.members == ["a", "b"]
        cannot_read(scene, leader)
    assert {member.worker for member in scene.job.round.participants} == {"a", "b", "c"}
    scene.halt("abc", None, "i2")
    formation = scene.job.formation
    assert formation.members[formation.leader].worker == "c"


def test_who_is_tried_in_vain_for_weeks_is_tried_on(four):
    turn = Turn(four.cluster, four.now, four.policy)
    for _ in range(3000):
        let_rest(turn, four.job, "c")
    assert turn.watches["j"].resting["c"] == Rest(3000, four.now + LONGEST)


def test_the_last_holder_that_cannot_reach_the_leader_which_died_stays(scene):
    """Nobody reaches the dead: that says nothing of who could not."""
    scene.running("a", "b", "c", min_workers=1, step=3)
    scene.passes(scene.policy.halt_limit, heard="abc")
    scene.breaks("b", 1)
    for attempt in (1, 2):
        scene.halt("a", (1, 3))
        scene.halt("b", (1, 3))
        scene.halt("c", None)
        n = scene.job.generation
        for name, version in (("a", (1, 3)), ("b", (1, 3)), ("c", None)):
            held = Version(*version) if version else None
            scene.beat(name, TrainerPhase.FORMING, promised=n, generation=n, version=held)
        told = {"job": "j", "incarnation": "i1", "generation": n}
        if attempt == 2:
            scene.says("b", PeersUnreached(**told, peers=(Member("a", "i1"),)))
        scene.passes(scene.policy.form_limit + 0.1, heard="abc")
        if attempt == 2:
            scene.exits("a")
        else:
            scene.after(0.1, heard="abc")
    assert "b" not in {note.worker for note in scene.noted("evicted")}


@pytest.mark.parametrize("away", [1.0, 20.0])
def test_who_was_left_out_and_alone_is_left_with_the_state_is_lent_again_and_not_ended(scene, away):
    """Nothing is known against its state, and the order to end it never came."""
    scene.running("a", "b", min_workers=1)
    scene.incarnations = dict.fromkeys("ab", "i1")
    scene.train("ab", 3)
    scene.after(scene.policy.halt_limit, heard="ab")
    scene.breaks("a", 1)
    for _ in range(2):
        tries(scene, "ab", [("b", "a")])
    assert set(evicted(scene)) == {"b"}
    scene.does(Disconnected("b"))
    scene.halt("a", (1, 3))
    scene.train("a")
    scene.after(away, heard="a")
    assert (scene.cluster.workers["b"].job is None) is (away > scene.policy.absent_limit)
    scene.exits("a")
    scene.does(Disconnected("a"))
    scene.register("b")
    scene.beat("b", TrainerPhase.HALTED, promised=3, generation=1, version=Version(1, 3))
    assert scene.told("b", Kill) == scene.told("b", Release) == []
    scene.halt("b", (1, 3))
    assert (scene.members, scene.job.formation.base) == (["b"], Version(1, 3))


def test_while_one_is_left_alone_those_that_stay_and_are_too_few_ask_it_and_not_each_other_without_end(scene):
    """Whoever is to go is counted by nobody that forms."""
    scene.running("a", "b", "c", min_workers=2, step=3)
    left_alone(scene, "c")
    scene.exits("c")
    scene.prepare("c", incarnation="i2")
    scene.halt("a", (1, 3))
    scene.halt("b", (1, 3))
    scene.train("ab")
    scene.does(DrainWorker("b"))
    n = scene.job.generation
    scene.halt("a", (n - 1, 3))
    scene.halt("b", (n - 1, 3))
    assert "c" in {member.worker for member in scene.job.round.participants}


def test_an_evaluation_that_takes_longer_than_a_step_may_goes_on(scene):
    """No step is made meanwhile, and each chunk says that it is not for want of somebody."""
    scene.running("a", "b", step=3, evaluate_every=3)
    for chunks in range(1, 6):
        scene.after(scene.job.spec.step_timeout - 1.0, heard="ab")
        scene.train("b", evaluated=chunks)
        assert scene.job.phase is JobPhase.RUNNING
    scene.after(2.0, heard="ab")
    assert scene.job.phase is JobPhase.RUNNING
    scene.after(scene.job.spec.step_timeout, heard="ab")
    assert scene.job.reason == "no step was committed, and no chunk evaluated, for 60 s"


def test_who_is_in_a_chunk_while_another_dies_is_waited_for_as_long_as_a_step_may_take(scene):
    scene.running("a", "b", "c", min_workers=1, step=3, evaluate_every=3)
    scene.after(scene.job.spec.step_timeout - 1.0, heard="abc")
    scene.train("b", evaluated=1)
    scene.after(scene.job.spec.step_timeout - 1.0, heard="abc")
    scene.train("b", evaluated=2)
    scene.exits("c")
    n = scene.job.generation
    scene.halt("a", (1, 3))
    facts = {"promised": n, "generation": 1, "version": Version(1, 3), "evaluated": 2, "at_work": True}
    for _ in range(int(scene.policy.halt_limit) + 5):
        scene.passes(1.0, heard="a")
        scene.beat("b", TrainerPhase.HALTED, **facts)
    scene.halt("b", (1, 3))
    assert scene.members == ["a", "b"]
    assert evicted(scene) == {}


@pytest.mark.parametrize("every", [None, 1, 3])
def test_where_no_chunk_is_evaluated_either_the_members_are_doubted(scene, every):
    """What was evaluated before says nothing: small messages may get through where large ones do not."""
    scene.running("a", "b", "c", min_workers=2, step=3, evaluate_every=every)
    scene.after(scene.policy.halt_limit, heard="abc")
    for _ in range(4):
        scene.train("abc", evaluated=2)
        scene.after(scene.job.spec.step_timeout + 1.0, heard="abc")
        for name in "abc":
            scene.halt(name, (scene.job.formation.generation, 3))
    assert len(scene.noted("evicted")) == 1


def test_who_evaluates_one_chunk_more_in_each_generation_is_not_doubted(scene):
    scene.running("a", "b", "c", min_workers=2, step=3, evaluate_every=3)
    scene.after(scene.policy.halt_limit, heard="abc")
    for chunks in range(1, 8):
        scene.train("abc", evaluated=chunks)
        scene.train("a", evaluated=chunks + 1)
        scene.breaks("a", scene.job.formation.generation)
        for name in "abc":
            scene.halt(name, (scene.job.formation.generation, 3))
    assert scene.noted("evicted") == []


def test_a_chunk_that_is_thrown_away_and_done_again_in_each_generation_is_no_progress(scene):
    """As where its sum reaches some, and not all: who had it goes back with the others."""
    scene.running("a", "b", "c", min_workers=2, step=3, evaluate_every=3)
    scene.after(scene.policy.halt_limit, heard="abc")
    for _ in range(4):
        for chunks in (6, 7):
            scene.train("a", evaluated=chunks)
        scene.train("bc", evaluated=6)
        scene.after(scene.job.spec.step_timeout + 1.0, heard="abc")
        for name in "abc":
            scene.halt(name, (scene.job.formation.generation, 3))
    assert len(scene.noted("evicted")) == 1


def test_chunks_of_one_step_are_not_taken_for_the_next_ones(scene):
    """That heartbeat is lost which would have told of the next step that no chunk of it is evaluated."""
    scene.running("a", "b", step=3, evaluate_every=1)
    scene.train("a", 3, evaluated=5)
    scene.says("a", StepsCommitted(job="j", incarnation="i1", generation=1, step=4, points=()))
    scene.says("b", StepsCommitted(job="j", incarnation="i1", generation=1, step=4, points=()))
    for chunks in (1, 2, 3, 4, 5):
        scene.after(scene.job.spec.step_timeout - 1.0, heard="ab")
        scene.train("a", 4, evaluated=chunks)
    assert scene.job.phase is JobPhase.RUNNING


def suspects_c(scene, min_workers, before=0):
    """a, b and c hold step 3 and fail to form twice, for which c is evicted; returns the generation that they tried.

    c was suspected as often `before`.
    """
    scene.running("a", "b", "c", min_workers=min_workers, step=3)
    if before:
        watch = replace(scene.cluster.watches["j"], doubted={"c": Doubt(before, scene.now)})
        scene.cluster = replace(scene.cluster, watches={"j": watch})
    scene.after(scene.policy.halt_limit, heard="abc")
    scene.breaks("a", 1)
    for _ in range(2):
        scene.halt("abc", (1, 3))
        n = scene.job.generation
        facts = {"promised": n, "generation": n, "version": Version(1, 3)}
        for name in "abc":
            scene.beat(name, TrainerPhase.FORMING, **facts)
        scene.after(scene.policy.form_limit + 0.1, heard="abc")
    assert [note.worker for note in scene.noted("evicted")] == ["c"]
    return n


def test_a_suspect_is_told_to_end_until_it_does_once_another_one_answered_with_the_state(scene):
    """They owe their word for a moment, since its eviction began a round; the order to end it may be lost."""
    n = suspects_c(scene, min_workers=2)
    for answered in (False, True, True):
        scene.after(0.2, heard="abc")
        scene.beat("c", TrainerPhase.FORMING, promised=n, generation=n, version=Version(1, 3))
        assert [order.incarnation for order in scene.told("c", Kill)] == (["i1"] if answered else [])
        scene.halt("a", (1, 3))


@pytest.mark.parametrize("before", [0, 2])
def test_a_suspect_that_is_left_with_the_state_is_spared_also_if_it_was_refused_for_it(scene, before):
    """The order to end it is late; then all others die."""
    n = suspects_c(scene, min_workers=1, before=before)
    assert set(scene.job.refused) == ({"c"} if before else set())
    for name in "ab":
        scene.exits(name)
        scene.beat(name)
    scene.beat("c", TrainerPhase.FORMING, promised=n, generation=n, version=Version(1, 3))
    assert (scene.told("c", Kill), scene.told("c", Release), len(scene.told("c", Halt))) == ([], [], 1)
    scene.halt("c", (1, 3))
    assert (scene.members, scene.job.formation.base, scene.job.refused) == (["c"], Version(1, 3), {})


def test_who_was_refused_is_not_lent_again_while_the_others_only_owe_their_promises(scene):
    """Its refusal began a round, which they have yet to answer."""
    n = suspects_c(scene, min_workers=1, before=2)
    assert scene.job.round is not None
    scene.after(0.1, heard="abc")
    scene.beat("c", TrainerPhase.FORMING, promised=n, generation=n, version=Version(1, 3))
    assert (scene.cluster.workers["c"].job, set(scene.job.refused)) == (None, {"c"})
    assert scene.told("c", Release) == []
    scene.halt("a", (1, 3))
    scene.beat("c", TrainerPhase.FORMING, promised=n, generation=n, version=Version(1, 3))
    assert len(scene.told("c", Release)) == 1


def test_who_was_refused_gets_in_no_more_where_another_coordinator_asks_those_that_train_for_a_boundary(scene):
    n = suspects_c(scene, min_workers=1, before=2)
    scene.halt("ab", (1, 3))
    scene.train("ab", 6)
    scene.restart()
    scene.register("a", "b")
    scene.train("ab", 7)
    scene.does(DrainWorker("b"))
    assert scene.job.round.boundary
    scene.register("c")
    scene.beat("c", TrainerPhase.HALTED, promised=n, generation=1, version=Version(1, 3))
    assert scene.cluster.workers["c"].job is None


@pytest.mark.parametrize("seconds", [12, 75])
def test_a_suspect_that_comes_back_is_spared_where_the_others_have_yet_to_come_back_from_a_pass(make_scene, seconds):
    """They may hang for ever, with the state that it has, too: after the round that waited for them as in it."""
    scene = make_scene(detached_limit=300.0)
    n = suspects_c(scene, min_workers=1)
    scene.does(Disconnected("c"))
    facts = {"promised": scene.job.generation, "generation": n, "version": Version(1, 3), "at_work": True}
    for _ in range(seconds):
        scene.passes(1.0, "")
        for name in "ab":
            scene.beat(name, TrainerPhase.HALTED, **{**facts, "promised": scene.job.generation})
    scene.register("c")
    scene.beat("c", TrainerPhase.HALTED, promised=n, generation=1, version=Version(1, 3))
    assert scene.told("c", Kill) == []


@pytest.mark.parametrize("died", [False, True])
@pytest.mark.parametrize("said", ["not", "in the attempt", "once all had formed"])
def test_who_was_reached_since_does_not_go_in_the_place_of_who_does_not_form(scene, said, died):
    """A switch flaps in the first attempt, and b says that it cannot reach a. In the second both connect, and c, which
    is new, takes longer to receive the state than it may; so in the next ones. Where d, which is new, too, `died` in
    the second one, that was why."""
    scene.running("a", "b", min_workers=1, max_workers=4, step=3)
    told = {"job": "j", "incarnation": "i1", "peers": (Member("a", "i1"),)}
    if said == "once all had formed":  # of an attempt before
        scene.says("b", PeersUnreached(**told, generation=0))
        assert scene.noted("unreached") == []
    scene.register("c", "d")
    scene.prepare("c")
    scene.after(scene.policy.halt_limit, heard="abcd")
    held = 1
    for attempt in range(1, 5):
        names = "abcd" if died and attempt == 2 else "abc"
        n = scene.job.generation
        scene.halt("a", (1, 3))
        scene.halt("b", (held, 3))
        scene.halt(names[2:], None)
        assert scene.members == [*names]
        for name in names:
            scene.beat(name, TrainerPhase.FORMING, promised=n, generation=n)
        if attempt == 1:
            if said == "in the attempt":
                scene.says("b", PeersUnreached(**told, generation=n))
            if died:
                scene.prepare("d")
            scene.breaks("b", n)
            continue
        if attempt == 2 or not died:
            scene.train("b")  # it leads nobody, or holds the state
            held = n
        if died and attempt == 2:
            scene.exits("d")
            scene.beat("d")
            continue
        scene.after(scene.policy.form_limit + 0.1, heard=names)
        if scene.noted("evicted"):
            break
    why = "the members failed to form together twice, and it is the most suspected"
    assert evicted(scene) == {"c": f"c is evicted: {why}"}


@pytest.mark.parametrize("heard", ["as each attempt fails", "in between"])
def test_who_is_seldom_heard_and_promises_each_time_is_done_without_once_that_was_often_enough(scene, heard):
    """b's machine swaps: its words come in every few seconds, and no connection to it comes about in time."""
    scene.running("a", "b", "c", min_workers=1, step=3)
    scene.after(scene.policy.halt_limit, heard="abc")
    scene.breaks("a", 1)
    attempts = 0
    while not evicted(scene) and attempts < 10:
        attempts += 1
        scene.halt("abc", (1, 3))
        assert scene.members == ["a", "b", "c"]
        n = scene.job.generation
        for name in "abc":
            scene.beat(name, TrainerPhase.FORMING, promised=n, generation=n, version=Version(1, 3))
        told = {"job": "j", "incarnation": "i1", "generation": n, "peers": (Member("b", "i1"),)}
        for name in "ac":
            scene.says(name, PeersUnreached(**told))
        scene.passes(scene.policy.quiet_limit + 0.1, heard="ac")
        if heard == "as each attempt fails":
            scene.beat("b", TrainerPhase.FORMING, promised=n, generation=n, version=Version(1, 3))
        scene.breaks("a", n)
    assert (set(evicted(scene)), attempts) == ({"b"}, 5)
    scene.halt("ac", (1, 3))
    assert scene.members == ["a", "c"]


def test_who_formed_while_another_one_was_away_has_not_failed_twice_in_a_row(scene):
    scene.running("a", "b", "c", min_workers=1, step=3)
    scene.after(scene.policy.halt_limit, heard="abc")
    scene.breaks("a", 1)
    state = (1, 3)
    for formed, heard in [("a", "abc"), ("ab", "ab"), ("ac", "abc")]:
        n = scene.job.generation
        for name in "abc":
            scene.halt(name, state if name in "ab" else (1, 3))
        assert scene.members == ["a", "b", "c"]
        for name in "abc":
            scene.beat(name, TrainerPhase.FORMING, promised=n, generation=n, version=Version(1, 3))
        scene.train(formed)
        state = (n, 3) if formed == "ab" else state
        scene.after(scene.policy.form_limit + 0.1, heard=heard)
    assert evicted(scene) == {}


def test_of_those_that_could_not_reach_each_other_the_one_is_apart_that_most_could_not_reach(four):
    turn = Turn(four.cluster, four.now, four.policy)
    assert apart(turn, four.job, "abcd") == set()
    let_rest(turn, four.job, "b", {"a"})
    assert apart(turn, four.job, "abcd") == {"b"}
    let_rest(turn, four.job, "c", {"a"})
    assert apart(turn, four.job, "abcd") == {"a"}, "b and c have never been tried without it"
    assert apart(turn, four.job, "bcd") == set()
    let_rest(turn, four.job, "c", {"b"})
    assert apart(turn, four.job, "abc") == {"b"}, "a and c may reach each other by now"


def test_whom_it_could_not_reach_is_known_of_who_rests(four):
    for _ in range(2):
        tries(four, "abcd", [("c", "a"), ("b", "c")])
    assert four.cluster.watches["j"].resting["c"].unreached == {"a", "b"}


@pytest.mark.parametrize("names", ["abc", "abcd"])
@pytest.mark.parametrize("seconds", [0.5, 5.0])
def test_those_that_were_each_tried_with_one_that_nobody_reaches_are_tried_together(scene, names, seconds):
    """No way leads to a, which is to lead. To notice that may take longer than to start a trainer anew."""
    scene.submit(min_workers=len(names) - 1, max_workers=len(names))
    scene.register(*names)
    scene.after(scene.policy.halt_limit, heard=names)
    runs = dict.fromkeys(names, "i1")
    scene.prepare(*names)
    gone: list[str] = []

    def restart():
        while gone:
            name = gone.pop()
            runs[name] += "+"
            scene.prepare(name, incarnation=runs[name])

    for _ in range(20):
        while scene.job.formation is None or scene.job.formation.generation < scene.job.generation:
            if scene.job.round is None:  # it waits until it tries again
                scene.after(1.0, heard=names)
                restart()
            for member in scene.job.round.participants if scene.job.round is not None else ():
                scene.halt(member.worker, None, member.incarnation)
        if "a" not in scene.members:
            break
        restart()  # too late for the formation that is being made
        n = scene.job.generation
        for name in scene.members:
            scene.beat(name, TrainerPhase.FORMING, runs[name], promised=n, generation=n)
        scene.after(seconds, heard=names)
        first = next(name for name in scene.members if name != "a")
        told = {"job": "j", "incarnation": runs[first], "generation": n}
        scene.says(first, PeersUnreached(**told, peers=(Member("a", runs["a"]),)))
        scene.says(first, GroupBroke(**told, reason="no way leads there"))
        gone.append(scene.noted("evicted")[-1].worker)
        scene.exits(gone[0], runs[gone[0]], asked=True)
        scene.beat(gone[0])
    assert scene.members == [name for name in names if name != "a"]


@pytest.mark.parametrize("back", [False, True])
def test_who_is_to_go_and_gives_its_state_to_one_that_stays_waits_for_nobody(scene, back):
    """a alone holds step 4, and is drained; c could not reach it, and rests; b is to take the state."""
    scene.running("a", "b", "c", min_workers=2, max_workers=3, step=3)
    scene.train("a", 4)
    scene.after(scene.policy.halt_limit, heard="abc")
    scene.breaks("a", 1)
    scene.halt("a", (1, 4))
    scene.halt("bc", (1, 3))
    n = scene.job.generation
    for name in "abc":
        scene.beat(name, TrainerPhase.FORMING, promised=n, generation=n, version=Version(1, 4 if name == "a" else 3))
    scene.does(DrainWorker("a"))
    told = {"job": "j", "incarnation": "i1", "generation": n}
    scene.says("c", PeersUnreached(**told, peers=(Member("a", "i1"),)))
    scene.says("c", GroupBroke(**told, reason="no way leads there"))
    scene.exits("c", asked=True)
    scene.beat("c")
    if back:
        scene.prepare("c", incarnation="i2")
    scene.halt("b", (1, 3))
    if back:
        scene.halt("c", None, "i2")
    scene.halt("a", (1, 4))
    assert scene.job.formation.generation == scene.job.generation
    assert {"a", "b"} <= {*scene.members}
