"""Tasks of the tests: they train as any other, and do a bad thing at an exact instant when they are told to.

Owns: faults, each done once in the life of a job, by whoever comes to it first; gates that hold a job's data back; and
the witness: one line in the trainer's log for each step, with digests of the state and of the reduced gradient.
Refuses to know: generations, shards, and what the cluster makes of a fault.

A fault is {"at": a place, "step": n, "do": "kill", "raise" or "flip", "worker": a name, or left out for anybody}: it
is done when the place is passed for the first time by a state of n committed steps or more. At "commit" there is only
"wait": all sums are here, but the trainer is not allowed to begin its optimizer step before its generation is over.
"""

import fcntl
import json
import os
import signal
import sys
import threading
import time
from hashlib import blake2b
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.utils.data import TensorDataset

from regroup.tasks import digits
from regroup.tasks.contract import SizedDataset, Task

SLOWLY = 0.05  # seconds that a step takes longer while somebody is missing

# Places that no method of a task is called in: seen from a thread, as a function of the main thread's stack.
WATCHED = {
    "exchange": ("finish", "reduce.py"),
    "forming": ("group", "forming.py"),
    "giving": ("give", "transfer.py"),
    "taking": ("take", "transfer.py"),
}


class Disturbed(Task):
    """A mixin over the task that is disturbed. `folder` is where its gates and the marks of done faults lie."""

    def __init__(
        self,
        *,
        folder: str,
        faults: list[dict[str, Any]],
        gates: list[int],
        pace: float = 0.0,
        together: int = 1,
        ballast: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.step = 0  # committed, of the state that this trainer holds; travels with it
        self._folder = Path(folder)
        self._gates = [(step, os.open(self._folder / f"gate-{step}", os.O_RDWR)) for step in gates]
        self._pace = pace  # seconds that each step takes longer
        self._awaited = together  # workers, until all of which have come to a step's end the others go slowly
        self._ballast = torch.zeros(ballast << 20, dtype=torch.uint8)  # makes a transfer of the state long
        self._here = os.environ["REGROUP_WORKER"]
        self._faults = {n: fault for n, fault in enumerate(faults) if fault.get("worker") in (None, self._here)}
        for number, fault in self._faults.items():
            if fault["at"] in WATCHED:
                threading.Thread(target=self._watch, args=(number, *WATCHED[fault["at"]]), daemon=True).start()

    def dataset(self) -> SizedDataset:
        return _Gated(self, super().dataset())

    def collate(self, samples: list[Any]) -> Any:
        if threading.current_thread() is not threading.main_thread():  # not for an evaluation
            self.meet("collate")
        return super().collate(samples)

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        self.meet("forward")
        if self._due("commit"):
            sys.setprofile(self._profile)
        total, weight = super().loss(model, batch)
        if self._due("backward"):
            # The first layer's gradient comes late: most others have arrived.
            next(model.parameters()).register_hook(lambda gradient: self.meet("backward"))
        return total, weight

    def optimizer(self, model: nn.Module) -> Optimizer:
        optimizer = super().optimizer(model)
        optimizer.register_step_pre_hook(lambda *_: self._before_step(model, optimizer))
        optimizer.register_step_post_hook(lambda *_: self._after_step(model))
        return optimizer

    def evaluate(self, model: nn.Module, batch: Any) -> dict[str, tuple[float, float]]:
        self.meet("evaluate")
        return super().evaluate(model, batch)

    def state(self) -> dict[str, Any]:
        self.meet("state")
        return {"step": self.step, "ballast": self._ballast}

    def load_state(self, state: dict[str, Any]) -> None:
        self.step, self._ballast = state["step"], state["ballast"]
        self.meet("load_state")

    def pass_gates(self) -> None:
        for step, gate in self._gates:
            if self.step >= step:
                fcntl.flock(gate, fcntl.LOCK_SH)  # waits in the kernel while the test holds it shut
                fcntl.flock(gate, fcntl.LOCK_UN)

    def meet(self, place: str, model: nn.Module | None = None) -> None:
        """Do what is due at this place."""
        for number in self._due(place):
            what = self._faults[number]["do"]
            if self._claim(number):
                if place == "optimizer" and model is not None:
                    next(model.parameters()).detach().mul_(0.5)  # the step is half done
                self._do(what, model)

    def _due(self, place: str) -> list[int]:
        return [n for n, fault in self._faults.items() if fault["at"] == place and self.step >= fault["step"]]

    def _claim(self, number: int) -> bool:
        """Whether nobody did it before. The mark names who did, and at which step."""
        fault = self._faults.pop(number)
        try:
            mark = os.open(self._folder / f"fault-{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return False
        done = {**fault, "worker": self._here, "step": self.step, "at_ns": time.monotonic_ns()}
        os.write(mark, json.dumps(done).encode())
        os.close(mark)
        return True

    def _do(self, what: str, model: nn.Module | None) -> None:
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "raise":
            raise RuntimeError("a planted fault")
        if what == "flip":
            assert model is not None
            words = next(model.parameters()).detach().view(-1).view(torch.int64)
            words[0] ^= 1  # the smallest difference that there is

    def _before_step(self, model: nn.Module, optimizer: Optimizer) -> None:
        time.sleep(self._pace)
        if self._awaited > 1:
            self._wait_a_little()
        state = [*model.state_dict().values(), *_tensors(optimizer.state_dict()["state"])]
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        told = {"witness": self.step, "state": _digest(state), "gradient": _digest(gradients)}
        print(json.dumps({**told, "at_ns": time.monotonic_ns()}), flush=True)
        self.meet("optimizer", model)

    def _wait_a_little(self) -> None:
        """A step must end for others to join, so they are given time, and not waited for."""
        (self._folder / f"began-{self._here}").touch()
        if len(list(self._folder.glob("began-*"))) < self._awaited:
            time.sleep(SLOWLY)
        else:
            self._awaited = 1

    def _after_step(self, model: nn.Module) -> None:
        self.meet("applied", model)
        self.step += 1

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """Called for every call on the main thread."""
        code = frame.f_code
        if event == "call" and code.co_name == "begin_apply" and code.co_filename.endswith("worker/control.py"):
            sys.setprofile(None)
            control, generation = frame.f_locals["self"], frame.f_locals["generation"]
            self.meet("commit")
            while control._session.trains_in(generation):  # a lost neighbour alone does not end it
                time.sleep(0.001)

    def _watch(self, number: int, function: str, file: str) -> None:
        """Kill this process while its main thread is in a function."""
        main = threading.main_thread().ident
        while number in self._faults:
            frame = sys._current_frames().get(main or 0) if self.step >= self._faults[number]["step"] else None
            while frame is not None:
                code = frame.f_code
                if code.co_name == function and code.co_filename.endswith(f"worker/{file}") and self._claim(number):
                    self._do("kill", None)
                frame = frame.f_back
            time.sleep(0.0002)


class _Gated:
    """A dataset that is asked by the loader alone: what waits in it can be given up, as for any slow dataset."""

    def __init__(self, task: Disturbed, inner: SizedDataset) -> None:
        self._task, self._inner = task, inner

    def __len__(self) -> int:
        return len(self._inner)

    def __getitem__(self, index: int) -> Any:
        self._task.meet("dataset")
        self._task.pass_gates()
        return self._inner[index]


class _Curve(Task):
    """A line through noise, fitted by a small network in float64; quicker to prepare than images. 300 samples."""

    def __init__(self) -> None:
        self.independent_samples = True

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).double()

    def dataset(self) -> SizedDataset:
        draw = torch.Generator().manual_seed(1)
        inputs = torch.randn(300, 4, generator=draw, dtype=torch.float64)
        return TensorDataset(inputs, inputs.sum(dim=1, keepdim=True).sin())

    def evaluation(self) -> SizedDataset:
        draw = torch.Generator().manual_seed(2)
        inputs = torch.randn(1100, 4, generator=draw, dtype=torch.float64)
        return TensorDataset(inputs, inputs.sum(dim=1, keepdim=True).sin())

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        inputs, targets = batch
        return F.mse_loss(model(inputs), targets, reduction="sum"), float(len(inputs))

    def optimizer(self, model: nn.Module) -> Optimizer:
        return AdamW(model.parameters(), lr=1e-2, fused=True)


class Digits(Disturbed, digits.Digits):
    """The built-in task; see it for its options."""


class Curve(Disturbed, _Curve):
    """The small task, disturbed."""


def _tensors(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    return [found for key in tree for found in _tensors(tree[key])] if isinstance(tree, dict) else []


def _digest(tensors: list[Tensor]) -> str:
    digest = blake2b(digest_size=8)
    for tensor in tensors:
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()
