"""Moving buffers: what a pass changes, and that shards never see each other."""

import torch
from torch import nn

from regroup.worker.moving import MovingBuffers, moving_buffers


class Odd(nn.Module):
    """One buffer of each kind: a constant, NaN, a counter, a statistic, one that is replaced, a growing cache."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("constant", torch.ones(2))
        self.register_buffer("undefined", torch.tensor(float("nan")))
        self.register_buffer("counter", torch.tensor(3))
        self.register_buffer("statistic", torch.zeros(2, dtype=torch.float64))
        self.register_buffer("replaced", torch.zeros(2))
        self.register_buffer("cache", torch.zeros(0), persistent=False)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        self.counter += 1
        self.statistic.lerp_(value.detach().double(), 0.1)
        self.replaced = self.replaced + value.detach()
        self.cache = torch.zeros(len(value))
        return value


NAMES = ("counter", "statistic", "replaced")


def test_a_pass_tells_which_buffers_move_and_changes_none():
    model = Odd()
    assert moving_buffers(model, lambda: model(torch.ones(2))) == NAMES
    assert (model.counter, model.statistic.tolist(), model.replaced.tolist()) == (3, [0, 0], [0, 0])


def test_shards_start_from_the_committed_values_and_are_weighed():
    model = Odd()
    moving = MovingBuffers(model, NAMES)
    moving.start()
    model(torch.tensor([1.0, 0.0])), model(torch.tensor([1.0, 0.0]))  # two passes of one shard
    moving.end_shard(3)
    assert model.counter == 3
    model(torch.tensor([0.0, 1.0]))
    moving.end_shard(1)
    moving.apply()
    assert model.counter == 3 + 2 + 1
    torch.testing.assert_close(model.statistic, torch.tensor([0.19 * 3 / 4, 0.1 / 4], dtype=torch.float64))
    torch.testing.assert_close(model.replaced, torch.tensor([2 * 3 / 4, 1 / 4]))


def test_a_step_given_up_in_mid_pass_leaves_the_committed_values():
    model = Odd()
    moving = MovingBuffers(model, NAMES)
    moving.start()
    model(torch.ones(2))
    moving.restore()
    assert (model.counter, model.replaced.tolist()) == (3, [0, 0])
    model.counter.fill_(50)  # as a state that is loaded between steps
    moving.restore()
    moving.start()
    moving.apply()
    assert model.counter == 50


def test_a_step_of_no_weight_moves_only_counters():
    model = Odd()
    moving = MovingBuffers(model, NAMES)
    moving.start()
    model(torch.ones(2))
    moving.end_shard(0)
    moving.apply()
    assert (model.counter, model.statistic.tolist()) == (4, [0, 0])


def test_a_model_without_moving_buffers_contributes_nothing():
    model = nn.Linear(2, 2)
    moving = MovingBuffers(model, moving_buffers(model, lambda: model(torch.ones(2))))
    moving.start()
    moving.end_shard(1)
    moving.apply()
    assert moving.contribution.numel() == 0
