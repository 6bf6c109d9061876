"""Which process trains for a worker of this machine, for whoever means to end it.

Owns: finding it by the lock that a trainer holds while it lives.
Refuses to know: what it trains, and what becomes of it.
Does not guarantee: that it still lives when you act on the answer. A starting agent holds the same lock for an instant.
"""

from pathlib import Path

from regroup.worker.locks import trainer_lock


def trainer_of(data_dir: Path, worker: str) -> int | None:
    """The process that took the worker's trainer lock, not its forks, which share it; None: nobody holds it."""
    lock = trainer_lock(data_dir, worker)
    if not lock.exists():
        return None
    inode = lock.stat().st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        match line.split():
            # Who waits for a lock has an arrow in its second column.
            case [_, "FLOCK", "ADVISORY", "WRITE", pid, place, *_] if int(place.split(":")[-1]) == inode:
                return int(pid)
    return None
