"""A trainer that is told to save, in a process of its own: the state comes first, and the task's report after it."""

import hashlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.utils.data import TensorDataset

from regroup.core.jobs import IN_REPORT, IN_STATE, Checkpoint, Version
from regroup.core.messages.orders import Halt
from regroup.core.messages.trainer_reports import SaveFailed, StateSaved
from regroup.core.workers import LoopPhase, TrainerPhase
from regroup.tasks import SizedDataset, Task
from regroup.worker.checkpoint import read
from regroup.worker.pulse import last_mark
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


class Unsayable(Sound):
    """It has a state while it prepares, and none that can be told once it trained."""

    trained = False

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        self.trained = True
        return super().loss(model, batch)

    def load_state(self, state: dict[str, Any]) -> None:
        self.trained = False

    def state(self) -> dict[str, Any]:
        return self.tells() if self.trained else {}

    def tells(self) -> Any:
        raise ValueError("cannot tell its state")


class StateIsAFile(Unsayable):
    def tells(self) -> Any:
        return {"file": object()}


class StateKills(Unsayable):
    def tells(self) -> Any:
        os.kill(os.getpid(), signal.SIGSEGV)


class ReportHangs(Sound):
    def report(self, model: nn.Module) -> Any:
        time.sleep(10_000)


@pytest.mark.parametrize(("task", "why"), [("Unsayable", "cannot tell its state"), ("StateIsAFile", "TypeError")])
def test_a_state_that_cannot_be_told_is_the_tasks_error_and_told_with_its_traceback(
    driven: Any, task: str, why: str
) -> None:
    driven.finish(task)
    driven.save(2)
    failed = driven.hears(SaveFailed)
    assert why in failed.error
    assert failed.traceback.startswith("Traceback")


def test_a_storage_that_fails_is_told_without_a_traceback(driven: Any) -> None:
    driven.finish("Sound")
    Path(driven.birth.checkpoints).mkdir(parents=True, exist_ok=True)
    Path(driven.birth.checkpoints, "j").write_text("no folder")
    driven.save(2)
    assert driven.hears(SaveFailed).traceback == ""


def test_who_dies_in_its_state_is_found_there(driven: Any) -> None:
    driven.finish("StateKills")
    driven.save(2)
    with pytest.raises(EOFError):
        driven.hears(StateSaved)
    assert driven.position == (4, IN_STATE)


def test_who_hangs_in_its_report_told_of_the_file_and_answers_no_halt(driven: Any) -> None:
    driven.finish("ReportHangs")
    driven.save(2)
    while not driven.status.written:
        driven.hears_any()
    assert (driven.status.phase, driven.status.at_work) == (TrainerPhase.SAVING, True)
    assert [one.version for one in driven.status.written] == [Version(1, 4)]
    driven.tell(Halt("j", 3))
    driven.until(TrainerPhase.HALTED)
    assert (driven.status.promised, driven.status.at_work) == (3, True)
    deadline = time.monotonic() + 30
    while driven.position != (4, IN_REPORT):
        assert time.monotonic() < deadline, f"it is at {driven.position}"
        time.sleep(0.01)
    assert last_mark(driven.birth.pulse).phase is LoopPhase.REPORT


def test_a_report_that_kills_its_process_leaves_the_state_on_the_disk_and_was_told_of_it_before(driven: Any) -> None:
    driven.finish("ReportsAndDies")
    driven.save(2)
    with pytest.raises(EOFError):
        driven.hears(StateSaved)
    assert [one.version for one in driven.status.written] == [Version(1, 4)]
    assert driven.position == (4, IN_REPORT)
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
