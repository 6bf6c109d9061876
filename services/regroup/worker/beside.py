"""Checkpoints beside the training: the step loop waits for the copy to host memory alone, and a thread writes it.

Owns: when one is due, the copy, that one at a time is written, and that the log says how long both took.
Refuses to know: which checkpoint counts (the coordinator says so once all members committed its step), and how one is
written (`checkpoint`).
The copy's memory is kept for the next one: to touch new memory takes as long as to copy into it. So who wrote one
checkpoint holds its state twice.
Does not guarantee: that each one that is due is written. While one is being written, or some do not count yet, those
that come due are left out: while the coordinator is away nobody deletes a file, and they must not fill the disk. So are
those that come due soon after one could not be written: a full disk shall not fill the timeline, too.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from regroup.core.jobs import Checkpoint, Version
from regroup.worker.log import log
from regroup.worker.prepare import USERS
from regroup.worker.session import WAITING
from regroup.worker.tree import pack, unpack
from regroup.worker.vital import Vital
from regroup.worker.words import trace

PAUSE = 10.0  # seconds after a failure


class Beside:
    """`write` makes a copied tree durable; then `wrote` or `failed` is told, from the writing thread."""

    def __init__(
        self,
        every: int | None,
        write: Callable[[Version, Any], Checkpoint],
        wrote: Callable[[Checkpoint], None],
        failed: Callable[[int, BaseException], None],
    ) -> None:
        self._every, self._write, self._wrote, self._failed = every, write, wrote, failed
        self._thread: Vital | None = None
        self._memory: list[Tensor] = []
        self._newest: Version | None = None  # that was written
        self._again = 0.0  # when one may be written after a failure, by the monotonic clock

    def due(self, version: Version, room: bool = True) -> bool:
        """Whether this state is to be written. One is asked for again where a generation begins with it.

        `room`: not too many wait until they count.
        """
        if self._every is None or version.step % self._every or version == self._newest:
            return False
        if self._thread is not None and self._thread.is_alive():
            log(f"no checkpoint of step {version.step}: the last one is still being written")
            return False
        if not room:
            log(f"no checkpoint of step {version.step}: the last {WAITING} do not count yet")
            return False
        if time.monotonic() < self._again:
            log(f"no checkpoint of step {version.step}: the last one could not be written just now")
            return False
        return True

    def take(self, version: Version, tree: Callable[[], Any]) -> None:
        """Copy a state, and have the copy written. Whatever goes wrong is told, and stops no training."""
        with self._telling(version):
            began = time.perf_counter()
            skeleton, tensors = pack(tree())
            copy = unpack(skeleton, self._copies(tensors))
            log(f"checkpoint of step {version.step}: copied in {time.perf_counter() - began:.4f} s")
            self._thread = Vital(target=self._keep, args=(version, copy), name="checkpoint")
            self._thread.start()

    def _copies(self, tensors: list[Tensor]) -> list[Tensor]:
        """In the memory of the last copy, which is written by now, where it is of the same state."""
        if [_kind(tensor) for tensor in tensors] == [_kind(tensor) for tensor in self._memory]:
            for kept, tensor in zip(self._memory, tensors, strict=True):
                kept.copy_(tensor)
        else:
            self._memory = [tensor.to("cpu", copy=True) for tensor in tensors]
        return self._memory

    def _keep(self, version: Version, tree: Any) -> None:
        with self._telling(version):
            began = time.perf_counter()
            checkpoint = self._write(version, tree)
            log(f"checkpoint of step {version.step}: written in {time.perf_counter() - began:.4f} s")
            self._newest = version
            self._wrote(checkpoint)

    @contextmanager
    def _telling(self, version: Version) -> Iterator[None]:
        try:
            yield
        except USERS as error:
            log(trace())
            self._again = time.monotonic() + PAUSE
            self._failed(version.step, error)


def _kind(tensor: Tensor) -> tuple[object, ...]:
    return tensor.shape, tensor.dtype
