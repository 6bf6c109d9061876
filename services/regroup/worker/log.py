"""A trainer's log: whatever its process prints, also from the task and from C code.

Owns: the file `<data>/logs/<job>/<worker>-<incarnation>.log`, which is standard output and error from `log_to` on, and
that the newest few of a worker are kept: whoever dies again and again fills no folder.
Refuses to know: what is worth a line.
Does not guarantee: that a line is kept. On a full disk it is lost, but the trainer with its state is not.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

KEPT = 16  # logs of one worker and job, this trainer's own among them


def log_to(path: Path) -> None:
    """Raises OSError if the file cannot be made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    _forget_oldest(path)


def _forget_oldest(path: Path) -> None:
    """Of the trainers that were here before under the same worker's name. An incarnation has no dash."""
    worker = path.stem.rpartition("-")[0]
    with suppress(OSError):  # what cannot be deleted costs room, not the trainer
        former = [each for each in path.parent.glob("*.log") if each.stem.rpartition("-")[0] == worker]
        former.sort(key=lambda each: (each == path, each.stat().st_mtime_ns))
        for old in former[:-KEPT]:
            old.unlink()


def log(text: object) -> None:
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
