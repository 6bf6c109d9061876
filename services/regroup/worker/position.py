"""Where a trainer is, in a file of its own, for whoever finds it dead: the step and the shard whose passes run, or that
it does something else with the state, of which the task may die as well.

Owns: the file's layout.
Refuses to know: why it died, and what follows from where.
Does not guarantee: that the pass is to blame. The loader's thread fetches other steps at the same time, and a death
inside the dataset's own code is told with this position all the same.
"""

import os
import struct
from pathlib import Path

LAYOUT = struct.Struct("qq")  # step, shard, or what it does in no pass; step -1: it waits for others


class Position:
    def __init__(self, path: Path) -> None:
        """Nowhere. Raises OSError if the file cannot be written; what is noted later goes to the same place."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        self.leave()

    def enter(self, step: int, shard: int) -> None:
        self.now = step, shard
        os.pwrite(self._file, LAYOUT.pack(step, shard), 0)

    def leave(self) -> None:
        self.enter(-1, -1)


def last_position(path: Path) -> tuple[int, int] | None:
    """(step, shard) whose passes ran last, or what it did instead; None if it waited, or if there is no such file."""
    try:
        noted = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(noted) != LAYOUT.size:
        return None
    step, shard = LAYOUT.unpack(noted)
    return None if step < 0 else (step, shard)
