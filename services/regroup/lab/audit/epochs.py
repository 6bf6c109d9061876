"""How often each sample was read, epoch by epoch.

Owns: comparing the indices that were written down with how many samples the committed steps have.
Refuses to know: which index belongs to which step; only how often each one occurs.
"""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass

from regroup.core.shards import steps_per_epoch
from regroup.lab.audit.wording import grouped, plural

SPARSE = 64  # indices per read, from which on a set is smaller than a byte for each index


@dataclass(frozen=True, slots=True)
class EpochCount:
    complete: int  # epochs, from their first step to their last
    samples: int  # read, in all epochs
    lost: int
    doubled: int
    faults: tuple[str, ...]


def count_epochs(
    epochs: Mapping[int, "array[int]"], *, steps: int, begins: int = 0, global_batch: int, dataset: int | None
) -> EpochCount:
    """`epochs` are the indices read in the committed steps from `begins` to `steps`, by epoch; `dataset` is N, if it is
    known. Of an epoch that another job began, what that one read is not looked for, and the epoch is not complete.
    """
    length = dataset or 1 + max((max(read) for read in epochs.values() if read), default=0)
    whole = steps_per_epoch(length, global_batch)
    complete, rest = divmod(steps, whole)
    first, before = divmod(begins, whole)
    due = dict.fromkeys(range(first, complete), length) | ({complete: rest * global_batch} if rest else {})
    if before:
        due[first] -= before * global_batch
    faults: list[str] = []
    lost = doubled = 0
    for epoch in sorted(due.keys() | epochs.keys()):
        read, expected = epochs.get(epoch, array("Q")), due.get(epoch, 0)
        distinct, outside, first_absent = _distinct(read, length)
        again, absent = len(read) - outside - distinct, max(0, expected - distinct)
        lost, doubled = lost + absent, doubled + again
        if again:
            faults.append(f"epoch {epoch}: {plural(again, 'sample')} read again, such as {_repeated(read)}")
        if absent:
            such = f", such as {first_absent}" if epoch < complete else ""
            faults.append(f"epoch {epoch}: {plural(absent, 'sample')} of {grouped(expected)} lost{such}")
        if outside:
            faults.append(f"epoch {epoch}: {plural(outside, 'read')} outside the dataset's {grouped(length)} samples")
        if distinct > expected:
            read_text = f"{grouped(distinct)} samples read, its committed steps have {grouped(expected)}"
            faults.append(f"epoch {epoch}: {read_text}")
    own = max(0, complete - first - (before > 0))
    return EpochCount(own, sum(map(len, epochs.values())), lost, doubled, tuple(faults))


def _distinct(read: "array[int]", length: int) -> tuple[int, int, int | None]:
    """(different indices below `length`, reads that are not, the first index that is absent)."""
    inside = [index for index in read if index < length] if read and max(read) >= length else read
    outside = len(read) - len(inside)
    if length > SPARSE * len(inside):
        seen = set(inside)
        return len(seen), outside, next((index for index in range(length) if index not in seen), None)
    marks = bytearray(length)
    for index in inside:
        marks[index] = 1
    absent = marks.find(0)
    return marks.count(1), outside, None if absent < 0 else absent


def _repeated(read: "array[int]") -> int:
    """The first index that occurs a second time."""
    seen: set[int] = set()
    for index in read:
        if index in seen:
            return index
        seen.add(index)
    raise ValueError("every index occurs once")
