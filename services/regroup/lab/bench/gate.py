"""A gate between rounds: processes that stay alive wait at it while others are measured.

Owns: one number in a file, how often each process may pass. All processes of a side stop at the same pass, so that
none of them waits in an exchange for one that is held. Refuses to know: who passes, and what a pass is.
Whoever waits looks ten times a second, which costs about a thousandth of a core; to pass costs a fraction of a
microsecond.
"""

import mmap
import os
import struct
import time
from pathlib import Path

PAUSE = 0.1  # seconds between two looks of whoever waits
COUNT = struct.Struct("q")
TAKES_TURNS = {"hang_floor": "600"}  # of a cluster: whoever waits at a gate does not hang


class Gate:
    """Shut at first. Each process has one of its own, on the same path, and counts its own passes."""

    def __init__(self, path: Path, *, owner: bool = False) -> None:
        """The owner makes the gate before the others come to it: what an earlier one left in the file is forgotten."""
        file = os.open(path, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if owner else 0), 0o600)
        os.truncate(file, COUNT.size)
        self._shared = mmap.mmap(file, COUNT.size)
        os.close(file)
        self._passed = 0

    def admit(self, passes: int) -> None:
        """Let every process pass so many times more."""
        COUNT.pack_into(self._shared, 0, COUNT.unpack_from(self._shared)[0] + passes)

    def enter(self) -> None:
        """Pass, once this process may."""
        while self._passed >= COUNT.unpack_from(self._shared)[0]:
            time.sleep(PAUSE)
        self._passed += 1
