"""A trainer's state as one tree: there and back, with how far its evaluation came, and what a checkpoint is worth."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.utils.data import TensorDataset

from regroup.core.jobs import Version
from regroup.core.spec import BeginFrom, JobSpec
from regroup.tasks import SizedDataset, Task
from regroup.worker.checkpoint import CheckpointDamaged, OtherFormat
from regroup.worker.evaluation import Evaluation
from regroup.worker.replica import Replica
from regroup.worker.state import State
from regroup.worker.storage import Storage

SPEC = JobSpec(task="line:Line", steps=8, global_batch=4, shards=2)
AT_FOUR = Version(1, 4)


class Line(Task):
    def model(self) -> nn.Module:
        return nn.Linear(2, 1)

    def dataset(self) -> SizedDataset:
        return TensorDataset(torch.ones(8, 2))

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        return model(batch[0]).sum(), float(len(batch[0]))

    def optimizer(self, model: nn.Module) -> Optimizer:
        return SGD(model.parameters(), lr=0.1)


class Holder:
    """Whoever holds the state of a job, with its parts in reach; it evaluates in two chunks."""

    def __init__(self, folder: Path, job: str = "j", spec: JobSpec = SPEC, evaluates: bool = True) -> None:
        task = Line()
        self.replica = Replica(task, seed=1)
        self.evaluation = Evaluation(task, task.dataset(), shards=2, chunk=4) if evaluates else None
        storage = Storage(str(folder / "checkpoints"), folder / f"scratch-{job}", patience=60)
        self.state = State(job, spec, self.replica, self.evaluation, storage)

    def reach(self, step: int, *finished: float) -> None:
        """A step, with these losses of the chunks of its evaluation."""
        with torch.no_grad():
            self.replica.model.weight.fill_(step)
        self.replica.step = step
        if self.evaluation is not None:
            self.state.evaluated = step
            self.evaluation.finished[:] = [{"loss": (loss * 4, 4.0)} for loss in finished]


def test_a_checkpoint_brings_back_the_replica_and_how_far_its_evaluation_came(tmp_path: Path) -> None:
    first, heir = Holder(tmp_path), Holder(tmp_path)
    first.reach(4, 0.5)
    checkpoint = first.state.write(AT_FOUR, first.state.tree())
    heir.state.load(heir.state.read(checkpoint, first=False))
    assert (heir.replica.step, heir.state.evaluated) == (4, 4)
    assert heir.evaluation is not None
    assert heir.evaluation.finished == [{"loss": (2.0, 4.0)}]
    assert heir.replica.digest() == first.replica.digest()


def test_a_tree_that_was_given_is_not_touched_by_the_chunks_that_follow(tmp_path: Path) -> None:
    holder = Holder(tmp_path)
    holder.reach(4, 0.5)
    tree = holder.state.tree()
    holder.reach(4, 0.5, 0.7)
    assert len(tree["evaluation"]["finished"]) == 1


@pytest.mark.parametrize(
    ("losses", "score"),
    [((0.5, 0.7), 0.6), ((0.5,), None), ((), None), ((0.5, float("nan")), None), ((0.5, float("inf")), None)],
    ids=["complete", "half done", "not begun", "no number", "infinite"],
)
def test_the_score_of_a_checkpoint_is_the_loss_of_its_complete_evaluation(
    tmp_path: Path, losses: tuple[float, ...], score: float | None
) -> None:
    holder = Holder(tmp_path)
    holder.reach(4, *losses)
    assert holder.state.write(AT_FOUR, holder.state.tree()).score == (None if score is None else pytest.approx(score))


def test_what_was_measured_of_an_earlier_step_is_no_score(tmp_path: Path) -> None:
    holder = Holder(tmp_path)
    holder.reach(4, 0.5, 0.7)
    assert holder.state.write(Version(1, 5), holder.state.tree()).score is None


def test_who_never_evaluates_has_no_score_and_reads_what_others_evaluated(tmp_path: Path) -> None:
    evaluates, does_not = Holder(tmp_path), Holder(tmp_path, evaluates=False)
    evaluates.reach(4, 0.5, 0.7)
    does_not.state.load(evaluates.state.tree())
    assert does_not.replica.step == 4
    assert does_not.state.write(AT_FOUR, does_not.state.tree()).score is None


def test_only_the_first_state_of_a_job_is_another_ones(tmp_path: Path) -> None:
    other = Holder(tmp_path, "other")
    other.reach(4, 0.5, 0.7)
    checkpoint = other.state.write(AT_FOUR, other.state.tree())
    heir = Holder(tmp_path, "heir", replace(SPEC, begin_from=BeginFrom(job="other")))
    tree = heir.state.read(checkpoint, first=True)
    assert tree["step"] == 4
    assert tree["evaluation"] == {"step": 0, "finished": []}
    with pytest.raises(CheckpointDamaged, match="no checkpoint of step 4 of heir"):
        heir.state.read(checkpoint, first=False)


@pytest.mark.parametrize(("name", "mine"), [("ORDER_NAME", "feistel-splitmix64-v1"), ("DRAWS_NAME", "blake2b-v1")])
def test_a_jobs_own_checkpoint_of_another_order_or_other_draws_is_refused_with_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mine: str
) -> None:
    """To go on from it would lose and double samples."""
    holder = Holder(tmp_path)
    holder.reach(4)
    with monkeypatch.context() as older:
        older.setattr(f"regroup.worker.beginning.{name}", "older-v0")
        checkpoint = holder.state.write(AT_FOUR, holder.state.tree())
    with pytest.raises(OtherFormat) as refused:
        holder.state.read(checkpoint, first=False)
    fact = name.removesuffix("_NAME").lower()
    assert f"{fact} is '{mine}' here, and 'older-v0' in the checkpoint: read it with the version" in str(refused.value)


def test_a_state_that_is_built_anew_was_not_evaluated(tmp_path: Path) -> None:
    holder, fresh = Holder(tmp_path), Holder(tmp_path)
    holder.reach(4, 0.5, 0.7)
    holder.state.reset()
    assert (holder.replica.step, holder.state.evaluated) == (0, 0)
    assert holder.replica.digest() == fresh.replica.digest()
