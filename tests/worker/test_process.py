"""The life of a trainer process around its training: what it says when it cannot prepare, and where its output goes."""

import multiprocessing.connection
from typing import Any

import torch
from torch import nn

from regroup.core.messages.trainer_reports import Prepared, PrepareFailed
from regroup.core.workers import TrainerPhase
from regroup.tasks import SizedDataset, Task


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
