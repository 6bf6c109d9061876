"""What ended trainers left untold: who left something, and what is kept of it."""

from dataclasses import replace

from regroup.core.jobs import Checkpoint, Version
from regroup.core.workers import TrainerPhase, TrainerStatus
from regroup.worker.untold import answered, left_by

FILES = tuple(Checkpoint(Version(1, step), f"/c/s{step}", "sum", 1) for step in (4, 8))
IDLE = TrainerStatus(job="j", incarnation="i1", phase=TrainerPhase.HALTED)
WROTE = replace(IDLE, written=FILES)


def test_who_wrote_nothing_leaves_nothing():
    assert left_by((), None) == ()
    assert left_by((), IDLE) == ()


def test_what_each_left_is_kept_beside_what_those_before_it_left():
    later = replace(WROTE, incarnation="i2")
    assert left_by(left_by((), WROTE), later) == (WROTE, later)


def test_each_file_is_kept_until_it_is_answered_and_its_writer_with_it():
    later = replace(WROTE, incarnation="i2", written=FILES[1:])
    assert answered((WROTE, later), ["/c/s8"]) == (replace(WROTE, written=FILES[:1]),)
    assert answered((WROTE,), ["/c/s4", "/c/s8"]) == ()
    assert answered((WROTE,), ()) == (WROTE,)
