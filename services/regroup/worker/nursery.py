"""Where trainers come from: forks of a process that has imported torch before any thread or CUDA context existed.

Owns: the fork server, one spare trainer that waits for a job, and how a trainer is killed and its end told.
Refuses to know: what trainers are told to do, and torch (only the fork server imports it).
Does not guarantee: that a spare is warm in the first seconds, while the fork server still imports; nor the end of all
that a trainer starts: what it forks by Python (`os.fork`, a `fork` process) ends with it; what it executes
(`subprocess`, a `spawn` or `forkserver` process) outlives its SIGKILL.
"""

import multiprocessing as mp
import os
import secrets
import shutil
import signal
import threading
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from regroup.worker.deaf import born_deaf, stay_deaf
from regroup.worker.locks import trainer_lock
from regroup.worker.memory import MemoryFile
from regroup.worker.position import last_position

EXIT_LIMIT = 5.0  # seconds that an agent which ends waits for what it killed, and for births that are under way


class BirthFailed(Exception):
    """No trainer can be started on this machine, as it is now."""


@dataclass(frozen=True, slots=True)
class Birth:
    """What a trainer is born with. Paths are on this machine."""

    worker: str
    incarnation: str
    host: str  # the address of this machine that other trainers connect to
    records: Path
    checkpoints: str  # a folder, or a URL
    scratch: Path  # for files on their way to or from a URL; this worker's alone
    logs: Path
    position: Path  # the file in memory in which it notes its position
    pulse: Path  # and where its step loop sits, for its agent
    agent: int  # the process that may look into it
    lock: Path  # held while it lives: a worker never has two trainers
    threads: int  # of torch, within one operation


@dataclass(frozen=True, slots=True)
class Trainer:
    """A trainer process, as its agent holds it."""

    birth: Birth
    process: ForkServerProcess
    pipe: Connection
    notes: tuple[MemoryFile, ...]  # what it writes of itself, to be held as long as anybody reads it

    @property
    def incarnation(self) -> str:
        return self.birth.incarnation

    def kill(self) -> None:
        self.process.kill()

    def gone(self, patience: float) -> bool:
        """Whether it ended within so many seconds. One that waits for a dead disk in the kernel outlives its kill."""
        return bool(wait([self.process.sentinel], patience))

    def bury(self) -> str:
        """Free what is left of a trainer that is gone, and tell how it ended."""
        self.process.join()
        code = self.process.exitcode
        self.pipe.close()
        self.process.close()
        if code is None or code >= 0:
            return f"exit status {code}"
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:  # of the real-time signals, only the first and the last have names
            return f"killed by signal {-code}"

    def last_position(self) -> tuple[int, int] | None:
        """(step, shard) whose passes ran last; None outside of them."""
        return last_position(self.birth.position)


class Nursery:
    """Gives birth to trainers of one worker. `target` is "module:function", called in the child with (pipe, birth).

    A data directory has one at a time of each worker's name: its agent's lock sees to that.
    """

    def __init__(
        self, worker: str, host: str, data: Path, threads: int, target: str, checkpoints: str | None = None
    ) -> None:
        self.checkpoints = checkpoints or str(data / "checkpoints")
        self._worker, self._host, self._data, self._threads = worker, host, data, threads
        self._target = target
        # numpy's BLAS would start its threads in the fork server, at its import; only a single thread forks safely.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # torch's flight recorder keeps the stacks of the last 2 000 collectives, 1.2 KB each; nothing here reads them.
        os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "0")
        self._context = mp.get_context("forkserver")
        preload = ["regroup.worker.uncollected", target.partition(":")[0], "regroup.worker.frozen"]
        self._context.set_forkserver_preload(preload)
        self._spare: Trainer | None = None
        self._lock = threading.Lock()  # births take seconds while the fork server imports: they run on other threads
        for folder in ("records", "logs", "run"):
            (data / folder).mkdir(parents=True, exist_ok=True)
        _listen_in(data / "run" / f"{worker}.sockets")

    @property
    def scratch(self) -> Path:
        return self._data / "run" / f"{self._worker}.scratch"

    def keep_spare(self) -> None:
        """Have a trainer ready. Takes milliseconds once the fork server has imported, and waits for that.

        Raises BirthFailed.
        """
        with self._lock:
            self._spare = self._living_spare() or self._bear()

    def take(self) -> Trainer:
        """The spare, or a new trainer. Waits as `keep_spare` does. Raises BirthFailed."""
        with self._lock:
            trainer, self._spare = self._living_spare() or self._bear(), None
            return trainer

    def close(self) -> None:
        """End the spare. Trainers that were taken belong to whoever took them, and one that is being born ends with
        this process."""
        if not self._lock.acquire(blocking=False):
            return
        if spare := self._living_spare():
            spare.kill()
            if spare.gone(EXIT_LIMIT):
                spare.bury()
        self._spare = None
        self._lock.release()

    def _living_spare(self) -> Trainer | None:
        if self._spare is not None and not self._spare.process.is_alive():
            self._spare.bury()
            self._spare = None
        return self._spare

    def _bear(self) -> Trainer:
        try:
            position, pulse = MemoryFile("position"), MemoryFile("pulse")
            birth = Birth(
                worker=self._worker,
                incarnation=secrets.token_hex(6),
                host=self._host,
                records=self._data / "records",
                checkpoints=self.checkpoints,
                scratch=self.scratch,
                logs=self._data / "logs",
                position=position.path,
                pulse=pulse.path,
                agent=os.getpid(),
                lock=trainer_lock(self._data, self._worker),
                threads=self._threads,
            )
            ours, theirs = self._context.Pipe()
            process = self._context.Process(target=_live, args=(self._target, theirs, birth), daemon=True)
            with born_deaf():
                process.start()
        except (OSError, EOFError) as error:  # EOFError: the fork server ended in the middle of it
            raise BirthFailed(f"cannot start a trainer: {type(error).__name__}: {error}") from error
        theirs.close()
        return Trainer(birth, process, ours, (position, pulse))


def _listen_in(place: Path) -> None:
    """Have this process's fork server listen there, in place of a new folder in $TMPDIR, which a SIGKILL would leave.

    The address of a socket has 107 bytes, and a data directory may have a longer one: through a descriptor it is short.
    """
    if place.exists():
        shutil.rmtree(place)
    place.mkdir(mode=0o700)
    folder = os.open(place, os.O_PATH | os.O_DIRECTORY)  # for the life of this process, as the fork server
    vars(mp.current_process())["_config"]["tempdir"] = f"/proc/self/fd/{folder}"


def _live(target: str, pipe: Connection, birth: Birth) -> None:
    """The first code of a trainer: depend on the parent, not the parent on it; then do what `target` says."""
    die_with_parent()
    stay_deaf()
    _let_look(birth.agent)
    # The fork server ends when nobody holds this pipe any more. It gives it to its children; held by a trainer that is
    # stopped, it would outlive the agent, and the trainer with it. If it is kept elsewhere in another Python, fail.
    server = vars(forkserver._forkserver)
    os.close(server["_forkserver_alive_fd"])
    server["_forkserver_alive_fd"] = None
    vars(mp.current_process())["_config"].pop("tempdir", None)  # it names a descriptor of the agent's
    # To its agent it is a daemon, which nobody waits for; but a task may start processes. Those that are forked inherit
    # its lock and its sockets, so they must end with it.
    mp.current_process().daemon = False
    os.register_at_fork(after_in_child=die_with_parent)
    module, _, function = target.partition(":")
    getattr(__import__(module, fromlist=[function]), function)(pipe, birth)


def _let_look(agent: int) -> None:
    """Where a process may look only into its children (Yama), let this agent's children look into this one, for its
    stacks (prctl PR_SET_PTRACER, Linux). Elsewhere this fails, and need not be said."""
    import ctypes

    ctypes.CDLL(None).prctl(0x59616D61, agent, 0, 0, 0)


def die_with_parent() -> None:
    """SIGKILL this process when its parent ends (prctl PR_SET_PDEATHSIG, Linux)."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(1, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() == 1:  # the parent was gone before we asked
        os.kill(os.getpid(), signal.SIGKILL)
