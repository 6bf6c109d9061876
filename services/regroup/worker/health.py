"""Whether an agent works, for whoever asks on its own machine: a container's health check, a supervisor.

Owns: a file of two moments, until which the agent lives and until which the coordinator has answered it, and the words.
Refuses to know: what is done with the answer. An agent that no coordinator answers is sound: its job goes on.
Does not guarantee: anything about its trainer, which the agent judges itself (`watching`); nor that a word is written
by now: an agent waits for no disk, and one that does not take the word makes it look unwell, and nothing worse.
"""

import os
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path

from regroup.wire.places import default_data_dir
from regroup.wire.variables import said
from regroup.worker.name import asked_as, usual

PATIENCE = 10.0  # seconds, or three heartbeats, until silence says something
_MOMENTS = struct.Struct("<dd")  # seconds of the monotonic clock, which the processes of a machine share


def file_of(data_dir: Path, worker: str) -> Path:
    return data_dir / "run" / f"{worker}.health"


class Health:
    """The writing end."""

    def __init__(self, path: Path) -> None:
        """Raises OSError if the file cannot be made."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._lives = self._answered = 0.0
        self._news = threading.Event()
        threading.Thread(target=self._write, name="health", daemon=True).start()

    def beat(self, interval: float) -> None:
        """The agent lives; the next such word comes in `interval` seconds."""
        self._lives = time.monotonic() + max(PATIENCE, 3 * interval)
        self._news.set()

    def answered(self, interval: float) -> None:
        self._answered = time.monotonic() + max(PATIENCE, 3 * interval)
        self._news.set()

    def _write(self) -> None:
        while self._news.wait():
            self._news.clear()
            with suppress(OSError):
                os.pwrite(self._file, _MOMENTS.pack(self._lives, self._answered), 0)


def trouble(path: Path, now: float, *, unheard: bool) -> str | None:
    """In one line what is wrong with the agent that writes there; None: nothing is.

    `unheard`: that no coordinator answers it is wrong, too.
    """
    try:
        lives, answered = _MOMENTS.unpack(path.read_bytes())
    except (OSError, struct.error):
        return "no agent of this name has run here"
    if not 0 <= lives - now <= 86400:  # beyond that: of before this machine was started again
        return "the agent does nothing, or is gone"
    if unheard and not 0 <= answered - now <= 86400:
        return "no coordinator answers it; what it trains goes on"
    return None


def check(*, unheard: bool) -> int:
    """The exit status for `regroup-agent --check`, and for `--alive`, which minds no coordinator."""
    name = asked_as(said("WORKER") or usual())
    wrong = trouble(file_of(default_data_dir(os.environ), name), time.monotonic(), unheard=unheard)
    print(f"{name}: {wrong or 'well'}")
    return 0 if wrong is None else 1
