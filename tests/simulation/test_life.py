"""Lives of whole clusters under faults: a few hundred, and the same ones twice."""

import os
import subprocess
import sys

import pytest

from regroup.core.jobs import JobPhase
from regroup.lab.sim.life import Life
from regroup.lab.sim.outcome import cut, live
from regroup.lab.sim.plan import Kind
from regroup.lab.sim.story import Story
from regroup.lab.sim.themes import draw


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_under_faults_no_step_is_lost_or_doubled_and_every_job_ends(first):
    assert [outcome.error for outcome in map(live, map(draw, range(first, first + 50)))] == [None] * 50


def test_a_life_without_faults_ends_after_one_formation():
    plan = draw(0)
    life = Life(plan.without(*plan.faults), Story())
    life.run()
    assert {job.phase for job in life.jobs.values()} == {JobPhase.COMPLETED}
    assert all(job.restarts == 0 for job in life.jobs.values())


@pytest.mark.parametrize("seed", range(0, 200, 10))
def test_a_seed_is_the_same_life_every_time(seed):
    first, second = live(draw(seed)), live(draw(seed))
    assert (first.digest, first.events) == (second.digest, second.events)


def test_a_seed_is_the_same_life_in_another_process_with_other_hashes():
    program = (
        "from regroup.lab.sim.outcome import live\nfrom regroup.lab.sim.themes import draw\n"
        "print(*(live(draw(seed)).digest for seed in range(40)))"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
            timeout=100,
        ).stdout
        for hashes in ("1", "2", "3")
    }
    assert len(digests) == 1


def test_different_seeds_are_different_lives():
    assert len({live(draw(seed)).digest for seed in range(30)}) == 30


def test_a_story_that_is_kept_hashes_like_one_that_is_not():
    kept, told = live(draw(3), keep=True), live(draw(3))
    assert kept.digest == told.digest
    assert kept.lines
    assert told.lines == ()


def test_every_kind_of_fault_is_drawn():
    drawn = {fault.kind for seed in range(300) for fault in draw(seed).faults}
    assert drawn == set(Kind)


def test_a_failing_plan_is_cut_down_to_the_faults_that_matter(monkeypatch):
    """As if every crash of the coordinator broke a rule."""

    def strict(plan, keep=False):
        crashed = any(fault.kind is Kind.CRASH for fault in plan.faults)
        return live(plan.without(*plan.faults)).__class__(0, 0, 0.0, "", "Broken: 17" if crashed else None)

    monkeypatch.setattr("regroup.lab.sim.outcome.live", strict)
    plan = next(p for p in map(draw, range(500)) if len(p.faults) > 5 and any(f.kind is Kind.CRASH for f in p.faults))
    assert {fault.kind for fault in cut(plan).faults} == {Kind.CRASH}
    assert len(cut(plan).faults) == 1
