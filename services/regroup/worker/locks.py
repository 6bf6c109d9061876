"""Who may be there once: the locks of a worker's name, on files that processes hold for as long as they live.

Owns: where a trainer's lock is, taking a lock, and waiting for the end of whoever has one.
Refuses to know: who holds them.
Does not guarantee: that a lock is free once its process is dead: what it forked has inherited it.
"""

import asyncio
import fcntl
import logging
import os
import time
from pathlib import Path

log = logging.getLogger("regroup.agent")

PATIENCE = 1.0  # seconds to wait without a word
PAUSE = 0.02  # seconds between two looks


def trainer_lock(data_dir: Path, worker: str) -> Path:
    """The file that a worker's trainer holds while it lives."""
    return data_dir / "run" / f"{worker}.trainer.lock"


def hold(path: Path) -> int:
    """Lock a file for the life of this process. Raises BlockingIOError if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    return descriptor


async def outlive(former: Path) -> None:
    """Wait for the end of a worker's former trainer, which holds this lock while it lives.

    Its agent may register only then: to register anew says that everything of the old agent is dead.
    """
    began, said = time.monotonic(), False
    while True:
        try:
            return os.close(hold(former))
        except BlockingIOError:
            if not said and time.monotonic() - began > PATIENCE:
                log.warning("waiting for the end of a former trainer of this worker: a process holds %s", former)
                said = True
            await asyncio.sleep(PAUSE)
