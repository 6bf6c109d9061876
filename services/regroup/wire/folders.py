"""Whether this process may write where it has to, found out by writing, and what to do where it may not.

Owns: the trial, and one line for what a disk refuses: whose the folder is, that it is full or read-only.
Refuses to know: what the folders are for. Does not guarantee: that what could be written now can be written later.
"""

import os
from errno import EACCES, EDQUOT, ENOSPC, EPERM, EROFS
from pathlib import Path
from tempfile import TemporaryFile


class Unwritable(OSError):
    """Nothing can be written there; the message says where, why, and what to do."""


def expect_writable(folder: Path, what: str, advice: str) -> None:
    """Write something in `folder`, or, where it is to be made yet, in what it will be made in. Leaves nothing.

    Raises Unwritable; waits for as long as the disk does.
    """
    there = folder
    try:
        while not there.exists() and there != there.parent:
            there = there.parent
        with TemporaryFile(dir=there, prefix=".regroup-") as file:
            file.write(b"\0")
            file.flush()
    except OSError as error:
        raise Unwritable(f"cannot write to {what} {folder} ({_why(error, there)}): {advice}") from error


def told(error: OSError) -> str:
    """What went wrong with a file, in words; as it is, if it has its own."""
    if error.filename is None or error.errno is None or isinstance(error, Unwritable):
        return str(error)
    path = Path(os.fsdecode(error.filename2 or error.filename))
    return f"cannot use {path} ({_why(error, path)}): {_advice(error)}"


def _why(error: OSError, path: Path) -> str:
    why = error.strerror or str(error)
    if error.errno in (EACCES, EPERM):
        try:
            found = path.stat()
        except OSError:
            return f"{why}, for uid {os.geteuid()}"
        return f"{why}: it is uid {found.st_uid}'s, mode {found.st_mode & 0o777:04o}, and this is uid {os.geteuid()}"
    return why


def _advice(error: OSError) -> str:
    match error.errno:
        case code if code == EROFS:
            return "mount it so that it may be written to"
        case code if code in (ENOSPC, EDQUOT):
            return "make room there"
        case code if code in (EACCES, EPERM):
            return "give it to that user (chown), or start this as its owner"
    return "move it out of the way, or give another data directory (REGROUP_DATA_DIR)"
