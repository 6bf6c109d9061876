"""Files in a folder of this machine.

Owns: that a file is there whole or not at all, also after a loss of power, and what goes wrong, in one line that names
it.
Refuses to know: URLs, and how long a disk may take. Does not guarantee: that a killed writer's half file, whose name
starts with a dot, goes away.
"""

import os
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from regroup.worker.storage.outcome import DISK, SLOW, Absent, StorageFailed, Stored, measure, why

MOUNT = "mount it on this machine, or have a worker of the machine that wrote it take part"


def keep(home: Path, name: Callable[[str], str], fill: Callable[[Path], None], late: threading.Event) -> Stored:
    """What nobody waits for any more gets no name: what it was filled from may change."""
    half = home / f".{secrets.token_hex(8)}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        fill(half)
        with half.open("rb") as file:
            checksum, size = measure(file)
            os.fsync(file.fileno())
        if late.is_set():
            raise StorageFailed(f"{home} was written too late: {SLOW}")
        target = half.replace(home / name(checksum))
        for each in (home, home.parent):
            _sync(each)
    except OSError as error:
        raise StorageFailed(f"{home} cannot be written ({why(error)}): {DISK}") from error
    finally:
        with suppress(OSError):
            half.unlink(missing_ok=True)
    return Stored(str(target), checksum, size)


def opened(path: str, size: int) -> IO[bytes]:
    try:
        file = open(path, "rb")  # noqa: SIM115  the caller closes it
    except IsADirectoryError as error:
        raise Absent(f"{path} is no file ({error.strerror})") from error
    except FileNotFoundError as error:
        if Path(path).parent.is_dir():  # else the disk may not be mounted, or it is another machine's
            raise Absent(f"{path} is not there ({error.strerror})", missing=True) from error
        raise StorageFailed(f"{path} cannot be read (its folder is not there): {MOUNT}") from error
    except OSError as error:
        raise StorageFailed(f"{path} cannot be read ({error.strerror}): mend its permissions, or the disk") from error
    if (found := os.fstat(file.fileno()).st_size) != size:
        file.close()
        raise Absent(f"{path} has {found} bytes, not {size}")
    return file


def remove(path: str) -> None:
    """A file that is not there is as good as removed."""
    try:
        Path(path).unlink(missing_ok=True)
    except OSError as error:
        raise StorageFailed(f"{path} cannot be deleted ({why(error)}): mend its permissions") from error


def names(home: str) -> dict[str, float]:
    """What lies there, and how long ago each was written to, seconds by the clock of whoever keeps the folder."""
    found: dict[str, float] = {}
    try:
        there = list(Path(home).iterdir())
        with TemporaryFile(dir=home) as fresh:
            now = os.fstat(fresh.fileno()).st_mtime
        for each in there:
            with suppress(FileNotFoundError):  # it went meanwhile
                found[each.name] = now - each.lstat().st_mtime
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StorageFailed(f"{home} cannot be read ({why(error)}): mend its permissions, or the disk") from error
    return found


def _sync(folder: Path) -> None:
    """A file's name is as durable as its bytes only when its folder is."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
