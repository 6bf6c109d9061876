"""The gradient exchange: gradients live in flat buffers, and are summed over the group in buckets while backward runs.

Owns: the memory of every gradient (`p.grad` is a view of it), the order of the buckets, which is the same on every
rank, and the tail: a few numbers that are summed together with the last bucket.
Refuses to know: samples, shards, what the tail's numbers mean, and what happens after a broken exchange.
Does not guarantee: a usable gradient after GroupBroken or Interrupted (`begin` starts anew), sparse gradients, nor
gradients of gradients.
"""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from regroup.worker.group import Alone, Group, GroupBroken, Pending
from regroup.worker.moving import MovingBuffers as MovingBuffers  # part of what an exchange needs
from regroup.worker.moving import moving_buffers as moving_buffers

MB = 1 << 20


class Interrupted(Exception):
    """Raised out of backward() because `interrupted` said so."""


class Exchange:
    """Gradients as views of one flat buffer per dtype (normally one), reduced in buckets as backward fills them.

    Buckets follow the parameters backwards, as backward does. The last one also carries `tail` numbers and what the
    moving buffers contribute, which are all known only when the last pass is over. A step is:

        begin(); backward() ...; expect_last_pass(); backward(); finish(tail); scale(...); clip(...); apply_moving()

    `expect_last_pass` may be left out (a rank without samples): `finish` then sends everything. The tail travels as
    float64 if any parameter or moving buffer is float64, else as float32: integers stay exact while their sum is
    below 2**24.
    """

    def __init__(
        self, model: nn.Module, moving: MovingBuffers | None = None, *, bucket_bytes: int = 25 * MB, tail: int
    ) -> None:
        named = model.named_parameters()
        self._names: dict[Tensor, str] = {parameter: name for name, parameter in named if parameter.requires_grad}
        if not self._names:
            raise ValueError("the model has no parameter to train")
        self._moving = moving or MovingBuffers(model, ())
        self._group: Group = Alone()
        self.interrupted: Callable[[], bool] = lambda: False  # asked whenever a gradient arrives
        self.seconds = 0.0  # that the last `finish` waited for the others

        self._buckets = _fill_buckets(reversed(self._names), bucket_bytes)
        self._bucket_of: dict[Tensor, int] = {
            each: index for index, bucket in enumerate(self._buckets) for each in bucket.parameters
        }
        self._views: dict[Tensor, Tensor] = {}
        self._gradients: list[Tensor] = []  # flat, by dtype
        self._lay_out(tail)
        self._arrived: set[Tensor] = set()
        self._last_pass = False
        self._launched = 0  # buckets
        self._pending: list[Pending] = []
        for parameter in self._names:
            parameter.register_post_accumulate_grad_hook(self._on_gradient)  # type: ignore[no-untyped-call]
        self.begin()

    def join(self, group: Group | None) -> None:
        """Exchange with this group from now on; None: alone. A step under way is given up, see `begin`."""
        self.begin()
        self._group = group or Alone()

    def begin(self) -> None:
        """Forget all gradients, and the last step however it ended: moving buffers go back to the committed values.

        If it was left in the middle of the exchange, its group is closed.
        """
        if self._pending:
            self._group.close()  # until then its collectives may write into the buckets
            self._pending.clear()
        self._moving.restore()
        for parameter in self._names:
            parameter.grad = None  # cheaper than zeros: the first gradient is copied into the buffer, not added
        for bucket in self._buckets:
            bucket.missing = len(bucket.parameters)
        self._arrived.clear()
        self._last_pass = False
        self._launched = 0

    def expect_last_pass(self) -> None:
        """The next backward is the step's last: a bucket's all-reduce starts when it and all before it are filled."""
        self._last_pass = True

    def finish(self, tail: Tensor) -> Tensor:
        """Send what is left, wait for all, and return the summed tail, float64 on the CPU, shape of `tail`.

        Raises GroupBroken, and closes the group before that: no collective touches a gradient any more.
        """
        for bucket in self._buckets[self._launched :]:
            for parameter in bucket.parameters:
                self._adopt(parameter)
        self._tail.copy_(tail)
        self._moved.copy_(self._moving.contribution)
        began = time.perf_counter()
        try:
            self._launch(len(self._buckets))
            for pending in self._pending:
                pending.wait()
        except GroupBroken:
            self._group.close()
            raise
        finally:
            self._pending.clear()
            self.seconds = time.perf_counter() - began
        self._moving.contribution.copy_(self._moved)
        return self._tail.to("cpu", torch.float64, copy=True)

    def scale(self, factor: float) -> None:
        """Multiply every gradient by `factor`."""
        if factor != 1.0:
            for gradients in self._gradients:
                gradients.mul_(factor)

    def clip(self, max_norm: float) -> float:
        """Scale all gradients so that their 2-norm is at most `max_norm`, as torch.nn.utils does; the norm before."""
        wide = self._tail.dtype  # in half precision the norm itself would overflow
        norms = [torch.linalg.vector_norm(gradients, dtype=wide) for gradients in self._gradients]
        norm = float(torch.linalg.vector_norm(torch.stack(norms)))
        coefficient = max_norm / (norm + 1e-6)
        self.scale(coefficient if math.isnan(coefficient) else min(coefficient, 1.0))
        return norm

    def apply_moving(self) -> None:
        """Commit the moving buffers of a finished step."""
        self._moving.apply()

    def _lay_out(self, tail: int) -> None:
        """Give each bucket its memory. What comes last is appended to the last bucket, or has a bucket of its own."""
        kinds = (*(parameter.dtype for parameter in self._names), self._moving.contribution.dtype)
        wide = torch.float64 if torch.float64 in kinds else torch.float32
        device = next(iter(self._names)).device
        if self._buckets[-1].dtype != wide:
            self._buckets.append(_Bucket(wide))
        self._buckets[-1].extra = tail + self._moving.contribution.numel()

        for dtype in dict.fromkeys(bucket.dtype for bucket in self._buckets):
            stretch = [bucket for bucket in self._buckets if bucket.dtype == dtype]
            flat = torch.zeros(sum(bucket.numel for bucket in stretch), dtype=dtype, device=device)
            start = 0
            for bucket in stretch:
                bucket.memory = flat[start : start + bucket.numel]
                for parameter in bucket.parameters:
                    self._views[parameter] = _laid_out_as(parameter, flat[start : start + parameter.numel()])
                    start += parameter.numel()
            if start:
                self._gradients.append(flat[:start])
        last = self._buckets[-1]
        appendix = last.memory[last.numel - last.extra :]
        self._tail, self._moved = appendix[:tail], appendix[tail:]

    def _on_gradient(self, parameter: Tensor) -> None:
        if self.interrupted():
            raise Interrupted("interrupted in backward")
        index = self._bucket_of[parameter]
        if index < self._launched:
            name = self._names[parameter]
            raise RuntimeError(f"the gradient of {name} arrived twice in one pass: checkpoint with use_reentrant=False")
        self._adopt(parameter)
        if self._last_pass and parameter not in self._arrived:
            self._arrived.add(parameter)
            self._buckets[index].missing -= 1
            ready = self._launched
            while ready < len(self._buckets) - 1 and self._buckets[ready].missing == 0:
                ready += 1
            self._launch(ready)

    def _adopt(self, parameter: Tensor) -> None:
        """What `p.grad` says counts, also where user code replaced it; from now on it is our view again."""
        view, gradient = self._views[parameter], parameter.grad
        if gradient is view:
            return
        if gradient is None:
            view.zero_()
        elif gradient.layout != torch.strided:
            raise TypeError(f"the gradient of {self._names[parameter]} is sparse: only dense ones are covered")
        else:
            view.copy_(gradient)
        parameter.grad = view

    def _launch(self, until: int) -> None:
        """Start the buckets below `until`, strictly in order."""
        if self._group.size > 1:
            for bucket in self._buckets[self._launched : until]:
                self._pending.append(self._group.all_reduce(bucket.memory))
        self._launched = until


def _laid_out_as(parameter: Tensor, memory: Tensor) -> Tensor:
    """`memory` in the parameter's shape, its elements in the parameter's order: a fused optimizer goes through both by
    their memory. Where the parameter leaves gaps, or elements overlap, in the usual order."""
    order = sorted(range(parameter.dim()), key=parameter.stride, reverse=True)
    dense = parameter.detach().permute(order)
    if not dense.is_contiguous():
        return memory.view(parameter.shape)
    return memory.view(dense.shape).permute([order.index(dimension) for dimension in range(parameter.dim())])


@dataclass(slots=True)
class _Bucket:
    """A stretch of a flat buffer that is summed in one collective."""

    dtype: torch.dtype
    parameters: list[Tensor] = field(default_factory=list)
    extra: int = 0  # elements behind the parameters'
    filled: int = 0  # position of its last parameter
    missing: int = 0  # gradients still to come in the last pass
    memory: Tensor = field(default_factory=lambda: torch.empty(0))

    @property
    def numel(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters) + self.extra


def _fill_buckets(parameters: Iterable[Tensor], bucket_bytes: int) -> list[_Bucket]:
    """Buckets of at most `bucket_bytes` (or one parameter) and of one dtype each, ordered by when they are filled."""
    buckets: list[_Bucket] = []
    filling: dict[torch.dtype, _Bucket] = {}
    for position, parameter in enumerate(parameters):
        bucket = filling.get(parameter.dtype)
        if bucket is None or (bucket.numel + parameter.numel()) * parameter.element_size() > bucket_bytes:
            bucket = filling[parameter.dtype] = _Bucket(parameter.dtype)
            buckets.append(bucket)
        bucket.parameters.append(parameter)
        bucket.filled = position
    return sorted(buckets, key=lambda bucket: bucket.filled)
