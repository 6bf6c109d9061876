"""A whole cluster as processes of this machine: coordinator with its embedded store, and one agent per worker.

Of several coordinators one leads and the others stand by; their store, if it is embedded, is then a process of its own.

Owns: starting them, starting again what dies, and stopping them all. `regroup up`, the demo, the benchmarks and the
tests stand on it. Refuses to know: what the cluster does; that is asked over REST.
Each agent leads a process group of its own, so that one signal reaches it, its fork server and its trainer together.
When the process that started the cluster dies without stopping it, the kernel tells all of them to leave.
"""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from regroup.client.errors import Unavailable, Unreachable
from regroup.client.sdk import Client
from regroup.coordinator import embedded
from regroup.wire.entry import not_installed
from regroup.wire.places import Endpoint, Places
from regroup.worker.settings import LEAVE_LIMIT

START_LIMIT = 60.0  # seconds until the coordinator must answer
STOP_LIMIT = 10.0  # seconds that a process has to leave before it is killed
PAUSE = (0.05, 5.0)  # seconds before what died is started again: at first, at most
HEALTHY = 10.0  # seconds of life after which a death counts as the first one again

# Runs between fork and exec in a fresh interpreter: a function to call there would be unsafe beside other threads.
_LEAVE_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    os.kill(os.getpid(), signal.SIGTERM)
os.execv(sys.argv[2], sys.argv[2:])
"""


class ClusterFailed(Exception):
    """The cluster cannot start; the message is what the failing process said last."""


class Supervised:
    """One process, started again whenever it ends until it is stopped. It can be stopped before it is started."""

    def __init__(
        self,
        name: str,
        command: list[str],
        environ: Mapping[str, str],
        log: Path,
        restart: bool,
        on_ended: Callable[["Supervised", int], None],
    ) -> None:
        """`on_ended` is called with this and the exit code, negative for a signal, before it is started again."""
        self.name, self.restart = name, restart
        self._command = [sys.executable, "-I", "-S", "-c", _LEAVE_WITH_PARENT, str(os.getpid()), *command]
        self._environ, self._log, self._on_ended = dict(environ), log, on_ended
        self._stopping = threading.Event()
        self._births = threading.Lock()  # so that nothing is started after `stop` has looked
        self._born: Future[None] = Future()
        self._process: subprocess.Popen[bytes] | None = None
        # The kernel means the parent's thread, so the one that starts processes must live as long as they do.
        self._watching = threading.Thread(target=self._watch, name=f"watch-{name}", daemon=True)

    def start(self) -> None:
        """Raises OSError. Who may be interrupted while this waits must be able to `stop` it then."""
        self._watching.start()
        self._born.result()

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """That runs, or ran last."""
        assert self._process is not None, f"{self.name} is not started"
        return self._process

    def kill(self) -> None:
        """SIGKILL to the process and all that it started, together."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def stop(self, patience: float = STOP_LIMIT) -> None:
        """Ask it to leave, kill it if it does not in `patience` seconds, and wait."""
        with self._births:
            self._stopping.set()
        if (process := self._process) is None:
            return
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # whatever it left behind
        process.wait()
        self._watching.join()

    def hurry(self) -> None:
        """Ask it twice, which ends an agent at once: by two signals, since two of one kind may be taken for one."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.send_signal(signal.SIGINT)

    def last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"{self.name} said nothing"

    def _spawn(self) -> bool:
        """Whether it was started: not where it is to stop."""
        with self._births, self._log.open("ab") as log:
            if self._stopping.is_set():
                return False
            self._process = subprocess.Popen(
                self._command,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            return True

    def _watch(self) -> None:
        try:
            runs = self._spawn()
        except OSError as error:
            self._born.set_exception(error)
            return
        self._born.set_result(None)
        pause = PAUSE[0]
        while runs:
            began = time.monotonic()
            code = self.process.wait()
            if self._stopping.is_set() or not self.restart:
                return
            self._on_ended(self, code)
            pause = PAUSE[0] if time.monotonic() - began > HEALTHY else min(pause * 2, PAUSE[1])
            runs = not self._stopping.wait(pause) and self._spawn()


class LocalCluster:
    """Use it as a context. `settings` are REGROUP_* variables without the prefix; ports are ephemeral unless given.

    `isolated`: none of these variables is inherited, so that it cannot reach into the cluster that they are meant for.
    `launch` gives for a worker's name what stands before its agent's command, and variables of its own.
    """

    def __init__(
        self,
        data_dir: Path,
        workers: int,
        *,
        coordinators: int = 1,
        isolated: bool = False,
        restart: bool = True,
        threads: int | None = None,
        settings: Mapping[str, str] | None = None,
        launch: Callable[[str], tuple[list[str], Mapping[str, str]]] = lambda name: ([], {}),
        on_started: Callable[[str], None] = lambda name: None,
        on_ended: Callable[[Supervised, int], None] = lambda process, code: None,
    ) -> None:
        self.data_dir = data_dir
        self._restart, self._launch = restart, launch
        self._on_started, self._on_ended = on_started, on_ended
        self._names = [f"w{number}" for number in range(workers)]
        threads = threads or max(1, (os.cpu_count() or 1) // max(workers, 1))
        given = {f"REGROUP_{name.upper()}": value for name, value in (settings or {}).items()}
        ours = {"REGROUP_DATA_DIR": str(data_dir), "REGROUP_PORT": "0", "REGROUP_LINK_PORT": "0"}
        # In any case of letters: that is how they are read.
        other = {name for name in os.environ if isolated and name.upper().startswith("REGROUP_")}
        inherited = {name: value for name, value in os.environ.items() if name not in other}
        told_at_once = {"REGROUP_STORE_LIMIT": "0"}  # that there is no store: somebody sits before it
        self._environ = {**told_at_once, **inherited, **ours, "REGROUP_THREADS": str(threads), **given}
        self._lock: IO[bytes] | None = None  # of the data directory, while this cluster may run there
        self._ports = _ports(self._environ["REGROUP_PORT"], coordinators)
        self._store: Supervised | None = None  # only of several coordinators
        self.coordinators: dict[str, Supervised] = {}
        self.agents: dict[str, Supervised] = {}

    def __enter__(self) -> "LocalCluster":
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def coordinator(self) -> Supervised | None:
        """The first one; None: it was not started."""
        return self.coordinators.get("coordinator")

    def start(self) -> None:
        """Start everything and wait until the coordinator answers. Raises ClusterFailed, RegroupError, OSError."""
        if trouble := not_installed(("coordinator", "worker")):
            raise ClusterFailed(trouble)
        Places(self.data_dir).make()
        (self.data_dir / "logs").mkdir(exist_ok=True)
        self._take_data_dir()
        if len(self._ports) > 1:
            self._share_store()
        for number in range(len(self._ports)):
            self.start_coordinator(number)
        for name in self._names:
            self.start_worker(name)

    def start_coordinator(self, number: int = 0) -> None:
        """One of those that there are to be, or one that died; it then leads or stands by."""
        name = f"coordinator-{number}" if number else "coordinator"
        environ = {**self._environ, "REGROUP_PORT": self._ports[number]}
        # -P: it has no use for the code in the folder where this was started, which is on the workers' path.
        command = [sys.executable, "-P", "-m", "regroup.coordinator.app"]
        coordinator = self.coordinators[name] = self._supervised(name, command, environ)
        coordinator.start()
        first = coordinator.process
        self._await(coordinator, first, lambda: self._leads(first.pid) or self._stands_by(first.pid))
        self._on_started(name)

    def _share_store(self) -> None:
        """Let each coordinator stand by where another leads."""
        self._environ["REGROUP_STANDBY"] = "true"
        if self._environ.get("REGROUP_REDIS_URL"):
            return
        try:
            (self.data_dir / "redis").mkdir(mode=0o700, exist_ok=True)
            url = self._environ["REGROUP_REDIS_URL"] = embedded.where(self.data_dir)
        except embedded.EmbeddedFailed as error:
            raise ClusterFailed(str(error)) from error
        command = [sys.executable, "-P", "-m", "regroup.lab.store", str(self.data_dir)]
        store = self._store = self._supervised("store", command, self._environ)
        store.start()
        self._await(store, store.process, lambda: embedded.answers(url))

    def start_worker(self, name: str) -> None:
        """One more worker, or one that died."""
        before, more = self._launch(name)
        environ = {**self._environ, "REGROUP_WORKER": name, **more}
        agent = self.agents[name] = self._supervised(name, [*before, sys.executable, "-m", "regroup.worker"], environ)
        agent.start()
        self._on_started(name)

    def stop_workers(self, hand_over: bool) -> None:
        """All of them. `hand_over`: what they would take along is saved first."""
        limit = float(self._environ.get("REGROUP_LEAVE_LIMIT", LEAVE_LIMIT))
        stopping = [threading.Thread(target=agent.stop, args=(limit + STOP_LIMIT,)) for agent in self.agents.values()]
        for thread in stopping:
            thread.start()
        if not hand_over:
            self.hurry()
        for thread in stopping:
            thread.join()
        self.agents.clear()

    @property
    def given_token(self) -> str | None:
        """The token that the coordinator was given; None: it keeps its own in the data directory."""
        return self._environ.get("REGROUP_TOKEN")

    def client(self) -> Client:
        """Of all coordinators."""
        places = Places(self.data_dir)
        urls = Endpoint.decode(places.endpoint.read_text()).url
        if len(self._ports) > 1:
            urls = ",".join(f"{urls.rpartition(':')[0]}:{port}" for port in self._ports)
        return Client(urls, (self.given_token or places.token.read_text()).strip())

    def hurry(self) -> None:
        """No agent hands over any more."""
        for agent in list(self.agents.values()):
            agent.hurry()

    def stop(self) -> None:
        """At once, but agents first, so that they can say goodbye."""
        self.stop_workers(hand_over=False)
        for coordinator in reversed(self.coordinators.values()):  # else a standby takes over from the first
            coordinator.stop()
        self.coordinators.clear()
        if self._store is not None:
            self._store.stop()
            self._store = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _take_data_dir(self) -> None:
        self._lock = (self.data_dir / "cluster.lock").open("ab")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = "a cluster runs there already: use that one, stop it, or give another data directory"
            raise ClusterFailed(f"{self.data_dir}: {message}") from None

    def _supervised(self, name: str, command: list[str], environ: Mapping[str, str]) -> Supervised:
        log = self.data_dir / "logs" / f"{name}.log"
        return Supervised(name, command, environ, log, self._restart, self._on_ended)

    def _await(self, process: Supervised, first: "subprocess.Popen[bytes]", ready: Callable[[], bool]) -> None:
        """Raises ClusterFailed if it does not get ready in time, or `first`, the first of this name, fails before."""
        deadline = time.monotonic() + START_LIMIT
        while not ready():
            if first.poll() is not None and first.returncode != 0:
                raise ClusterFailed(process.last_words())
            if time.monotonic() > deadline:
                raise ClusterFailed(f"the {process.name} did not answer in {START_LIMIT:g} s: {process.last_words()}")
            time.sleep(0.02)

    def _leads(self, pid: int) -> bool:
        try:
            if Endpoint.decode(Places(self.data_dir).endpoint.read_text()).pid != pid:
                return False
            with self.client() as client:
                client.cluster()  # that it answers is enough
                return True
        except (FileNotFoundError, ValueError, Unreachable, Unavailable):
            return False

    def _stands_by(self, pid: int) -> bool:
        if len(self._ports) == 1:
            return False
        try:
            with self.client() as client:
                return any(f", pid {pid}, " in standby.holder for standby in client.cluster().standbys)
        except (FileNotFoundError, ValueError, Unreachable, Unavailable):
            return False


def _ports(first: str, many: int) -> list[str]:
    """So many in a row. Of several coordinators each keeps its own: if the first is 0, these are any that are free."""
    if many == 1 or not first.isdecimal():
        return [first] * many
    if int(first):
        return [str(int(first) + number) for number in range(many)]
    with ExitStack() as held:
        free = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(many)]
        return [str(each.getsockname()[1]) for each in free]
