"""The data of each step, fetched ahead of the step loop by one background thread.

Owns: which samples this worker's shards consume in a step, their cutting into passes, the record of what the dataset
was asked for, and the seeds of the passes' draws.
Refuses to know: generations and other workers. A new ownership is just other shards from some step on.
Does not guarantee: that a dataset returns. One that hangs hangs `take`, until another thread calls `own`, `revoke` or
`close`, which never wait for it.
"""

import threading
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate, chain, pairwise
from struct import pack
from typing import Any

import numpy as np
import torch

from regroup.core.shards import batch_of, positions
from regroup.tasks.contract import SizedDataset
from regroup.worker.order import Order
from regroup.worker.vital import Vital
from regroup.worker.words import said

DRAWS_NAME = "blake2b-v1"  # of `draw_seed`: whatever changes a seed needs a new one, for checkpoints quote it


@dataclass(frozen=True, slots=True)
class Read:
    """One shard of a step, as the dataset was asked for it."""

    epoch: int
    shard: int
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pass:
    """One micro-batch. Its draws come from (seed, epoch, step, shard, number)."""

    shard: int  # of its first sample
    number: int  # counts the passes that begin in that shard
    samples: int
    batch: Any  # what the task's collate gave


@dataclass(frozen=True, slots=True)
class StepData:
    """What one worker computes in one step, and what was read for it."""

    step: int  # within the job, not within the epoch
    epoch: int
    reads: tuple[Read, ...]  # one for each owned shard, also for an empty one
    passes: tuple[Pass, ...]
    samples: int  # of all workers together: the global batch, or fewer where an epoch ends


class DataFailed(Exception):
    """The dataset or collate raised for a shard of a step; `__cause__` is what it raised."""

    def __init__(self, step: int, shard: int, cause: BaseException) -> None:
        super().__init__(f"step {step}, shard {shard}: {said(cause)}")
        self.step = step
        self.shard = shard
        self.__cause__ = cause


class Superseded(Exception):
    """Another thread revoked the ownership, or gave a new one while `take` waited, or closed the loader."""


@dataclass(frozen=True, eq=False, slots=True)
class _Ownership:
    """Compared by identity: work begun under another one is stale."""

    shards: tuple[int, ...]
    last_step: int  # exclusive
    pass_size: int | None  # samples; None: all in one pass


_REVOKED = _Ownership((), 0, None)


class Loader:
    """Fetches the steps of the current ownership in order, at most `ahead` beyond the one that was taken last."""

    def __init__(
        self,
        dataset: SizedDataset,
        collate: Callable[[list[Any]], Any],
        *,
        samples: int,
        seed: int,
        global_batch: int,
        shards: int,
        independent: bool,
        ahead: int = 2,
    ) -> None:
        """`samples` is N, the dataset's length, at least 1; `shards` is V and divides `global_batch`."""
        if samples < 1:
            raise ValueError("the dataset is empty")
        self._dataset = dataset
        self._collate = collate
        self._samples = samples
        self._seed = seed
        self._global_batch = global_batch
        self._shards = shards
        self._independent = independent
        self._ahead = ahead
        self.fetching: Callable[[bool], None] = lambda begins: None  # told on the loader's thread, of each fetch

        self._changed = threading.Condition()  # guards all that follows; held for moments only, never over a fetch
        self._ownership = _Ownership((), 0, None)
        self._next_fetch = 0
        self._next_take = 0
        self._ready: deque[StepData | BaseException] = deque()
        self._closed = False
        self._thread = Vital(target=self._run, name="loader")
        self._thread.start()

    def own(self, shards: Sequence[int], first_step: int, last_step: int, micro_batch: int | None) -> None:
        """A new ownership: forget what was fetched, begin at `first_step`, end before `last_step`. Never waits.

        `micro_batch` is the largest number of samples of a pass. None: everything in one pass if samples are
        independent, else the largest power of two inside a shard. May be called from another thread than `take`.
        """
        if not all(0 <= shard < self._shards for shard in shards) or len(set(shards)) != len(shards):
            raise ValueError(f"not a set of shards below {self._shards}: {list(shards)}")
        if micro_batch is None and not self._independent:
            micro_batch = natural_pass(self._global_batch, self._shards)
        with self._changed:
            self._replace(_Ownership(tuple(sorted(shards)), last_step, micro_batch), first_step)

    def revoke(self) -> None:
        """Fetch no more: until the next `own`, each `take` raises Superseded, one that waits at once. Never waits."""
        with self._changed:
            self._replace(_REVOKED, 0)

    def take(self, step: int) -> StepData:
        """The data of `step`, waiting until it is there. Steps are taken in order, each once.

        Raises DataFailed if the dataset or collate raised for it (again at each call, until a new ownership),
        Superseded if the ownership is revoked or changed meanwhile, ValueError for a step that is not the next one.
        """
        with self._changed:
            ownership = self._ownership
            if ownership is _REVOKED:
                raise Superseded(f"nobody waits for step {step} any more")
            if step != self._next_take or step >= ownership.last_step:
                raise ValueError(f"step {step} is out of order: next is {self._next_take} of {ownership.last_step}")
            self._changed.wait_for(lambda: self._ready or self._closed or self._ownership is not ownership)
            if self._closed or self._ownership is not ownership:
                raise Superseded(f"nobody waits for step {step} any more")
            found = self._ready[0]
            if isinstance(found, BaseException):
                raise found
            self._ready.popleft()
            self._next_take += 1
            self._changed.notify_all()
            return found

    def close(self) -> None:
        """End the thread; a fetch under way is waited for a second at most."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(timeout=1.0)

    def _replace(self, ownership: _Ownership, first_step: int) -> None:
        """With the lock held."""
        self._ownership = ownership
        self._next_fetch = self._next_take = first_step
        self._ready.clear()
        self._changed.notify_all()

    def _run(self) -> None:
        while work := self._await_work():
            ownership, step = work
            found: StepData | BaseException | None
            self.fetching(True)
            try:
                found = self._fetch(ownership, step)
            except BaseException as error:  # also a SystemExit from user code: whoever takes this step is told
                found = error
            self.fetching(False)
            with self._changed:
                if found is not None and self._ownership is ownership:
                    self._ready.append(found)
                    self._next_fetch = ownership.last_step if isinstance(found, BaseException) else step + 1
                    self._changed.notify_all()

    def _await_work(self) -> tuple[_Ownership, int] | None:
        def due() -> bool:
            return self._closed or (
                self._next_fetch < self._ownership.last_step and self._next_fetch < self._next_take + self._ahead
            )

        with self._changed:
            self._changed.wait_for(due)
            return None if self._closed else (self._ownership, self._next_fetch)

    def _fetch(self, ownership: _Ownership, step: int) -> StepData | None:
        """The data of one step; None if the ownership changed meanwhile."""
        epoch, _ = self._positions(step, 0)
        parts = [self._positions(step, shard)[1] for shard in ownership.shards]
        wanted = np.fromiter(chain.from_iterable(parts), dtype=np.int64)
        indices = iter(Order(self._samples, self._seed, epoch).at(wanted).tolist())
        reads: list[Read] = []
        samples: list[Any] = []
        for shard, part in zip(ownership.shards, parts, strict=True):
            asked: list[int] = []
            for _ in part:
                if self._closed or self._ownership is not ownership:
                    return None
                index = next(indices)
                asked.append(index)  # here and nowhere else: the record is of what the dataset was asked for
                try:
                    samples.append(self._dataset[index])
                except BaseException as error:
                    raise DataFailed(step, shard, error) from error
            reads.append(Read(epoch, shard, tuple(asked)))
        passes: list[Pass] = []
        for cut in cuts([len(part) for part in parts], ownership.pass_size, joined=self._independent):
            shard = ownership.shards[cut.part]
            try:
                batch = self._collate(samples[cut.start : cut.stop])
            except BaseException as error:
                raise DataFailed(step, shard, error) from error
            passes.append(Pass(shard, cut.number, cut.stop - cut.start, batch))
        whole = batch_of(step, samples=self._samples, global_batch=self._global_batch)
        return StepData(step, epoch, tuple(reads), tuple(passes), whole)

    def _positions(self, step: int, shard: int) -> tuple[int, range]:
        return positions(step, shard, samples=self._samples, global_batch=self._global_batch, shards=self._shards)


@dataclass(frozen=True, slots=True)
class Cut:
    """A pass as [start, stop) among the samples of all parts laid end to end."""

    part: int  # where it starts
    number: int  # counts the passes that start in that part
    start: int
    stop: int


def cuts(counts: Sequence[int], size: int | None, *, joined: bool) -> list[Cut]:
    """Passes of at most `size` samples (None: no limit) over parts of `counts` samples.

    Unless `joined`, no pass straddles two parts. The last pass of a part may be shorter; no pass is empty.
    """
    borders = list(accumulate(counts, initial=0))
    spans = [(0, borders[-1])] if joined else pairwise(borders)
    made: list[Cut] = []
    numbers: Counter[int] = Counter()
    for begin, end in spans:
        for start in range(begin, end, size or end - begin or 1):
            part = bisect_right(borders, start) - 1
            made.append(Cut(part, numbers[part], start, min(start + size, end) if size else end))
            numbers[part] += 1
    return made


def natural_pass(global_batch: int, shards: int) -> int:
    """Samples per pass when none is given: the largest power of two in a full shard, so that halving it nests."""
    return 1 << (global_batch // shards).bit_length() - 1


def draw_seed(seed: int, epoch: int, step: int, shard: int, number: int) -> int:
    """The seed of the draws of one pass: 63 bits, for `torch.manual_seed`. Each argument is within [0, 2**63)."""
    digest = blake2b(pack("<5Q", seed, epoch, step, shard, number), digest_size=8, person=b"regroup.draw").digest()
    return int.from_bytes(digest, "little") >> 1


def place(batch: Any, device: torch.device) -> Any:
    """`batch` with its tensors on `device`; dicts, lists and tuples are rebuilt around them, the rest is kept."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {key: place(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(place(value, device) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(place(value, device) for value in batch)
    return batch
