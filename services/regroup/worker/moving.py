"""Buffers that training moves, such as BatchNorm's running statistics: the changes of all shards are summed.

Owns: which buffers move, and their values while a step is under way. Every shard starts from the committed values, so
that no shard sees another's, whoever computes them; after the reduction

    new = committed + sum over shards of (change * weight) / sum of weights        (floating point)
    new = committed + sum over shards of change                                    (integers, such as counters)

Refuses to know: who owns which shard, how the sum is exchanged.
Does not guarantee: anything for buffers that first move after the warm-up pass (replicas would differ, and their
digests say so), for buffers that change their shape (they are caches), or for more than 2**24 counts a step.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def moving_buffers(model: nn.Module, run: Callable[[], None]) -> tuple[str, ...]:
    """The names of the buffers that `run`, a pass in training mode, changes. Their values are restored."""
    before = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
    run()
    moved = []
    for name, buffer in model.named_buffers():
        old = before.get(name)
        if old is not None and old.shape == buffer.shape and old.dtype == buffer.dtype and not _same(old, buffer):
            moved.append(name)
            buffer.detach().copy_(old)
    return tuple(moved)


class MovingBuffers:
    """The moving buffers of a model within a step: start(), end_shard(weight) for each own shard, ..., apply().

    `contribution` has shape (1 + elements of all of them): the summed weight, then the summed changes. It is float64
    if one of them is, else float32. Whoever exchanges it replaces it by its sum over all ranks before `apply`.
    """

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        self._model = model
        self._names = names
        self._committed = [model.get_buffer(name).detach().clone() for name in names]
        wide = any(buffer.dtype == torch.float64 for buffer in self._committed)
        size = 1 + sum(buffer.numel() for buffer in self._committed) if names else 0
        device = self._committed[0].device if names else None
        self.contribution = torch.zeros(size, dtype=torch.float64 if wide else torch.float32, device=device)
        self._changes: list[Tensor] = []  # views of the contribution, one per buffer
        start = 1
        for buffer in self._committed:
            self._changes.append(self.contribution[start : start + buffer.numel()].view_as(buffer))
            start += buffer.numel()
        self._under_way = False

    @torch.no_grad()
    def start(self) -> None:
        """Begin a step: the buffers hold the committed values."""
        self.restore()
        for committed, buffer in zip(self._committed, self._live(), strict=True):
            committed.copy_(buffer)
        self.contribution.zero_()
        self._under_way = True

    @torch.no_grad()
    def end_shard(self, weight: float) -> None:
        """A shard's last pass is over: keep what it changed, times its weight, and go back to the committed values."""
        if not self._names:
            return
        self.contribution[0] += weight
        for committed, buffer, change in zip(self._committed, self._live(), self._changes, strict=True):
            if buffer.is_floating_point():
                change.add_((buffer - committed).to(change.dtype), alpha=weight)
            else:
                change.add_(buffer.to(torch.int64) - committed.to(torch.int64))
            buffer.copy_(committed)

    @torch.no_grad()
    def apply(self) -> None:
        """Commit the step: `contribution` holds the sum over all ranks. With a summed weight of 0 nothing moves."""
        total = float(self.contribution[0]) if self._names else 0.0
        for committed, buffer, change in zip(self._committed, self._live(), self._changes, strict=True):
            if not buffer.is_floating_point():
                buffer.copy_(committed.to(torch.int64) + change.round().to(torch.int64))
            elif total > 0:
                buffer.copy_(committed + change / total)
        self._under_way = False

    @torch.no_grad()
    def restore(self) -> None:
        """Leave a step that will not be committed: back to the committed values. Does nothing between steps.

        Raises what torch does if a buffer is gone, or has another shape.
        """
        if self._under_way:
            self._under_way = False  # first: who cannot be put back is told once, and takes another's state in
            for committed, buffer in zip(self._committed, self._live(), strict=True):
                buffer.copy_(committed)

    def _live(self) -> list[Tensor]:
        return [self._model.get_buffer(name) for name in self._names]  # by name: a module may replace its buffer


def _same(one: Tensor, other: Tensor) -> bool:
    """Bit by bit, so that NaN equals itself."""
    return torch.equal(*(each.detach().contiguous().reshape(-1).view(torch.uint8) for each in (one, other)))
