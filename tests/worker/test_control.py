"""The trainer's line to its agent, in a process of its own: it ends its process when the line does."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from typing import Any

from regroup.core.jobs import ORIGIN, Checkpoint, Fingerprint, Formation, Member, Seat, StepPoint, Version
from regroup.core.messages.orders import Form, Halt, RenewLease
from regroup.core.messages.trainer_reports import StepFailed, StepsCommitted
from regroup.core.workers import TrainerStatus
from regroup.wire.codec import decode_report, decode_value, encode
from regroup.wire.lease_clock import lease_clock
from regroup.worker.control import REPORT, STATUS, Control
from regroup.worker.happenings import CameBack, LoopFailed, StateHeld, TaskPrepared, WroteBeside
from regroup.worker.session import Session

ME = Member("w0", "one")


class Driven:
    """A control, driven as an agent and a step loop do."""

    def __init__(self) -> None:
        self.agent, far = Pipe()
        self.control = Control(far, Session(job="j", member=ME, address="127.0.0.1:1"))
        self.control.start()
        self.control.happened(TaskPrepared(Fingerprint("c", "d", 10)))

    def form(self, generation: int, base: Version, tells: bool, own: bool = True) -> None:
        """Train in a generation of one, from `base` on."""
        seats = (Seat(ME, base if base.step else None),)
        formation = Formation(generation, seats, 0, base, (0,), "127.0.0.1:1/x", detached_limit=60)
        self.agent.send_bytes(encode(Halt("j", generation)))
        while self.control._session.promised < generation:
            time.sleep(0.001)
        self.control.happened(CameBack())  # else no formation is accepted
        for order in (Form("j", formation, 100), RenewLease(generation, lease_clock())):
            self.agent.send_bytes(encode(order))
        self.control.next_task()
        self.control.happened(StateHeld(generation))
        self.control.begin_telling(tells, base.step, own)
        assert self.control.begin_apply(generation)

    def apply(self, generation: int, step: int, loss: float) -> None:
        self.control.begin_apply(generation)
        self.control.applied(step + 1, StepPoint(step, loss, 1.0, 1, 0.0, 0.0), None)

    def until_told(self, generation: int, step: int) -> list[tuple[int, float]]:
        """The (step, loss) of all points that are told until (generation, step) is."""
        told: list[tuple[int, float]] = []
        while self.agent.poll(10):
            message = self.agent.recv_bytes()
            report = decode_report(message[1:]) if message[:1] == REPORT else None
            if isinstance(report, StepsCommitted):
                told += [(point.step, point.loss or 0.0) for point in report.points]
                if (report.generation, report.step) == (generation, step):
                    return told
        raise AssertionError("nothing more was told")

    def until_told_of(self, *written: Checkpoint) -> None:
        """Its status names these files."""
        while self.agent.poll(10):
            message = self.agent.recv_bytes()
            if message[:1] == STATUS and decode_value(TrainerStatus, message[1:]).written == written:
                return
        raise AssertionError("nothing more was told")


def retelling(pipe: Any) -> None:
    driven = Driven()
    driven.form(1, ORIGIN, tells=False)
    for step in range(3):
        driven.apply(1, step, loss=1.0)
    first = driven.until_told(1, 3)
    driven.form(2, Version(1, 2), tells=True)
    driven.apply(2, 2, loss=2.0)
    pipe.send((first, driven.until_told(2, 3)))


def test_whoever_tells_next_repeats_the_last_measurements_and_leaves_out_the_void(start_rank: Callable[..., Any]):
    """It kept them in silence; its third step lies beyond the base of generation 2, where it is done again."""
    first, then = start_rank("retelling").says()
    assert first == []
    assert then == [(0, 1.0), (1, 1.0), (2, 2.0)]


def replaced(pipe: Any) -> None:
    driven = Driven()
    driven.form(1, ORIGIN, tells=False)
    driven.apply(1, 0, loss=1.0)
    driven.until_told(1, 1)
    driven.form(2, Version(1, 2), tells=True, own=False)
    driven.apply(2, 2, loss=2.0)
    pipe.send(driven.until_told(2, 3))


def test_what_was_measured_of_a_state_that_another_one_replaced_is_not_repeated(start_rank: Callable[..., Any]):
    """It was a line of its own: what the others measured meanwhile is what counts."""
    assert start_rank("replaced").says() == [(2, 2.0)]


def renewed(pipe: Any) -> None:
    driven = Driven()
    driven.form(1, ORIGIN, tells=True)
    written = [Checkpoint(Version(1, step), f"/c/s{step}", "sum", 1) for step in range(1, 9)]
    for one in written:
        driven.control.happened(WroteBeside(one))
    full = driven.control.may_write(1)
    driven.until_told_of(*written)
    driven.agent.send_bytes(encode(RenewLease(1, lease_clock(), ("/c/s1", "/c/s3"))))
    driven.until_told_of(written[1], *written[3:])
    pipe.send((full, driven.control.may_write(1)))


def test_what_renews_its_lease_tells_a_trainer_of_which_files_it_need_not_tell_again(start_rank: Callable[..., Any]):
    assert start_rank("renewed").says() == (False, True)


@contextmanager
def processor_time() -> Iterator[list[float]]:
    spent: list[float] = []
    began = time.process_time()
    yield spent
    spent.append(time.process_time() - began)


def torn(pipe: Any) -> None:
    driven = Driven()
    driven.form(1, ORIGIN, tells=True)
    driven.apply(1, 0, loss=1.0)
    driven.until_told(1, 1)
    driven.apply(1, 1, loss=1.0)
    failed = StepFailed(job="j", incarnation="one", generation=1, step=2, shard=-1, error="", traceback="")
    driven.control.happened(LoopFailed(failed, torn=True))
    while driven.agent.poll(0.1):
        driven.agent.recv_bytes()
    with processor_time() as spent:
        said = driven.agent.poll(1.0)
    pipe.send((said, spent[0]))


def test_of_a_torn_state_nothing_is_said_and_no_thread_spins(start_rank: Callable[..., Any]):
    said, spent = start_rank("torn").says()
    assert not said
    assert spent < 0.1  # seconds of a processor, in a second


if __name__ == "__rank__":
    globals()[BODY](*ARGS)  # noqa: F821  # given by the test
