"""What may be told of a final state, and that all else costs the report alone."""

from collections.abc import Callable
from math import isnan, nan
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regroup.tasks import Task
from regroup.worker.result import LIMIT, result_of

MODEL = nn.Linear(1, 1)


class Reports(Task):
    def __init__(self, give: Callable[[], Any]) -> None:
        self.give = give

    def report(self, model: nn.Module) -> Any:
        assert model is MODEL
        return self.give()


def leave() -> None:
    raise SystemExit("done")


def nested(levels: int) -> Any:
    found: Any = {}
    for _ in range(levels):
        found = {"deeper": found}
    return found


def circle() -> Any:
    found: dict[str, Any] = {}
    found["again"] = found
    return found


def test_a_report_comes_as_plain_json() -> None:
    report = result_of(Reports(lambda: {"loss": np.float64(0.5), "best": (1, 2), 3: None}), MODEL, print)
    assert report == {"loss": 0.5, "best": [1, 2], "3": None}


def test_a_number_that_is_none_is_told_as_such() -> None:
    report = result_of(Reports(lambda: {"loss": nan}), MODEL, print)
    assert report is not None
    assert isnan(report["loss"])


def test_a_task_need_not_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert result_of(Reports(lambda: None), MODEL, print) is None
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("give", "why"),
    [
        (lambda: {"loss": torch.zeros(())}, "Tensor"),
        (lambda: {"loss": np.float32(0)}, "float32"),
        (lambda: [0.5], "TypeError: report() gave a list: it must give a dict, or None"),
        (lambda: 0.5, "TypeError: report() gave a float: it must give a dict, or None"),
        (lambda: {"text": "x" * LIMIT}, f"ValueError: report() gave {LIMIT + 11} bytes of JSON: at most {LIMIT} are"),
        (lambda: nested(190), "recursion limit"),
        (circle, "Circular reference"),
        (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
        (leave, "SystemExit: done"),
    ],
    ids=["tensor", "numpy", "list", "float", "large", "deep", "circle", "raises", "leaves"],
)
def test_what_cannot_be_told_is_left_out_and_said_why(
    give: Callable[[], Any], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whys: list[str] = []
    assert result_of(Reports(give), MODEL, whys.append) is None
    assert [why.partition(": ")[0] for why in whys] == ["report() failed"]
    assert why in capsys.readouterr().err


def test_a_report_sees_the_model_in_evaluation_mode_and_moves_nothing() -> None:
    """Neither the statistics of a BatchNorm, nor a generator, nor the mode of a layer that somebody froze."""

    class Forwards(Task):
        def report(self, model: nn.Module) -> dict[str, Any]:
            scores = model(torch.randn(8, 2))
            assert not scores.requires_grad
            return {"training": [module.training for module in model.modules()]}

    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout()).train()
    model[0].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    drawn = torch.get_rng_state()
    assert result_of(Forwards(), model, print) == {"training": [False] * 4}
    assert [module.training for module in model.modules()] == [True, False, True, True]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), drawn)
