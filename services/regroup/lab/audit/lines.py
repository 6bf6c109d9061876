"""Reading the lines of workers' records, of which nothing is trusted but that a worker wrote them.

Owns: putting lines together from pieces of files, and the two shapes of a line that count (see `worker.records`).
Refuses to know: what the lines add up to.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from pydantic_core import from_json


class Read(NamedTuple):
    """A worker asked its dataset for these indices, for one shard of a step."""

    generation: int
    step: int
    epoch: int
    shard: int
    indices: "array[int]"


class Applied(NamedTuple):
    """A worker's state took in this step."""

    generation: int
    step: int


def worker_of(file: str) -> str:
    """The worker that a file `<worker>-<incarnation>.jsonl` is of."""
    return file.rpartition("-")[0]


def lines(pieces: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """(file, line) of each line that was ended.

    What follows a file's last end of line is left out: its worker was killed while it wrote, or writes at this moment,
    so that nothing which depends on it has happened. (The worker's next trainer removes it before it writes.)
    """
    rests: dict[str, str] = {}
    for file, text in pieces:
        *full, rests[file] = (rests.get(file, "") + text).split("\n")
        for line in full:
            yield file, line


def parse(text: str) -> Read | Applied | None:
    """A line, or None for one that is neither of the two."""
    try:
        line = from_json(text)
    except ValueError:
        return None
    if not isinstance(line, dict):
        return None
    field: Callable[[str], Any] = line.get
    generation, step = field("generation"), field("applied")
    if _counts(generation, step):
        return Applied(generation, step)
    step, epoch, shard, indices = map(field, ("read", "epoch", "shard", "indices"))
    if not _counts(generation, step, epoch, shard) or not isinstance(indices, list):
        return None
    try:
        return Read(generation, step, epoch, shard, array("Q", indices))
    except (TypeError, OverflowError):
        return None


def _counts(*values: object) -> bool:
    return all(type(value) is int and value >= 0 for value in values)
