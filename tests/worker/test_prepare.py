"""Preparing a job: what is refused before the first step, and that nothing sound is."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import LBFGS, AdamW, Optimizer
from torch.optim.lr_scheduler import ConstantLR, LRScheduler
from torch.utils.data import TensorDataset

from regroup.core.jobs import JobSpec
from regroup.tasks import Task
from regroup.worker.prepare import CannotPrepare, prepare


class Line(Task):
    """With a schedule, which wraps the step() of its optimizer."""

    def model(self) -> nn.Module:
        return nn.Linear(1, 1)

    def dataset(self) -> TensorDataset:
        return TensorDataset(torch.ones(8, 1))

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        return model(batch[0]).sum(), float(len(batch[0]))

    def optimizer(self, model: nn.Module) -> Optimizer:
        return AdamW(model.parameters())

    def scheduler(self, optimizer: Optimizer) -> LRScheduler | None:
        return ConstantLR(optimizer)


class Unscheduled(Line):
    def scheduler(self, optimizer: Optimizer) -> LRScheduler | None:
        return None


class WantsAClosure(Line):
    def optimizer(self, model: nn.Module) -> Optimizer:
        return LBFGS(model.parameters())


class Leaves(Line):
    def model(self) -> nn.Module:
        raise SystemExit("no model today")


def spec(task: type[Task]) -> JobSpec:
    return JobSpec(task=f"{__name__}:{task.__name__}", steps=1, global_batch=4)


@pytest.mark.parametrize("task", [Line, Unscheduled])
def test_a_sound_task_is_prepared_with_and_without_a_schedule(task: type[Task]) -> None:
    bench = prepare(spec(task))
    assert bench.fingerprint.samples == 8
    assert bench.replica.nominal_weight == 4


def test_an_optimizer_that_wants_a_closure_is_refused() -> None:
    with pytest.raises(CannotPrepare) as refused:
        prepare(spec(WantsAClosure))
    assert refused.value.field == "task"
    assert "LBFGS, whose step() wants a closure" in refused.value.message


def test_code_that_leaves_the_process_is_refused_like_code_that_raises() -> None:
    with pytest.raises(CannotPrepare, match="raised SystemExit: no model today") as refused:
        prepare(spec(Leaves))
    assert "Traceback" in refused.value.traceback
