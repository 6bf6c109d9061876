"""A trainer that is told to save, in a process of its own: the state comes first, and the task's report after it."""

import hashlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.utils.data import TensorDataset

from regroup.core.jobs import Checkpoint, Version
from regroup.core.messages.trainer_reports import StateSaved
from regroup.tasks import SizedDataset, Task
from regroup.worker.checkpoint import read
from regroup.worker.storage import Storage


class Sound(Task):
    """A linear regression."""

    def model(self) -> nn.Module:
        return nn.Linear(2, 1)

    def dataset(self) -> SizedDataset:
        return TensorDataset(torch.arange(32.0).reshape(16, 2) / 32)

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        return model(batch[0]).square().sum(), float(len(batch[0]))

    def optimizer(self, model: nn.Module) -> Optimizer:
        return SGD(model.parameters(), lr=0.1)


class ReportsATensor(Sound):
    def report(self, model: nn.Module) -> Any:
        return {"slope": next(model.parameters()).mean()}


class ReportsAndLeaves(Sound):
    def report(self, model: nn.Module) -> Any:
        raise SystemExit("done")


class ReportsAndDies(Sound):
    """As by a segmentation fault, or by whoever ends a report that hangs."""

    def report(self, model: nn.Module) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("task", "why"), [("ReportsATensor", "Tensor"), ("ReportsAndLeaves", "SystemExit: done")])
def test_a_report_that_cannot_be_told_costs_the_report_and_not_the_state(driven: Any, task: str, why: str) -> None:
    driven.finish(task)
    driven.save(2)
    saved = driven.hears(StateSaved)
    assert saved.result is None
    assert saved.checkpoint.version == Version(1, 4)
    tree, _ = read(Storage(driven.birth.checkpoints, driven.birth.scratch), saved.job, saved.checkpoint)
    assert tree["step"] == 4
    assert why in driven.log


def test_a_report_that_kills_its_process_leaves_the_state_on_the_disk(driven: Any) -> None:
    driven.finish("ReportsAndDies")
    driven.save(2)
    with pytest.raises(EOFError):
        driven.hears(StateSaved)
    (path,) = Path(driven.birth.checkpoints, "j").iterdir()
    content = path.read_bytes()
    found = Checkpoint(Version(1, 4), str(path), hashlib.sha256(content).hexdigest(), len(content))
    tree, _ = read(Storage(driven.birth.checkpoints, driven.birth.scratch), "j", found)
    assert tree["step"] == 4


def test_a_pause_saves_the_state_and_asks_the_task_for_no_report(driven: Any) -> None:
    driven.finish("ReportsAndLeaves")
    driven.save(2, final=False)
    saved = driven.hears(StateSaved)
    assert (saved.checkpoint.version, saved.result, saved.remark) == (Version(1, 4), None, None)
