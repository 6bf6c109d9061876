"""The folder that a command of the lab works in: a new one each time, kept only where somebody may want to look.

Owns: making it, and what becomes of it. Refuses to know: what lies in it.
"""

import shutil
import sys
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from regroup.client.terminal import FAILED, give_up


def work_folder(given: Path | None, command: str) -> Path:
    """A new folder, in the given one if there is one. Ends the command if it cannot be made."""
    place = given and given.expanduser().absolute()
    try:
        if place is not None:
            place.mkdir(parents=True, exist_ok=True)
        return Path(mkdtemp(prefix=f"regroup-{command}-", dir=place))
    except OSError as error:
        where = place or gettempdir()
        give_up(f"cannot make a folder to work in, in {where} ({error.strerror}): give another --data-dir", FAILED)


def leave(folder: Path, keep: bool) -> None:
    """Remove it, or say where it is."""
    if keep:
        print(f"records and logs are kept in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
