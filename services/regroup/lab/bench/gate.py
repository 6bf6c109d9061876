"""A gate between rounds: processes that stay alive wait at it while others are measured.

Owns: one file, locked by whoever measures while the gate is shut. Refuses to know: who passes.
Whoever waits sleeps in the kernel and costs nothing; to pass an open gate costs two system calls, about a microsecond.
If whoever shut it dies, it is open.
"""

import fcntl
import os
from pathlib import Path


class Gate:
    """Open at first."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def shut(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def open(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def enter(self) -> None:
        """Return when the gate is open."""
        fcntl.flock(self._file, fcntl.LOCK_SH)
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._file)
