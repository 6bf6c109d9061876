"""Tasks of a user: a sound one, and others with one fault each. One sample of the dataset, the bad one, may set it off.

Which step consumes a sample depends on the job's seed alone, so the fault strikes in the same step and shard, on
whichever worker owns it.
"""

import ctypes
import os
import signal
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import LBFGS, SGD, Optimizer
from torch.optim.lr_scheduler import ConstantLR, LRScheduler
from torch.utils.data import IterableDataset, TensorDataset

from regroup.tasks.contract import OptionError, SizedDataset, Task

SAMPLES = 64


class Fetched:
    """A dataset of which something is done with each index before its sample is read."""

    def __init__(self, whole: SizedDataset, fetch: Callable[[int], None]) -> None:
        self.whole, self.fetch = whole, fetch

    def __len__(self) -> int:
        return len(self.whole)

    def __getitem__(self, index: int) -> Any:
        self.fetch(index)
        return self.whole[index]


class Sound(Task):
    """A linear regression. `bad`: the index of the sample at which `at_bad_sample` is called; -1: none."""

    def __init__(self, bad: int = -1) -> None:
        self.bad = bad

    def model(self) -> nn.Module:
        return nn.Linear(4, 1)

    def dataset(self) -> SizedDataset:
        inputs = torch.arange(SAMPLES * 4, dtype=torch.float32).reshape(SAMPLES, 4) / (SAMPLES * 4)
        return TensorDataset(torch.arange(SAMPLES), inputs, inputs.sum(dim=1, keepdim=True))

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        indices, inputs, targets = batch
        loss = ((model(inputs) - targets) ** 2).sum()
        return self.at_bad_sample(loss, len(inputs)) if self.bad in indices.tolist() else (loss, float(len(inputs)))

    def at_bad_sample(self, loss: Tensor, count: int) -> tuple[Tensor, float]:
        return loss, float(count)

    def optimizer(self, model: nn.Module) -> Optimizer:
        return SGD(model.parameters(), lr=0.01)

    def scheduler(self, optimizer: Optimizer) -> LRScheduler | None:
        return ConstantLR(optimizer, factor=0.5)


class Slow(Sound):
    """Sound, at about 50 passes a second."""

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        time.sleep(0.02)
        return super().loss(model, batch)


class SlowUntil(Sound):
    """Slow enough to be met on its way on the busiest machine, until that file is there; then as fast as it can."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file = Path(file)

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        if not self.file.exists():
            time.sleep(0.15)
        return super().loss(model, batch)


class DiesOn(Sound):
    """Its process is killed in each first pass, as by the kernel, on one worker and on no other."""

    def __init__(self, worker: str) -> None:
        super().__init__()
        self.worker = worker

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        if os.environ["REGROUP_WORKER"] == self.worker:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().loss(model, batch)


class NoTask:
    """Not derived from Task."""


class RaisesWhenConstructed(Sound):
    def __init__(self) -> None:
        raise RuntimeError("no licence for this task")


class RaisesAtLengthWhenConstructed(Sound):
    def __init__(self) -> None:
        raise ValueError("x" * 20_000_000)


class RefusesAnOption(Sound):
    def __init__(self, rate: float = 0.1) -> None:
        super().__init__()
        if not isinstance(rate, float) or rate <= 0:
            raise OptionError("rate", f"must be a positive number, not {rate!r}")


class Empty(Sound):
    def dataset(self) -> SizedDataset:
        return TensorDataset(torch.empty(0, 4))


class Stream:
    def __iter__(self) -> Iterator[Tensor]:
        yield torch.zeros(4)


class Unsized(Sound):
    def dataset(self) -> Any:
        return Stream()


class Endless(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        while True:
            yield torch.zeros(4)

    def __len__(self) -> int:
        return SAMPLES


class Streams(Sound):
    def dataset(self) -> Any:
        return Endless()


class CannotReadTheEnd(Sound):
    def dataset(self) -> Any:
        whole = super().dataset()

        class Truncated:
            def __len__(self) -> int:
                return len(whole) + 1

            def __getitem__(self, index: int) -> Any:
                return whole[index]

        return Truncated()


class RaisesInTheFirstPass(Sound):
    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        raise ZeroDivisionError("the first pass divides by zero")


class LossIsNone(Sound):
    def loss(self, model: nn.Module, batch: Any) -> Any:
        return None


class LossIsAVector(Sound):
    def loss(self, model: nn.Module, batch: Any) -> Any:
        _, inputs, _ = batch
        return model(inputs), 1.0


class LossHasNoGradient(Sound):
    def loss(self, model: nn.Module, batch: Any) -> Any:
        loss, weight = super().loss(model, batch)
        return loss.detach(), weight


class WeightIsAWord(Sound):
    def loss(self, model: nn.Module, batch: Any) -> Any:
        loss, _ = super().loss(model, batch)
        return loss, "eight"


class Lbfgs(Sound):
    def optimizer(self, model: nn.Module) -> Optimizer:
        return LBFGS(model.parameters())


class NoOptimizer(Sound):
    def optimizer(self, model: nn.Module) -> Any:
        return None

    def scheduler(self, optimizer: Any) -> None:
        return None


class NoModel(Sound):
    def model(self) -> Any:
        return "a large one"


class LeavesWhenConstructed(Sound):
    def __init__(self) -> None:
        raise SystemExit("give me a data folder")


class ReportsATensor(Sound):
    def report(self, model: nn.Module) -> Any:
        return {"mean": next(model.parameters()).mean()}


class ReportsAList(Sound):
    def report(self, model: nn.Module) -> Any:
        return [0.5]


class LeavesWhenAskedToReport(Sound):
    def report(self, model: nn.Module) -> Any:
        raise SystemExit("nothing to say")


class FailsItsSaves(Slow):
    """Sound while it trains: at a save its `place`, state or report, is where it "raises", "dies" or "hangs"."""

    def __init__(self, place: str, how: str) -> None:
        super().__init__()
        self.place, self.how, self.passes = place, how, 0

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        self.passes += 1
        return super().loss(model, batch)

    def state(self) -> dict[str, Any]:
        self.fail("state")
        return {}

    def report(self, model: nn.Module) -> dict[str, Any]:
        self.fail("report")
        return {}

    def fail(self, place: str) -> None:
        if place != self.place or self.passes < 10:  # it also tells its state while it prepares, and to those that join
            return
        if self.how == "raises":
            raise ValueError("cannot tell its state")
        if self.how == "dies":
            os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(10_000)


class Raises(Sound):
    def at_bad_sample(self, loss: Tensor, count: int) -> tuple[Tensor, float]:
        raise KeyError("label 17")


class RaisesAtLength(Sound):
    """More than a message between its worker and the coordinator may have, twice."""

    def at_bad_sample(self, loss: Tensor, count: int) -> tuple[Tensor, float]:
        raise ValueError("x" * 9_000_000)


class Diverges(Sound):
    def at_bad_sample(self, loss: Tensor, count: int) -> tuple[Tensor, float]:
        return loss * float("nan"), float(count)


class GivesUp(Sound):
    def at_bad_sample(self, loss: Tensor, count: int) -> tuple[Tensor, float]:
        raise CancelledError("gave up")


class Speechless(Sound):
    def at_bad_sample(self, loss: Tensor, count: int) -> tuple[Tensor, float]:
        class Mute(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no words")

        raise Mute


class Hangs(Sound):
    """Wherever it is tried; the trainer's other threads go on."""

    def at_bad_sample(self, loss: Tensor, count: int) -> tuple[Tensor, float]:
        time.sleep(10_000)
        raise AssertionError("nobody waits for so long")


class HangsOnce(Sound):
    """For whoever is the first to make this folder."""

    def __init__(self, once: str, bad: int = -1) -> None:
        super().__init__(bad)
        self.once = once

    def at_bad_sample(self, loss: Tensor, count: int) -> tuple[Tensor, float]:
        try:
            os.mkdir(self.once)
        except FileExistsError:
            return loss, float(count)
        time.sleep(10_000)
        raise AssertionError("nobody waits for so long")


class Leaves(Sound):
    def at_bad_sample(self, loss: Tensor, count: int) -> tuple[Tensor, float]:
        raise SystemExit("no more samples, please")


class Segfaults(Sound):
    def at_bad_sample(self, loss: Tensor, count: int) -> tuple[Tensor, float]:
        ctypes.string_at(0)
        raise AssertionError("nobody survives reading address 0")


class DataSegfaults(Sound):
    """The dataset's own native code does it, in the loader's thread, as the step loop waits for it."""

    def dataset(self) -> SizedDataset:
        def fetch(index: int) -> None:
            time.sleep(0.02)
            if index == self.bad:
                time.sleep(0.2)
                ctypes.string_at(0)

        return Fetched(super().dataset(), fetch)


class SlowsDown(Sound):
    """Once there is a file of its name in the folder, what it stands for takes much longer than it did."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = Path(folder)

    def takes(self, what: str, seconds: float) -> None:
        time.sleep(seconds if (self.folder / what).exists() else 0.003)

    def dataset(self) -> SizedDataset:
        return Fetched(super().dataset(), lambda index: self.takes("data", 0.4))

    def model(self) -> nn.Module:
        return nn.Sequential(*[nn.Linear(4, 4) for _ in range(10)], nn.Linear(4, 1))

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        """Each of its gradients, of which there are many, is a moment in which the pass may be broken off."""
        _, there, wanted = batch
        for layer in model.children():
            there = layer(there)
            there.register_hook(lambda _: self.takes("backward", 0.2))
        return ((there - wanted) ** 2).sum(), float(len(wanted))


class Exits(Sound):
    def at_bad_sample(self, loss: Tensor, count: int) -> tuple[Tensor, float]:
        os._exit(3)


class WeighsNegative(Sound):
    def at_bad_sample(self, loss: Tensor, count: int) -> tuple[Tensor, float]:
        return loss, -1.0


class WeighsNan(Sound):
    def at_bad_sample(self, loss: Tensor, count: int) -> tuple[Tensor, float]:
        return loss, float("nan")


class LosesItsLoss(Sound):
    def at_bad_sample(self, loss: Tensor, count: int) -> Any:
        return None


class CannotReadASample(Sound):
    """The dataset raises, on the loader's thread."""

    def dataset(self) -> SizedDataset:
        whole, bad = super().dataset(), self.bad

        class Torn:
            def __len__(self) -> int:
                return len(whole)

            def __getitem__(self, index: int) -> Any:
                if index == bad:
                    raise OSError(f"sample {index} cannot be read")
                return whole[index]

        return Torn()


class OptimizerRaises(Sound):
    def optimizer(self, model: nn.Module) -> Optimizer:
        class Torn(SGD):
            def step(self, closure: Any = None) -> None:
                raise FloatingPointError("the update overflowed")

        return Torn(model.parameters(), lr=0.01)


class TellsNoMore(Sound):
    """A module that keeps more in its state than tensors, and cannot from the fourth step on."""

    class Line(nn.Linear):
        steps = 0

        def get_extra_state(self) -> None:
            if self.steps > 3:
                raise RuntimeError("my extra state is broken")

        def set_extra_state(self, state: Any) -> None:
            pass

    def __init__(self) -> None:
        super().__init__()
        threading.Thread(target=threading.Event().wait).start()  # and a thread that never ends

    def model(self) -> nn.Module:
        return self.Line(4, 1)

    def optimizer(self, model: nn.Module) -> Optimizer:
        class Counting(SGD):
            def step(self, closure: Any = None) -> None:
                super().step()
                TellsNoMore.Line.steps += 1

        return Counting(model.parameters(), lr=0.01)


class HangsWhenTold(Sound):
    """At a place, on the first worker that finds its name in the folder; that file's last change is when it began."""

    def __init__(self, folder: str, place: str) -> None:
        super().__init__()
        self.folder, self.place = folder, place

    def meet(self, place: str) -> None:
        told = os.path.join(self.folder, os.environ["REGROUP_WORKER"])
        if place == self.place and os.path.exists(told):
            os.rename(told, os.path.join(self.folder, "hangs"))
            os.utime(os.path.join(self.folder, "hangs"))
            time.sleep(10_000)

    def dataset(self) -> SizedDataset:
        whole, meet = super().dataset(), self.meet

        class Met:
            def __len__(self) -> int:
                return len(whole)

            def __getitem__(self, index: int) -> Any:
                meet("data")
                return whole[index]

        return Met()

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        time.sleep(0.005)
        self.meet("loss")
        loss, weight = super().loss(model, batch)
        loss.register_hook(lambda _: self.meet("backward"))
        return loss, weight

    def optimizer(self, model: nn.Module) -> Optimizer:
        optimizer = super().optimizer(model)
        optimizer.register_step_pre_hook(lambda *_: self.meet("optimizer"))
        return optimizer


class SlowData(Sound):
    """Each sample takes so many seconds, but not while it prepares."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def dataset(self) -> SizedDataset:
        whole, seconds = super().dataset(), self.seconds

        class Late:
            def __len__(self) -> int:
                return len(whole)

            def __getitem__(self, index: int) -> Any:
                if threading.current_thread() is not threading.main_thread():
                    time.sleep(seconds)
                return whole[index]

        return Late()


class SlowEvaluation(Sound):
    """Each pass of an evaluation takes long, and there are eight."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def evaluation(self) -> SizedDataset:
        whole = super().dataset()
        return [whole[index % SAMPLES] for index in range(8 * 256)]

    def evaluate(self, model: nn.Module, batch: Any) -> dict[str, tuple[float, float]]:
        time.sleep(self.seconds if len(batch[0]) > 1 else 0.0)
        return super().evaluate(model, batch)


class LeftInItsEvaluation(Sound):
    """w1 is killed in the last evaluation's second chunk; from then on a pass takes long, as the part of many does."""

    def __init__(self, folder: str, seconds: float) -> None:
        super().__init__()
        self.left, self.seconds, self.passes = os.path.join(folder, "left"), seconds, 0

    def evaluation(self) -> SizedDataset:
        whole = super().dataset()
        return [whole[index % SAMPLES] for index in range(4 * 256)]

    def evaluate(self, model: nn.Module, batch: Any) -> dict[str, tuple[float, float]]:
        self.passes += len(batch[0]) > 1  # one alone is asked for its names
        if self.passes == 6 and os.environ["REGROUP_WORKER"] == "w1" and not os.path.exists(self.left):
            os.mkdir(self.left)
            os.kill(os.getpid(), signal.SIGKILL)
        if os.path.exists(self.left):
            time.sleep(self.seconds)
        return super().evaluate(model, batch)
