"""One worker's own failures: they fail no job that others can train, and do not hold it up for ever."""

from dataclasses import replace

import pytest

from regroup.core.jobs import IN_DATA, IN_LOAD, IN_STATE, OUTSIDE, Beginning, Checkpoint, JobPhase, StepFailure, Version
from regroup.core.messages.agent_reports import AgentRegistered
from regroup.core.messages.commands import ClearWorker, DrainWorker, PauseJob, ResumeJob, StopJob
from regroup.core.messages.events import Disconnected
from regroup.core.messages.orders import Kill, Release
from regroup.core.workers import TrainerPhase

MONTH = 30 * 86400.0


@pytest.fixture
def joined(scene):
    """c is taken in beside a and b, which hold the state of step 3."""
    scene.running("a", "b", min_workers=1, max_workers=3, steps=10**6, shards=12, global_batch=12)
    scene.train("ab", 3)
    scene.register("c")
    scene.prepare("c")
    form_with_c(scene)
    assert scene.members == ["a", "b", "c"]
    return scene


def form_with_c(scene, held=(1, 3), its=None, incarnation="i1"):
    """All answer the Halt; if c may not take part any more, its trainer ends."""
    scene.halt("ab", held)
    if "c" in scene.job.refused:
        scene.exits("c", asked=True)
    else:
        scene.halt("c", its, incarnation)


def paused(scene):
    scene.does(PauseJob("j"))
    scene.halt("ab", (1, 3))
    scene.saved(scene.job.saver.worker, (1, 3))
    for name in "ab":
        scene.exits(name, asked=True)
        scene.beat(name)
    scene.does(ResumeJob("j"))


def lost(scene):
    for name in "ab":
        scene.register(name, boot="b2")


def dies_preparing(scene, name, incarnation):
    scene.beat(name, TrainerPhase.PREPARING, incarnation)
    scene.exits(name, incarnation, cause="killed by SIGSEGV")
    scene.beat(name)


@pytest.mark.parametrize("rest", [paused, lost])
def test_a_task_that_kills_whoever_prepares_fails_its_job_also_after_it_trained(scene, rest):
    scene.running("a", "b", min_workers=1)
    scene.register("c", "d")
    scene.train("ab", 3)
    rest(scene)
    for number in range(4):
        if not scene.job.ended:
            lent = next(name for name, worker in scene.cluster.workers.items() if worker.job == "j")
            dies_preparing(scene, lent, f"x{number}")
    assert scene.job.phase is JobPhase.FAILED
    assert "while preparing" in scene.job.reason
    assert not any(worker.quarantined for worker in scene.cluster.workers.values())


def test_a_free_worker_whose_old_trainer_does_not_end_is_no_second_one_to_try(scene):
    scene.running("w", step=3)
    scene.does(StopJob("j", now=True))
    scene.register("a")
    scene.after(scene.policy.absent_limit + 0.1, heard="aw")
    scene.submit("k", max_workers=1)
    for number in range(2):
        preparing = {"phase": TrainerPhase.PREPARING, "job": "k", "incarnation": f"x{number}"}
        scene.beat("a", **preparing)
        scene.exits("a", f"x{number}", cause="killed by SIGSEGV", job="k")
        scene.beat("a")
    assert scene.cluster.jobs["k"].phase is JobPhase.FAILED
    assert scene.cluster.workers["a"].errors == 0


def die_in_turn(scene, steps):
    """a, b and c train; an agent after the other dies with its trainer, after so many more steps, and comes back."""
    scene.running("a", "b", "c", step=3, min_workers=1)
    names = dict.fromkeys("abc", "i1")
    done = 3
    for number, dead in enumerate("abcab", start=2):
        if scene.job.ended:
            return
        scene.does(Disconnected(dead))
        last, others = scene.job.formation, [name for name in scene.members if name != dead]
        for name in others:
            scene.breaks(name, last.generation, names[name])
        for name in others:
            scene.halt(name, (last.generation, done), names[name])
        done += steps
        for name in others:
            scene.train(name, done, names[name])
        scene.register(dead, boot=f"b{number}")
        if scene.job.ended:
            return
        names[dead] = f"i{number}"
        scene.prepare(dead, incarnation=names[dead])
        for name in "abc":
            scene.halt(name, None if name == dead else (scene.job.formation.generation, done), names[name])
        for name in scene.members:
            scene.train(name, done, names[name])


def test_a_task_that_takes_agent_after_agent_with_it_in_one_step_fails_its_job(scene):
    """As where it takes all the memory of their containers."""
    die_in_turn(scene, 0)
    assert scene.job.phase is JobPhase.FAILED
    assert scene.job.reason.startswith("the task failed in step 3, outside of a pass on a, b, c: its agent died")
    assert [worker.errors for worker in scene.cluster.workers.values()] == [0, 0, 0]


def test_agents_that_die_one_after_the_other_while_others_train_on_fail_no_job(scene):
    die_in_turn(scene, 1)
    assert scene.job.phase is JobPhase.RUNNING
    assert scene.job.failures == ()


def test_who_died_while_it_prepared_long_ago_does_not_count_any_more(scene):
    scene.submit(min_workers=1, max_workers=2)
    scene.register("a", "b")
    dies_preparing(scene, "a", "x1")
    scene.prepare("a", "b")
    scene.halt("ab", None)
    for name in "ab":
        scene.train(name)
        scene.train(name, 3)
    paused(scene)
    dies_preparing(scene, "b", "x2")
    assert not scene.job.ended


@pytest.mark.parametrize(("who", "cause"), [("cd", "killed by SIGSEGV"), ("cdc", "killed by SIGKILL")])
def test_newcomers_that_die_as_they_take_the_state_do_not_fail_a_job_that_trains(scene, who, cause):
    """One a month, a hundred thousand steps apart; a and b are in good health all the while."""
    scene.running("a", "b", min_workers=1, max_workers=4, steps=10**6)
    scene.register("c", "d")
    step = 3
    scene.train("ab", step)
    for number, name in enumerate(who):
        incarnation, held = f"i{number}", (scene.job.formation.generation, step)
        scene.prepare(name, incarnation=incarnation)
        scene.halt("ab", held)
        scene.halt(name, None, incarnation)
        assert scene.members == ["a", "b", name]
        n = scene.job.formation.generation
        scene.beat(name, TrainerPhase.FORMING, incarnation, promised=n, generation=n)
        scene.exits(name, incarnation, cause=cause, step=step, shard=IN_LOAD)
        assert not scene.job.ended, scene.job.reason
        scene.beat(name)
        scene.halt("ab", held)
        scene.train("ab")
        step, scene.now = step + 100_000, scene.now + MONTH
        scene.train("ab", step)
        assert scene.job.phase is JobPhase.RUNNING


def test_who_cannot_take_the_state_that_others_hold_is_left_out_the_second_time(joined):
    for _ in range(2):
        n = joined.job.formation.generation
        assert "c" in joined.members
        joined.beat("c", TrainerPhase.FORMING, promised=n, generation=n)
        joined.raises("c", n, 3, IN_LOAD)
        for name in "ab":
            joined.breaks(name, n)
        form_with_c(joined)
    assert joined.job.refused == {"c": "ValueError: bad sample, for the second time"}
    assert joined.members == ["a", "b"]


@pytest.mark.parametrize(("cause", "most"), [("killed by SIGSEGV", 2), ("killed by SIGKILL", 3)])
def test_who_dies_as_it_takes_the_state_again_and_again_is_left_out_before_its_quarantine(joined, cause, most):
    """It is not for others to lose their workers by a job whose task kills newcomers."""
    held = (1, 3)
    for number in range(most):
        assert joined.members == ["a", "b", "c"]
        n, incarnation = joined.job.formation.generation, f"i{number + 1}"
        joined.beat("c", TrainerPhase.FORMING, incarnation, promised=n, generation=n)
        joined.exits("c", incarnation, cause=cause, step=3, shard=IN_LOAD)
        joined.beat("c")
        joined.halt("ab", held)
        joined.train("ab")
        held = (joined.job.formation.generation, 3)
        if number + 1 < most:
            joined.prepare("c", incarnation=f"i{number + 2}")
            form_with_c(joined, held, incarnation=f"i{number + 2}")
    assert set(joined.job.refused) == {"c"}
    assert not joined.cluster.workers["c"].quarantined


@pytest.mark.parametrize(("cause", "most"), [("killed by SIGSEGV", 2), ("killed by SIGKILL", 3)])
def test_a_task_that_kills_whoever_joins_takes_no_workers_from_other_jobs(scene, cause, most):
    scene.running("a", min_workers=1, max_workers=3, steps=10**6)
    scene.train("a", 3)
    scene.register(*"bcdefg")
    for number in range(6 * most):
        scene.train("a", 4 + number)
        name = next(name for name in "bcdefg" if scene.cluster.workers[name].job == "j")
        scene.beat(name, TrainerPhase.PREPARING, f"x{number}")
        scene.exits(name, f"x{number}", cause=cause)
        scene.beat(name)
    assert set(scene.job.refused) == set("bcdefg")
    assert scene.job.phase is JobPhase.RUNNING
    assert not any(worker.quarantined for worker in scene.cluster.workers.values())


def test_who_prepared_since_is_not_blamed_for_its_deaths_before(scene):
    scene.running("a", min_workers=1, max_workers=2, steps=10**6)
    scene.train("a", 3)
    scene.register("b")
    for incarnation in ("x1", "x2"):
        scene.beat("b", TrainerPhase.PREPARING, incarnation)
        scene.exits("b", incarnation, cause="killed by SIGSEGV")
        scene.beat("b")
        if incarnation == "x1":
            scene.prepare("b", incarnation="x1b")
            scene.halt("a", (1, 3))
            scene.halt("b", None, "x1b")
            scene.train("a")
            scene.train("b", incarnation="x1b")
            scene.exits("b", "x1b", cause="killed by SIGKILL")
            scene.halt("a", (scene.job.formation.generation, 3))
            scene.train("a")
            scene.beat("b")
    assert scene.job.refused == {}


def test_who_cannot_take_the_state_of_a_job_that_needs_it_is_left_out_and_the_job_waits(scene):
    """Nothing is lost: what was trained is in memory, and another worker takes its place once there is one."""
    scene.running("a", "b", min_workers=2, steps=10**6)
    scene.train("ab", 3)
    scene.exits("b", cause="killed by SIGKILL")
    scene.beat("b")
    scene.prepare("b", incarnation="i2")
    for _ in range(5):
        scene.halt("a", (1, 3))
        scene.halt("b", None, "i2")
        n = scene.job.formation.generation
        assert scene.members == ["a", "b"]
        scene.beat("b", TrainerPhase.FORMING, "i2", promised=n, generation=n)
        scene.raises("b", n, 3, IN_LOAD, incarnation="i2")
        scene.breaks("a", n)
    scene.exits("b", "i2", asked=True)
    scene.halt("a", (1, 3))
    assert set(scene.job.refused) == {"b"}
    assert scene.job.phase is JobPhase.WAITING
    assert "b" in scene.job.reason
    scene.register("c")
    assert scene.cluster.workers["c"].job == "j"


@pytest.mark.parametrize("names", ["ab", "abc", "abcdefgh"])
@pytest.mark.parametrize("needed", [True, False])
def test_a_task_whose_load_raises_wherever_it_is_called_fails_its_job(scene, names, needed):
    """Whoever built the state never loaded it."""
    scene.submit(min_workers=len(names), max_workers=8, global_batch=8, shards=8)
    scene.register(*names)
    scene.prepare(*names)
    if not needed:
        scene.cluster.jobs["j"] = replace(scene.job, spec=replace(scene.job.spec, min_workers=1))
    held = None
    for _ in range(5):
        scene.halt("a", held)
        scene.halt(names[1:], None)
        if scene.job.ended or scene.members == ["a"]:
            break
        n = scene.job.formation.generation
        scene.train("a")
        held = (n, 0)
        for name in names[1:]:
            scene.beat(name, TrainerPhase.FORMING, promised=n, generation=n)
        for name in names[1:]:
            if not scene.job.ended:
                scene.raises(name, n, 0, IN_LOAD)
    assert scene.job.phase is JobPhase.FAILED
    assert "as it took the state" in scene.job.reason


@pytest.mark.parametrize("workers", [2, 3, 5, 6, 8, 16])
def test_a_device_on_which_each_pass_raises_holds_up_no_job_that_needs_all(scene, workers):
    """Its shards turn, so that with many workers no place fails often."""
    names = "abcdefghijklmnop"[:workers]
    scene.running(*names, min_workers=workers, steps=10**6, shards=workers, global_batch=workers)
    for _ in range(5):
        assert scene.job.refused == {}
        formation = scene.job.formation
        scene.train(names, 3)
        its = next(v for v, r in enumerate(formation.owners) if formation.members[r].worker == "b")
        scene.raises("b", formation.generation, 3, its)
        for name in names:
            if name != "b":
                scene.breaks(name, formation.generation)
        if scene.job.refused:
            scene.exits("b", asked=True)
        for name in names:
            if name not in scene.job.refused:
                scene.halt(name, (formation.generation, 3))
    assert scene.job.refused == {"b": "ValueError: bad sample, 5 times in a row, and nobody else"}
    assert scene.job.phase is JobPhase.WAITING


def test_a_device_on_which_the_first_pass_raises_fails_a_job_that_needs_all_since_nothing_is_lost(scene):
    scene.running("a", "b", min_workers=2, steps=10**6)
    for _ in range(5):
        assert not scene.job.ended
        formation = scene.job.formation
        scene.train("ab")
        its = next(v for v, r in enumerate(formation.owners) if formation.members[r].worker == "b")
        scene.raises("b", formation.generation, 0, its)
        if not scene.job.ended:
            scene.breaks("a", formation.generation)
            scene.halt("ab", (formation.generation, 0))
    assert scene.job.phase is JobPhase.FAILED


def test_who_could_take_the_state_since_is_not_blamed_for_the_time_before(joined):
    n = joined.job.formation.generation
    joined.raises("c", n, 3, IN_LOAD)
    for name in "ab":
        joined.breaks(name, n)
    form_with_c(joined)
    joined.train("abc")
    assert joined.job.failures == ()


def test_where_nobody_holds_the_state_yet_two_that_cannot_take_it_fail_the_job(scene):
    scene.submit(min_workers=3, max_workers=3)
    scene.register("a", "b", "c")
    scene.prepare("a", "b", "c")
    for name, others in (("b", "ac"), ("c", "")):
        scene.halt("abc", None)
        n = scene.job.formation.generation
        scene.raises(name, n, 0, IN_LOAD)
        for other in others:
            scene.breaks(other, n)
    assert scene.job.phase is JobPhase.FAILED
    assert "in step 0, as it took the state on b, c" in scene.job.reason


def test_a_device_on_which_each_pass_raises_is_left_out_of_a_job_that_others_train(joined):
    for times in range(1, 6):
        formation = joined.job.formation
        assert "c" in joined.members, times
        joined.train("abc")
        its = next(v for v, r in enumerate(formation.owners) if formation.members[r].worker == "c")
        joined.raises("c", formation.generation, 3, its)
        for name in "ab":
            joined.breaks(name, formation.generation)
        form_with_c(joined, (formation.generation, 3), (formation.generation, 3))
    assert joined.members == ["a", "b"]
    assert joined.job.refused == {"c": "ValueError: bad sample, 5 times in a row, and nobody else"}


def test_a_device_whose_update_raises_in_each_step_is_left_out(joined):
    """c is torn, and takes the state again: each step would cost a regroup and a transfer."""
    for step in range(3, 8):
        n = joined.job.formation.generation
        assert "c" in joined.members, step
        joined.train("abc")
        joined.raises("c", n, step, OUTSIDE)
        form_with_c(joined, held=(n, step + 1))
    assert joined.members == ["a", "b"]


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("free", ["b", ""])
def test_a_job_of_one_worker_that_lost_nothing_yet_begins_on_another_where_that_one_failed_twice(scene, free, trained):
    """Else one broken device would fail each job of the queue."""
    scene.running("a", step=3 if trained else None, max_workers=1)
    scene.register(*free)
    step = 3 if trained else 0
    for n in (1, 2):
        scene.raises("a", n, step=step, shard=OUTSIDE)
        if n == 1:
            scene.halt("a", (1, step))
            scene.train("a")
    if trained or not free:
        assert scene.job.phase is JobPhase.FAILED
        return
    assert scene.job.refused == {"a": "ValueError: bad sample, for the second time"}
    scene.beat("a", TrainerPhase.HALTED, promised=2, generation=2, version=Version(2, 0))
    assert scene.told("a", Release) == [Release("j")]
    scene.exits("a", asked=True)
    scene.prepare("b")
    scene.halt("b", None)
    scene.train("b", 1)
    assert (scene.members, scene.job.phase) == (["b"], JobPhase.RUNNING)


def test_a_job_of_one_worker_keeps_the_one_that_made_a_step_though_only_its_next_failure_says_so(scene):
    scene.running("a", max_workers=1)
    scene.register("b")
    scene.raises("a", 1, step=0, shard=OUTSIDE)
    scene.halt("a", (1, 0))
    scene.train("a")
    scene.raises("a", 2, step=1, shard=OUTSIDE)
    assert (scene.job.refused, scene.job.ended) == ({}, False)
    scene.halt("a", (2, 1))
    assert (scene.members, scene.job.formation.base) == (["a"], Version(2, 1))


@pytest.mark.parametrize("free", ["b", ""])
def test_a_failure_that_is_told_when_the_next_generation_trains_decides_nothing_until_there_is_another(scene, free):
    """The step may have come off since, and nobody said so yet."""
    scene.running("a", max_workers=1)
    scene.register(*free)
    scene.raises("a", 1, step=0, shard=OUTSIDE)
    for n in (1, 2):
        scene.breaks("a", n)
        scene.halt("a", (n, 0))
        scene.train("a")
    scene.raises("a", 2, step=0, shard=OUTSIDE)
    assert (scene.job.formation.generation, scene.job.refused, scene.job.ended) == (3, {}, False)
    scene.raises("a", 3, step=0, shard=OUTSIDE)
    assert (list(scene.job.refused), scene.job.ended) == (["a"] if free else [], not free)


def test_a_job_of_one_worker_fails_once_a_second_one_fails_at_the_same(scene):
    scene.register("a", "b")
    scene.submit(max_workers=1)
    for name, times in (("a", 2), ("b", 1)):
        for number in range(times):
            incarnation = f"{name}{number}"
            scene.prepare(name, incarnation=incarnation)
            scene.halt(name, None, incarnation)
            scene.train(name, None, incarnation)
            scene.exits(name, incarnation, cause="killed by SIGSEGV", step=0, shard=1)
            scene.beat(name)
    assert scene.job.phase is JobPhase.FAILED
    assert [worker.errors for worker in scene.cluster.workers.values()] == [0, 0]


def test_another_worker_of_the_job_that_is_about_to_be_prepared_is_one_to_begin_on(scene):
    scene.submit(min_workers=1, max_workers=2)
    scene.register("a", "b")
    scene.beat("b", TrainerPhase.PREPARING)
    scene.prepare("a")
    scene.halt("a", None)
    scene.train("a")
    scene.raises("a", 1, step=0, shard=OUTSIDE)
    scene.halt("a", (1, 0))
    scene.train("a")
    scene.raises("a", 2, step=0, shard=OUTSIDE)
    assert (set(scene.job.refused), scene.job.ended) == ({"a"}, False)


def test_no_job_that_trained_fails_on_one_worker_while_another_that_holds_its_state_is_cut_off_for_a_moment(scene):
    scene.running("a", "b", min_workers=1, step=3)
    for n in range(1, 8):
        scene.raises("a", n, step=3, shard=2)
        if n == 1:
            scene.does(Disconnected("b"))
        scene.halt("a", (n, 3))
        scene.train("a")
    assert not scene.job.ended
    scene.after(scene.policy.absent_limit + 1.0, heard="a")
    scene.raises("a", 8, step=3, shard=2)
    assert scene.job.phase is JobPhase.FAILED


def test_data_of_another_worker_that_were_late_in_between_do_not_clear_a_broken_device(joined):
    for times in range(1, 6):
        n = joined.job.formation.generation
        assert "c" in joined.members, times
        joined.train("abc")
        if times == 3:
            late = StepFailure(3, IN_DATA, "b", "it waited for its data", died=True, generation=n - 1)
            failures = (*joined.job.failures, late)
            joined.cluster = replace(joined.cluster, jobs={"j": replace(joined.job, failures=failures)})
        joined.raises("c", n, 3, OUTSIDE)
        form_with_c(joined, held=(n, 3))
    assert joined.members == ["a", "b"]


@pytest.mark.parametrize("between", ["another fails", "steps are made"])
def test_failures_of_one_worker_that_are_not_in_a_row_leave_it_in(joined, between):
    step = 3
    for number in range(6):
        n = joined.job.formation.generation
        joined.train("abc")
        joined.train("c", step + (2 if between == "steps are made" else 0))
        whose = "a" if number == 3 and between == "another fails" else "c"
        step += 2 if between == "steps are made" else 1
        joined.raises(whose, n, step, OUTSIDE)
        joined.halt("abc", (n, step))
    assert joined.job.refused == {}
    assert not joined.job.ended


def test_the_only_one_that_holds_a_state_is_not_left_out_for_its_failures(scene):
    """b has not taken it yet; what is c's elsewhere fails the job here, so that nothing is thrown away."""
    scene.running("a", min_workers=1, max_workers=2, steps=10**6)
    scene.train("a", 3)
    scene.register("b")
    scene.prepare("b")
    scene.halt("a", (1, 3))
    scene.halt("b", None)
    for _ in range(5):
        n = scene.job.formation.generation
        scene.raises("a", n, 3, OUTSIDE)
        assert "a" not in scene.job.refused
        if not scene.job.ended:
            scene.breaks("b", n)
            scene.halt("a", (1, 3))
            scene.halt("b", None)
    assert scene.job.phase is JobPhase.FAILED


def test_who_could_not_give_its_state_does_not_lead_again_before_the_other_holder(joined):
    formation = joined.job.formation
    assert formation.members[formation.leader].worker == "a"
    for name in "abc":
        facts = {"promised": formation.generation, "generation": formation.generation}
        joined.beat(name, TrainerPhase.FORMING, version=None if name == "c" else formation.base, **facts)
    joined.raises("a", formation.generation, 3, IN_STATE)
    for name in "bc":
        joined.breaks(name, formation.generation)
    form_with_c(joined)
    formation = joined.job.formation
    assert formation.members[formation.leader].worker == "b"


def test_who_could_not_build_the_first_state_does_not_lead_again_before_the_other(scene):
    scene.submit(min_workers=2, max_workers=2)
    scene.register("a", "b")
    scene.prepare("a", "b")
    for leader in "ab":
        scene.halt("ab", None)
        formation = scene.job.formation
        assert formation.members[formation.leader].worker == leader
        if leader == "a":
            scene.raises("a", formation.generation, 0, OUTSIDE)
            scene.breaks("b", formation.generation)


@pytest.mark.parametrize("beaten", [True, False])
def test_an_agent_that_is_connected_and_not_heard_holds_up_no_queue(scene, beaten):
    scene.register("y")
    if beaten:
        scene.register("x")
    else:
        scene.says("x", AgentRegistered(boot="b1", device="cpu", host="h", pid=1, version="1"))
    for _ in range(60):
        scene.after(1.0, heard="y")
    scene.submit("one", min_workers=2, max_workers=2)
    scene.submit("two", min_workers=1, max_workers=1)
    scene.after(1.0, heard="y")
    assert scene.cluster.jobs["one"].phase is JobPhase.QUEUED
    assert scene.cluster.jobs["two"].phase is JobPhase.PREPARING


def test_power_that_is_lost_again_and_again_while_a_job_prepares_that_trained_is_no_error_of_its_task(scene):
    scene.running("a", "b", min_workers=1)
    scene.train("ab", 3)
    paused(scene)
    for number in range(4):
        for name in "ab":
            if scene.cluster.workers[name].job == "j":
                scene.beat(name, TrainerPhase.PREPARING, f"x{number}")
        for name in "ab":
            scene.register(name, boot=f"b{number + 2}")
    assert not scene.job.ended


@pytest.mark.parametrize(("trains", "die"), [("a", "cc"), ("ab", "cd")])
def test_newcomers_that_die_while_those_that_train_are_cut_off_fail_no_job(scene, trains, die):
    """They train on, under their leases."""
    scene.running(*trains, min_workers=1, max_workers=4, steps=10**6)
    scene.train(trains, 1000)
    scene.register(*dict.fromkeys(die))
    for name in trains:
        scene.does(Disconnected(name))
    for number, name in enumerate(die):
        scene.after(3.0, heard=die)
        assert scene.cluster.workers[name].job == "j"
        dies_preparing(scene, name, f"x{number}")
    assert not scene.job.ended


def test_those_that_trained_and_are_gone_for_good_do_not_keep_a_task_from_failing(scene):
    scene.running("a", min_workers=1, max_workers=2, steps=10**6)
    scene.train("a", 1000)
    scene.register("c")
    scene.does(Disconnected("a"))
    scene.after(scene.policy.detached_limit + scene.policy.detached_margin + 1.0, heard="c")
    for number in (1, 2):
        assert not scene.job.ended
        dies_preparing(scene, "c", f"x{number}")
    assert scene.job.phase is JobPhase.FAILED


@pytest.mark.parametrize("how", ["coordinator", "silence", "connection"])
def test_the_second_that_cannot_take_the_state_while_its_holders_are_not_heard_fails_no_job(scene, how):
    scene.running("a", "b", min_workers=1, max_workers=4, steps=10**6)
    scene.train("ab", 3)
    scene.register("c", "d")
    scene.prepare("c")
    form_with_c(scene)
    n = scene.job.formation.generation
    scene.beat("c", TrainerPhase.FORMING, promised=n, generation=n)
    scene.prepare("d")
    scene.exits("c", cause="killed by SIGSEGV", step=3, shard=IN_LOAD)
    scene.beat("c")
    scene.halt("ab", (1, 3))
    scene.halt("d", None)
    assert scene.members == ["a", "b", "d"]
    n = scene.job.formation.generation
    scene.beat("d", TrainerPhase.FORMING, promised=n, generation=n)
    if how == "coordinator":
        scene.restart()
        scene.register("d")
    elif how == "silence":
        scene.now += scene.policy.quiet_limit + 1.0
    else:
        for name in "ab":
            scene.does(Disconnected(name))
    scene.exits("d", cause="killed by SIGSEGV", step=3, shard=IN_LOAD)
    assert not scene.job.ended


@pytest.mark.parametrize("how", ["coordinator", "connection"])
def test_a_fifth_failure_while_the_other_holder_is_not_heard_fails_no_job(scene, how):
    scene.running("a", "b", min_workers=1, steps=10**6)
    for number in range(1, 6):
        n = scene.job.formation.generation
        scene.train("ab", 3)
        if number == 5 and how == "coordinator":
            scene.restart()
            scene.register("b")
            scene.beat("b", TrainerPhase.BROKEN, promised=n, generation=n, version=Version(n, 3))
        elif number == 5:
            scene.does(Disconnected("a"))
        scene.raises("b", n, 3, OUTSIDE)
        if number < 5:
            scene.breaks("a", n)
            scene.halt("ab", (n, 3))
    assert not scene.job.ended


def test_of_a_job_that_begins_from_anothers_checkpoint_the_leader_took_the_state_as_well(scene):
    """It read the file, and the task's load() took it: so b alone cannot."""
    scene.submit(min_workers=2, max_workers=2, steps=10**6)
    begins = Beginning("old", Checkpoint(Version(7, 100), "/c/old", "sum", 1), None)
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, beginning=begins, step=100)})
    scene.register("a", "b")
    scene.prepare("a", "b")
    one_will_do = replace(scene.job, spec=replace(scene.job.spec, min_workers=1))
    scene.cluster = replace(scene.cluster, jobs={"j": one_will_do})
    held = None
    for _ in range(2):
        scene.halt("a", held)
        scene.halt("b", None)
        n = scene.job.formation.generation
        scene.train("a")
        held = (n, 100)
        scene.beat("b", TrainerPhase.FORMING, promised=n, generation=n)
        scene.raises("b", n, 100, IN_LOAD)
        scene.breaks("a", n)
    assert set(scene.job.refused) == {"b"}
    assert not scene.job.ended


@pytest.mark.parametrize("how", ["cleared", "anew"])
def test_who_is_cleared_or_begins_anew_is_not_refused_for_what_was(scene, how):
    scene.running("a", min_workers=1, max_workers=2, steps=10**6)
    scene.train("a", 3)
    scene.register("c")
    for number in range(2):
        dies_preparing(scene, "c", f"x{number}")
    assert set(scene.job.refused) == {"c"}
    if how == "cleared":
        scene.does(ClearWorker("c"))
    else:
        scene.register("c", boot="b2")
    assert scene.cluster.workers["c"].job == "j"
    scene.beat("c", TrainerPhase.PREPARING, "y")
    scene.exits("c", "y", cause="killed by SIGKILL")
    assert scene.job.refused == {}


def test_who_prepared_well_in_between_is_not_left_out_for_two_deaths(scene):
    """It was not taken in before the job rested."""
    scene.running("a", min_workers=1, max_workers=2, steps=10**6)
    scene.train("a", 3)
    scene.register("c")
    dies_preparing(scene, "c", "x1")
    scene.prepare("c", incarnation="x2")
    scene.does(PauseJob("j"))
    scene.halt("a", (1, 3))
    scene.halt("c", None, "x2")
    scene.saved("a", (1, 3))
    for name, incarnation in (("a", "i1"), ("c", "x2")):
        scene.exits(name, incarnation, asked=True)
        scene.beat(name)
    scene.does(ResumeJob("j"))
    scene.prepare("a", incarnation="i3")
    dies_preparing(scene, "c", "x3")
    assert scene.job.refused == {}


@pytest.mark.parametrize("how", ["coordinator", "connection"])
def test_a_second_death_on_one_worker_while_the_others_are_only_not_heard_of_fails_no_job(scene, how):
    scene.submit(min_workers=1, max_workers=3)
    scene.register("a", "b", "c")
    for name in "abc":
        scene.beat(name, TrainerPhase.PREPARING)
    scene.exits("a", cause="killed by SIGSEGV")
    scene.beat("a")
    if how == "coordinator":
        scene.now += 5.0
        scene.restart()
        scene.register("a")
    else:
        scene.does(Disconnected("b"))
        scene.does(Disconnected("c"))
    scene.beat("a", TrainerPhase.PREPARING, "i2")
    scene.exits("a", "i2", cause="killed by SIGSEGV")
    assert not scene.job.ended


def test_a_job_that_is_to_stop_while_its_member_is_cut_off_does_not_fail_because_a_newcomer_dies(scene):
    """For a stop its state is given up sooner: of the task that says nothing, and it may be back in time to save."""
    scene.running("a", min_workers=1, max_workers=2, steps=10**6)
    scene.train("a", 3)
    scene.register("c")
    scene.prepare("c", incarnation="x0")
    scene.exits("c", "x0", cause="killed by SIGSEGV")
    scene.does(Disconnected("a"))
    scene.does(StopJob("j"))
    scene.after(scene.policy.absent_limit + 0.1, heard="c")
    for number in range(3):
        dies_preparing(scene, "c", f"x{number + 1}")
    assert not scene.job.ended


def test_a_failure_in_a_step_that_somebody_made_since_is_no_company_for_the_next_one(scene):
    """Each step takes a part of all: whoever tells of it tells that the passes of the others came off, too."""
    scene.running("a", "b", "c", min_workers=1, step=3)
    scene.raises("a", 1, step=3)
    scene.halt("abc", (1, 3))
    scene.train("abc")
    n = scene.job.formation.generation
    scene.beat("c", TrainerPhase.TRAINING, promised=n, generation=n, version=Version(n, 4))
    scene.exits("c")
    scene.halt("ab", (n, 3))
    scene.train("ab")
    assert scene.job.formation.base.step == 3
    scene.raises("b", scene.job.formation.generation, step=3)
    assert not scene.job.ended


# --- Going back


def come_anew(scene, incarnation):
    """Both have another trainer, which holds nothing."""
    scene.prepare("a", "b", incarnation=incarnation)
    scene.halt("ab", None, incarnation)


def test_a_failure_in_a_step_that_came_off_is_none_of_the_same_step_once_all_state_was_lost(scene):
    scene.running("a", "b", min_workers=1, steps=10**6, max_restarts=10, step=3)
    scene.raises("a", 1, step=3)
    scene.halt("ab", (1, 3))
    scene.train("ab")
    scene.train("ab", 1000)
    lost(scene)
    come_anew(scene, "i2")
    assert (scene.job.formation.base.step, scene.job.restarts) == (0, 1)
    assert 3 not in {failure.step for failure in scene.job.failures}
    scene.train("ab", incarnation="i2")
    scene.train("ab", 3, incarnation="i2")
    scene.raises("b", scene.job.formation.generation, step=3, incarnation="i2")
    assert not scene.job.ended


def test_a_failure_in_a_step_that_came_off_is_none_of_it_once_the_job_goes_back_to_just_before_it(scene):
    scene.running("a", "b", min_workers=1, steps=10**6, max_restarts=10, step=3)
    paused(scene)
    come_anew(scene, "i2")
    scene.train("ab", incarnation="i2")
    generation = scene.job.generation
    scene.raises("a", generation, step=3, incarnation="i2")
    scene.halt("ab", (generation, 3), "i2")
    scene.train("ab", incarnation="i2")
    scene.train("ab", 1000, incarnation="i2")
    assert 3 in {failure.step for failure in scene.job.failures}
    lost(scene)
    come_anew(scene, "i3")
    assert (scene.job.formation.base.step, scene.job.restarts) == (3, 1)
    assert 3 not in {failure.step for failure in scene.job.failures}


def test_a_failure_in_a_step_that_one_alone_made_is_none_of_it_once_that_one_is_lost(scene):
    """The next generation began with it, and nobody told of another step."""
    scene.running("a", "b", min_workers=1, steps=10**6, max_restarts=10, step=3)
    scene.raises("a", 1, step=3)
    scene.halt("ab", (1, 3))
    scene.train("ab")
    scene.beat("b", TrainerPhase.TRAINING, promised=2, generation=2, version=Version(2, 4))
    scene.breaks("a", 2)
    scene.halt("a", (2, 3))
    scene.halt("b", (2, 4))
    assert scene.job.formation.base == Version(2, 4)
    scene.register("b", boot="b2")
    scene.halt("a", (2, 3))
    assert (scene.job.formation.base.step, scene.job.failures) == (3, ())


def test_a_failure_in_a_step_that_one_made_who_was_left_out_is_none_of_it_once_that_one_is_gone(scene):
    """It says so when a new generation has begun from the step before, and soon nobody else knows."""
    scene.running("a", "b", "c", min_workers=1, steps=10**6, max_restarts=10, step=3)
    scene.raises("a", 1, step=3)
    scene.halt("abc", (1, 3))
    scene.train("abc")
    n = scene.job.formation.generation
    scene.does(Disconnected("c"))
    scene.breaks("a", n)
    scene.halt("ab", (n, 3))
    scene.train("ab")
    assert (scene.job.formation.base, scene.members) == (Version(n, 3), ["a", "b"])
    scene.register("c")
    scene.beat("c", TrainerPhase.BROKEN, promised=n, generation=n, version=Version(n, 4))
    scene.exits("c")
    assert [failure.made for failure in scene.job.failures] == [True]
    scene.raises("b", scene.job.formation.generation, step=3)
    assert not scene.job.ended
    assert [failure.made for failure in scene.job.failures] == [True, False]


def test_a_failure_that_is_heard_of_after_its_step_was_made_elsewhere_counts_for_nothing(scene):
    scene.running("a", "b", "c", min_workers=1, steps=10**6, max_restarts=10, step=3)
    scene.breaks("b", 1)
    scene.halt("abc", (1, 3))
    scene.train("abc")
    scene.beat("b", TrainerPhase.TRAINING, promised=2, generation=2, version=Version(2, 4))
    scene.raises("a", 1, step=3)
    assert scene.job.failures == ()


def test_a_failure_in_the_step_that_a_job_goes_back_for_counts_on(scene):
    scene.running("a", "b", min_workers=1, steps=10**6, max_restarts=10, step=3)
    scene.raises("a", 1, step=3)
    lost(scene)
    come_anew(scene, "i2")
    assert scene.job.formation.base.step == 0
    assert ("a", 3, 2) in {(failure.worker, failure.step, failure.shard) for failure in scene.job.failures}


# --- Told late, or told of a trainer that was counted


def test_what_is_told_only_after_a_pause_fails_no_job_for_one_workers_broken_device(scene):
    """c's process crashes at step 3 for the second time as its agent is cut off, and the user pauses the job."""
    scene.running("a", "b", "c", min_workers=3, step=3)
    scene.after(scene.policy.halt_limit, heard="abc")
    dies = {"cause": "killed by SIGSEGV", "step": 3, "shard": OUTSIDE}
    scene.exits("c", **dies)
    scene.beat("c")
    scene.halt("ab", (1, 3))
    scene.prepare("c", incarnation="i2")
    scene.halt("ab", (1, 3))
    scene.halt("c", None, "i2")
    n = scene.job.generation
    scene.train("ab")
    scene.train("c", incarnation="i2")
    scene.does(Disconnected("c"))
    scene.does(PauseJob("j"))
    scene.breaks("a", n)
    scene.halt("ab", (n, 3))
    scene.saved(scene.job.saver.worker, (n, 3))
    scene.register("c")
    scene.beat("c")
    scene.exits("c", "i2", **dies)
    assert scene.job.phase is JobPhase.PAUSED, scene.job.reason
    assert scene.cluster.workers["c"].errors == 2
    assert len(scene.job.failures) == 2


def test_a_trainer_that_was_evicted_and_ends_with_its_machine_is_one_error(scene):
    scene.unanswered()
    assert scene.cluster.workers["b"].errors == 1
    scene.does(Disconnected("b"))
    scene.register("b", boot="b2")
    assert scene.cluster.workers["b"].errors == 1


def test_a_drained_worker_that_was_let_go_and_is_switched_off_has_no_error(scene):
    """Its job waits with the other one, and so still lists it."""
    scene.running("a", "b", step=3)
    scene.does(DrainWorker("b"))
    scene.halt("ab", (1, 3))
    scene.halt("b", (1, 3))
    assert scene.cluster.workers["b"].job is None
    scene.exits("b", asked=True)
    scene.beat("b")
    scene.does(Disconnected("b"))
    scene.after(100.0, heard="a")
    scene.register("b", boot="b2")
    assert scene.cluster.workers["b"].errors == 0


def test_nor_does_another_coordinator_count_a_trainer_that_one_before_it_gave_up(scene):
    """It was evicted, and that was durable; the coordinator died before it said so."""
    scene.unanswered()
    scene.train("a", 5)
    scene.restart()
    scene.register("a", "b")
    scene.holds_on("b")
    scene.exits("b")
    assert scene.cluster.workers["b"].errors == 1


def test_nor_a_death_that_is_told_to_two_coordinators(scene):
    scene.running("a", "b", min_workers=1, step=3)
    scene.exits("b")
    scene.restart()
    scene.register("a", "b")
    scene.exits("b")
    assert scene.cluster.workers["b"].errors == 1


def test_a_task_is_not_blamed_before_whoever_is_back_with_more_was_asked(scene):
    """c and d cannot take the state of the checkpoint; b, which holds 32 steps more, is back in good health."""
    scene.running("b", step=3, min_workers=1, max_workers=2, steps=50)
    file = Checkpoint(Version(1, 8), "s3://c/j/8", "sum", 1)
    scene.beat("b", TrainerPhase.TRAINING, promised=1, generation=1, version=Version(1, 8), written=(file,))
    scene.train("b", 40)
    scene.lost_behind("b", "c", "d")
    assert (scene.members, scene.job.formation.base) == (["c"], Version(1, 8))
    cannot_load(scene, "c")
    scene.halt("cd", None)
    scene.register("b")
    scene.beat("b", TrainerPhase.TRAINING, promised=1, generation=1, version=Version(1, 40))
    assert scene.cluster.workers["b"].job == "j"
    assert scene.told("b", (Release, Kill)) == []
    scene.after(1.0, heard="bcd")
    cannot_load(scene, "d")
    assert not scene.job.ended
    scene.halt("cd", None)
    scene.halt("b", (1, 40))
    assert scene.job.formation.base == Version(1, 40)


def cannot_load(scene, name):
    n = scene.job.generation
    scene.beat(name, TrainerPhase.FORMING, promised=n, generation=n)
    scene.raises(name, generation=n, step=8, shard=IN_LOAD)


@pytest.mark.parametrize("back", [False, True])
def test_what_fails_on_one_alone_is_not_the_tasks_error_while_another_one_may_hold_the_state(scene, back):
    """b was cut off with that step; each new generation of a has a higher number, and begins with the same one."""
    scene.running("a", "b", min_workers=1, max_workers=2, steps=100, step=3)
    scene.does(Disconnected("b"))
    scene.breaks("a", 1)
    held = (1, 3)
    for tried in range(5):
        scene.halt("a", held)
        scene.train("a")
        held = (scene.job.generation, 3)
        if back and tried == 4:
            scene.register("b")
            scene.beat("b", TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, 3))
        scene.after(0.3, heard="ab" if back and tried == 4 else "a")
        scene.raises("a", generation=scene.job.formation.generation, step=3, shard=2)
    assert not scene.job.ended
