"""Files on no disk, by which an agent's trainers tell where they are: neither ever waits for storage, or dies of it.

Owns: such a file, for as long as it is held. Refuses to know: what is in it.
Does not guarantee: that another user's process can open it, or that it outlives its process.
"""

import os
import weakref
from pathlib import Path


class MemoryFile:
    """Empty at first. Linux (memfd_create). Raises OSError if this process has too many files."""

    def __init__(self, name: str) -> None:
        descriptor = os.memfd_create(name)
        self.path = Path(f"/proc/{os.getpid()}/fd/{descriptor}")  # also for other processes of this user
        weakref.finalize(self, os.close, descriptor)
