"""The contract's own behaviour: how options are checked, and what a task gets without writing it."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
import torch
from pydantic import Field
from torch import Tensor, nn

from regroup.tasks import OptionError, Options, Task, parse_options


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Options):
    widths: tuple[Annotated[int, Field(ge=1)], ...] = (8, 4)
    rate: Annotated[float, Field(gt=0)] = 0.1
    clip: Annotated[float, Field(gt=0)] | None = None
    kind: Literal["a", "b"] = "a"
    fast: bool = False

    def __post_init__(self) -> None:
        if self.fast and self.kind == "b":
            raise OptionError("fast", "not with kind b")


def test_options_that_are_not_given_keep_their_defaults() -> None:
    assert parse_options(Sample, {}) == Sample()


def test_options_are_taken_as_json_gives_them() -> None:
    options = {"widths": [3, 2], "rate": 1, "clip": 0.5, "kind": "b"}
    assert parse_options(Sample, options) == Sample(widths=(3, 2), rate=1.0, clip=0.5, kind="b")
    assert parse_options(Sample, {"widths": (3, 2)}).widths == (3, 2)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"rate": float("nan")}, "rate"),
        ({"rate": float("inf")}, "rate"),
        ({"rate": -1}, "rate"),
        ({"rate": True}, "rate"),
        ({"rate": "0.1"}, "rate"),
        ({"rate": None}, "rate"),
        ({"clip": 0}, "clip"),
        ({"clip": float("nan")}, "clip"),
        ({"widths": 8}, "widths"),
        ({"widths": [8, 0]}, "widths"),
        ({"widths": [8, 1.5]}, "widths"),
        ({"widths": [True]}, "widths"),
        ({"kind": "c"}, "kind"),
        ({"fast": 1}, "fast"),
        ({"fast": True, "kind": "b"}, "fast"),
        ({"speed": 1}, "speed"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options(Sample, options)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"options.{field}: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Range(Options):
    low: int = 0
    high: int = 1

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low is above high")


def test_options_that_contradict_are_told_together_when_no_single_one_is_named() -> None:
    with pytest.raises(OptionError) as caught:
        parse_options(Range, {"low": 2})
    assert (caught.value.field, str(caught.value)) == ("", "options: low is above high")


def test_an_unknown_option_hears_which_ones_there_are() -> None:
    with pytest.raises(OptionError, match="there are clip, fast, kind, rate, widths"):
        parse_options(Sample, {"speed": 1})


def test_a_long_value_does_not_flood_the_message() -> None:
    with pytest.raises(OptionError) as caught:
        parse_options(Sample, {"rate": "x" * 10_000})
    assert len(str(caught.value)) < 200


class Minimal(Task):
    """The four methods that have no default, and nothing else."""

    def model(self) -> nn.Module:
        return nn.Linear(1, 1)

    def dataset(self) -> list[Tensor]:
        return [torch.zeros(1)]

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        return model(batch).square().sum(), float(len(batch))

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.1)


def test_a_task_without_options_refuses_any() -> None:
    with pytest.raises(OptionError) as caught:
        Minimal(rate=1)
    assert caught.value.field == "rate"


def test_four_methods_make_a_task() -> None:
    task = Minimal()
    model = task.model()
    batch = task.collate([torch.ones(1), torch.zeros(1)])
    assert batch.shape == (2, 1)
    total, weight = task.loss(model, batch)
    assert weight == 2
    assert task.evaluate(model, batch) == {"loss": (total.item(), 2.0)}
    assert task.evaluation() is None
    assert task.scheduler(task.optimizer(model)) is None
    assert task.report(model) is None
    task.load_state(task.state())
    assert not task.independent_samples  # the safe answer, unless the task says otherwise
    assert task.clip is None


@pytest.mark.parametrize("method", ["model", "dataset"])
def test_a_method_that_is_not_written_is_named(method: str) -> None:
    with pytest.raises(NotImplementedError, match=f"Task.{method}"):
        getattr(Task(), method)()
