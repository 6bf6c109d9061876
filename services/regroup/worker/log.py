"""A trainer's log: whatever its process prints, also from the task and from C code.

Owns: the file `<data>/logs/<job>/<worker>-<incarnation>.log`, which is standard output and error from `log_to` on.
Refuses to know: what is worth a line.
Does not guarantee: that a line is kept. On a full disk it is lost, but the trainer with its state is not.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path


def log_to(path: Path) -> None:
    """Raises OSError if the file cannot be made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


def log(text: object) -> None:
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
