"""A whole cluster as processes of this machine: coordinator with its embedded store, and one agent per worker.

Owns: starting them, starting again what dies, and stopping them all. `regroup up`, the demo, the benchmarks and the
tests stand on it. Refuses to know: what the cluster does; that is asked over REST.
Each agent leads a process group of its own, so that one signal reaches it, its fork server and its trainer together.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from regroup.client.errors import RegroupError
from regroup.client.sdk import Client
from regroup.wire.places import Endpoint, Places

START_LIMIT = 60.0  # seconds until the coordinator must answer
STOP_LIMIT = 10.0  # seconds that a process has to leave before it is killed
PAUSE = (0.05, 5.0)  # seconds before what died is started again: at first, at most
HEALTHY = 10.0  # seconds of life after which a death counts as the first one again


class ClusterFailed(Exception):
    """The cluster cannot start; the message is what the failing process said last."""


class Supervised:
    """One process, started again whenever it ends until it is stopped."""

    def __init__(self, name: str, command: list[str], environ: Mapping[str, str], log: Path, restart: bool) -> None:
        self.name, self.restart = name, restart
        self._command, self._environ, self._log = command, dict(environ), log
        self._stopping = threading.Event()
        self.process = self._spawn()
        self._watching = threading.Thread(target=self._watch, name=f"watch-{name}", daemon=True)
        self._watching.start()

    def kill(self) -> None:
        """SIGKILL to the process and all that it started, together."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to leave, kill it if it does not, and wait."""
        self._stopping.set()
        process = self.process
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_LIMIT)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # whatever it left behind
        process.wait()
        self._watching.join()

    def last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"{self.name} said nothing"

    def _spawn(self) -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _watch(self) -> None:
        pause = PAUSE[0]
        while True:
            began = time.monotonic()
            self.process.wait()
            if self._stopping.is_set() or not self.restart:
                return
            pause = PAUSE[0] if time.monotonic() - began > HEALTHY else min(pause * 2, PAUSE[1])
            if self._stopping.wait(pause):
                return
            self.process = self._spawn()


class LocalCluster:
    """Use it as a context. `settings` are REGROUP_* variables without the prefix; ports are ephemeral unless given."""

    def __init__(
        self,
        data_dir: Path,
        workers: int,
        *,
        restart: bool = True,
        threads: int | None = None,
        settings: Mapping[str, str] | None = None,
        on_started: Callable[[str], None] = lambda name: None,
    ) -> None:
        self.data_dir = data_dir
        self._restart = restart
        self._on_started = on_started
        self._names = [f"w{number}" for number in range(workers)]
        threads = threads or max(1, (os.cpu_count() or 1) // max(workers, 1))
        given = {f"REGROUP_{name.upper()}": value for name, value in (settings or {}).items()}
        ours = {"REGROUP_DATA_DIR": str(data_dir), "REGROUP_PORT": "0", "REGROUP_LINK_PORT": "0"}
        self._environ = {**os.environ, **ours, "REGROUP_THREADS": str(threads), **given}
        self.coordinator: Supervised | None = None
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

    def start(self) -> None:
        """Start everything and wait until the coordinator answers. Raises ClusterFailed, OSError."""
        places = Places(self.data_dir)
        places.make()
        (self.data_dir / "logs").mkdir(exist_ok=True)
        self.start_coordinator()
        for name in self._names:
            self.start_worker(name)

    def start_coordinator(self) -> None:
        places = Places(self.data_dir)
        log = self.data_dir / "logs" / "coordinator.log"
        command = [sys.executable, "-m", "regroup.coordinator.app"]
        coordinator = self.coordinator = Supervised("coordinator", command, self._environ, log, self._restart)
        first = coordinator.process
        deadline = time.monotonic() + START_LIMIT
        while not self._answers(places, first.pid):
            if first.poll() is not None and first.returncode != 0:
                raise ClusterFailed(coordinator.last_words())
            if time.monotonic() > deadline:
                raise ClusterFailed(f"the coordinator did not answer in {START_LIMIT:g} s: {coordinator.last_words()}")
            time.sleep(0.02)
        self._on_started("coordinator")

    def start_worker(self, name: str) -> None:
        """One more worker, or one that was stopped."""
        log = self.data_dir / "logs" / f"{name}.log"
        environ = {**self._environ, "REGROUP_WORKER": name}
        command = [sys.executable, "-m", "regroup.worker.agent"]
        self.agents[name] = Supervised(name, command, environ, log, self._restart)
        self._on_started(name)

    def stop_worker(self, name: str) -> None:
        self.agents.pop(name).stop()

    def client(self) -> Client:
        places = Places(self.data_dir)
        endpoint = Endpoint.decode(places.endpoint.read_text())
        return Client(endpoint.url, places.token.read_text().strip())

    def stop(self) -> None:
        """Agents first, so that they can say goodbye."""
        stopping = [threading.Thread(target=agent.stop) for agent in self.agents.values()]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()
        self.agents.clear()
        if self.coordinator is not None:
            self.coordinator.stop()
            self.coordinator = None

    def _answers(self, places: Places, pid: int) -> bool:
        try:
            endpoint = Endpoint.decode(places.endpoint.read_text())
            if endpoint.pid != pid:
                return False
            with self.client() as client:
                client.cluster()  # that it answers is enough
                return True
        except (OSError, ValueError, RegroupError):
            return False
