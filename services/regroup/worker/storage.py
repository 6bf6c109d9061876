"""How a file gets to where checkpoints are kept, and back: a folder of this machine, or any URL that fsspec knows.

Owns: that nobody takes a half-written file for a whole one, that each call ends in time, and what went wrong in one
line that names the place. It imports fsspec only once a URL is used.
Refuses to know: what a file means, and which bytes are the right ones. Credentials come from the environment, as each
file system reads them; they are never part of a URL, so that URLs may be shown.
Does not guarantee: that a call which was given up is over. To a URL it may still complete, under the name of its own
content.
"""

import hashlib
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, TypeVar

from regroup.worker.place import is_url

OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"}  # they show an object once all of it is there
BLOCK = 32 * 2**20  # bytes asked for at a time

Given = TypeVar("Given")


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


@dataclass(frozen=True, slots=True)
class Storage:
    """Where this process keeps files. `scratch` is a folder of its own, for what is on its way to or from a URL."""

    place: str  # a folder or a URL; what is read may lie elsewhere
    scratch: Path
    patience: float = 60.0  # seconds that one file may take to or from where it is kept
    # By folder, what was given up there. The next call waits for it: each may hold a whole state in memory.
    _hung: dict[str, threading.Thread] = field(default_factory=dict, compare=False, repr=False)

    def tidy(self) -> None:
        """Remove what a killed process of the same scratch folder left there."""
        shutil.rmtree(self.scratch, ignore_errors=True)

    def put(self, folder: str, name: Callable[[str], str], fill: Callable[[Path], None]) -> Stored:
        """Keep a file for good, under a name made from its checksum. `fill` writes it to the path that it is given.

        Raises StorageFailed, and what `fill` raises beside OSError.
        """
        if is_url(self.place):
            return self._upload(folder, name, fill)
        home = str(Path(self.place) / folder)
        return self._in_time(home, "written", lambda late: _keep(Path(home), name, fill, late), home)

    def read(self, path: str, size: int, parse: Callable[[IO[bytes]], Given]) -> Given:
        """What `parse` makes of a file of this size, open, on this machine; a copy goes when it is over.

        Raises StorageFailed, Absent, and what `parse` raises.
        """
        if is_url(path):
            with self._fetch(path, size) as copy:
                return parse(copy)

        def work(_: threading.Event) -> Given:
            with _open(path, size) as file:
                return parse(file)

        return self._in_time(path, "read", work, str(Path(path).parent))

    def delete(self, path: str) -> None:
        """A file that is not there is as good as deleted. Raises StorageFailed."""
        if is_url(path):
            self._in_time(path, "deleted", lambda _: _remove(path))
        else:
            self._in_time(path, "deleted", lambda _: _unlink(path), str(Path(path).parent))

    # --- A URL

    def _upload(self, folder: str, name: Callable[[str], str], fill: Callable[[Path], None]) -> Stored:
        draft = self.scratch / secrets.token_hex(8)
        try:
            self.scratch.mkdir(parents=True, exist_ok=True)
            fill(draft)
            file = draft.open("rb")
            checksum, size = _measure(file)
        except OSError as error:
            raise StorageFailed(f"{self.scratch} cannot hold a copy to upload ({_why(error)}): {_DISK}") from error
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)  # what is open stays, without a name, until it is closed
        url = f"{self.place.rstrip('/')}/{folder}/{name(checksum)}"
        self._in_time(url, "written", lambda _: _send(file, url, size))
        return Stored(url, checksum, size)

    def _fetch(self, url: str, size: int) -> IO[bytes]:
        return self._in_time(url, "read", lambda _: self._download(url, size))

    def _download(self, url: str, size: int) -> IO[bytes]:
        system, path = _system(url)
        found = _info(system, path, url)
        if found["type"] != "file":
            raise Absent(f"{url} is no file")
        if found["size"] != size:
            raise Absent(f"{url} has {found['size']} bytes, not {size}")
        try:
            self.scratch.mkdir(parents=True, exist_ok=True)
            file = TemporaryFile(dir=self.scratch, buffering=0)  # noqa: SIM115  the caller closes it
        except OSError as error:
            raise self._no_room(url, error) from error
        try:
            for start in range(0, size, BLOCK):
                left = memoryview(system.cat_file(path, start=start, end=min(start + BLOCK, size)))
                while left:
                    left = left[self._copied(url, file, left) :]
            file.seek(0)
        except BaseException:
            file.close()
            raise
        return file

    def _copied(self, url: str, file: IO[bytes], block: memoryview) -> int:
        try:
            return file.write(block)
        except OSError as error:
            raise self._no_room(url, error) from error

    def _no_room(self, url: str, error: OSError) -> StorageFailed:
        return StorageFailed(f"{self.scratch} cannot hold a copy of {url} ({_why(error)}): {_DISK}")

    # --- Either

    def _in_time(self, what: str, done: str, call: Callable[[threading.Event], Given], home: str = "") -> Given:
        """On a thread that is left behind when it takes too long: file systems wait as long as they like.

        `call` is given an event that is set once nobody waits for it. `home`: the folder that `what` is in, or is.
        """
        until, late = time.monotonic() + self.patience, threading.Event()
        given: list[Given] = []
        failed: list[Exception] = []

        def work() -> None:
            try:
                given.append(call(late))
            except (StorageFailed, Absent) as error:
                failed.append(error)
            except Exception as error:
                failed.append(error if home else _translated(error, what, done))

        thread = threading.Thread(target=work, name=f"storage {what}", daemon=True)
        former = self._hung.get(home)
        if former is not None:
            former.join(self.patience)
        if former is None or not former.is_alive():
            thread.start()
            thread.join(max(0.0, until - time.monotonic()))
        late.set()
        if failed:
            raise failed[0]
        if not given:
            if home and thread.is_alive():
                self._hung[home] = thread
            raise StorageFailed(f"{what} could not be {done} in {self.patience:g} s: {_SLOW if home else _NETWORK}")
        return given[0]


_DISK = "free some space there, or mend its permissions"
_MOUNT = "mount it on this machine, or have a worker of the machine that wrote it take part"
_NETWORK = "check the address, the endpoint and the network, then try again"
_SLOW = "look whether its disk or server answers; if it is only slow, give the job a longer step_timeout"
_HOME = "create the bucket or folder, or name another one"
_RIGHTS = "check the credentials in this worker's environment, and that they may read and write there"


def _keep(home: Path, name: Callable[[str], str], fill: Callable[[Path], None], late: threading.Event) -> Stored:
    """In a folder of this machine. What nobody waits for any more gets no name: what it was filled from may change."""
    half = home / f".{secrets.token_hex(8)}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        fill(half)
        with half.open("rb") as file:
            checksum, size = _measure(file)
            os.fsync(file.fileno())
        if late.is_set():
            raise StorageFailed(f"{home} was written too late: {_SLOW}")
        target = half.replace(home / name(checksum))
        for each in (home, home.parent):
            _sync_folder(each)
    except OSError as error:
        raise StorageFailed(f"{home} cannot be written ({_why(error)}): {_DISK}") from error
    finally:
        with suppress(OSError):
            half.unlink(missing_ok=True)
    return Stored(str(target), checksum, size)


def _unlink(path: str) -> bool:
    try:
        Path(path).unlink(missing_ok=True)
    except OSError as error:
        raise StorageFailed(f"{path} cannot be deleted ({_why(error)}): mend its permissions") from error
    return True


def _send(file: IO[bytes], url: str, size: int) -> bool:
    """The file is closed here, not by who may have stopped waiting: its number must not become another file's."""
    with file:
        system, path = _system(url)
        if url.partition("://")[0] in OBJECT_STORES:
            system.put_file(f"/proc/self/fd/{file.fileno()}", path)
        else:
            _send_and_move(system, file, path, size)
        found = system.info(path)["size"]
    if found != size:
        raise StorageFailed(f"{url} holds {found} bytes of the {size} that were written: {_NETWORK}")
    return True


def _info(system: Any, path: str, url: str) -> Any:
    try:
        return system.info(path)
    except FileNotFoundError:
        home = path.split("/")[0] if url.partition("://")[0] in OBJECT_STORES else path.rpartition("/")[0]
        if system.exists(home):
            raise Absent(f"{url} is not there", missing=True) from None
        raise StorageFailed(f"{url} cannot be read ({home} is not there): {_HOME}") from None


def _remove(url: str) -> bool:
    system, path = _system(url)
    with suppress(FileNotFoundError):
        system.rm_file(path)
    return True


def _send_and_move(system: Any, file: IO[bytes], path: str, size: int) -> None:
    """What lies there already stays if it is the same: between its end and the move nothing would be there."""
    if _holds(system, path, file, size):
        return
    folder, _, name = path.rpartition("/")
    half = f"{folder}/.{name}.{secrets.token_hex(8)}"
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


def _system(url: str) -> tuple[Any, str]:
    """(file system, path). A new one each time: what an old one remembers may have changed."""
    try:
        from fsspec.core import url_to_fs

        system, path = url_to_fs(url, skip_instance_cache=True, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        raise StorageFailed(f"{url} cannot be used ({_why(error)}): install what its file system needs") from error
    return system, path


def _translated(error: Exception, url: str, done: str) -> Exception:
    """In our words, and without its cause: the storage's own errors may quote what it was configured with."""
    if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
        advice = _RIGHTS
    elif isinstance(error, FileNotFoundError):
        advice = _HOME
    else:
        advice = _NETWORK
    return StorageFailed(f"{url} cannot be {done} ({_why(error)}): {advice}")


def _why(error: Exception) -> str:
    """One line of reasonable length, without the user part of a URL."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return re.sub(r"://[^/\s]*@", "://", " ".join(text.split()))[:300]


def _open(path: str, size: int) -> IO[bytes]:
    try:
        file = open(path, "rb")  # noqa: SIM115  the caller closes it
    except IsADirectoryError as error:
        raise Absent(f"{path} is no file ({error.strerror})") from error
    except FileNotFoundError as error:
        if Path(path).parent.is_dir():  # else the disk may not be mounted, or it is another machine's
            raise Absent(f"{path} is not there ({error.strerror})", missing=True) from error
        raise StorageFailed(f"{path} cannot be read (its folder is not there): {_MOUNT}") from error
    except OSError as error:
        raise StorageFailed(f"{path} cannot be read ({error.strerror}): mend its permissions, or the disk") from error
    if (found := os.fstat(file.fileno()).st_size) != size:
        file.close()
        raise Absent(f"{path} has {found} bytes, not {size}")
    return file


def _measure(file: IO[bytes]) -> tuple[str, int]:
    return hashlib.file_digest(file, "sha256").hexdigest(), os.fstat(file.fileno()).st_size  # type: ignore[arg-type]


def _sync_folder(folder: Path) -> None:
    """A file's name is as durable as its bytes only when its folder is."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
