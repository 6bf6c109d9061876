"""Evaluation: a read-only pass at a committed step, over the same shards as training.

Owns: the cutting of the evaluation samples into chunks and slices, the measuring of slices, and the reduced sums of the
chunks that are finished, so that a regroup repeats only the unfinished one.
Refuses to know: who is in the group that sums are reduced over, which steps are evaluated, who tells the metrics.
Does not guarantee: metrics that are no weighted mean over samples (such as AUC).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from regroup.core.shards import slice_of
from regroup.tasks.contract import SizedDataset, Task
from regroup.worker.data import cuts, place
from regroup.worker.group import Group
from regroup.worker.read_only import device_of, read_only
from regroup.worker.reduce import Interrupted

MOST, LONGEST = 256, 100  # metrics, and characters of the name of one
Sums = dict[str, tuple[float, float]]  # by metric: (sum, weight)


class Evaluation:
    """One evaluation of one state: `finish` does for each chunk in turn measure, pack, reduce, unpack, record."""

    def __init__(self, task: Task, dataset: SizedDataset, shards: int, chunk: int) -> None:
        """`dataset` has at least one sample; `shards` is V; `chunk` is in samples."""
        self._task = task
        self._dataset = dataset
        self._shards = shards
        self._chunk = chunk
        self._names: tuple[str, ...] | None = None
        self.finished: list[Sums] = []  # reduced over the workers, by chunk

    @property
    def chunks(self) -> int:
        return -(-len(self._dataset) // self._chunk)

    @property
    def complete(self) -> bool:
        return len(self.finished) == self.chunks

    def finish(
        self,
        model: nn.Module,
        group: Group,
        owned_shards: Sequence[int],
        micro_batch: int | None,
        interrupted: Callable[[], bool],
        measuring: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Measure together what is unfinished on some rank of the group, its own part of each chunk within `measuring`.

        Raises GroupBroken, Interrupted, and whatever the task raises; the chunks that were finished before stay so.
        """
        del self.finished[_least(group, len(self.finished)) :]
        while not self.complete:
            if interrupted():
                raise Interrupted("interrupted in an evaluation")
            with measuring():
                packed = self.pack(self.measure(model, len(self.finished), owned_shards, micro_batch))
            group.all_reduce(packed).wait()
            self.record(len(self.finished), self.unpack(packed))

    def metric_names(self, model: nn.Module) -> tuple[str, ...]:
        """In alphabetical order; found by measuring one sample, at the first call."""
        if self._names is None:
            with read_only(model):
                self._names = _sound(tuple(sorted(self._measured(model, [0]))))
        return self._names

    def measure(self, model: nn.Module, chunk_index: int, owned_shards: Sequence[int], micro_batch: int | None) -> Sums:
        """This worker's part of a chunk: each metric's sum and weight over the samples of its shards; (0, 0) for none.

        `micro_batch` is the largest number of samples of a pass; None: a slice, or all if independent. Leaves the
        model's modes and torch's generators as they were. Raises ValueError for metrics that change their names.
        """
        start = chunk_index * self._chunk
        length = min(self._chunk, len(self._dataset) - start)
        slices = [slice_of(shard, self._shards, length) for shard in sorted(owned_shards)]
        indices = [start + offset for part in slices for offset in part]
        names = self.metric_names(model)
        totals = dict.fromkeys(names, (0.0, 0.0))
        with read_only(model):
            for cut in cuts([len(part) for part in slices], micro_batch, joined=self._task.independent_samples):
                measured = self._measured(model, indices[cut.start : cut.stop])
                if tuple(sorted(measured)) != names:
                    raise ValueError(f"evaluate() gave the metrics {sorted(measured)}, and before {list(names)}")
                for name, (total, weight) in measured.items():
                    totals[name] = (totals[name][0] + float(total), totals[name][1] + float(weight))
        return totals

    def record(self, chunk_index: int, sums: Sums) -> None:
        """Keep the reduced sums of the next chunk."""
        if chunk_index != len(self.finished):
            raise ValueError(f"chunk {chunk_index} is out of order: next is {len(self.finished)}")
        self.finished.append(sums)

    def pack(self, sums: Mapping[str, tuple[float, float]]) -> Tensor:
        """float64, shape (2 * metrics,): sum and weight of each, in alphabetical order. May be added to others."""
        return torch.tensor([number for name in sorted(sums) for number in sums[name]], dtype=torch.float64)

    def unpack(self, packed: Tensor) -> Sums:
        """What `pack` packed. The names must be known: `metric_names` or `measure` was called before."""
        assert self._names is not None
        sums, weights = packed.view(-1, 2).unbind(dim=1)
        return dict(zip(self._names, zip(sums.tolist(), weights.tolist(), strict=True), strict=True))

    def _measured(self, model: nn.Module, indices: Sequence[int]) -> Mapping[str, tuple[float, float]]:
        torch.manual_seed(indices[0])  # whatever evaluate() draws depends on the samples, not on what ran before
        batch = self._task.collate([self._dataset[index] for index in indices])
        return self._task.evaluate(model, place(batch, device_of(model)))


def _sound(names: tuple[str, ...]) -> tuple[str, ...]:
    """They stand in each point that is told."""
    " ".join(names).encode()  # or they could never be told: raises TypeError or UnicodeEncodeError, which can
    if len(names) > MOST or any(len(name) > LONGEST for name in names):
        raise ValueError(f"evaluate() gave {len(names)} metrics: at most {MOST}, with names of {LONGEST} characters")
    return names


def _least(group: Group, own: int) -> int:
    """The smallest of all ranks' numbers; each writes a slot of its own into a sum."""
    slots = torch.zeros(group.size, dtype=torch.float64)
    slots[group.rank] = own
    group.all_reduce(slots).wait()
    return int(slots.min())


def combine(sums: Sequence[Mapping[str, tuple[float, float]]]) -> dict[str, float]:
    """The weighted mean of each metric over all chunks; a metric without weight is left out."""
    totals: Sums = {}
    for part in sums:
        for name, (total, weight) in part.items():
            before = totals.get(name, (0.0, 0.0))
            totals[name] = (before[0] + total, before[1] + weight)
    return {name: total / weight for name, (total, weight) in totals.items() if weight}
