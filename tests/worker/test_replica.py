"""Replicas: built alike, copied whole, compared by a digest."""

from typing import Any

import pytest
import torch
from torch import nn

from regroup.tasks.contract import Task
from regroup.worker.replica import Replica
from regroup.worker.tree import copy_of, pack, unpack


class Small(Task):
    """A model with dropout, BatchNorm, Adam, two schedulers in sequence and a state of its own."""

    def __init__(self, width: int = 8) -> None:
        self.width = width
        self.temperature = torch.ones(())

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, self.width), nn.BatchNorm1d(self.width), nn.Linear(self.width, 1))

    def optimizer(self, model):
        return torch.optim.AdamW(model.parameters(), lr=0.1)

    def scheduler(self, optimizer):
        warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2)
        steps = torch.optim.lr_scheduler.MultiStepLR(optimizer, [4, 6])
        return torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, steps], [3])

    def state(self) -> dict[str, Any]:
        return {"temperature": self.temperature}

    def load_state(self, state: dict[str, Any]) -> None:
        self.temperature = state["temperature"].clone()


def train(replica: Replica, steps: int) -> None:
    for _ in range(steps):
        draw = torch.Generator().manual_seed(replica.step)
        replica.model(torch.randn(5, 4, generator=draw)).square().sum().backward()
        replica.optimizer.step()
        replica.optimizer.zero_grad()
        replica.scheduler.step()
        replica.step += 1


def same(one: Replica, other: Replica) -> bool:
    return repr(one.tree()) == repr(other.tree()) and one.digest() == other.digest()


def test_equal_seeds_build_equal_replicas_and_other_seeds_others():
    assert same(Replica(Small(), 1), Replica(Small(), 1))
    assert Replica(Small(), 1).digest() != Replica(Small(), 2).digest()


def test_a_copy_goes_on_exactly_as_its_source_does():
    source, copy = Replica(Small(), 1), Replica(Small(), 2)
    source.nominal_weight = 12.5
    train(source, 3)
    parameters = list(copy.model.parameters())
    copy.load(copy_of(source.tree()))
    assert same(source, copy)
    assert all(mine is kept for mine, kept in zip(copy.model.parameters(), parameters, strict=True))
    train(source, 4)
    train(copy, 4)
    assert same(source, copy)
    assert copy.nominal_weight == 12.5


def test_reset_goes_back_to_the_seed_wherever_it_was():
    task = Small()
    replica = Replica(task, 1)
    train(replica, 5)
    task.temperature = torch.tensor(9.0)
    replica.reset()
    assert same(replica, Replica(Small(), 1))
    train(replica, 2)
    other = Replica(Small(), 1)
    train(other, 2)
    assert same(replica, other)


def test_a_state_of_another_model_is_refused_and_changes_nothing():
    replica = Replica(Small(), 1)
    before = replica.digest()
    with pytest.raises(ValueError, match="another model"):
        replica.load(copy_of(Replica(Small(width=9), 1).tree()))
    assert replica.digest() == before


def test_the_digest_sees_every_bit():
    replica = Replica(Small(width=1200), 1)  # 4,800 weights: whole rows and a rest
    original = replica.digest()
    assert 0 <= original < 1 << 48
    weight = replica.model[0].weight.data.view(torch.int32).view(-1)
    for place in (0, 1, 1023, 1024, 2048, 4799):
        for bit in range(32):
            flip = torch.tensor(1 << bit if bit < 31 else -(1 << 31), dtype=torch.int32)
            weight[place] ^= flip
            assert replica.digest() != original
            weight[place] ^= flip
    assert replica.digest() == original
    replica.model[1].running_mean[3] += 1
    assert replica.digest() != original


def test_a_tree_has_everything_that_changes():
    assert set(Replica(Small(), 1).tree()) == {"model", "optimizer", "scheduler", "task", "step", "nominal_weight"}


class Wide(torch.optim.Optimizer):
    """Plain descent on float32 copies of narrower weights."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            master = state.setdefault("master", parameter.float())
            state.setdefault("norm", master.norm())
            parameter.copy_(master.sub_(parameter.grad.float(), alpha=0.1))


class Narrow(Small):
    def model(self):
        return super().model().bfloat16()

    def optimizer(self, model):
        return Wide(model.parameters())

    def scheduler(self, optimizer):
        return None


class Conv(Small):
    """Its weights lie in another order than their shape says, as they do for speed."""

    def model(self):
        layers = nn.Conv2d(3, 7, 3), nn.ReLU(), nn.Conv2d(7, 5, 3), nn.Flatten(), nn.Linear(5 * 16, 1)
        return nn.Sequential(*layers).to(memory_format=torch.channels_last)

    def optimizer(self, model):
        return torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)

    def scheduler(self, optimizer):
        return None


@pytest.mark.parametrize(("task", "shape"), [(Narrow, (5, 4)), (Conv, (5, 3, 8, 8))])
def test_who_took_a_state_goes_on_with_the_same_bits_whatever_dtype_and_layout_its_optimizer_has(task, shape):
    trained, joined = Replica(task(), seed=3), Replica(task(), seed=4)

    def step(replica, number):
        dtype = next(replica.model.parameters()).dtype
        data = torch.randn(shape, generator=torch.Generator().manual_seed(number)).to(dtype)
        replica.optimizer.zero_grad()
        replica.model(data).square().sum().backward()
        replica.optimizer.step()

    for number in range(5):
        step(trained, number)
    skeleton, tensors = pack(trained.tree())  # as it travels, and as it is written
    joined.load(unpack(skeleton, [tensor.detach().clone(memory_format=torch.contiguous_format) for tensor in tensors]))
    for number in range(5, 25):
        step(trained, number)
        step(joined, number)
        assert joined.digest() == trained.digest(), number
    for mine, theirs in zip(joined.model.parameters(), trained.model.parameters(), strict=True):
        assert [(name, value.dtype, value.stride()) for name, value in joined.optimizer.state[mine].items()] == [
            (name, value.dtype, value.stride()) for name, value in trained.optimizer.state[theirs].items()
        ]
