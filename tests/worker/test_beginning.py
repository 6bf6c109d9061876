"""Another job's state as the beginning of a new one: what is taken over, what is its own, and what does not fit."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from regroup.core.spec import JobSpec
from regroup.tasks.contract import Task
from regroup.worker.beginning import DoesNotFit, begun, facts
from regroup.worker.replica import Replica
from regroup.worker.tree import copy_of


class Small(Task):
    """A line with a choice of optimizers and schedules."""

    def __init__(self, width: int = 4, lr: float = 0.1, kind: str = "adam", schedule: str = "cosine") -> None:
        self.width, self.lr, self.kind, self.schedule = width, lr, kind, schedule

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(3, self.width), nn.Linear(self.width, 1))

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        if self.kind == "groups":
            return torch.optim.AdamW([{"params": part.parameters()} for part in model], lr=self.lr)
        kind = {"adam": torch.optim.AdamW, "sgd": torch.optim.SGD}[self.kind]
        return kind(model.parameters(), lr=self.lr)

    def scheduler(self, optimizer: torch.optim.Optimizer) -> Any:
        if self.schedule == "cosine":
            return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
        if self.schedule == "one cycle":
            return torch.optim.lr_scheduler.OneCycleLR(optimizer, self.lr, total_steps=5)
        return None


def spec_of(**options: Any) -> JobSpec:
    return JobSpec(task="small:Small", options=options, steps=40, global_batch=8, shards=4, seed=1)


def trained(steps: int = 10, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """(tree, meta) of a checkpoint after so many steps."""
    replica = Replica(Small(**options), 1)
    for _ in range(steps):
        replica.model(torch.randn(8, 3)).sum().backward()
        replica.optimizer.step()
        replica.optimizer.zero_grad()
        if replica.scheduler is not None:
            replica.scheduler.step()
        replica.step += 1
    evaluated = {"step": steps, "finished": [{"loss": (1.0, 1.0)}]}
    return copy_of({**replica.tree(), "evaluation": evaluated}), facts(spec_of(**options))


def begin(checkpoint: tuple[dict[str, Any], dict[str, Any]], **options: Any) -> tuple[Replica, dict[str, Any]]:
    replica = Replica(Small(**options), 1)
    tree = begun(spec_of(**options), replica, *checkpoint)
    replica.load(copy_of(tree))
    return replica, tree


def test_with_the_same_options_all_of_the_state_goes_on() -> None:
    tree, meta = trained()
    replica, taken = begin((tree, meta))
    assert taken["optimizer"] is tree["optimizer"]
    assert taken["scheduler"] is tree["scheduler"]
    assert replica.step == 10
    assert replica.optimizer.param_groups[0]["lr"] == tree["optimizer"]["param_groups"][0]["lr"]


def test_another_rate_counts_from_its_first_step_on_as_its_schedule_has_it_there() -> None:
    tree, meta = trained()
    replica, _ = begin((tree, meta), lr=0.02)
    assert replica.scheduler is not None
    assert replica.optimizer.param_groups[0]["lr"] == pytest.approx(0.02 * (1 + math.cos(math.pi / 4)) / 2)
    assert replica.scheduler.last_epoch == 10
    replica.scheduler.step()
    assert replica.scheduler.get_last_lr()[0] == pytest.approx(0.02 * (1 + math.cos(math.pi * 11 / 40)) / 2)
    moments = replica.optimizer.state_dict()["state"][0]["exp_avg"]
    assert torch.equal(moments, tree["optimizer"]["state"][0]["exp_avg"])
    assert torch.equal(replica.model.state_dict()["0.weight"], tree["model"]["0.weight"])


def test_a_schedule_may_come_or_go() -> None:
    replica, _ = begin(trained(), schedule="none", lr=0.03)
    assert replica.optimizer.param_groups[0]["lr"] == 0.03
    replica, _ = begin(trained(schedule="none"), lr=0.1)
    assert replica.scheduler is not None
    assert replica.scheduler.last_epoch == 10


def test_what_the_other_job_measured_is_not_taken_over() -> None:
    assert begin(trained())[1]["evaluation"] == {"step": 0, "finished": []}


def test_another_shape_is_refused_with_both() -> None:
    why = "the model's 0.weight is float32 of shape (8, 3) here, and float32 of shape (4, 3) in the checkpoint; "
    with pytest.raises(DoesNotFit) as refused:
        begin(trained(), width=8)
    assert str(refused.value).startswith(why)
    assert "the model's 1.weight is" in str(refused.value)


def test_of_many_tensors_that_differ_a_few_are_named() -> None:
    tree, meta = trained()
    tree["model"] = {f"block.{name}": tensor for name, tensor in tree["model"].items()}
    with pytest.raises(DoesNotFit, match="absent in the checkpoint") as refused:
        begin((tree, meta))
    assert str(refused.value).endswith("; and so are 5 more of its tensors")


@pytest.mark.parametrize(
    ("theirs", "mine", "why"),
    [
        (
            {"kind": "sgd"},
            {"kind": "adam"},
            "is AdamW here, and the checkpoint's is another kind: it has no amsgrad",
        ),
        ({"kind": "adam"}, {"kind": "sgd"}, "is SGD here, and the checkpoint's is another kind: it has no dampening"),
        (
            {},
            {"kind": "groups"},
            r"has groups of \[2, 2\] parameters here, and of \[4\] in the checkpoint",
        ),
        ({}, {"schedule": "one cycle"}, "its schedule cannot be brought to step 10: ValueError"),
    ],
)
def test_another_kind_of_optimizer_and_a_schedule_that_is_over_are_refused(
    theirs: dict[str, Any], mine: dict[str, Any], why: str
) -> None:
    with pytest.raises(DoesNotFit, match=why):
        begin(trained(**theirs), **mine)


@pytest.mark.parametrize(
    ("name", "value"),
    [("seed", 2), ("order", "older-v0"), ("draws", "older-v0"), ("global_batch", 16), ("shards", 2)],
)
def test_what_the_file_tells_of_its_job_must_be_the_same(name: str, value: Any) -> None:
    tree, meta = trained()
    with pytest.raises(DoesNotFit, match=rf"^{name} is .* here, and {value!r} in the checkpoint$"):
        begin((tree, {**meta, name: value}))
