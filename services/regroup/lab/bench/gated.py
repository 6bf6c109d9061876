"""The built-in tasks behind a gate, so that a job can be held between rounds without ending its processes.

Owns: two options more: `gate`, the path of the gate's file, and `independent`, false to have the task declare its
samples dependent, whether or not they are. Refuses to know: when the gate opens.
"""

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from regroup.lab.bench.gate import Gate
from regroup.tasks.contract import Task
from regroup.tasks.digits import Digits
from regroup.tasks.gpt import Gpt


class Gated(Task):
    """A mixin over the task that is gated."""

    def __init__(self, *, gate: str, independent: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self.independent_samples &= independent
        self._gate = Gate(Path(gate))

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        self._gate.enter()
        return super().loss(model, batch)


class GatedGpt(Gated, Gpt):
    """The built-in `gpt`, gated."""


class GatedDigits(Gated, Digits):
    """The built-in `digits`, gated."""
