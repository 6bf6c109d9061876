"""The life of a trainer process around its training: what it says when it cannot prepare, and where its output goes."""

import multiprocessing.connection
import sys
import threading
from asyncio import CancelledError
from typing import Any

import pytest
import torch
from torch import nn

from regroup.core.messages.trainer_reports import Formed, Prepared, PrepareFailed
from regroup.core.workers import TrainerPhase
from regroup.tasks import OptionError, SizedDataset, Task


class Sound(Task):
    def model(self) -> nn.Module:
        print("a word of the task")
        return nn.Linear(1, 1)

    def dataset(self) -> SizedDataset:
        return [torch.ones(1)] * 8

    def loss(self, model: nn.Module, batch: Any) -> Any:
        return model(batch).sum(), float(len(batch))

    def optimizer(self, model: nn.Module) -> Any:
        return torch.optim.SGD(model.parameters(), lr=0.1)


class Broken(Sound):
    def model(self) -> nn.Module:
        raise ZeroDivisionError("no model today")


class BrokenAtLength(Sound):
    def model(self) -> nn.Module:
        raise ValueError("x" * 9_000_000)


class Refuses(Sound):
    def __init__(self) -> None:
        raise OptionError("rate", "x" * 9_000_000)


class GivesUp(Sound):
    def model(self) -> nn.Module:
        raise CancelledError("gave up")


class Speechless(Sound):
    def model(self) -> nn.Module:
        class Mute(Exception):
            def __str__(self) -> str:
                raise RuntimeError

        raise Mute


class Threaded(Sound):
    """One of its threads waits for ever, and is no daemon; in its first step it breaks what the step loop stands on."""

    def __init__(self) -> None:
        self.passes = 0
        threading.Thread(target=threading.Event().wait).start()

    def loss(self, model: nn.Module, batch: Any) -> Any:
        self.passes += 1
        if self.passes == 2:  # the first is the one that nothing comes of
            vars(sys.modules["regroup.worker.trainer"])["Tail"] = None
        return super().loss(model, batch)


@pytest.mark.parametrize(
    ("task", "field", "said"),
    [
        ("BrokenAtLength", "task", "building the model and optimizer raised ValueError: xxx"),
        ("Refuses", "options.rate", "xxx"),
        ("GivesUp", "task", "building the model and optimizer raised CancelledError: gave up"),
        ("Speechless", "task", "building the model and optimizer raised Mute: (its text cannot be told"),
    ],
)
def test_whatever_the_task_raises_while_preparing_is_heard(driven: Any, task: str, field: str, said: str) -> None:
    driven.prepare(task)
    failed = driven.hears(PrepareFailed)
    assert failed.field == field
    assert failed.message.startswith(said)
    assert len(failed.message) + len(failed.traceback) < 20_000


def test_that_it_cannot_prepare_is_said_again_until_somebody_heard(driven: Any) -> None:
    """A coordinator may read it, and die before it is persisted."""
    driven.prepare("Broken")
    first, again = driven.hears(PrepareFailed), driven.hears(PrepareFailed)
    assert first == again
    assert (first.field, first.message) == (
        "task",
        "building the model and optimizer raised ZeroDivisionError: no model today",
    )
    assert 'raise ZeroDivisionError("no model today")' in first.traceback
    assert first.traceback in driven.log
    assert driven.status.phase is TrainerPhase.PREPARING
    assert driven.end() == "killed by SIGKILL"


def test_a_disk_that_cannot_be_written_is_the_workers_fault_and_named(driven: Any) -> None:
    driven.records.parent.write_text("in the way")
    driven.prepare("Sound")
    failed = driven.hears(PrepareFailed)
    assert failed.field == "worker"
    assert str(driven.records.parent) in failed.message
    assert "free some space" in failed.message


def test_what_a_task_prints_is_in_its_log(driven: Any) -> None:
    driven.prepare("Sound")
    driven.hears(Prepared)
    assert "a word of the task\n" in driven.log


def test_a_spare_that_nobody_needs_ends_with_its_agent(driven: Any) -> None:
    driven.trainer.pipe.close()
    assert multiprocessing.connection.wait([driven.trainer.process.sentinel], timeout=30)
    assert driven.trainer.bury() == "exit status 0"


def gone(driven: Any) -> str:
    """How it ended, by itself and soon."""
    assert multiprocessing.connection.wait([driven.trainer.process.sentinel], timeout=20)
    return str(driven.trainer.bury())


def test_a_step_loop_that_dies_takes_its_process_along_and_says_why_in_its_log(driven: Any) -> None:
    """Python would wait for the task's thread, with all sockets open, while its session answers."""
    driven.prepare("Threaded")
    driven.hears(Prepared)
    driven.train(1)
    driven.hears(Formed)
    assert gone(driven) == "exit status 1"
    assert "AttributeError: 'NoneType' object has no attribute 'of'" in driven.log


def test_a_thread_that_reads_no_more_orders_takes_its_process_along(driven: Any) -> None:
    driven.prepare("Threaded")
    driven.hears(Prepared)
    driven.trainer.pipe.send_bytes(b"nonsense")
    assert gone(driven) == "exit status 1"
    assert "thread orders died" in driven.log
    assert "Undecodable: not JSON" in driven.log
