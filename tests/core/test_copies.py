"""Who is not ended yet, because it may hold the last copy of a state; and who is, since somebody else told of one."""

from dataclasses import replace

import pytest

from regroup.core.hanging import GRACE
from regroup.core.jobs import Fingerprint, JobPhase, Version
from regroup.core.messages.agent_reports import AgentLeft, Heartbeat
from regroup.core.messages.commands import ClearWorker, DrainWorker, PauseJob, StopJob
from regroup.core.messages.events import Disconnected, Tick
from regroup.core.messages.orders import Go, Halt, Kill, Release
from regroup.core.workers import Hang, LoopPhase, TrainerPhase, TrainerStatus

HANG = Hang(phase=LoopPhase.COMPUTE, lasts=20.0, limit=4.0)


def says(scene, name, phase, hang=None, leaving=False, **facts):
    """Its heartbeat: where its trainer stands, whether that hangs, whether its agent was asked to end."""
    scene.sequence += 1
    known = {"job": "j", "fingerprint": Fingerprint("code", "data", 100), "store": f"{name}:1/0"} | facts
    trainer = TrainerStatus(incarnation="i1", phase=phase, **known)
    boot = scene.cluster.workers[name].boot
    scene.says(name, Heartbeat(boot=boot, sequence=scene.sequence, trainer=trainer, hang=hang, leaving=leaving))


def ended(scene, name):
    return [type(order) for order in scene.told(name, (Kill, Release, Go))]


def out_for_its_silence(scene):
    """b did not answer, and is evicted; then it is cut off. a trains on alone from step 3, which b holds, too."""
    scene.unanswered()
    scene.does(Disconnected("b"))
    scene.train("a")


def taken_off(scene):
    """b was cut off at step 3 for so long that it was taken off its job, which a trains on alone."""
    scene.parted()
    scene.train("a", 3)
    scene.after(scene.policy.absent_limit + 1.0, heard="a")
    assert scene.cluster.workers["b"].job is None


# --- Its first words are from before it was cut off


def test_who_was_evicted_and_comes_back_with_the_last_copy_is_not_killed_for_its_first_words(scene):
    out_for_its_silence(scene)
    scene.register("a", boot="b2")
    scene.register("b")
    assert ended(scene, "b") == []
    scene.holds_on("b")
    assert ended(scene, "b") == []


def test_who_may_hold_more_than_it_told_before_it_was_cut_off_is_not_released_for_its_first_words(scene):
    """It took the state, and made steps, since it told that it was about to."""
    scene.running("a", "b", min_workers=1, step=3)
    scene.beat("b", TrainerPhase.FORMING, promised=1, generation=1)
    scene.does(Disconnected("b"))
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    scene.train("a", 5)
    scene.after(scene.policy.absent_limit + 1.0, heard="a")
    assert scene.cluster.workers["b"].job is None
    scene.exits("a")
    scene.register("b")
    assert ended(scene, "b") == []
    scene.holds_on("b")
    assert (ended(scene, "b"), scene.cluster.workers["b"].job) == ([], "j")


def test_who_is_to_go_and_may_hold_more_than_it_told_does_not_go_for_its_first_words(scene):
    scene.running("a", "b", min_workers=1, step=3)
    says(scene, "b", TrainerPhase.FORMING, promised=1, generation=1, leaving=True)
    scene.does(Disconnected("b"))
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    scene.train("a", 5)
    scene.exits("a")
    scene.beat("a")
    scene.register("b")
    assert ended(scene, "b") == []
    says(scene, "b", TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, 3), leaving=True)
    assert ended(scene, "b") == []


@pytest.mark.parametrize("holds", [True, False])
def test_who_was_to_go_with_one_of_two_copies_waits_until_the_other_is_told_of_where_both_were_cut_off(scene, holds):
    facts = {"promised": 1, "generation": 1, "version": Version(1, 3), "leaving": True}
    scene.parted()
    scene.train("a", 3)
    scene.register("b")
    says(scene, "b", TrainerPhase.BROKEN, **facts)
    assert ended(scene, "b") == [Go]
    for name in "ba":
        scene.does(Disconnected(name))
    scene.now += 8.0
    for name in "ab":
        scene.register(name)
        assert ended(scene, "b") == []
    says(scene, "b", TrainerPhase.BROKEN, **facts)
    assert ended(scene, "b") == []
    if holds:
        scene.train("a", 5)
    else:
        scene.beat("a")
    says(scene, "b", TrainerPhase.BROKEN, **facts)
    assert ended(scene, "b") == ([Go] if holds else [])


# --- The other's words are


@pytest.mark.parametrize("sleeps", [False, True])
def test_who_is_back_with_a_copy_is_not_released_until_another_one_told_that_it_has_one(scene, sleeps):
    """a was cut off, too, and is back; or the coordinator stood still, and has not heard a since."""
    taken_off(scene)
    if not sleeps:
        scene.does(Disconnected("a"))
    scene.now += 8.0
    if sleeps:
        scene.cluster = replace(scene.cluster, awake=scene.now)
    else:
        scene.register("a")
    scene.register("b")
    scene.holds_on("b")
    assert ended(scene, "b") == []
    scene.train("a", 5)
    scene.holds_on("b")
    assert ended(scene, "b") == [Release]


@pytest.mark.parametrize("holds", [True, False])
def test_who_was_given_up_is_not_killed_until_another_one_told_that_it_has_a_copy(scene, holds):
    out_for_its_silence(scene)
    scene.after(2.0, heard="a")
    scene.does(Disconnected("a"))
    scene.now += 8.0
    scene.register("a")
    scene.register("b")
    scene.holds_on("b")
    assert ended(scene, "b") == []
    if holds:
        scene.train("a", 5)
    else:
        scene.beat("a")
    scene.holds_on("b")
    assert ended(scene, "b") == ([Kill] if holds else [])


@pytest.mark.parametrize("holds", [True, False])
def test_who_did_not_answer_is_not_killed_by_a_coordinator_that_woke_up_until_another_one_told_what_it_has(
    scene, holds
):
    """b's connection stands, its orders are lost, and it says what it did before. Then nobody was heard for long."""
    facts = {"promised": 1, "generation": 1, "version": Version(1, 3)}
    scene.running("a", "b", min_workers=1, step=3)
    scene.passes(scene.policy.halt_limit, heard="ab")
    scene.breaks("a", 1)
    says(scene, "b", TrainerPhase.BROKEN, **facts)
    scene.halt("a", (1, 3))
    scene.after(scene.policy.halt_limit + 0.1, heard="ab")
    scene.train("a")
    says(scene, "b", TrainerPhase.BROKEN, **facts)
    assert ended(scene, "b") == [Kill]
    scene.now += 8.0
    scene.cluster = replace(scene.cluster, awake=scene.now)
    says(scene, "b", TrainerPhase.BROKEN, **facts)
    assert ended(scene, "b") == []
    if holds:
        scene.train("a", 5)
    else:
        scene.does(Disconnected("a"))
    says(scene, "b", TrainerPhase.BROKEN, **facts)
    assert ended(scene, "b") == ([Kill] if holds else [])


def fails_again(scene, before_the_fifth):
    """b raises in five steps in a row, while a holds the same state."""
    scene.running("a", "b", min_workers=1, step=3)
    scene.passes(5.0, heard="ab")
    for n in range(1, 6):
        shard = scene.job.formation.owners.index(scene.members.index("b"))
        if n == 5:
            before_the_fifth()
        scene.raises("b", n, step=n + 2, shard=shard)
        if n < 5:
            scene.halt("ab", (n, n + 2))
            scene.train("ab")
            scene.train("ab", n + 3)
    assert set(scene.job.refused) == {"b"}


def raised(scene):
    """b's heartbeat after its fifth failure."""
    scene.beat("b", TrainerPhase.BROKEN, promised=5, generation=5, version=Version(5, 7))


def test_who_is_refused_is_not_released_until_another_one_answered_with_a_copy(scene):
    """a may hang in the very step, which nobody knows yet."""
    fails_again(scene, before_the_fifth=lambda: None)
    raised(scene)
    assert ended(scene, "b") == []
    scene.halt("a", (5, 7))
    raised(scene)
    assert ended(scene, "b") == [Release]


def test_who_is_refused_stays_where_the_other_holder_hangs_and_is_lent_again_once_that_is_given_up(scene):
    facts = {"generation": 5, "version": Version(5, 7)}
    fails_again(scene, lambda: says(scene, "a", TrainerPhase.TRAINING, HANG, promised=5, **facts))
    began = scene.now
    while not scene.noted("evicted") and scene.now < began + 2 * scene.policy.detached_limit:
        scene.now += 1.0
        raised(scene)
        assert ended(scene, "b") == []
        says(scene, "a", TrainerPhase.HALTED, HANG, promised=scene.job.generation, at_work=True, **facts)
        scene.does(Tick())
    assert [note.worker for note in scene.noted("evicted")] == ["a"]
    raised(scene)
    assert (ended(scene, "b"), scene.cluster.workers["b"].job) == ([], "j")


def test_an_older_copy_stays_where_one_that_has_it_too_is_not_heard_and_the_newest_one_hangs(scene):
    """Seed 5538: b hangs in a generation of its own; a's connection stands, and nothing comes."""
    scene.running("a", "b", "c", min_workers=1, step=3)
    scene.does(Disconnected("c"))
    scene.breaks("b", 1)
    scene.halt("b", (1, 3))
    scene.passes(scene.policy.halt_limit, heard="b")
    scene.after(0.1, heard="b")
    assert scene.members == ["b"]
    scene.train("b", 3)
    scene.after(scene.policy.absent_limit + 1.0, heard="b")
    assert scene.cluster.present("a") is not None
    says(scene, "b", TrainerPhase.TRAINING, HANG, promised=2, generation=2, version=Version(2, 4))
    scene.register("c")
    scene.holds_on("c")
    assert ended(scene, "c") == []


# --- The other hangs


def hangs(scene, seconds):
    """a, the only member, has hung in a pass of step 5 for so long."""
    n = scene.job.formation.generation
    for _ in range(int(seconds)):
        scene.now += 1.0
        facts = {"generation": n, "version": Version(n, 5)}
        if scene.job.generation == n:
            says(scene, "a", TrainerPhase.TRAINING, HANG, promised=n, **facts)
        else:
            says(scene, "a", TrainerPhase.HALTED, HANG, promised=scene.job.generation, at_work=True, **facts)
        scene.does(Tick())


def test_an_older_copy_that_comes_back_stays_while_whoever_has_the_newest_hangs(scene):
    taken_off(scene)
    spec = replace(scene.job.spec, step_timeout=20.0)
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, spec=spec)})
    scene.train("a", 5)
    hangs(scene, 60)
    assert scene.job.round is None
    assert scene.job.phase is JobPhase.WAITING
    scene.register("b")
    for _ in range(3):
        scene.holds_on("b")
        assert ended(scene, "b") == []
        hangs(scene, 3)


def test_an_older_copy_whose_worker_is_to_go_stays_while_whoever_has_the_newest_hangs(scene):
    scene.parted()
    spec = replace(scene.job.spec, step_timeout=20.0)
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, spec=spec)})
    scene.train("a", 5)
    scene.register("b")
    scene.holds_on("b")
    hangs(scene, 60)
    for _ in range(3):
        n = scene.job.generation
        says(scene, "b", TrainerPhase.HALTED, promised=n, generation=1, version=Version(1, 3), leaving=True)
        assert ended(scene, "b") == []
        hangs(scene, 3)


def test_an_older_copy_is_no_surplus_while_the_only_member_hangs(scene):
    scene.parted()
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, spec=replace(scene.job.spec, max_workers=1))})
    scene.train("a", 5)
    scene.passes(scene.policy.quiet_limit + 1.0, heard="")
    scene.register("b")
    scene.holds_on("b")
    assert scene.cluster.workers["b"].job == "j"
    hangs(scene, 1)
    assert (ended(scene, "b"), scene.cluster.workers["b"].job) == ([], "j")


# --- Nobody waits for ever for one that is spared, or hangs


STANDS = Hang(phase=LoopPhase.IDLE, lasts=20.0, limit=4.0, stands=True)


def test_a_job_that_waits_beside_an_older_copy_goes_on_once_the_holder_that_stands_still_is_given_up(scene):
    scene.running("a", "b", "c", min_workers=2, step=3)
    scene.left_behind("b", "ac", 5)
    scene.after(scene.policy.absent_limit + 1.0, heard="ac")
    scene.exits("c")
    scene.does(Disconnected("c"))
    scene.halt("a", (2, 5))
    assert scene.job.phase is JobPhase.WAITING
    scene.register("b")
    began = scene.now
    while not scene.noted("evicted") and scene.now < began + 2 * scene.policy.detached_limit:
        scene.now += 1.0
        scene.holds_on("b")
        says(scene, "a", TrainerPhase.HALTED, STANDS, promised=3, generation=2, version=Version(2, 5))
        scene.does(Tick())
    assert [note.worker for note in scene.noted("evicted")] == ["a"]
    scene.holds_on("b")
    assert scene.cluster.workers["b"].job == "j"


def still_hangs(scene, **facts):
    """b, which the others left out as they went on, until it is told to end; a makes steps."""
    assert scene.members == ["a"]
    step, killed = 3, False
    while not killed and step < 100:
        scene.now += 0.5
        says(scene, "b", TrainerPhase.HALTED, HANG, promised=2, at_work=True, **facts)
        killed = Kill in ended(scene, "b")
        step += 1
        scene.train("a", step)
        scene.does(Tick())
    return killed


def test_who_hangs_a_step_ahead_is_given_up_where_the_others_go_on_without_that_step(scene):
    scene.running("a", "b", min_workers=1, step=3)
    scene.passes(5.0, heard="ab")
    says(scene, "b", TrainerPhase.TRAINING, promised=1, generation=1, version=Version(1, 4))
    scene.breaks("a", 1)
    says(scene, "b", TrainerPhase.HALTED, HANG, promised=2, at_work=True, generation=1, version=Version(1, 4))
    scene.halt("a", (1, 3))
    scene.after(scene.policy.halt_limit + 0.1, heard="ab")
    assert [note.worker for note in scene.noted("evicted")] == ["b"]


def test_who_hangs_and_was_left_out_as_the_other_came_back_is_given_up_once_that_trains(scene):
    scene.running("a", "b", min_workers=1, step=3)
    scene.passes(5.0, heard="ab")
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    scene.passes(scene.policy.halt_limit - 0.1, heard="ab")
    scene.register("a")
    says(scene, "b", TrainerPhase.HALTED, HANG, promised=2, at_work=True, generation=1, version=Version(1, 3))
    scene.after(0.2, heard="b")
    assert scene.noted("evicted") == []
    assert still_hangs(scene, generation=1, version=Version(1, 3))


def test_a_drain_ends_although_the_other_holder_of_what_is_held_stands_still(scene):
    """What is held is saved then: of the two only one is known to come back to it."""
    scene.running("a", "b", min_workers=2, step=3)
    scene.does(PauseJob("j", hold=True))
    scene.halt("ab", (1, 3))
    facts = {"generation": 1, "version": Version(1, 3)}
    says(scene, "a", TrainerPhase.HALTED, STANDS, promised=2, **facts)
    scene.does(DrainWorker("b"))
    assert scene.cluster.workers["b"].job == "j"
    for _ in range(100):
        scene.now += 1.0
        says(scene, "a", TrainerPhase.HALTED, STANDS, promised=2, **facts)
        says(scene, "b", TrainerPhase.HALTED, promised=scene.job.generation, **facts)
        if scene.job.saver is not None:
            scene.saved(scene.job.saver.worker, (1, 3))
        scene.does(Tick())
    assert (scene.job.saved, scene.cluster.workers["b"].job) == (Version(1, 3), None)


def test_who_was_evicted_for_its_data_and_is_back_as_it_was_then_is_asked_for_the_last_copy(scene):
    """The order to end it met a dead line, and its data came meanwhile: nothing that it says is new."""
    scene.running("a", "b", min_workers=1, step=3)
    scene.passes(scene.policy.halt_limit, heard="ab")
    starves = Hang(phase=LoopPhase.DATA, lasts=4.2, limit=4.0, fetch=7)
    says(scene, "b", TrainerPhase.TRAINING, starves, promised=1, generation=1, version=Version(1, 3))
    scene.halt("a", (1, 3))
    halted = {"promised": 2, "generation": 1, "version": Version(1, 3)}
    says(scene, "b", TrainerPhase.HALTED, starves, **halted)
    scene.after(GRACE + 0.1, heard="a")
    assert [note.worker for note in scene.noted("evicted")] == ["b"]
    scene.does(Disconnected("b"))
    scene.train("a", 5)
    scene.register("a", boot="b2")
    scene.register("b")
    says(scene, "b", TrainerPhase.HALTED, **halted)
    assert (ended(scene, "b"), len(scene.told("b", Halt))) == ([], 1)


def test_who_was_taken_off_its_job_and_is_lent_again_for_the_last_copy_is_not_killed_for_its_old_eviction(scene):
    scene.unanswered()
    scene.does(Disconnected("b"))
    scene.train("a", 4)
    scene.after(scene.policy.absent_limit + 0.1, heard="a")
    assert scene.cluster.workers["b"].job is None
    says(scene, "a", TrainerPhase.TRAINING, HANG, promised=2, generation=2, version=Version(2, 4))
    scene.register("b")
    scene.holds_on("b")
    assert (ended(scene, "b"), scene.cluster.workers["b"].job) == ([], None)
    scene.exits("a", cause="killed by SIGSEGV")
    assert (ended(scene, "b"), len(scene.told("b", Halt))) == ([], 1)


def is_said_to_hang(scene, name, phase, loop, promised):
    """Its agent says so."""
    status = replace(scene.cluster.sightings[name].trainer, phase=phase, promised=promised)
    scene.sequence += 1
    hang = Hang(phase=loop, lasts=5.0, limit=4.0, stands=True)
    boot = scene.cluster.workers[name].boot
    scene.says(name, Heartbeat(boot=boot, sequence=scene.sequence, trainer=status, hang=hang))


def test_who_answered_and_hangs_since_is_no_other_copy(scene):
    scene.running("a", "b", min_workers=1, step=3)
    scene.passes(scene.policy.halt_limit, heard="ab")
    is_said_to_hang(scene, "b", TrainerPhase.TRAINING, LoopPhase.COMPUTE, promised=1)
    n = scene.job.generation
    scene.beat("a", TrainerPhase.HALTED, promised=n, generation=1, version=Version(1, 3))
    is_said_to_hang(scene, "a", TrainerPhase.HALTED, LoopPhase.IDLE, promised=n)
    scene.after(1.1, heard="ab")
    assert not scene.noted("evicted")
    assert not scene.told("b", Kill)


def test_who_only_did_not_answer_is_not_killed_once_nobody_else_is_left(scene):
    """The order to end it was lost; then the other one, for whose copy it was given up, died."""
    scene.unanswered()
    scene.exits("a")
    scene.beat("b", TrainerPhase.TRAINING, promised=1, generation=1, version=Version(1, 3))
    assert not scene.told("b", Kill)


def test_who_only_did_not_answer_is_not_killed_either_while_it_is_not_heard_for_a_moment(make_scene):
    """Its operator clears it, so it is lent again. The order would reach it with its line, before it can answer."""
    scene = make_scene(error_limit=0)
    scene.unanswered()
    scene.exits("a")
    scene.passes(scene.policy.quiet_limit + 0.1, heard="")
    for name in "ab":
        scene.does(ClearWorker(name))
        assert not scene.told("b", Kill)
    assert scene.cluster.workers["b"].job == "j"


@pytest.mark.parametrize("spared", [True, False], ids=["spared", "its job stopped"])
def test_who_was_evicted_is_not_blamed_again_for_the_end_of_the_same_trainer(scene, spared):
    scene.unanswered()
    assert scene.cluster.workers["b"].errors == 1
    scene.exits("a")
    if not spared:
        scene.does(StopJob("j", now=True))
    scene.exits("b", cause="killed by SIGSEGV")
    assert scene.cluster.workers["b"].errors == 1


def test_who_was_spared_and_is_evicted_at_last_is_blamed_once(scene):
    scene.unanswered()
    scene.exits("a")
    assert not scene.told("b", Kill)
    scene.after(scene.policy.detached_limit + 0.1, heard="b")
    assert [note.worker for note in scene.noted("evicted")] == ["b", "b"]
    assert scene.cluster.workers["b"].errors == 1


def test_the_only_one_that_has_the_state_has_its_time_from_when_it_is_back(scene):
    """The Halt was sent while it was cut off."""
    scene.running("a", "b", min_workers=1, step=3)
    scene.exits("a")
    scene.does(Disconnected("b"))
    scene.after(scene.policy.detached_limit - 1.0)
    scene.register("b")
    scene.beat("b", TrainerPhase.TRAINING, promised=1, generation=1, version=Version(1, 3))
    scene.after(2 * scene.policy.halt_limit, heard="b")
    assert not scene.noted("evicted")
    scene.after(scene.policy.detached_limit, heard="b")
    scene.after(scene.policy.halt_limit + 0.1, heard="b")
    assert [note.worker for note in scene.noted("evicted")] == ["b"]


@pytest.mark.parametrize("forgotten", [False, True], ids=["another coordinator leads", "forgotten"])
def test_who_comes_back_with_a_state_of_code_that_is_the_jobs_no_more_is_released(make_scene, forgotten):
    """b was away for so long that nobody knows what it holds; the others were lost, and a has mended code by now."""
    scene = make_scene(forget_limit=100.0)
    scene.running("a", "b", "c", min_workers=2, max_workers=3, step=3)
    scene.left_behind("b", "ac", 5)
    scene.after(scene.policy.absent_limit + 1.0, heard="ac")
    if forgotten:
        for step in range(6, 30):
            scene.train("ac", step % 10)
            scene.after(5.0, heard="ac")
        assert "b" not in scene.cluster.workers
    else:
        scene.restart()
        scene.register("a", "c")
        scene.train("ac", 7)
    scene.register("c", boot="b2")
    scene.says("c", AgentLeft(boot="b2"))
    scene.register("a", boot="b2")
    scene.after(scene.policy.halt_limit + 0.1, heard="a")
    mended = Fingerprint("mended", "data", 100)
    scene.beat("a", TrainerPhase.PREPARED, "i2", fingerprint=mended)
    assert scene.job.fingerprint == mended
    scene.register("b")
    scene.holds_on("b")
    scene.holds_on("b")
    assert ended(scene, "b") == [Release]
