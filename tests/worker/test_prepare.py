"""Preparing a job: what is refused before the first step, and that nothing sound is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import LBFGS, SGD, AdamW, Optimizer
from torch.optim.lr_scheduler import ConstantLR, LambdaLR, LRScheduler
from torch.utils.data import IterableDataset, TensorDataset

from regroup.core.spec import JobSpec
from regroup.tasks import Options, Task, parse_options
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


class TakesAnything(Line):
    def optimizer(self, model: nn.Module) -> Optimizer:
        class Wrapped(SGD):
            def step(self, *args: Any, **kwargs: Any) -> Any:
                return super().step(*args, **kwargs)

        return Wrapped(model.parameters(), lr=0.1)

    def scheduler(self, optimizer: Optimizer) -> LRScheduler | None:
        return None


class KeepsMoreThanTensors(Line):
    def model(self) -> nn.Module:
        class Counting(nn.Linear):
            def get_extra_state(self) -> Any:
                return {"calls": 3}

            def set_extra_state(self, state: Any) -> None:
                assert state == {"calls": 3}

        return Counting(1, 1)


class CountsInPlace(Line):
    def __init__(self) -> None:
        self.counted = {"passes": torch.zeros(()), "seen": [0]}

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        self.counted["passes"] += 1
        self.counted["seen"].append(len(batch[0]))
        return super().loss(model, batch)

    def state(self) -> dict[str, Any]:
        return self.counted

    def load_state(self, state: dict[str, Any]) -> None:
        self.counted = state


class Stream(IterableDataset[Tensor]):
    """Torch's own gives it an index that raises."""

    def __iter__(self) -> Iterator[Tensor]:
        yield torch.ones(1)

    def __len__(self) -> int:
        return 8


class Streams(Line):
    def dataset(self) -> Any:
        return Stream()


class Torn:
    """Of 8 samples, all but the first four; or of no known length."""

    def __init__(self, length: Callable[[], int]) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length()

    def __getitem__(self, index: int, /) -> Any:
        if index >= 4:
            raise OSError(f"sample {index} cannot be read")
        return (torch.ones(1),)


class CannotBeCounted(Line):
    def dataset(self) -> Any:
        return Torn(lambda: 1 // 0)


class CannotBeReadToItsEnd(Line):
    def dataset(self) -> Any:
        return Torn(lambda: 8)


class CannotBeSaved(Line):
    def scheduler(self, optimizer: Optimizer) -> LRScheduler | None:
        class Remembers(LambdaLR):
            def state_dict(self) -> dict[str, Any]:
                return {"seen": {1, 2}}

        return Remembers(optimizer, lambda step: 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeOptions(Options):
    low: int = 0
    high: int = 1

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low is above high")


class Ranged(Line):
    def __init__(self, **options: Any) -> None:
        self.options = parse_options(RangeOptions, options)


class Leaves(Line):
    def model(self) -> nn.Module:
        raise SystemExit("no model today")


def spec(task: type[Task], **options: Any) -> JobSpec:
    return JobSpec(task=f"{__name__}:{task.__name__}", steps=1, global_batch=4, options=options)


@pytest.mark.parametrize("task", [Line, Unscheduled, TakesAnything, KeepsMoreThanTensors, Ranged])
def test_a_sound_task_is_prepared(task: type[Task]) -> None:
    bench = prepare(spec(task))
    assert bench.fingerprint.samples == 8
    assert bench.replica.nominal_weight == 4


@pytest.mark.parametrize("name", ["ORDER_NAME", "DRAWS_NAME"])
def test_who_has_another_order_or_other_draws_differs_in_its_fingerprint(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Workers of two versions that trained together would lose and double samples."""
    mine = prepare(spec(Line)).fingerprint
    monkeypatch.setattr(f"regroup.worker.prepare.{name}", "newer-v9")
    theirs = prepare(spec(Line)).fingerprint
    assert theirs.code != mine.code
    assert (theirs.dataset, theirs.samples) == (mine.dataset, mine.samples)


def test_an_optimizer_that_wants_a_closure_is_refused() -> None:
    with pytest.raises(CannotPrepare) as refused:
        prepare(spec(WantsAClosure))
    assert refused.value.field == "task"
    assert "LBFGS, whose step() wants a closure" in refused.value.message


def test_code_that_leaves_the_process_is_refused_like_code_that_raises() -> None:
    with pytest.raises(CannotPrepare, match="raised SystemExit: no model today") as refused:
        prepare(spec(Leaves))
    assert "Traceback" in refused.value.traceback


@pytest.mark.parametrize(
    ("task", "options", "said"),
    [
        (Streams, {}, "task: its dataset has no length or no index: iterable datasets are not covered"),
        (CannotBeCounted, {}, "task: its dataset's length raised ZeroDivisionError: "),
        (CannotBeReadToItsEnd, {}, "task: reading sample 4 raised OSError: sample 4 cannot be read"),
        (CannotBeSaved, {}, "task: keeping its state raised TypeError: the state at /scheduler/seen is a set: "),
        (Ranged, {"low": 2}, "options: low is above high"),
    ],
)
def test_what_is_wrong_is_said_before_the_first_step(task: type[Task], options: dict[str, Any], said: str) -> None:
    with pytest.raises(CannotPrepare) as refused:
        prepare(spec(task, **options))
    assert str(refused.value).startswith(said)
    assert "raised" not in said or "Traceback" in refused.value.traceback


def test_the_first_pass_changes_nothing_that_a_task_keeps_in_place() -> None:
    assert prepare(spec(CountsInPlace)).task.state() == {"passes": torch.zeros(()), "seen": [0]}
