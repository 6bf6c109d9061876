"""Evaluation: the same result however it is spread, and no trace in what it evaluated."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from regroup.core.shards import assign, owned
from regroup.tasks import Task
from regroup.tasks.digits import Digits
from regroup.worker.evaluation import Evaluation, Sums, combine


class Listed(Task):
    """Samples are numbers; the metrics sum and count them, and remember in which mode."""

    def __init__(self, independent: bool = False) -> None:
        self.independent_samples = independent
        self.passes: list[list[int]] = []
        self.modes: set[tuple[bool, bool]] = set()

    def evaluate(self, model: nn.Module, batch: Any) -> dict[str, tuple[float, float]]:
        self.passes.append(batch.tolist())
        self.modes.add((model.training, torch.is_grad_enabled()))
        torch.rand(1)
        return {"sum": (batch.sum(), len(batch)), "ones": (len(batch), 1.0)}


def reduced(evaluation: Evaluation, model: nn.Module, chunk: int, shards: int, workers: int, size: int | None) -> Sums:
    """What the workers' all-reduce would give."""
    owners = assign(shards, workers)
    measured = [evaluation.measure(model, chunk, owned(owners, rank), size) for rank in range(workers)]
    total: Tensor = sum((evaluation.pack(sums) for sums in measured), start=torch.zeros(()))
    return evaluation.unpack(total)


@given(
    samples=st.integers(1, 60),
    shards=st.integers(1, 6),
    chunk=st.integers(1, 20),
    workers=st.integers(1, 7),
    size=st.none() | st.integers(1, 8),
    independent=st.booleans(),
)
def test_each_sample_is_measured_once_whoever_owns_its_shard(
    samples: int, shards: int, chunk: int, workers: int, size: int | None, independent: bool
) -> None:
    task = Listed(independent)
    evaluation = Evaluation(task, list(range(samples)), shards, chunk)
    model = nn.Linear(1, 1)
    assert evaluation.metric_names(model) == ("ones", "sum")
    task.passes.clear()
    for index in range(evaluation.chunks):
        assert not evaluation.complete
        evaluation.record(index, reduced(evaluation, model, index, shards, workers, size))
    assert evaluation.complete
    assert sorted(sample for each in task.passes for sample in each) == list(range(samples))
    assert all(len(each) <= (size or samples) for each in task.passes)
    assert combine(evaluation.finished)["sum"] == pytest.approx(sum(range(samples)) / samples)


def test_digits_are_evaluated_alike_by_one_worker_and_by_three() -> None:
    task = Digits(dtype="float64", dropout=0.5, batch_norm=True)
    dataset = task.evaluation()
    assert dataset is not None
    model = task.model()
    results = []
    for workers in (1, 3):
        evaluation = Evaluation(task, dataset, 12, 48)
        for index in range(evaluation.chunks):
            evaluation.record(index, reduced(evaluation, model, index, 12, workers, 4))
        results.append(combine(evaluation.finished))
    assert results[0] == pytest.approx(results[1], rel=1e-12)
    assert results[0]["accuracy"] == task.report(model.eval())["accuracy"]


def test_it_leaves_modes_and_generators_as_they_were() -> None:
    task = Listed()
    model = nn.Sequential(nn.Linear(1, 1), nn.Dropout(), nn.BatchNorm1d(1)).train()
    model[2].eval()  # somebody froze it
    torch.manual_seed(3)
    before = torch.get_rng_state()
    Evaluation(task, [1, 2, 3], 1, 3).measure(model, 0, [0], None)
    assert task.modes == {(False, False)}
    assert [module.training for module in model.modules()] == [True, True, True, False]
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.is_grad_enabled()


def test_an_error_of_the_task_leaves_the_model_training() -> None:
    class Fails(Listed):
        def evaluate(self, model: nn.Module, batch: Any) -> dict[str, tuple[float, float]]:
            raise RuntimeError("by design")

    model = nn.Linear(1, 1)
    with pytest.raises(RuntimeError, match="by design"):
        Evaluation(Fails(), [1], 1, 1).measure(model, 0, [0], None)
    assert model.training


def test_a_spare_measures_nothing_but_knows_the_names() -> None:
    evaluation = Evaluation(Listed(), [1, 2, 3], 2, 3)
    sums = evaluation.measure(nn.Linear(1, 1), 0, [], None)
    assert sums == {"ones": (0.0, 0.0), "sum": (0.0, 0.0)}
    assert evaluation.pack(sums).tolist() == [0.0] * 4


def test_packed_sums_come_back_by_name() -> None:
    evaluation = Evaluation(Listed(), [5], 1, 1)
    evaluation.metric_names(nn.Linear(1, 1))
    packed = evaluation.pack({"sum": (7.5, 2.0), "ones": (3.0, 4.0)})
    assert packed.dtype == torch.float64
    assert packed.tolist() == [3.0, 4.0, 7.5, 2.0]
    assert evaluation.unpack(packed) == {"ones": (3.0, 4.0), "sum": (7.5, 2.0)}


def test_a_chunk_is_recorded_in_its_turn() -> None:
    evaluation = Evaluation(Listed(), [1, 2, 3], 1, 2)
    assert evaluation.chunks == 2
    with pytest.raises(ValueError, match="next is 0"):
        evaluation.record(1, {})


@pytest.mark.parametrize("names", [[f"metric {number}" for number in range(257)], ["m" * 101]], ids=["many", "long"])
def test_more_metrics_than_can_be_told_with_each_step_are_refused(names: list[str]) -> None:
    class Measures(Listed):
        def evaluate(self, model: nn.Module, batch: Any) -> dict[str, tuple[float, float]]:
            return dict.fromkeys(names, (1.0, 1.0))

    evaluation = Evaluation(Measures(), [torch.tensor(0.0)] * 4, shards=2, chunk=4)
    with pytest.raises(ValueError, match="at most 256, with names of 100 characters"):
        evaluation.metric_names(nn.Linear(1, 1))


@pytest.mark.parametrize("name", [b"loss", 3, "\ud800"], ids=repr)
def test_a_metric_whose_name_cannot_be_told_is_refused(name: Any) -> None:
    """Where it was to be told, nobody could tell anything any more."""

    class Odd(Listed):
        def evaluate(self, model: nn.Module, batch: Any) -> Any:
            return {name: (0.0, 1.0)}

    with pytest.raises((TypeError, UnicodeEncodeError)):
        Evaluation(Odd(), list(range(4)), 2, 4).metric_names(nn.Linear(1, 1))


def test_metrics_that_change_their_names_are_refused() -> None:
    class Fickle(Listed):
        def evaluate(self, model: nn.Module, batch: Any) -> dict[str, tuple[float, float]]:
            return {"few" if len(batch) < 2 else "many": (0.0, 1.0)}

    with pytest.raises(ValueError, match=r"\['many'\], and before \['few'\]"):
        Evaluation(Fickle(), [1, 2], 1, 2).measure(nn.Linear(1, 1), 0, [0], None)


def test_combining_divides_sums_by_weights() -> None:
    parts: list[Sums] = [{"a": (1.0, 1.0), "b": (0.0, 0.0)}, {"a": (5.0, 2.0), "b": (0.0, 0.0)}]
    assert combine(parts) == {"a": 2.0}  # b has no weight, so it has no mean
    assert combine([]) == {}
