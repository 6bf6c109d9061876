"""What the word of an agent changes: who is halted for it, waited for, evicted, left alone; and who is slow."""

from dataclasses import replace

import pytest

from regroup.core.cluster import Answer, Rest
from regroup.core.hanging import GRACE, awaits_data
from regroup.core.jobs import IN_LOAD, OUTSIDE, Checkpoint, Fingerprint, JobPhase, Member, Version, Wanted
from regroup.core.messages.agent_reports import MAX_STACKS, AgentLeft, Heartbeat, StacksTaken
from regroup.core.messages.commands import DrainWorker, PauseJob, ResumeJob, StopJob
from regroup.core.messages.events import Disconnected, Tick
from regroup.core.messages.orders import Heard, Kill
from regroup.core.turn import Turn
from regroup.core.workers import Hang, LoopPhase, TrainerPhase, TrainerStatus

HANG = Hang(phase=LoopPhase.COMPUTE, lasts=4.2, limit=4.0)
STARVES = Hang(phase=LoopPhase.DATA, lasts=4.2, limit=4.0, fetch=7)


def accuse(scene, name, hang=HANG, **facts):
    """Its agent's heartbeat says that it hangs, and where it stood before; or that it is back."""
    seen = scene.cluster.sightings[name]
    scene.sequence += 1
    boot = scene.cluster.workers[name].boot
    trainer = replace(seen.trainer, **facts)
    return scene.says(name, Heartbeat(boot=boot, sequence=scene.sequence, trainer=trainer, hang=hang))


def running(scene, *names, **spec):
    scene.running(*names, step=3, min_workers=1, step_timeout=60.0, **spec)
    scene.passes(scene.policy.halt_limit, heard="".join(names))  # so that each would have had its chance


def evicted(scene):
    return [note.worker for note in scene.noted("evicted")]


def test_who_hangs_is_named_once_and_the_others_halt_for_it(scene):
    running(scene, "a", "b")
    accuse(scene, "b")
    accuse(scene, "b", replace(HANG, lasts=5.3))
    assert [note.reason for note in scene.noted("hang")] == [
        "the trainer on b hangs in phase compute since 4.2 s (limit 4.0 s)"
    ]
    assert scene.job.round is not None
    assert scene.job.reason == "b hangs in phase compute since 4.2 s (limit 4.0 s)"


def test_who_hangs_is_waited_for_a_second_after_the_last_other_answer(scene):
    running(scene, "a", "b")
    accuse(scene, "b")
    scene.halt("a", (1, 3))
    scene.after(GRACE - 0.1, heard="ab")
    assert evicted(scene) == []
    scene.after(0.2, heard="ab")
    assert evicted(scene) == ["b"]
    assert scene.members == ["a"]
    assert scene.told("b", Kill)


def test_who_comes_back_in_that_second_goes_on_as_a_member(scene):
    running(scene, "a", "b")
    accuse(scene, "b")
    scene.halt("a", (1, 3))
    scene.after(GRACE - 0.1, heard="ab")
    scene.halt("b", (1, 3))
    assert evicted(scene) == []
    assert scene.members == ["a", "b"]


def test_who_holds_what_nobody_else_does_is_not_given_up_for_a_hang(scene):
    running(scene, "a", "b")
    accuse(scene, "a")
    scene.halt("b", None)
    scene.after(GRACE + 0.5, heard="ab")
    assert evicted(scene) == []
    assert scene.job.round is not None


def test_a_job_that_hangs_as_a_whole_is_not_halted_for_it(scene):
    running(scene, "a", "b")
    accuse(scene, "a", HANG)
    scene.halt("b", (1, 3))
    scene.halt("a", (1, 3))
    running_in = scene.job.generation
    accuse(scene, "a", HANG, phase=TrainerPhase.TRAINING, generation=running_in)
    alone = [note for note in scene.noted("halt") if note.data["generation"] > running_in]
    assert len(alone) <= 1


def test_a_trainer_that_hangs_alone_is_named_and_left_alone(scene):
    running(scene, "a")
    accuse(scene, "a")
    assert scene.noted("hang")
    assert scene.job.phase is JobPhase.RUNNING
    assert scene.job.round is None


def test_the_hang_of_a_former_trainer_is_nobodys(scene):
    running(scene, "a", "b")
    accuse(scene, "b")
    scene.exits("b")
    scene.prepare("b", incarnation="i2")
    assert scene.cluster.sightings["b"].hang is None


def test_a_hang_overrides_a_boundary_that_would_wait_for_a_step(scene):
    running(scene, "a", "b")
    scene.does(StopJob("j"))
    assert scene.job.round.boundary
    accuse(scene, "b")
    assert not scene.job.round.boundary


def test_who_answers_and_has_no_data_is_evicted_where_another_one_holds_the_same(scene):
    running(scene, "a", "b")
    accuse(scene, "b", STARVES)
    assert "it waits for its data" in scene.job.reason
    scene.halt("a", (1, 3))
    accuse(scene, "b", STARVES, phase=TrainerPhase.HALTED, promised=2, version=Version(1, 3))
    assert evicted(scene) == []
    scene.after(GRACE + 0.1, heard="ab")
    assert evicted(scene) == ["b"]
    assert scene.members == ["a"]


def test_who_answers_and_has_no_data_stays_where_the_others_that_answered_hang_since(scene):
    """Their processes stand still: what they hold may never be given."""
    running(scene, "a", "b")
    accuse(scene, "b", STARVES)
    scene.halt("a", (1, 3))
    accuse(scene, "a", replace(HANG, phase=LoopPhase.IDLE, stands=True))
    accuse(scene, "b", STARVES, phase=TrainerPhase.HALTED, promised=2, version=Version(1, 3))
    scene.after(GRACE + 0.1, heard="ab")
    assert evicted(scene) == []


def test_who_has_no_data_and_holds_the_only_state_stays(scene):
    running(scene, "a", "b")
    accuse(scene, "a", STARVES)
    scene.halt("b", None)
    accuse(scene, "a", STARVES, phase=TrainerPhase.HALTED, promised=2, version=Version(1, 3))
    scene.after(GRACE + 0.1, heard="ab")
    assert evicted(scene) == []
    assert scene.members == ["a", "b"]


def test_a_step_whose_data_comes_too_late_three_times_fails_the_job_and_says_what_to_do(scene):
    running(scene, "a")
    for fetch in (1, 3, 5):
        assert scene.job.phase is JobPhase.RUNNING
        accuse(scene, "a", replace(STARVES, fetch=fetch))
        scene.after(60.5, heard="a")
        if fetch < 5:
            generation = scene.job.generation
            accuse(scene, "a", None, phase=TrainerPhase.HALTED, promised=generation, version=Version(generation - 1, 3))
            scene.train("a")
    assert scene.job.phase is JobPhase.FAILED
    assert scene.job.reason.startswith(
        "the task failed in step 3: 3 times no data came in 60 s: make the dataset faster"
    )


def test_fetches_that_come_too_late_by_turns_fail_the_job_although_no_round_lasts_long(scene):
    running(scene, "a", "b")
    for fetch in (1, 3, 5):
        for slow, other in ("ab", "ba"):
            if scene.job.ended:
                break
            accuse(scene, slow, replace(STARVES, lasts=60.1, limit=60.0, fetch=fetch))
            generation = scene.job.generation
            scene.halt(other, (generation - 1, 3))
            accuse(
                scene, slow, None, phase=TrainerPhase.HALTED, promised=generation, version=Version(generation - 1, 3)
            )
            scene.train("a")
            scene.train("b")
    assert scene.job.phase is JobPhase.FAILED
    assert "3 times no data came in 60 s" in scene.job.reason


def test_a_fetch_that_never_ends_counts_once(scene):
    running(scene, "a")
    for _ in range(5):
        accuse(scene, "a", STARVES)
        scene.after(60.5, heard="a")
        generation = scene.job.generation
        accuse(scene, "a", STARVES, phase=TrainerPhase.HALTED, promised=generation, version=Version(generation - 1, 3))
        scene.train("a")
    assert not scene.job.ended
    assert len(scene.cluster.watches["j"].late["a"].fetches) == 1


def test_stacks_are_kept_in_the_timeline_and_cut(scene):
    running(scene, "a", "b")
    told = StacksTaken(job="j", incarnation="i1", phase=LoopPhase.COMPUTE, stacks="x" * (MAX_STACKS + 1))
    scene.says("b", told)
    (note,) = scene.noted("stacks")
    assert note.reason == "where the trainer on b hangs in phase compute"
    assert len(note.data["stacks"]) == MAX_STACKS


# --- Stragglers


def paced(scene, name, pace):
    seen = scene.cluster.sightings[name]
    scene.sequence += 1
    boot = scene.cluster.workers[name].boot
    scene.says(name, Heartbeat(boot=boot, sequence=scene.sequence, trainer=seen.trainer, pace=pace))


def test_who_is_slower_at_three_looks_is_named_once_and_again_only_after_it_recovered(scene):
    running(scene, "a", "b", "c")
    for name in "ab":
        paced(scene, name, 0.010)
    for look in range(6):
        paced(scene, "c", 0.016 + look / 1e6)
        assert len(scene.noted("straggler")) == (look >= 2)
    paced(scene, "c", 0.014)  # neither slow nor as fast as the others
    paced(scene, "c", 0.017)
    assert len(scene.noted("straggler")) == 1
    paced(scene, "c", 0.011)
    assert [note.worker for note in scene.noted("recovered")] == ["c"]
    for look in range(3):
        paced(scene, "c", 0.020 + look / 1e6)
    assert [note.worker for note in scene.noted("straggler")] == ["c", "c"]
    assert evicted(scene) == []


def test_a_pace_that_is_told_again_is_no_further_look(scene):
    running(scene, "a", "b")
    paced(scene, "a", 0.010)
    for _ in range(5):
        paced(scene, "b", 0.020)
    assert scene.noted("straggler") == []


def test_one_alone_is_slower_than_nobody(scene):
    running(scene, "a")
    for look in range(5):
        paced(scene, "a", 1.0 + look)
    assert scene.noted("straggler") == []


def test_data_that_is_too_slow_for_everybody_ends_the_job_also_where_there_are_many(scene):
    names = [f"w{number:02}" for number in range(24)]
    scene.running(*names, step=3, min_workers=1, step_timeout=60.0)
    for fetch in (1, 2, 3):
        generation = scene.job.generation
        scene.passes(60.5, heard=names)
        for name in names if not scene.job.ended else ():
            accuse(scene, name, replace(STARVES, lasts=61.0, limit=60.0, fetch=fetch))
        scene.after(0.1, heard=names)
        if fetch < 3:
            assert scene.job.round is not None
            for name in names:
                accuse(
                    scene,
                    name,
                    None,
                    phase=TrainerPhase.HALTED,
                    promised=generation + 1,
                    generation=generation,
                    version=Version(generation, 3),
                )
            scene.train(names)
    assert scene.job.phase is JobPhase.FAILED
    assert "3 times no data came in 60 s" in scene.job.reason


def test_fetches_of_other_steps_do_not_add_up(scene):
    running(scene, "a")
    for step, fetch in enumerate((1, 3, 5), 3):
        accuse(scene, "a", replace(STARVES, fetch=fetch))
        scene.after(60.5, heard="a")
        assert not scene.job.ended
        n = scene.job.generation
        accuse(scene, "a", None, phase=TrainerPhase.HALTED, promised=n, version=Version(n - 1, step))
        scene.train("a")
        scene.train("a", step + 1)  # storage is back, and it goes on
    assert scene.job.phase is JobPhase.RUNNING


def test_who_lacks_data_stays_where_the_others_that_hold_the_state_are_not_heard_any_more(scene):
    running(scene, "a", "b", "c")
    accuse(scene, "b", STARVES)
    scene.halt("a", (1, 3))  # and its machine is off, which nobody notices yet
    n = scene.job.generation
    accuse(scene, "b", STARVES, phase=TrainerPhase.HALTED, promised=n)
    scene.beat("c", TrainerPhase.HALTED, promised=n, generation=1, version=Version(1, 3), at_work=True)
    scene.passes(scene.policy.quiet_limit + 1.0, heard="bc")
    accuse(scene, "b", STARVES, phase=TrainerPhase.HALTED, promised=n)
    scene.exits("c")
    assert evicted(scene) == []
    assert not scene.told("b", Kill)


def test_a_job_is_stopped_though_the_process_of_its_evicted_holder_does_not_end(scene):
    """A dead disk keeps it in the kernel. Nobody renews its lease, so it is over in time."""
    running(scene, "a")
    scene.register("y")
    scene.does(StopJob("j"))
    limits = (scene.policy.halt_limit, scene.policy.detached_limit, scene.policy.absent_limit)
    for seconds in (1.0, *limits, 1.0):
        scene.after(seconds, heard="ay")
        scene.beat("a", TrainerPhase.TRAINING, promised=1, generation=1, version=Version(1, 3))
        scene.beat("y")
    assert evicted(scene) == ["a"]
    assert scene.job.phase is JobPhase.STOPPED


def test_others_go_on_once_the_lease_of_an_evicted_holder_whose_process_does_not_end_is_over(scene):
    running(scene, "a")
    scene.register("y")
    scene.breaks("a", 1)
    renewed = began = scene.now
    while scene.members == ["a"] and scene.now < began + 1000.0:
        scene.now += 1.0
        given_up = bool(evicted(scene))
        scene.beat("a", TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, 3))
        assert [order.generation for order in scene.told("a", Heard)] == [0 if given_up else 1]
        renewed = renewed if given_up else scene.now
        if scene.cluster.workers["y"].job is None:
            scene.beat("y")
        elif scene.job.round is None:
            scene.prepare("y")
        else:
            scene.halt("y", None)
        scene.does(Tick())
    assert scene.members == ["y"]
    silence = scene.policy.detached_limit + scene.policy.detached_margin
    assert silence < scene.now - renewed < silence + 2 * scene.policy.halt_limit + 2.0


def starves(scene, lacks, others, held):
    """The data of these does not come, in a round that all answer; the others wait for them in vain."""
    for name in lacks:
        accuse(scene, name, STARVES)
    n = scene.job.generation
    scene.halt(others, held)
    for name in lacks:
        accuse(scene, name, STARVES, phase=TrainerPhase.HALTED, promised=n, version=Version(*held))
    scene.after(GRACE + 0.1, heard="abc")


def test_storage_that_stalls_for_several_at_once_fails_no_job(scene):
    """a has fetched ahead."""
    running(scene, "a", "b", "c")
    starves(scene, "bc", "a", (1, 3))
    assert evicted(scene) == ["b", "c"]
    assert scene.members == ["a"]


@pytest.mark.parametrize("seconds", [4.2, 70.0])
def test_storage_that_stalls_for_one_after_the_other_fails_a_job_only_once_no_step_was_made_for_long(scene, seconds):
    running(scene, "a", "b", "c")
    starves(scene, "b", "ac", (1, 3))
    scene.exits("b", asked=True)
    scene.train("ac")
    scene.passes(seconds, heard="abc")
    held = (scene.job.formation.generation, 3)
    if scene.job.round is None:
        starves(scene, "c", "a", held)
    assert scene.job.ended == (seconds > scene.job.spec.step_timeout)
    assert evicted(scene) == ["b", "c"]


# --- Who only waits for its data answers


def only_two(scene):
    spec = replace(scene.job.spec, min_workers=2)
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, spec=spec)})


def test_the_holder_of_a_job_that_waits_for_workers_is_not_given_up_for_data_that_do_not_come(scene):
    running(scene, "a", "b")
    only_two(scene)
    for name in "ab":
        accuse(scene, name, STARVES)
    scene.exits("b", cause="exit status 1")
    accuse(scene, "a", STARVES, phase=TrainerPhase.HALTED, promised=scene.job.generation)
    assert scene.job.phase is JobPhase.WAITING
    for _ in range(int(2 * scene.policy.detached_limit)):
        scene.now += 1.0
        accuse(scene, "a", STARVES)
        scene.does(Tick())
    assert evicted(scene) == []
    scene.does(StopJob("j"))
    accuse(scene, "a", STARVES, phase=TrainerPhase.HALTED, promised=scene.job.generation)
    assert scene.job.saver is not None


def test_a_drain_does_not_take_what_is_held_from_one_that_only_waited_for_its_data(scene):
    running(scene, "a", "b")
    scene.does(PauseJob("j", hold=True))
    scene.halt("ab", (1, 3))
    for name in "ab":
        accuse(scene, name, STARVES)
    scene.does(DrainWorker("b"))
    accuse(scene, "b", STARVES)
    assert (scene.job.wanted, scene.cluster.workers["b"].job) == (Wanted.HOLD, None)


def test_two_workers_that_stood_still_at_once_as_they_waited_for_data_fail_no_job(scene):
    """Memory that is mapped to storage which stalls lets nothing of its process run."""
    running(scene, "a", "b", "c", "d")
    stands = replace(STARVES, fetch=0, stands=True)
    for name in "ab":
        accuse(scene, name, stands)
    scene.halt("cd", (1, 3))
    scene.after(GRACE + 0.1, heard="abcd")
    assert sorted(evicted(scene)) == ["a", "b"]
    scene.train("cd")
    for name in "ab":
        scene.exits(name, asked=True, step=3, shard=OUTSIDE)
    assert scene.job.phase is JobPhase.RUNNING


def test_a_sample_at_which_each_process_stands_still_fails_its_job(scene):
    running(scene, "a", "b", "c", "d")
    left = "abcd"
    for victim in "abc":
        scene.passes(5.0, heard=left)
        accuse(scene, victim, replace(STARVES, fetch=0, stands=True))
        generation = scene.job.formation.generation
        left = left.replace(victim, "")
        for name in left:
            scene.halt(name, (generation, 3))
        scene.after(GRACE + 0.1, heard=left + victim)
        assert not scene.job.ended
        scene.exits(victim, asked=True, step=3, shard=OUTSIDE)
        for name in left if not scene.job.ended else ():
            scene.train(name)
    assert scene.job.phase is JobPhase.FAILED
    assert scene.job.reason.startswith("the task failed in step 3, outside of a pass on a, b, c: ")


def test_a_newcomer_that_stands_still_before_anybody_asked_it_leaves_its_place_to_another(scene):
    scene.running("a", step=3, min_workers=1, max_workers=2, steps=10_000)
    scene.register("b")
    scene.passes(4.0, heard="ab")
    scene.sequence += 1
    trainer = TrainerStatus(
        job="j", incarnation="i1", phase=TrainerPhase.PREPARED, fingerprint=Fingerprint("code", "data", 100)
    )
    stands = Hang(phase=LoopPhase.IDLE, lasts=4.2, limit=4.0, stands=True)
    scene.says("b", Heartbeat(boot="b1", sequence=scene.sequence, trainer=trainer, hang=stands))
    began, step = scene.now, 3
    while not evicted(scene) and scene.now < began + 100.0:
        scene.now += 1.0
        step += 1
        scene.train("a", step)
        accuse(scene, "b", stands)
        scene.does(Tick())
    assert evicted(scene) == ["b"]
    assert scene.now - began > scene.policy.absent_limit


@pytest.mark.parametrize("hang", [HANG, STARVES])
def test_who_was_left_out_and_hangs_is_not_ended_while_none_of_those_that_went_on_is_there(scene, hang):
    running(scene, "a", "b", "c")
    scene.left_behind("c", "ab", 5)
    scene.passes(3.0, heard="ab")
    scene.register("c")
    accuse(scene, "c", hang)
    for name in "ab":
        scene.does(Disconnected(name))
    for _ in range(5):
        scene.now += 1.0
        accuse(scene, "c", hang)
    assert (evicted(scene), scene.told("c", Kill)) == ([], [])
    for name in "ab":
        scene.register(name)
        scene.train(name, 6)
    accuse(scene, "c", hang)
    assert (evicted(scene), scene.told("c", Kill) != []) == (["c"], True)


@pytest.mark.parametrize("phase", [LoopPhase.EVALUATION, LoopPhase.OPTIMIZER, LoopPhase.DATA])
@pytest.mark.parametrize("cut_off", [True, False])
def test_two_that_hung_at_once_outside_of_a_pass_fail_no_job(scene, phase, cut_off):
    """Storage that stalls also for an evaluation, or a machine that swaps: that is the same for all at once."""
    running(scene, "a", "b", "c")
    for name in "bc":
        accuse(scene, name, replace(HANG, phase=phase))
    scene.halt("a", (1, 3))
    scene.after(GRACE + 0.1, heard="abc")
    assert evicted(scene) == ["b", "c"]
    for name in "bc":
        if cut_off:  # its agent tells first that it has no trainer
            scene.register(name)
            scene.beat(name)
        scene.exits(name, asked=True, step=3, shard=OUTSIDE)
    scene.train("a")
    assert (scene.job.phase, scene.members) == (JobPhase.RUNNING, ["a"])


def test_those_that_hung_at_once_as_they_took_a_state_fail_no_job(scene):
    """All are there at the same time, whatever holds them up; and the one that gave it hung with them."""
    running(scene, "a", "b", "c", "d", max_restarts=1)
    scene.beat("b", TrainerPhase.TRAINING, promised=1, generation=1, version=Version(1, 4))
    scene.breaks("a", 1)
    scene.halt("acd", (1, 3))
    scene.halt("b", (1, 4))
    assert scene.job.formation.base == Version(1, 4)
    hang = replace(HANG, phase=LoopPhase.LOADING)
    for name in "bcd":
        held = Version(1, 4 if name == "b" else 3)
        accuse(scene, name, hang, phase=TrainerPhase.FORMING, promised=2, generation=2, version=held)
    since = scene.now
    while scene.now < since + scene.policy.detached_limit + 2 * scene.policy.halt_limit:
        scene.halt("a", (1, 3))  # of whichever round
        scene.passes(scene.policy.halt_limit, heard="abcd")
    assert evicted(scene) == ["b", "c", "d"]
    for name in "cd":
        scene.exits(name, asked=True, step=4, shard=IN_LOAD)
        scene.beat(name)
    assert not scene.job.ended
    scene.exits("b", asked=True)
    scene.halt("a", (1, 3))
    assert (scene.members, scene.job.formation.base) == (["a"], Version(1, 3))


@pytest.mark.parametrize("phase", [LoopPhase.OPTIMIZER, LoopPhase.DATA])
def test_a_task_that_hangs_outside_of_a_pass_on_its_only_worker_fails_the_second_time(scene, phase):
    scene.running("a", step_timeout=60.0)
    hang = replace(HANG, phase=phase, stands=True)
    for number in (1, 2):
        assert not scene.job.ended
        while len(evicted(scene)) < number:
            scene.now += 1.0
            accuse(scene, "a", hang)
            scene.does(Tick())
        scene.exits("a", f"i{number}", asked=True, step=0, shard=OUTSIDE)
        scene.beat("a")
        if number == 1:
            scene.prepare("a", incarnation="i2")
            scene.halt("a", None, "i2")
            scene.train("a", None, "i2")
    assert scene.job.phase is JobPhase.FAILED
    assert scene.cluster.workers["a"].errors == 0


def test_trainers_that_end_long_after_they_were_evicted_are_no_failures_of_the_step_that_came_off_since(scene):
    running(scene, "a", "b", "c", "d")
    for name in "bcd":
        accuse(scene, name, replace(STARVES, fetch=0, stands=True))
    scene.halt("a", (1, 3))
    scene.after(GRACE + 0.1, heard="abcd")
    assert evicted(scene) == ["b", "c", "d"]
    for name in "bcd":
        scene.train("a", scene.job.formation.base.step + 100)
        scene.exits(name, asked=True, step=3, shard=OUTSIDE)
        scene.prepare(name, incarnation="i2")
        for other in scene.members:
            held = (scene.job.formation.generation, scene.job.step)
            scene.halt(other, held, "i1" if other == "a" else "i2")
        scene.halt(name, None, "i2")
        for other in scene.members:
            scene.train(other, None, "i1" if other == "a" else "i2")
    assert scene.job.phase is JobPhase.RUNNING
    assert scene.job.failures == ()


@pytest.mark.parametrize("asks", [PauseJob("j", hold=True), PauseJob("j"), StopJob("j")])
def test_nobody_is_given_up_for_its_data_in_a_job_that_is_to_rest(scene, asks):
    running(scene, "a", "b")
    accuse(scene, "b", STARVES)
    scene.does(asks)
    for name in "ab":
        accuse(scene, name, STARVES if name == "b" else None, phase=TrainerPhase.HALTED, promised=scene.job.generation)
    scene.after(GRACE + 0.1, heard="ab")
    assert evicted(scene) == []
    assert scene.job.phase is JobPhase.PAUSED or scene.job.saver is not None


@pytest.mark.parametrize("errors", [0, 5])
def test_two_that_hung_at_once_fail_no_job_also_where_they_are_quarantined_for_it(scene, errors):
    """Storage stalls at an evaluation's data, as it did five times before."""
    running(scene, "a", "b", "c")
    workers = {name: replace(one, errors=errors if name in "bc" else 0) for name, one in scene.cluster.workers.items()}
    scene.cluster = replace(scene.cluster, workers=workers)
    for name in "bc":
        accuse(scene, name, replace(HANG, phase=LoopPhase.EVALUATION))
    scene.halt("a", (1, 3))
    scene.after(GRACE + 0.1, heard="abc")
    assert evicted(scene) == ["b", "c"]
    assert scene.cluster.workers["b"].quarantined is (errors == 5)
    for name in "bc":
        scene.exits(name, asked=True, step=3, shard=OUTSIDE)
    assert not scene.job.ended, scene.job.reason
    scene.train("a")
    assert (scene.job.phase, scene.members) == (JobPhase.RUNNING, ["a"])


def comes_late(scene, name, incarnation, step):
    """Its data takes longer than step_timeout, and comes; the round that began for it goes on with all."""
    held = (scene.job.formation.generation, step)
    accuse(scene, name, replace(STARVES, lasts=60.5, limit=60.0, fetch=scene.sequence))
    accuse(scene, name, None)
    if scene.job.round is not None:
        scene.halt("ab", held, incarnation)
        scene.train("ab", step, incarnation)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("before", [1, 2])
def test_data_that_came_late_for_a_step_that_was_lost_does_not_count_beside_what_comes_late_now(scene, before, held):
    running(scene, "a", "b")
    scene.train("ab", 5)
    for _ in range(before):
        comes_late(scene, "a", "i1", 5)
    scene.train("ab", 9)
    if held:
        scene.does(PauseJob("j", hold=True))
    for name in "ab":
        scene.exits(name)
        scene.beat(name)
    scene.prepare("a", "b", incarnation="i2")
    if held:
        scene.after(scene.policy.halt_limit + 0.1, heard="ab")
        scene.does(ResumeJob("j"))
    scene.halt("ab", None, "i2")
    scene.train("ab", 5, "i2")
    comes_late(scene, "a", "i2", 5)
    assert not scene.job.ended, scene.job.reason
    comes_late(scene, "a", "i2", 5)
    assert not scene.job.ended, scene.job.reason
    comes_late(scene, "a", "i2", 5)
    assert scene.job.phase is JobPhase.FAILED


@pytest.mark.parametrize("every", [1.0, 2.6])
def test_who_hangs_with_the_only_state_is_given_up_in_the_end_however_seldom_its_agent_is_heard(scene, every):
    """Its machine swaps. After a silence as long as that it counts as one that was cut off."""
    assert 1.0 < scene.policy.quiet_limit < 2.6
    scene.running("a", max_workers=1, step=3)
    scene.register("b")
    began = scene.now
    while not evicted(scene) and scene.now < began + 3 * scene.policy.detached_limit:
        scene.passes(every, heard="b")
        n = scene.job.generation
        facts = {"promised": n, "at_work": True} if n > 1 else {}
        accuse(scene, "a", **facts | ({"phase": TrainerPhase.HALTED} if n > 1 else {}))
        if n == 1:
            scene.after(scene.job.spec.step_timeout + 1.0, heard="b")
    assert evicted(scene) == ["a"]
    assert scene.now - began > scene.policy.detached_limit


def test_an_eviction_of_long_ago_is_no_reason_why_several_would_hang_now(scene):
    """b hung once, and its machine left. Days later the task hangs outside of a pass, wherever that is."""
    running(scene, "a", "b")
    accuse(scene, "b")
    scene.halt("a", (1, 3))
    scene.after(GRACE + 0.1, heard="ab")
    scene.exits("b", asked=True, step=3, shard=1)
    scene.says("b", AgentLeft(boot="b1"))
    scene.train("a", 3)
    scene.after(86400.0, heard="a")
    for number in (1, 2):
        assert not scene.job.ended
        scene.train("a", 9, f"i{number}")
        while len(evicted(scene)) <= number:
            accuse(scene, "a", replace(HANG, phase=LoopPhase.OPTIMIZER))
            scene.after(1.0, heard="a")
        scene.exits("a", f"i{number}", asked=True, step=9, shard=OUTSIDE)
        scene.beat("a")
        scene.prepare("a", incarnation=f"i{number + 1}")
        scene.halt("a", None, f"i{number + 1}")
    assert scene.job.phase is JobPhase.FAILED
    assert scene.cluster.workers["a"].errors == 0


def test_who_answered_and_has_no_data_is_left_out_also_where_its_line_was_cut_a_moment_before(scene):
    running(scene, "a", "b")
    scene.does(Disconnected("b"))
    scene.register("b")
    accuse(scene, "b", STARVES)
    scene.halt("a", (1, 3))
    accuse(scene, "b", STARVES, phase=TrainerPhase.HALTED, promised=scene.job.generation)
    scene.after(GRACE + 0.1, heard="ab")
    assert evicted(scene) == ["b"]
    assert scene.members == ["a"]


def test_one_that_prepares_for_ever_is_given_up_though_its_line_is_cut_now_and_then(scene):
    scene.submit(min_workers=2)
    scene.register("a", "b")
    scene.prepare("a")
    scene.beat("b", TrainerPhase.PREPARING)
    until = scene.now + 1.2 * scene.policy.prepare_limit
    while scene.now < until:
        scene.does(Disconnected("b"))
        scene.register("b")
        scene.beat("b", TrainerPhase.PREPARING)
        scene.after(0.2 * scene.policy.prepare_limit, heard="ab")
    assert evicted(scene) == ["b"]


# --- It says nothing new for long, and only then stands still

STANDS = Hang(phase=LoopPhase.IDLE, lasts=4.3, limit=4.0, stands=True)


@pytest.mark.parametrize("command", [None, StopJob("j"), PauseJob("j"), ResumeJob("j")])
def test_who_waits_with_the_only_state_and_stands_still_for_a_moment_has_its_time_to_come_back(scene, command):
    """Its job waits for another worker, or is held; its machine swaps. For two minutes there was nothing to do."""
    scene.running("a", "b", step=9, min_workers=2 if command is None else 1)
    if command is not None:
        scene.does(PauseJob("j", hold=True))
    scene.exits("b")
    scene.says("b", AgentLeft(boot="b1"))
    scene.halt("a", (1, 9))
    assert scene.job.phase is (JobPhase.WAITING if command is None else JobPhase.PAUSED)
    scene.after(2 * scene.policy.detached_limit, heard="a")
    accuse(scene, "a", STANDS)
    if command is not None:
        scene.does(command)
    scene.after(0.2, heard="a")
    assert evicted(scene) == []
    for _ in range(2):
        scene.after(scene.policy.detached_limit, heard="a")
        accuse(scene, "a", STANDS)
    assert evicted(scene) == ["a"], "and not for ever"


@pytest.mark.parametrize("asleep", ["ab", "a"])
def test_a_machine_that_slept_as_it_prepared_did_not_hang(scene, asleep):
    scene.submit(min_workers=2)
    scene.register("a", "b")
    for name in "ab":
        scene.beat(name, TrainerPhase.PREPARING)
    for _ in range(11):
        scene.after(0.1 * scene.policy.prepare_limit, heard="ab".replace(asleep, "") if asleep == "a" else "")
    for name in asleep:
        scene.beat(name, TrainerPhase.PREPARING)
    scene.does(Tick())
    assert set(evicted(scene)).isdisjoint(asleep)


def test_a_newcomer_that_rested_and_stands_still_for_a_moment_did_not_hang_all_the_while(scene):
    running(scene, "a")
    asked = replace(scene.job, spec=replace(scene.job.spec, max_workers=2))
    scene.cluster = replace(scene.cluster, jobs={"j": asked})
    scene.register("b")
    watch = replace(scene.cluster.watches["j"], resting={"b": Rest(6, scene.now + 300.0)})
    scene.cluster = replace(scene.cluster, watches={"j": watch})
    scene.prepare("b")
    for step in range(4, 9):
        scene.passes(scene.policy.absent_limit / 2, heard="b")
        scene.train("a", step)
        scene.prepare("b")
    assert scene.members == ["a"]
    accuse(scene, "b", STANDS)
    scene.does(Tick())
    assert evicted(scene) == []
    scene.after(scene.policy.absent_limit + 0.1, heard="ab")
    accuse(scene, "b", STANDS)
    scene.train("a", 9)
    assert evicted(scene) == ["b"], "and not for ever"


def test_two_standstills_with_a_cut_line_in_between_are_not_one(scene):
    """a waits with the only state. All was well while it was not heard."""
    scene.running("a", "b", step=9)
    scene.exits("b")
    scene.says("b", AgentLeft(boot="b1"))
    scene.halt("a", (1, 9))
    accuse(scene, "a", replace(STANDS, lasts=5.0))
    scene.does(Disconnected("a"))
    scene.passes(2 * scene.policy.detached_limit, heard="")
    scene.register("a")
    accuse(scene, "a", STANDS)
    scene.after(scene.policy.halt_limit, heard="a")
    assert evicted(scene) == []


def test_one_that_hangs_as_it_prepares_is_found_though_its_agent_is_heard_every_half_minute(scene):
    scene.submit(min_workers=2)
    scene.register("a", "b")
    scene.prepare("a")
    until = scene.now + 1.2 * scene.policy.prepare_limit
    while scene.now < until:
        scene.beat("b", TrainerPhase.PREPARING)
        scene.after(3 * scene.policy.absent_limit, heard="a")
    scene.beat("b", TrainerPhase.PREPARING)
    scene.does(Tick())
    assert evicted(scene) == ["b"]


def test_who_hangs_before_any_step_was_made_is_not_waited_for_as_if_it_held_one(scene):
    """b is to form alone, and hangs; a is prepared. Nothing was ever trained, so that nothing is lost with b."""
    scene.submit(max_workers=2)
    scene.register("a", "b")
    scene.prepare("b")
    scene.halt("b", None)
    scene.prepare("a")
    scene.beat("b", TrainerPhase.FORMING, promised=1, generation=1)
    waited, most = 0, scene.policy.form_limit + scene.policy.halt_limit + 5
    while not evicted(scene) and waited < 2 * most:
        scene.after(1.0)
        waited += 1
        accuse(scene, "b", replace(HANG, phase=LoopPhase.FORMING, lasts=1.0 * waited, stands=True))
        if scene.job.round is not None:
            scene.halt("a", None)
        else:
            scene.beat("a", TrainerPhase.HALTED, promised=1)
    assert (evicted(scene), waited < most) == (["b"], True)


def test_who_stands_still_with_the_only_copy_in_reach_is_spared_though_it_is_durable(scene):
    """Step 3 was saved by b, into a folder of its machine, which is off. a waits, and stands still for four seconds."""
    scene.running("a", "b", min_workers=2, step=3)
    kept = Checkpoint(Version(1, 3), "/c/j", "sum", 1, worker="b", host="hb")
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, checkpoint=kept)})
    scene.exits("b")
    scene.does(Disconnected("b"))
    scene.halt("a", (1, 3))
    for _ in range(30):
        scene.after(1.0, heard="a")
        scene.beat("a", TrainerPhase.HALTED, promised=2, generation=1, version=Version(1, 3))
    accuse(scene, "a", Hang(phase=LoopPhase.IDLE, lasts=4.2, limit=4.0, stands=True))
    scene.after(0.2, heard="a")
    assert evicted(scene) == []


@pytest.mark.parametrize("durable", [None, Checkpoint(Version(1, 4), "/c/4", "sum", 1)])
def test_who_waits_for_data_is_set_aside_if_another_one_holds_what_is_gone_on_from_or_can_read_it(scene, durable):
    """The writer of a checkpoint was a step ahead of those that are left."""
    scene.running("a", "b", min_workers=1, max_workers=2, steps=100, step=3)
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    accuse(scene, "b", STARVES)
    watch = scene.cluster.watches["j"]
    told = {Member(name, "i1"): Answer(Version(1, 3), "s") for name in "ab"}
    job = replace(scene.job, checkpoint=durable)
    cluster = replace(scene.cluster, jobs={"j": job}, watches={"j": replace(watch, answers=told)})
    assert awaits_data(Turn(cluster, scene.now, scene.policy), job) == [Member("b", "i1")]
    alone = replace(cluster, watches={"j": replace(watch, answers={Member("b", "i1"): Answer(Version(1, 3), "s")})})
    assert awaits_data(Turn(alone, scene.now, scene.policy), job) == []


@pytest.mark.parametrize(("word", "ended"), [(STARVES, True), (STANDS, False)])
def test_who_answered_and_then_stands_still_is_no_sound_copy_for_which_another_one_is_ended(scene, word, ended):
    """a waits for its data, answers that, and its process freezes. b hangs in the same step, and holds the same."""
    running(scene, "a", "b", "c", max_workers=3)
    for name in "ab":
        accuse(scene, name, STARVES)
    scene.halt("c", (1, 3))
    scene.halt("a", (1, 3))
    scene.exits("c")
    halted = {"phase": TrainerPhase.HALTED, "promised": scene.job.generation}
    for _ in range(10):
        scene.after(1.0, heard="ab")
        accuse(scene, "a", word, **halted)
    assert (evicted(scene) == ["b"]) is ended
