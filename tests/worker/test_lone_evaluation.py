"""A trainer that saves, and ends alone the evaluation that all began: where it sits, and what the metrics become."""

import os
import select
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.utils.data import TensorDataset

from regroup.core.jobs import Version
from regroup.core.messages.orders import Halt, Save
from regroup.core.messages.trainer_reports import Halted, Prepared, StateSaved, StepsCommitted
from regroup.core.workers import LoopPhase, TrainerPhase
from regroup.tasks import SizedDataset, Task
from regroup.worker.checkpoint import read
from regroup.worker.pulse import last_mark
from regroup.worker.storage import Storage

CHUNKS = 4


class Measures(Task):
    """Once it trained, each chunk of its evaluation says that it began, and ends when it is told to."""

    def __init__(self, began: str, ends: str) -> None:
        self.began, self.ends = os.open(began, os.O_RDWR), os.open(ends, os.O_RDWR)
        self.passes = -1  # the first is the one that nothing comes of

    def model(self) -> nn.Module:
        return nn.Linear(2, 1)

    def dataset(self) -> SizedDataset:
        return TensorDataset(torch.ones(16, 2))

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        self.passes += model.training
        return model(batch[0]).square().sum(), float(len(batch[0]))

    def optimizer(self, model: nn.Module) -> Optimizer:
        return SGD(model.parameters(), lr=0.01)

    def evaluation(self) -> SizedDataset:
        return TensorDataset(torch.ones(CHUNKS * 256, 2))

    def evaluate(self, model: nn.Module, batch: Any) -> dict[str, tuple[float, float]]:
        if self.passes > 0 and len(batch[0]) > 1:  # one alone is asked for its names
            os.write(self.began, b".")
            os.read(self.ends, 1)
        return super().evaluate(model, batch)


class Gates:
    """The test's ends of both pipes."""

    def __init__(self, folder: Path) -> None:
        self.paths = {name: str(folder / name) for name in ("began", "ends")}
        for path in self.paths.values():
            os.mkfifo(path)
        self._began, self._ends = (os.open(path, os.O_RDWR) for path in self.paths.values())

    def begins(self) -> None:
        assert select.select([self._began], [], [], 30)[0], "no pass of an evaluation began"
        os.read(self._began, 1)

    def end(self) -> None:
        os.write(self._ends, b".")


@pytest.fixture
def gates(tmp_path: Path) -> Gates:
    return Gates(tmp_path)


def promises(driven: Any, generation: int) -> None:
    """A Halt that reached it: what it does now is in vain."""
    driven.tell(Halt("j", generation))
    while driven.status.promised < generation:
        driven.hears_any()


@pytest.fixture
def saver(driven: Any, gates: Gates) -> Any:
    """It is in the second chunk again, to save in generation 2: a regroup broke the evaluation off there."""
    driven.prepare("Measures", options=gates.paths, shards=1, evaluate_every=4)
    driven.hears(Prepared)
    driven.train(1)
    gates.begins()
    assert last_mark(driven.birth.pulse).phase is LoopPhase.EVALUATION
    gates.end()
    gates.begins()
    promises(driven, 2)
    gates.end()
    driven.version = driven.hears(Halted).version
    driven.tell(Save("j", 2, Version(1, 4), True))
    driven.until(TrainerPhase.SAVING)
    gates.begins()
    return driven


def test_each_chunk_is_a_pass_of_a_phase_of_its_own_of_which_nothing_is_known_from_the_training(
    saver: Any, gates: Gates
) -> None:
    second = last_mark(saver.birth.pulse)
    gates.end()
    gates.begins()
    third = last_mark(saver.birth.pulse)
    assert (second.phase, second.longest) == (third.phase, third.longest) == (LoopPhase.LONE_EVALUATION, None)
    assert third.entered > second.entered


def test_while_it_goes_on_it_says_so_after_each_chunk(saver: Any, gates: Gates) -> None:
    for chunks in range(1, CHUNKS):
        while saver.status.evaluated < chunks:
            saver.hears_any()
        assert (saver.status.version, saver.status.evaluated) == (Version(1, 4), chunks)
        gates.end()
    saver.hears(StateSaved)
    assert saver.status.evaluated == CHUNKS


def test_who_is_given_up_in_it_saves_nothing_and_the_next_saver_ends_it_with_its_metrics(
    saver: Any, gates: Gates
) -> None:
    promises(saver, 3)
    gates.end()
    assert saver.hears(Halted).generation == 3
    assert not Path(saver.birth.checkpoints, "j").exists()
    saver.tell(Save("j", 3, Version(1, 4), True))
    for _ in range(CHUNKS - 2):  # the second was kept
        gates.begins()
        gates.end()
    told = saver.hears(StepsCommitted)
    while not told.points or not told.points[-1].metrics:
        told = saver.hears(StepsCommitted)
    saved = saver.hears(StateSaved)
    tree, _ = read(Storage(saver.birth.checkpoints, saver.birth.scratch), saved.job, saved.checkpoint)
    assert saved.generation == 3
    assert len(tree["evaluation"]["finished"]) == CHUNKS
    assert told.points[-1].step == 3
    assert saved.checkpoint.score == told.points[-1].metrics["loss"]
