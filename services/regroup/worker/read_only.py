"""A look at a model that leaves no trace: how evaluation and a task's report see the state.

Owns: evaluation mode, no gradients, and that modes and torch's generators are put back, also after an error.
Refuses to know: what is looked for.
Does not guarantee: anything about code that writes to parameters or buffers by itself, or turns gradients on.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def read_only(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, no gradients; each module's mode and torch's generators are put back."""
    modes = [(module, module.training) for module in model.modules()]
    device = device_of(model)
    devices = [device] if device.type == "cuda" else []
    with torch.no_grad(), torch.random.fork_rng(devices=devices):
        try:
            model.eval()
            yield
        finally:
            for module, training in modes:
                module.training = training


def device_of(model: nn.Module) -> torch.device:
    """Of its first parameter; the CPU where it has none."""
    return next((p.device for p in model.parameters()), torch.device("cpu"))
