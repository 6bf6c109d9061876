"""What becomes of a file that is kept or read, and why it was not: in one line, with what to do.

Owns: these values and words. Refuses to know: how a file is kept.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from typing import IO

DISK = "free some space there, or mend its permissions"
SLOW = "look whether its disk or server answers; if it is only slow, give the job a longer step_timeout"
NETWORK = "check the address, the endpoint and the network, then try again"


class StorageFailed(Exception):
    """The storage refused, was not reached in time, or is full. One line, with what to do."""


class Absent(Exception):
    """The storage answered: nothing lies there (`missing`), or something else than what was put there. One line."""

    def __init__(self, message: str, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


@dataclass(frozen=True, slots=True)
class Stored:
    path: str
    checksum: str  # SHA-256 over every byte
    bytes: int


def measure(file: IO[bytes]) -> tuple[str, int]:
    """Its checksum and its size."""
    return hashlib.file_digest(file, "sha256").hexdigest(), os.fstat(file.fileno()).st_size  # type: ignore[arg-type]


def why(error: Exception) -> str:
    """One line of reasonable length, without the user part of a URL."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return re.sub(r"://[^/\s]*@", "://", " ".join(text.split()))[:300]
