"""Files behind a URL, as fsspec reaches them; it is imported only once one is used.

Owns: that nobody takes a half-written file for a whole one, and what goes wrong in one line that names the URL, without
what the storage was configured with.
Refuses to know: how long a network may take. Does not guarantee: that a file system behaves as fsspec says; only S3 is
tested.
"""

import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, TypeVar

from regroup.worker.storage.outcome import DISK, NETWORK, Absent, StorageFailed, why

OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"}  # they show an object once all of it is there
BLOCK = 32 * 2**20  # bytes asked for at a time
CLOCKS = 86_400.0  # seconds by which the clock of whoever keeps the files may be behind ours
HOME = "create the bucket or folder, or name another one"
RIGHTS = "check the credentials in this worker's environment, and that they may read, write, list and delete there"

Given = TypeVar("Given")


def send(file: IO[bytes], url: str, size: int) -> None:
    """Have these bytes under this URL, whole or not at all. Raises StorageFailed."""
    found = _asked(url, "written", lambda: _send(file, url, size))
    if found != size:
        raise StorageFailed(f"{url} holds {found} bytes of the {size} that were written: {NETWORK}")


def fetch(url: str, size: int, scratch: Path) -> IO[bytes]:
    """A copy of a file of this size, on this machine, without a name. Raises StorageFailed, Absent."""
    return _asked(url, "read", lambda: _fetch(url, size, scratch))


def remover(url: str) -> Callable[[str], None]:
    """What removes this file, and others that lie beside it. Both raise StorageFailed."""
    system, path = _asked(url, "deleted", lambda: _system(url))
    home = path.rpartition("/")[0]

    def remove(name: str) -> None:
        with suppress(FileNotFoundError):  # it is as good as removed
            system.rm_file(f"{home}/{name}")

    return lambda other: _asked(other, "deleted", lambda: remove(other.rpartition("/")[2]))


def names(home: str) -> dict[str, float]:
    """What lies right below this URL, and for how many seconds at least nobody wrote to it. Raises StorageFailed."""

    def listed() -> dict[str, float]:
        system, path = _system(home)
        with suppress(FileNotFoundError):
            return {str(each["name"]).rpartition("/")[2]: _age(each) for each in system.ls(path, detail=True)}
        return {}

    return _asked(home, "read", listed)


def _age(info: Mapping[str, Any]) -> float:
    """0: its file system does not say; object stores do not need to, for nobody sees half an object there."""
    written = info.get("mtime")
    if isinstance(written, datetime):
        written = written.timestamp()
    return max(0.0, time.time() - written - CLOCKS) if isinstance(written, int | float) else 0.0


def _asked(url: str, done: str, call: Callable[[], Given]) -> Given:
    """In our words, and without their cause: the storage's own errors may quote what it was configured with."""
    try:
        return call()
    except (StorageFailed, Absent):
        raise
    except Exception as error:
        failed = StorageFailed(f"{url} cannot be {done} ({why(error)}): {_advice(error)}")
    raise failed


def _advice(error: Exception) -> str:
    if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
        return RIGHTS
    return HOME if isinstance(error, FileNotFoundError) else NETWORK


def _system(url: str) -> tuple[Any, str]:
    """(file system, path). A new one each time: what an old one remembers may have changed."""
    try:
        from fsspec.core import url_to_fs

        system, path = url_to_fs(url, skip_instance_cache=True, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        raise StorageFailed(f"{url} cannot be used ({why(error)}): install what its file system needs") from error
    return system, path


def _send(file: IO[bytes], url: str, size: int) -> int:
    """How many bytes are there now."""
    system, path = _system(url)
    if url.partition("://")[0] in OBJECT_STORES:
        system.put_file(f"/proc/self/fd/{file.fileno()}", path)
    else:
        _send_and_move(system, file, path, size)
    return int(system.info(path)["size"])


def _send_and_move(system: Any, file: IO[bytes], path: str, size: int) -> None:
    """What lies there already stays if it is the same: between its end and the move nothing would be there."""
    if _holds(system, path, file, size):
        return
    folder = path.rpartition("/")[0]
    half = f"{folder}/.{secrets.token_hex(8)}"
    system.makedirs(folder, exist_ok=True)
    try:
        system.put_file(f"/proc/self/fd/{file.fileno()}", half)
        if system.exists(path):  # its bytes are others, whatever its name says; and not every file system moves onto it
            system.rm_file(path)
        system.mv(half, path)
    finally:
        with suppress(Exception):
            if system.exists(half):
                system.rm_file(half)


def _holds(system: Any, path: str, file: IO[bytes], size: int) -> bool:
    """Whether a file of these very bytes is there: size and name say nothing of a bit that flipped."""
    if not system.exists(path) or system.info(path)["size"] != size:
        return False
    blocks = range(0, size, BLOCK)
    return all(
        system.cat_file(path, start=start, end=min(start + BLOCK, size)) == os.pread(file.fileno(), BLOCK, start)
        for start in blocks
    )


def _fetch(url: str, size: int, scratch: Path) -> IO[bytes]:
    system, path = _system(url)
    found = _info(system, path, url)
    if found["type"] != "file":
        raise Absent(f"{url} is no file")
    if found["size"] != size:
        raise Absent(f"{url} has {found['size']} bytes, not {size}")
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        file = TemporaryFile(dir=scratch, buffering=0)  # noqa: SIM115  the caller closes it
    except OSError as error:
        raise _no_room(scratch, url, error) from error
    try:
        for start in range(0, size, BLOCK):
            left = memoryview(system.cat_file(path, start=start, end=min(start + BLOCK, size)))
            while left:
                left = left[_copied(url, file, left, scratch) :]
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def _info(system: Any, path: str, url: str) -> Any:
    try:
        return system.info(path)
    except FileNotFoundError:
        home = path.split("/")[0] if url.partition("://")[0] in OBJECT_STORES else path.rpartition("/")[0]
        if system.exists(home):
            raise Absent(f"{url} is not there", missing=True) from None
        raise StorageFailed(f"{url} cannot be read ({home} is not there): {HOME}") from None


def _copied(url: str, file: IO[bytes], block: memoryview, scratch: Path) -> int:
    try:
        return file.write(block)
    except OSError as error:
        raise _no_room(scratch, url, error) from error


def _no_room(scratch: Path, url: str, error: OSError) -> StorageFailed:
    return StorageFailed(f"{scratch} cannot hold a copy of {url} ({why(error)}): {DISK}")
