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
    report, missing = result_of(Reports(lambda: {"loss": np.float64(0.5), "best": (1, 2), 3: None}), MODEL)
    assert (report, missing) == ({"loss": 0.5, "best": [1, 2], "3": None}, None)


def test_a_number_that_is_none_is_told_as_such() -> None:
    report, _ = result_of(Reports(lambda: {"loss": nan}), MODEL)
    assert report is not None
    assert isnan(report["loss"])


def test_a_task_need_not_report() -> None:
    assert result_of(Reports(lambda: None), MODEL) == (None, None)


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
    report, missing = result_of(Reports(give), MODEL)
    assert report is None
    assert missing is not None
    assert why in missing
    assert missing.splitlines()[0][:60] in capsys.readouterr().err
