"""Lives of whole clusters under faults: a few hundred, and the same ones twice."""

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from itertools import count

import pytest

from regroup.core.jobs import JobPhase
from regroup.core.messages.commands import PauseJob, SubmitJob
from regroup.lab.sim.lives import users
from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.life import Life
from regroup.lab.sim.lives.outcome import Outcome, cut, live
from regroup.lab.sim.lives.pace import IDLE
from regroup.lab.sim.lives.plan import Fault, Kind
from regroup.lab.sim.lives.runs import LEAST, lives
from regroup.lab.sim.lives.story import Story
from regroup.lab.sim.model.limits import SPEC


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_under_faults_no_step_is_lost_or_doubled_and_every_job_ends(first, lived):
    assert [lived(seed).error for seed in range(first, first + 50)] == [None] * 50


def test_a_life_without_faults_ends_after_one_formation():
    plan = draw(0)
    life = Life(plan.without(*plan.faults), Story())
    life.run()
    assert {job.phase for job in life.jobs.values()} == {JobPhase.COMPLETED}
    assert all(job.restarts == 0 for job in life.jobs.values())


def test_a_job_that_can_never_start_is_stopped_once_all_is_well():
    plan = draw(0)
    spec = replace(SPEC, min_workers=plan.workers + 1, max_workers=plan.workers + 1)
    life = Life(replace(plan, jobs=(spec,), faults=()), Story())
    life.run()
    assert [job.phase for job in life.jobs.values()] == [JobPhase.STOPPED]


def test_a_rule_that_breaks_as_a_job_is_submitted_ends_the_life(monkeypatch):
    monkeypatch.setattr(users, "_is_done", lambda command, kept: not isinstance(command, SubmitJob))
    assert "is acknowledged, and the store does not know it" in str(live(draw(0)).error)


def test_a_rule_that_breaks_in_the_last_moment_of_a_life_is_told():
    plan = draw(0)
    lasts = live(plan.without(*plan.faults)).seconds
    life = Life(plan.without(*plan.faults), Story())

    async def break_a_rule():
        async with asyncio.timeout(users.PATIENCE):  # whose timer keeps the task from being collected
            await asyncio.sleep(0.1)
            raise AssertionError("a rule was broken")

    life.later(lasts - 0.5, lambda: life.spawn(break_a_rule()))
    with pytest.raises(AssertionError, match="a rule was broken"):
        life.run()


def test_a_step_loop_that_waits_is_woken_by_what_it_waits_for():
    plan = replace(draw(0), jobs=(SPEC,), faults=(), workers=1, pace=0.02)
    story = Story()
    Life(replace(plan, skews=plan.skews[:2], drifts=plan.drifts[:2]), story).run()
    told = next(float(line.split()[0]) for line in story.lines if "hears" in line and "Form" in line)
    begun = next(float(line.split()[0]) for line in story.lines if "is connecting" in line)
    assert 0 < begun - told < IDLE / 10


TOLD = {
    Kind.MISMATCH: " from the other workers'",
    Kind.UNPREPARED: "may not take part: task: it will not do",
    Kind.BAD_SPEC: "failed: options.lr: it will not do",
    Kind.POISON: "failed: the task failed in step",
    Kind.FLIP: "replicas differed at step",
    Kind.DIVERGE: "is nan: look at the learning rate",
    Kind.LAG: "b is slower than the others",
    Kind.DEADLOCK: "where the trainer on ",
    Kind.UNDELETABLE: "could not delete a checkpoint that is not kept any more",
}


@pytest.mark.parametrize("kind", TOLD)
def test_what_goes_wrong_on_a_worker_is_told(kind):
    """From the start on, or at the first step; on the last of two workers, where it is not everybody's."""
    border = "preparing" if kind in (Kind.MISMATCH, Kind.UNPREPARED) else "stepping"
    at = 2.0 if kind in (Kind.FLIP, Kind.DIVERGE, Kind.LAG, Kind.UNDELETABLE) else 0.0
    struck = (0, 1) if kind is Kind.UNDELETABLE else (1,)
    fault = Fault(
        kind, struck, at=at, border=None if kind in (Kind.BAD_SPEC, Kind.LAG, Kind.UNDELETABLE) else border, seconds=7.0
    )
    again = tuple(replace(fault, at=at + later) for later in (0.0, 0.7, 1.4))  # whoever is to tell may leave first
    plan = replace(
        draw(0), workers=2, jobs=(replace(SPEC, steps=60, max_workers=2, checkpoint_every=5),), faults=again, pace=0.06
    )
    story = Story()
    Life(replace(plan, skews=(1.0, 2.0, 3.0), drifts=(0.0, 0.0, 0.0)), story).run()
    assert any(TOLD[kind] in line for line in story.lines)


class NeverWell(Life):
    def _heal(self):
        pass


def test_a_store_that_is_slow_for_long_keeps_no_limit_from_running_out():
    """The steps of one job are kept once a second; meanwhile another one's only trainer hangs."""
    spec = replace(SPEC, steps=100_000, max_workers=1)
    slow = Fault(Kind.STORE_SLOW, (0,), at=3.0, seconds=1000.0)
    plan = replace(
        draw(0),
        workers=2,
        jobs=(spec, spec),
        faults=(slow, Fault(Kind.DEADLOCK, (1,), at=15.0)),
        pace=0.1,
        begins=False,
    )
    story = Story()
    life = NeverWell(replace(plan, skews=(1.0, 2.0, 3.0), drifts=(0.0, 0.0, 0.0), learned=False, folders=False), story)
    life.later(80.0, lambda: life.over.set_result(None))
    life.run()
    assert any("halt: no step was committed for 4 s" in line for line in story.lines)


def mistaken(plan):
    faults = tuple(Fault(Kind.MISTAKE, (0,), at=0.2 + number) for number in range(8))
    return Life(replace(plan, faults=faults, jobs=(replace(SPEC, steps=40),), pace=0.06), Story())


def test_what_cannot_be_is_refused_with_its_reason():
    life = mistaken(draw(0))
    life.run()
    assert {job.phase for job in life.jobs.values()} == {JobPhase.COMPLETED}
    assert any(" never" in reason and "there is no " in reason for reason in life.reasons)


def test_what_cannot_be_and_is_acknowledged_is_noticed(monkeypatch):
    monkeypatch.setattr("regroup.lab.sim.lives.users.mistake", lambda dice, spec, first: PauseJob("j0"))
    life = mistaken(draw(0))
    with pytest.raises(AssertionError, match="nothing can be made of PauseJob"):
        life.run()


@pytest.mark.parametrize("seed", range(20))
def test_a_store_that_crashes_keeps_what_it_confirmed(seed):
    """The rules compare what was promised with what is durable, so a decision that was lost would be seen."""
    crashes = tuple(Fault(Kind.STORE_CRASH, (0,), at=at, seconds=0.5 + seed % 3) for at in (0.6, 2.0, 5.0))
    plan = replace(draw(seed), faults=crashes, jobs=(replace(SPEC, steps=40),), pace=0.1)
    outcome = live(plan)
    assert outcome.error is None
    assert sum(times for (kind, _), times in outcome.during.items() if kind is Kind.STORE_CRASH) >= 1


@pytest.mark.parametrize("seed", range(0, 200, 10))
def test_a_seed_is_the_same_life_every_time(seed, lived):
    assert live(draw(seed)) == lived(seed)


def test_a_seed_is_the_same_life_in_another_process_with_other_hashes(lived):
    program = (
        "from regroup.lab.sim.lives.outcome import live\nfrom regroup.lab.sim.lives.drawing import draw\n"
        "print(*(live(draw(seed)).digest for seed in range(40)))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
            timeout=100,
        ).stdout
        for hashes in ("1", "2")
    }
    assert told == {" ".join(lived(seed).digest for seed in range(40)) + "\n"}


def test_different_seeds_are_different_lives(lived):
    assert len({lived(seed).digest for seed in range(300)}) == 300


def test_only_a_life_that_is_to_be_told_brings_its_story_along(lived):
    kept, told = live(draw(3), keep=True), lived(3)
    assert kept.digest == told.digest
    assert len(kept.lines) == told.events
    assert told.lines == ()


def test_every_kind_of_fault_is_drawn():
    drawn = {fault.kind for seed in range(500) for fault in draw(seed).faults}
    assert drawn == set(Kind)


def test_a_failing_plan_is_cut_down_to_the_faults_that_matter(monkeypatch):
    """As if every crash of the coordinator broke a rule."""

    def strict(plan, keep=False):
        crashed = any(fault.kind is Kind.CRASH for fault in plan.faults)
        return Outcome(plan.seed, events=0, seconds=0.0, digest="", error="Broken: 17" if crashed else None)

    monkeypatch.setattr("regroup.lab.sim.lives.outcome.live", strict)
    plan = next(p for p in map(draw, range(500)) if len(p.faults) > 5 and any(f.kind is Kind.CRASH for f in p.faults))
    assert {fault.kind for fault in cut(plan).faults} == {Kind.CRASH}
    assert len(cut(plan).faults) == 1


def test_a_seed_that_is_another_life_each_time_is_told(monkeypatch):
    often = count()

    def moody(plan):
        return replace(live(plan), digest=str(next(often)))

    monkeypatch.setattr("regroup.lab.sim.lives.runs.live", moody)
    outcomes = next(lives(7, 20, processes=1))
    told, *others = [one.error for one in outcomes]
    assert told == "NotReproducible: lived twice, it was another life"
    assert others == [None] * (LEAST - 1)
