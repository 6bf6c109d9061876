"""The task of the chaos runs: a small training in float64 that can be held in a phase, and do a bad thing there.

Owns: where a phase is in a trainer's code, the hold, and what a word makes it do. Dropout is on, so that a draw that
was repeated or left out changes the weights.
Refuses to know: generations, the cluster, and what becomes of the fault.

All is said by files in one folder: `start` and `finish` let the data through, `arm` says who is to be held and where,
`watching` that somebody will say when it waits in an exchange, `held-WORKER` or `held-any` that somebody is held, and
`word` what it is to do.
"""

import ctypes
import json
import os
import resource
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.utils.data import TensorDataset

from regroup.tasks.contract import SizedDataset, Task

LOOK = 0.002  # seconds between two looks for a file
SLOW = 0.5  # seconds that a slow pass takes
PATIENCE = 1.5  # seconds that a step's data waits at a gate: half of the job's step_timeout, so that it is no hang
HOUR = 3600.0


class PlantedFault(RuntimeError):
    """Raised on purpose."""


class Held(Task):
    def __init__(self, *, folder: str, pace: float, last: int) -> None:
        """`pace`: seconds that each pass takes longer. `last`: the step from which on the data waits for `finish`."""
        self._folder, self._pace, self._last = Path(folder), pace, last
        self._here = os.environ["REGROUP_WORKER"]
        self._slow = 0  # passes that will take longer still
        self.step = 0  # committed, of the state that this trainer holds; travels with it
        self._watched = False
        self._waited = -1  # the last step whose data waited at a gate

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 1)).double()

    def dataset(self) -> SizedDataset:
        self.meet("joining")
        draw = torch.Generator().manual_seed(1)
        inputs = torch.randn(300, 4, generator=draw, dtype=torch.float64)
        return _Gated(self, TensorDataset(inputs, inputs.sum(dim=1, keepdim=True).sin()))

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        inputs, targets = batch
        time.sleep(self._pace + (SLOW if self._slow else 0.0))
        self._slow = max(0, self._slow - 1)
        if self._due("forming"):
            sys.setprofile(self._profile)
        if self._due("beside"):
            threading.setprofile(self._profile_write)  # of threads that begin from now on: the leader's writer is one
        if self._due("exchange") and not self._watched:
            self._watched = True
            (self._folder / "watching").touch()
            threading.Thread(target=self._watch, name="exchange-watch", daemon=True).start()
        self.meet("forward")
        return F.mse_loss(model(inputs), targets, reduction="sum"), float(len(inputs))

    def optimizer(self, model: nn.Module) -> Optimizer:
        optimizer = AdamW(model.parameters(), lr=1e-2, fused=True)
        optimizer.register_step_pre_hook(lambda *_: self.meet("optimizer", model))
        optimizer.register_step_post_hook(lambda *_: self._count())
        return optimizer

    def state(self) -> dict[str, Any]:
        self.meet("checkpoint")
        return {"step": self.step}

    def load_state(self, state: dict[str, Any]) -> None:
        self.step = state["step"]

    def wait_for_data(self) -> None:
        """On the loader's thread, which can be given up. What is read while a trainer prepares is not held back.

        A gate that is shut makes the steps slow: to stop them would be a hang, which is noticed.
        """
        if threading.current_thread() is threading.main_thread() or self._waited == self.step:
            return
        step, until = self.step, time.monotonic() + PATIENCE
        gate = self._folder / ("finish" if step >= self._last else "start")
        while not gate.exists() and time.monotonic() < until:
            time.sleep(LOOK)
        self._waited = step

    def meet(self, place: str, model: nn.Module | None = None) -> None:
        """Be held here, if that is due and nobody was before; then do as the word says."""
        if not self._due(place) or not self._claim():
            return
        word = self._folder / "word"
        while not word.exists():
            time.sleep(LOOK)
        self._obey(word.read_text(), model)

    def _count(self) -> None:
        self.step += 1

    def _due(self, place: str) -> bool:
        armed = self._armed()
        return armed.get(self._here, armed.get("*")) == place and self.step >= armed["step"]

    def _armed(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self._folder / "arm").read_text()))
        except FileNotFoundError:
            return {}

    def _claim(self) -> bool:
        """Whether this is the first time. The file is complete when it appears."""
        name = "held-any" if "*" in self._armed() else f"held-{self._here}"
        told = json.dumps({"worker": self._here, "pid": os.getpid(), "step": self.step})
        half = self._folder / f".{name}-{os.getpid()}"
        half.write_text(told)
        try:
            os.link(half, self._folder / name)
        except FileExistsError:
            return False
        finally:
            half.unlink()
        return True

    def _obey(self, word: str, model: nn.Module | None) -> None:
        if word == "raise":
            if model is not None:
                next(model.parameters()).detach().mul_(0.5)  # an update that is half done
            raise PlantedFault("a planted fault")
        if word == "segfault":
            ctypes.string_at(0)
        if word == "memory":
            _run_out_of_memory()
        if word == "hang":
            time.sleep(24 * HOUR)
        if word == "slow":
            self._slow = 3
            time.sleep(SLOW)
        if word == "clock":
            _jump(HOUR)

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """Called for every call on the main thread, until it begins to connect."""
        code = frame.f_code
        if event == "call" and code.co_name == "_connect" and code.co_filename.endswith("worker/trainer.py"):
            sys.setprofile(None)
            self.meet("forming")

    def _profile_write(self, frame: FrameType, event: str, argument: Any) -> None:
        """Called for every call on a thread, until one begins to fill a checkpoint's file."""
        code = frame.f_code
        if event == "call" and code.co_name == "fill" and code.co_filename.endswith("worker/checkpoint.py"):
            sys.setprofile(None)
            threading.setprofile(None)
            self.meet("beside")

    def _watch(self) -> None:
        """Say when the main thread waits in an exchange that cannot end, because somebody else is held before it."""
        main = threading.main_thread().ident
        while not list(self._folder.glob("held-*")):
            time.sleep(LOOK)
        while not _within(sys._current_frames().get(main or 0), "finish", "worker/reduce.py"):
            time.sleep(LOOK)
        self._claim()


class _Gated:
    def __init__(self, task: Held, inner: TensorDataset) -> None:
        self._task, self._inner = task, inner

    def __len__(self) -> int:
        return len(self._inner)

    def __getitem__(self, index: int) -> Any:
        self._task.wait_for_data()
        return self._inner[index]


def _within(frame: FrameType | None, function: str, file: str) -> bool:
    while frame is not None:
        if frame.f_code.co_name == function and frame.f_code.co_filename.endswith(file):
            return True
        frame = frame.f_back
    return False


def _run_out_of_memory() -> None:
    """Ask for more than this process may have, as the system counts it."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (64 << 20), before[1]))
    try:
        torch.empty(1 << 30, dtype=torch.uint8)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _jump(seconds: float) -> None:
    """The wall clock that Python code of this process reads is so much later from now on."""
    wall, clock = time.time, time.clock_gettime
    realtime = time.CLOCK_REALTIME
    vars(time).update(
        time=lambda: wall() + seconds,
        clock_gettime=lambda which: clock(which) + (seconds if which == realtime else 0.0),
    )
