"""The digits task: its model, its data, and that it learns."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import default_collate

from regroup.tasks import OptionError
from regroup.tasks.digits import Digits


def trained(task: Digits, steps: int) -> nn.Module:
    torch.manual_seed(0)
    model, dataset = task.model(), task.dataset()
    optimizer = task.optimizer(model)
    for step in range(steps):
        batch = task.collate([dataset[(step * 64 + i) % len(dataset)] for i in range(64)])
        total, weight = task.loss(model, batch)
        optimizer.zero_grad()
        (total / weight).backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("optimizer", "learning_rate"), [("adamw", 1e-2), ("sgd", 1e-1)])
def test_it_learns_to_read_digits(dtype: str, optimizer: str, learning_rate: float) -> None:
    task = Digits(dtype=dtype, optimizer=optimizer, learning_rate=learning_rate)
    report = task.report(trained(task, 100))
    assert report["accuracy"] > 0.8
    assert report["parameters"] == 64 * 64 + 64 + 64 * 32 + 32 + 32 * 10 + 10


def test_samples_and_model_have_the_dtype_asked_for() -> None:
    task = Digits(dtype="float64", batch_norm=True)
    image, label = task.dataset()[0]
    assert (image.shape, image.dtype, label.dtype) == ((64,), torch.float64, torch.int64)
    assert 0 <= image.min() < image.max() <= 1
    assert {p.dtype for p in task.model().parameters()} == {torch.float64}


def test_they_are_the_digits_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits  # a second, for this test alone

    images, labels = Digits(dtype="float64", holdout=0).dataset().tensors
    theirs, told = load_digits(return_X_y=True)
    assert torch.equal(images, torch.from_numpy(theirs / 16))
    assert torch.equal(labels, torch.from_numpy(told))


def test_the_last_images_are_held_out() -> None:
    task = Digits(holdout=297)
    held_out = task.evaluation()
    assert held_out is not None
    assert (len(task.dataset()), len(held_out)) == (1500, 297)
    everything = Digits(holdout=0)
    assert everything.evaluation() is None
    assert torch.equal(everything.dataset()[1500][0], held_out[0][0])
    assert "accuracy" not in everything.report(everything.model())


def test_the_loss_is_a_sum_over_samples() -> None:
    task = Digits(dtype="float64")
    torch.manual_seed(0)
    model, dataset = task.model(), task.dataset()
    whole, weight = task.loss(model, default_collate([dataset[i] for i in range(5)]))
    parts = [task.loss(model, default_collate([dataset[i]])) for i in range(5)]
    torch.testing.assert_close(whole, torch.stack([total for total, _ in parts]).sum())
    assert weight == sum(w for _, w in parts) == 5.0


def test_evaluation_counts_right_answers() -> None:
    class Echo(nn.Module):
        """Says the class of the first pixel, and is right about the first sample only."""

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return nn.functional.one_hot(images[:, 0].long(), 10).double() * 1000

    images = torch.zeros(3, 64)
    assert Digits().evaluate(Echo(), (images, torch.tensor([0, 1, 2]))) == {
        "accuracy": (1, 3.0),
        "loss": (2000.0, 3.0),
    }


@pytest.mark.parametrize(
    ("options", "independent"), [({}, True), ({"dropout": 0.1}, False), ({"batch_norm": True}, False)]
)
def test_samples_are_independent_without_dropout_and_batch_norm(options: dict[str, Any], independent: bool) -> None:
    assert Digits(**options).independent_samples is independent


def test_the_layers_follow_the_options() -> None:
    kinds = [type(layer) for layer in Digits(hidden=[7, 5], batch_norm=True, dropout=0.5).model().children()]
    hidden = [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Dropout]
    assert kinds == [*hidden, *hidden, nn.Linear]
    assert [type(layer) for layer in Digits(hidden=[]).model().children()] == [nn.Linear]


def test_the_wide_model_of_the_benchmark_has_25_million_parameters() -> None:
    with torch.device("meta"):
        model = Digits(hidden=[3500, 3500, 3500]).model()
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(25e6, rel=0.02)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"hidden": [0]}, "hidden"),
        ({"hidden": 64}, "hidden"),
        ({"dropout": 1.0}, "dropout"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"learning_rate": -1e-3}, "learning_rate"),
        ({"dtype": "float16"}, "dtype"),
        ({"optimizer": "lbfgs"}, "optimizer"),
        ({"holdout": 1797}, "holdout"),
        ({"lr": 1e-3}, "lr"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(OptionError) as caught:
        Digits(**options)
    assert caught.value.field == field
