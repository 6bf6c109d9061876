"""The life of a trainer process around its training: what it says when it cannot prepare, and where its output goes."""

import multiprocessing.connection
from asyncio import CancelledError
from typing import Any

import pytest
import torch
from torch import nn

from regroup.core.messages.trainer_reports import Prepared, PrepareFailed
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
