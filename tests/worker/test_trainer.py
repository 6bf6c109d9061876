"""A trainer that trains alone, in a process of its own, with the test for an agent: what must not cost its state."""

import json
import os
import resource
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.utils.data import TensorDataset

from regroup.core.jobs import IN_LOAD, OUTSIDE, Version
from regroup.core.messages.orders import RenewLease
from regroup.core.messages.trainer_reports import CheckpointUnreadable, Prepared, StateSaved, StepFailed
from regroup.core.workers import LoopPhase, TrainerPhase
from regroup.tasks import SizedDataset, Task
from regroup.wire.lease_clock import lease_clock
from regroup.worker.beside import Beside
from regroup.worker.data import Loader, Superseded
from regroup.worker.forming import Forming
from regroup.worker.pulse import ENOUGH, last_mark
from regroup.worker.trainer import _Breaker

FULL = 64  # bytes that a file may have: less than any records have, more than a position
LARGE = 512 << 20  # bytes of a state
DISK = resource.getrlimit(resource.RLIMIT_FSIZE)


class Sound(Task):
    """A linear regression, in passes of one shard each."""

    def __init__(self) -> None:
        self.passes = -1  # the first is the one that nothing comes of

    def model(self) -> nn.Module:
        return nn.Linear(2, 1)

    def dataset(self) -> SizedDataset:
        return TensorDataset(torch.arange(32.0).reshape(16, 2) / 32)

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        self.passes += 1
        self.in_pass()
        return model(batch[0]).square().sum(), float(len(batch[0]))

    def in_pass(self) -> None:
        """Before each."""

    def optimizer(self, model: nn.Module) -> Optimizer:
        return SGD(model.parameters(), lr=0.1)


class Raises(Sound):
    """In the second pass of its second step."""

    def in_pass(self) -> None:
        if self.passes == 4:
            raise KeyError("label 17")


class CannotMeasure(Sound):
    """Its evaluation raises, except while it prepares."""

    def evaluation(self) -> SizedDataset:
        return self.dataset()

    def evaluate(self, model: nn.Module, batch: Any) -> dict[str, tuple[float, float]]:
        if self.passes > 0:
            raise KeyError("label 17")
        return super().evaluate(model, batch)


class TellsNoMore(Sound):
    """Its module keeps more in its state than tensors, and cannot once the first step's data is there."""

    class Line(nn.Linear):
        broken = False

        def get_extra_state(self) -> None:
            if self.broken:
                raise RuntimeError("my extra state is broken")

        def set_extra_state(self, state: Any) -> None:
            pass

    def model(self) -> nn.Module:
        return self.Line(2, 1)

    def collate(self, samples: list[Any]) -> Any:
        TellsNoMore.Line.broken = self.passes >= 0
        return super().collate(samples)


class GivesSparse(Sound):
    """A gradient that no pass computes, in the second step."""

    def model(self) -> nn.Module:
        line = nn.Linear(2, 1)
        line.register_parameter("more", nn.Parameter(torch.zeros(2)))
        return line

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        given = super().loss(model, batch)
        if self.passes == 4:
            model.get_parameter("more").grad = torch.zeros(2).to_sparse()
        return given


class GivesAVector(Sound):
    """Its loss has one element, and is no scalar any more."""

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        loss, weight = super().loss(model, batch)
        return loss.reshape(1) if self.passes == 4 else loss, weight


class LosesABuffer(Sound):
    """One that training moves."""

    def model(self) -> nn.Module:
        line = nn.Linear(2, 1)
        line.register_buffer("seen", torch.zeros(1))
        return line

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        model.get_buffer("seen").add_(1)
        given = super().loss(model, batch)
        if self.passes == 4:
            del model.seen
        return given


class TakesNoOther(Sound):
    """Its module takes no state of another process."""

    class Line(nn.Linear):
        def get_extra_state(self) -> int:
            return os.getpid()

        def set_extra_state(self, state: int) -> None:
            if state != os.getpid():
                raise RuntimeError("no room for another state")

    def model(self) -> nn.Module:
        return self.Line(2, 1)


class Waits(Sound):
    """Its state is not told while there is a file of this name."""

    def __init__(self, gate: str) -> None:
        super().__init__()
        self.gate = gate

    def model(self) -> nn.Module:
        line = self.Line(2, 1)
        line.gate = Path(self.gate)
        return line

    class Line(nn.Linear):
        gate: Path

        def get_extra_state(self) -> None:
            while self.gate.exists():
                time.sleep(0.01)

        def set_extra_state(self, state: Any) -> None:
            pass


class Large(Sound):
    """Its state takes LARGE bytes."""

    def model(self) -> nn.Module:
        line = nn.Linear(2, 1)
        line.register_buffer("large", torch.empty(LARGE, dtype=torch.uint8))
        return line


class IsTooLargeToCopy(Sound):
    """Its state twice is more than its machine has: the kernel kills it."""

    def __init__(self) -> None:
        super().__init__()
        Beside._copies = lambda beside, tensors: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]


class FillsTheDisk(Sound):
    """In the second pass of its second step, when what it read is written down already."""

    def in_pass(self) -> None:
        if self.passes == 4:
            resource.setrlimit(resource.RLIMIT_FSIZE, (FULL, DISK[1]))


def test_a_leader_goes_on_from_a_checkpoint_that_another_one_wrote(driven: Any, start_driven: Any) -> None:
    driven.finish("Sound", steps=4)
    driven.save(2)
    checkpoint = driven.hears(StateSaved).checkpoint
    heir = start_driven("w1")
    heir.prepare("Sound", steps=6)
    heir.hears(Prepared)
    heir.train(3, checkpoint)
    heir.until(TrainerPhase.FINISHED)
    assert heir.halt(4).version == Version(3, 6)
    lines = map(json.loads, heir.records.read_text().splitlines())
    assert [line["applied"] for line in lines if "applied" in line] == [4, 5]


def test_a_checkpoint_that_is_due_where_a_generation_begins_is_taken(driven: Any) -> None:
    """Whoever led at that step may have died before it could."""
    driven.prepare("Sound", steps=4, checkpoint_every=4)
    driven.hears(Prepared)
    driven.train(1)
    driven.until(TrainerPhase.FINISHED)
    assert driven.status.written == ()  # of the last step there is the final save
    driven.spec = replace(driven.spec, steps=6)
    driven.train(2)
    while not driven.status.written:
        assert driven.trainer.pipe.poll(30), "it wrote nothing"
        driven._next()
    assert [one.version for one in driven.status.written] == [Version(1, 4)]


@pytest.mark.parametrize("harm", ["missing", "damaged", "unmounted", "silent"])
def test_a_leader_that_cannot_read_its_checkpoint_says_so_and_holds_no_state(
    driven: Any, start_driven: Any, harm: str
) -> None:
    driven.finish("Sound", steps=4)
    driven.save(2)
    checkpoint = driven.hears(StateSaved).checkpoint
    file = Path(checkpoint.path)
    if harm == "missing":
        file.unlink()
    elif harm == "unmounted":
        file.parent.rename(file.parent.with_name("away"))
    elif harm == "silent":  # to open a pipe that nobody writes to takes for ever
        file.unlink()
        os.mkfifo(file)
    else:
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
    heir = start_driven("w1")
    heir.prepare("Sound", steps=6, step_timeout=2.0)
    heir.hears(Prepared)
    heir.train(3, checkpoint)
    told = heir.hears(CheckpointUnreadable)
    assert told.generation == 3
    assert (told.damaged, told.missing) == (harm in ("missing", "damaged"), harm == "missing")
    assert ("could not be read in 1.8 s" in told.error) == (harm == "silent")
    assert str(file) in told.error
    assert str(file) in heir.log
    assert heir.halt(4).version is None


def test_a_task_that_cannot_take_a_state_is_told_with_the_states_step_and_lives(driven: Any, start_driven: Any) -> None:
    """Its own replica has made none yet."""
    driven.finish("TakesNoOther", steps=4)
    driven.save(2)
    checkpoint = driven.hears(StateSaved).checkpoint
    heir = start_driven("w1")
    heir.prepare("TakesNoOther", steps=6)
    heir.hears(Prepared)
    heir.train(3, checkpoint)
    failed = heir.hears(StepFailed)
    assert (failed.step, failed.shard) == (4, IN_LOAD)
    assert "no room for another state" in failed.error
    assert heir.halt(4).version is None


def test_who_dies_while_the_state_arrives_was_about_to_take_it(driven: Any, start_driven: Any, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    driven.finish("Waits", steps=4, max_workers=2, options={"gate": str(gate)})
    heir = start_driven("w1")
    heir.prepare("Waits", steps=6, max_workers=2, options={"gate": str(gate)})
    heir.hears(Prepared)
    gate.touch()
    driven.spec = heir.spec
    driven.lead(heir, 2)
    deadline = time.monotonic() + 30
    while heir.position != (4, IN_LOAD):
        assert time.monotonic() < deadline, f"it is at {heir.position}"
        time.sleep(0.01)
    gate.unlink()
    heir.until(TrainerPhase.FINISHED)


def test_who_dies_while_it_reads_the_checkpoint_was_about_to_take_it(driven: Any, start_driven: Any) -> None:
    """Of a state for which a machine has no memory the kernel kills one leader after the other."""
    driven.finish("Sound", steps=4)
    driven.save(2)
    checkpoint = driven.hears(StateSaved).checkpoint
    Path(checkpoint.path).unlink()
    os.mkfifo(checkpoint.path)  # to open a pipe that nobody writes to takes for ever
    heir = start_driven("w1")
    heir.prepare("Sound", steps=6)
    heir.hears(Prepared)
    heir.train(3, checkpoint)
    deadline = time.monotonic() + 30
    while heir.position != (4, IN_LOAD):
        assert time.monotonic() < deadline, f"it is at {heir.position}"
        time.sleep(0.01)


def test_who_is_killed_as_its_state_is_copied_died_at_that_step(driven: Any) -> None:
    """Else it died nowhere, and so do all others that lead after it: their workers would be blamed, one by one."""
    driven.prepare("IsTooLargeToCopy", checkpoint_every=2)
    driven.hears(Prepared)
    driven.train(1)
    assert driven.trainer.gone(30)
    assert driven.position == (2, OUTSIDE)


def test_a_state_for_which_there_is_no_memory_is_told_and_kills_no_trainer(driven: Any, start_driven: Any) -> None:
    heir = start_driven("w1")
    for each in (driven, heir):
        each.prepare("Large", max_workers=2)
        each.hears(Prepared)
    used = int(Path(f"/proc/{heir.status.pid}/statm").read_text().split()[0]) * resource.getpagesize()
    resource.prlimit(heir.status.pid, resource.RLIMIT_AS, (used + LARGE // 2, resource.RLIM_INFINITY))
    driven.lead(heir, 1)
    failed = heir.hears(StepFailed)
    assert (failed.step, failed.shard) == (0, IN_LOAD)
    assert "memory" in failed.error
    assert heir.halt(2).version is None


def test_who_reads_a_checkpoint_after_regroups_that_moved_nothing_has_the_step_timeout_for_it(driven: Any) -> None:
    driven.finish("Sound", steps=4)
    driven.save(2)
    checkpoint = driven.hears(StateSaved).checkpoint
    for generation in range(3, 4 + ENOUGH):
        driven.spec = replace(driven.spec, steps=driven.spec.steps + 1)
        driven.train(generation)
        driven.until(TrainerPhase.TRAINING)
        driven.until(TrainerPhase.FINISHED)
    Path(checkpoint.path).unlink()
    os.mkfifo(checkpoint.path)  # to open a pipe that nobody writes to takes for ever
    driven.train(4 + ENOUGH, checkpoint)
    deadline = time.monotonic() + 30
    while (mark := last_mark(driven.birth.pulse)).phase is not LoopPhase.LOADING:
        assert time.monotonic() < deadline, f"it is at {mark}"
        time.sleep(0.01)
    assert mark.longest is None


def test_a_disk_that_is_full_before_a_step_is_told_and_costs_no_state(driven: Any) -> None:
    driven.records.parent.mkdir()
    driven.records.symlink_to("/dev/full")
    driven.prepare("Sound")
    driven.hears(Prepared)
    driven.train(1)
    failed = driven.hears(StepFailed)
    assert failed.error.startswith("OSError: [Errno 28] the records cannot be written: No space left on device: ")
    assert str(driven.records) in failed.error
    assert driven.halt(2).version == Version(1, 0)


def test_a_disk_that_fills_up_in_a_step_costs_no_state_and_stops_the_next_step(driven: Any) -> None:
    """Both the line that it applied the step and the log find no room."""
    driven.prepare("FillsTheDisk")
    driven.hears(Prepared)
    driven.train(1)
    failed = driven.hears(StepFailed)
    assert (failed.step, failed.shard) == (2, -1)
    assert "the records cannot be written: File too large" in failed.error
    assert driven.halt(2).version == Version(1, 2)
    lines = [json.loads(line) for line in driven.records.read_text().splitlines()]
    assert [(line.get("read"), line.get("applied")) for line in lines] == [(0, None), (0, None), (None, 0)] + 2 * [
        (1, None)
    ]


def test_a_trainer_that_left_a_pass_in_trouble_is_in_no_pass(driven: Any) -> None:
    """A death while it forms anew or saves is not that shard's doing."""
    driven.prepare("Raises")
    driven.hears(Prepared)
    driven.train(1)
    failed = driven.hears(StepFailed)
    assert (failed.step, failed.shard) == (1, 1)
    deadline = time.monotonic() + 30
    while driven.position is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("task", "place", "error", "left"),
    [
        ("TellsNoMore", (0, -1), "RuntimeError: my extra state is broken", Version(1, 0)),
        ("GivesSparse", (1, -1), "TypeError: the gradient of more is sparse: only dense ones", Version(1, 1)),
        ("GivesAVector", (1, 1), "RuntimeError: output with shape [] doesn't match", Version(1, 1)),
        ("LosesABuffer", (1, 1), "AttributeError: Linear has no attribute `seen`", None),
    ],
)
def test_what_a_task_breaks_around_its_passes_is_told_and_leaves_its_trainer_alive(
    driven: Any, task: str, place: tuple[int, int], error: str, left: Version | None
) -> None:
    """In the code of a module, or in ours that takes in what the task did. What cannot be put back is no state."""
    driven.prepare(task)
    driven.hears(Prepared)
    driven.train(1)
    failed = driven.hears(StepFailed)
    assert (failed.step, failed.shard) == place
    assert failed.error.startswith(error)
    assert "Traceback" in failed.traceback
    assert driven.halt(2).version == left
    assert driven.trainer.process.is_alive()


def test_a_save_that_follows_a_failed_evaluation_is_not_in_the_tasks_code(driven: Any) -> None:
    driven.prepare("CannotMeasure", evaluate_every=4)
    driven.hears(Prepared)
    driven.train(1)
    assert driven.hears(StepFailed).step == 4
    driven.save(2)
    driven.hears(StateSaved)
    assert driven.position is None


def test_who_is_told_to_halt_between_two_steps_finds_no_more_data_and_no_error_of_ours() -> None:
    loader = Loader(range(8), list, samples=8, seed=0, global_batch=4, shards=1, independent=True)
    loader.own([0], 0, 2, None)
    loader.take(0)
    _Breaker(Forming("", 0, 1, host="127.0.0.1", timeout=1.0), loader).break_()
    with pytest.raises(Superseded):
        loader.take(1)
    loader.close()


def test_a_lease_that_is_missing_is_where_it_sits_and_in_its_log(driven: Any) -> None:
    """It accuses nobody, and is not to be taken for a wait for the others."""
    driven.prepare("Sound")
    driven.hears(Prepared)
    driven.train(1, leased=False)
    deadline = time.monotonic() + 30
    while "nothing is committed: no heartbeat of this agent was answered yet" not in driven.log:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    mark = last_mark(driven.birth.pulse)
    assert mark is not None
    assert mark.phase is LoopPhase.LEASE
    driven.tell(RenewLease(1, lease_clock()))
    driven.until(TrainerPhase.FINISHED)
    assert "steps are committed again" in driven.log
