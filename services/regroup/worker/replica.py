"""All that must be equal on every member of a generation: model, optimizer, scheduler, task state, step.

Owns: building it from the job's seed, handing it out as a tree, taking another member's in, and its digest.
Refuses to know: how trees travel, and whose state counts.
Does not guarantee: equality of what a task keeps outside its `state()`, or of buffers that are not in the model's
state_dict.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from regroup.tasks.contract import Task
from regroup.worker.tree import copy_of

COLUMNS = 512  # 64-bit words; a tensor's rows of this length are summed into one row, which is hashed
ROWS = 2048  # rows in one sum: 8 MiB


class Replica:
    """Model, optimizer, scheduler and task state, built under `seed` as (generation, step) (0, 0) prescribes."""

    def __init__(self, task: Task, seed: int) -> None:
        self._task = task
        self._seed = seed
        self.model, self.optimizer, self.scheduler = self._build()
        self._task_origin = copy_of(task.state())
        self.step = 0
        self.nominal_weight = 1.0

    def reset(self) -> None:
        """Back to the state built from the seed, with step 0. Builds a second model for a moment."""
        model, optimizer, scheduler = self._build()
        origin = _state(model, optimizer, scheduler) | {"task": copy_of(self._task_origin)}
        self.load(origin | {"step": 0, "nominal_weight": self.nominal_weight})

    def tree(self) -> dict[str, Any]:
        """The whole state; its tensors are the live ones, and change with the next step."""
        more = {"task": self._task.state(), "step": self.step, "nominal_weight": self.nominal_weight}
        return _state(self.model, self.optimizer, self.scheduler) | more

    def load(self, tree: Mapping[str, Any]) -> None:
        """Take a complete tree in; afterwards its tensors belong to this replica. Parameters stay the same objects.

        Raises ValueError before anything is changed if it is the state of another model.
        """
        current = self.model.state_dict()  # keeps the versions that the modules noted in it
        theirs = tree["model"]
        if shapes(current) != shapes(theirs):
            different = sorted(set(shapes(current).items()) ^ set(shapes(theirs).items()), key=str)
            raise ValueError(f"the state is of another model: {different[:4]}")
        current.update(theirs)
        self.model.load_state_dict(current)
        _load_optimizer(self.optimizer, tree["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(dict(tree["scheduler"]))
        self._task.load_state(tree["task"])
        self.step = tree["step"]
        self.nominal_weight = tree["nominal_weight"]

    def settings_at(self, step: int) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """States of an optimizer and of a schedule that is built anew and brought to `step`, without any training."""
        _, optimizer, scheduler = self._build()
        if scheduler is None:
            return optimizer.state_dict(), None
        for _ in range(step):
            scheduler.step()
        return optimizer.state_dict(), scheduler.state_dict()

    def digest(self) -> int:
        """48 bits over the parameters and buffers. Members with equal bits have equal digests.

        A single changed word always reaches the hash: sums modulo 2**64 of the words in a column differ by as much.
        """
        with torch.no_grad():
            return _digest([value for value in self.model.state_dict().values() if isinstance(value, Tensor)])

    def _build(self) -> tuple[nn.Module, Optimizer, LRScheduler | None]:
        torch.manual_seed(self._seed)
        model = self._task.model()
        optimizer = self._task.optimizer(model)
        return model, optimizer, self._task.scheduler(optimizer)


def _state(model: nn.Module, optimizer: Optimizer, scheduler: LRScheduler | None) -> dict[str, Any]:
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": None if scheduler is None else scheduler.state_dict(),
    }


def _load_optimizer(optimizer: Optimizer, tree: Mapping[str, Any]) -> None:
    """torch casts what it takes in to the parameters' dtype, and leaves it in the layout in which it travelled: state
    that is wider would lose bits, and a fused optimizer, which goes by memory, would mix its elements up."""
    optimizer.load_state_dict(dict(tree))
    if type(optimizer).load_state_dict is not Optimizer.load_state_dict:
        return  # it knows better
    numbers = [number for group in tree["param_groups"] for number in group["params"]]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, parameter in zip(numbers, parameters, strict=True):
        state = optimizer.state[parameter] if number in tree["state"] else {}
        for name, value in tree["state"].get(number, {}).items():
            if name == "step" or not isinstance(value, Tensor):
                continue  # torch keeps that one's dtype
            if value.shape == parameter.shape and value.stride() != parameter.stride():
                state[name] = torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)
            elif state[name].dtype != value.dtype:
                state[name] = value.to(state[name].device)


def shapes(state: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Each tensor's shape and dtype; () for what a module keeps there that is none."""
    return {name: (*value.shape, value.dtype) if isinstance(value, Tensor) else () for name, value in state.items()}


def _digest(tensors: list[Tensor]) -> int:
    sums: list[Tensor] = []
    for tensor in tensors:
        memory = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        if memory.storage_offset() % 8:
            memory = memory.clone()
        rows = memory.numel() // (8 * COLUMNS)
        words = memory[: rows * 8 * COLUMNS].view(torch.int64).view(rows, COLUMNS)
        sums.extend(words[start : start + ROWS].sum(dim=0).view(torch.uint8) for start in range(0, rows, ROWS))
        sums.append(memory[rows * 8 * COLUMNS :])
    return int.from_bytes(blake2b(torch.cat(sums).cpu().numpy().tobytes(), digest_size=6).digest(), "big")
