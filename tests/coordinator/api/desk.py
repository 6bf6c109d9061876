"""A desk for tests of the API: the real decisions over the store's twin in memory, without any worker behind it."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from regroup.coordinator.api import create_app
from regroup.coordinator.gathering import RecordsBroke
from regroup.coordinator.memory_store import MemoryStore
from regroup.coordinator.persistence import StoreUnavailable
from regroup.coordinator.serving import HttpServer, listen
from regroup.core.cluster import Cluster, Policy
from regroup.core.decide import decide
from regroup.core.messages.agent_reports import AgentRegistered, Heartbeat
from regroup.core.messages.commands import Command
from regroup.core.messages.events import Event, Reported
from regroup.wire.lease_clock import lease_clock

T = TypeVar("T")


class TestDesk:
    """What the coordinator's shell is to the API. `cluster` may be replaced by any value a test wants shown."""

    __test__ = False

    def __init__(self) -> None:
        self.policy = Policy()
        self.store = MemoryStore()
        self.cluster = Cluster(started=lease_clock())
        self.ready: str | None = None
        self.pieces: list[tuple[str, str]] = []
        self.breaks: str | None = None  # why its records break off after these pieces
        self._fence = 0
        self._written: asyncio.Future[None] | None = None

    async def command(self, command: Command) -> None:
        if self.ready is not None:
            raise StoreUnavailable(self.ready)
        await self.happen(command)

    async def happen(self, event: Event) -> None:
        """Decide about an event and keep what was decided, as the shell does."""
        decision = decide(self.cluster, event, lease_clock(), self.policy)
        if not self._fence:
            self._fence = await self.store.acquire("tests", 3600.0) or 0
        jobs, workers = tuple(decision.cluster.jobs.values()), tuple(decision.cluster.workers.values())
        await self.store.save(self._fence, jobs, workers, notes=decision.notes, at=time.time())
        for job, points in decision.points:
            await self.store.append_points(self._fence, job, points)
        self.cluster = decision.cluster
        if decision.notes and self._written is not None:
            self._written.set_result(None)
            self._written = None

    async def register(self, name: str) -> None:
        report = AgentRegistered(boot=f"{name}-boot", device="cpu", host="here", pid=1, version="0")
        await self.happen(Reported(name, report))
        await self.happen(Reported(name, Heartbeat(boot=report.boot, sequence=1)))

    async def records(self, job: str) -> AsyncIterator[tuple[str, str]]:
        for piece in self.pieces:
            yield piece
        if self.breaks is not None:
            raise RecordsBroke(self.breaks)

    def forget_waiting(self) -> None:
        """A new event loop serves from here on."""
        self._written = None

    def new_events(self) -> asyncio.Future[None]:
        if self._written is None:
            self._written = asyncio.get_running_loop().create_future()
        return self._written


class Served:
    """The API over a TestDesk, on a real socket, with an event loop in a thread of its own."""

    def __init__(self, keepalive: float = 15.0) -> None:
        self.desk = TestDesk()
        self.token = "token-of-the-tests"
        self._keepalive = keepalive
        self._port = 0
        self.start()

    def start(self) -> None:
        """Serve, at the same address as before."""
        self._loop = asyncio.new_event_loop()
        app = create_app(self.desk, self.token, keepalive=self._keepalive)
        self._state = app.state
        self.server = HttpServer(app, listen("127.0.0.1", self._port))
        self.url = self.server.url
        self._port = int(self.url.rsplit(":", 1)[1])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def renew(self) -> None:
        """A fresh desk behind the same address, for the next test."""
        self.desk = TestDesk()
        if not self._thread.is_alive():
            self.start()
        self._state.context = replace(self._state.context, desk=self.desk)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            self.desk.forget_waiting()
            runner.run(self.server.run_until_stopped())

    def do(self, what: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the server's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(10)

    def stop(self) -> None:
        self.server.stop()
        self._thread.join(20)
        assert not self._thread.is_alive()
