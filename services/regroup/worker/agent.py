"""The agent of one device: it registers, heartbeats, obeys, and passes on what its trainer says and is told.

Owns: the worker's name and boot, and the talk with the coordinator. Every order about a generation goes to the trainer
as it is; every report of the trainer goes to the coordinator as it is, kept while there is no connection.
Refuses to know: torch, Redis, what a generation is for, how its trainer lives (`guardian`), and where keys and places
come from (`serving`).
Does not guarantee: that the coordinator is there; steps go on without it, for as long as the lease lasts.
"""

import asyncio
import logging
import os
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from importlib.metadata import version
from typing import Any

from regroup.core.messages.agent_reports import AgentLeft, AgentRegistered, Heartbeat, TrainerExited
from regroup.core.messages.events import Report
from regroup.core.messages.orders import (
    Discard,
    Form,
    Go,
    Halt,
    Heard,
    Kill,
    ListRecords,
    Order,
    Prepare,
    ReadRecords,
    RecordsOrder,
    Release,
    Save,
    TurnAway,
    Welcome,
)
from regroup.core.messages.protocol import PROTOCOL
from regroup.core.messages.trainer_reports import StepsCommitted
from regroup.core.workers import Telemetry
from regroup.wire.lease_clock import lease_clock
from regroup.wire.link import Line
from regroup.worker import archive
from regroup.worker.apart import apart
from regroup.worker.departure import Departure
from regroup.worker.discarding import Discarding, Sweeper
from regroup.worker.guardian import Guardian
from regroup.worker.health import Health
from regroup.worker.lease_ledger import LeaseLedger
from regroup.worker.nursery import Nursery
from regroup.worker.settings import AgentSettings
from regroup.worker.storage import Storage

log = logging.getLogger("regroup.agent")

UNSENT = 10_000  # reports kept while there is no connection, or none that takes more
UNANSWERED = 10.0  # seconds, or three heartbeats, until a coordinator that answers nothing is no leader
GLANCE = 0.1  # seconds between two looks whether it has waited long enough
UNKNOWN_KEY = "its key is not that of this cluster's workers: set REGROUP_JOIN to what `regroup join-token` tells there"
LATEST = 8  # reports of measurements, about two seconds, that a coordinator may have taken along when it died


class TurnedAway(Exception):
    """The coordinator does not let it take part. One line with what to do; to ask again is of no use."""


class Agent:
    def __init__(
        self, settings: AgentSettings, line: Callable[[Callable[[], None]], Line], nursery: Nursery, health: Health
    ) -> None:
        self._settings = settings
        self._nursery = nursery
        self._boot = secrets.token_hex(6)
        self._health = health
        self._line = line(self._connected)
        self._unsent: deque[Report] = deque(maxlen=UNSENT)
        self._measured: deque[Report] = deque(maxlen=LATEST)  # the last that were sent
        self._welcome = Welcome(heartbeat_interval=1.0)
        self._unwelcome: str | None = None  # why the coordinator turned it away
        self._leases = LeaseLedger()
        self._answered = lease_clock()  # when a coordinator answered last, or let it connect
        self._unheard = False  # and that was said
        self._moved = self._answered  # when it left one that answered nothing
        self._sequence = 0
        self._departure: Departure | None = None  # once it was asked to end
        self._asides: set[asyncio.Task[None]] = set()  # what waits for the disk
        self._discarding = Discarding(Sweeper(Storage(nursery.checkpoints, nursery.scratch)).discard, self._report)
        self._guardian = Guardian(nursery, self._report, self._heartbeat, self._barren)
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Serve until it leaves. Raises TurnedAway, and BirthFailed: who can start no trainer must not look healthy.

        Raises also whatever nobody foresaw: an agent of which a part is dead would be waited for.
        """
        asyncio.get_running_loop().set_exception_handler(self._failed)
        self._guardian.warm()
        orders = asyncio.create_task(self._follow_orders())
        beats = asyncio.create_task(self._beat())
        looks = asyncio.create_task(self._guardian.watch())
        ends: set[asyncio.Future[None]] = {orders, beats, looks, self._end}
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in (orders, beats, looks, *self._asides):
            task.cancel()
        await self._guardian.close()
        if all(end.exception() is None for end in done) and self._guardian.incarnation is None:
            self._line.send(AgentLeft(boot=self._boot))
        await self._line.close(flush=1.0)
        for end in done:
            end.result()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What a callback of the loop raises nobody awaits: such as that its trainer's end could not be told."""
        error = context.get("exception")
        if "handle" in context and isinstance(error, Exception) and not self._end.done():
            self._end.set_exception(error)
        else:
            loop.default_exception_handler(context)

    def leave(self) -> None:
        """Asked once, it hands over what its trainer has, and ends; asked twice, it ends at once."""
        if self._departure is not None:
            self._go("it was asked twice")
            return
        log.info("asked to end: its shards go to others first")
        self._departure = Departure(since=lease_clock(), limit=self._settings.leave_limit)
        self._heartbeat()
        self._wait_to_go(self._departure)

    def _wait_to_go(self, departure: Departure) -> None:
        why = departure.over(lease_clock(), self._answered, self._guardian.incarnation is not None)
        if why is not None:
            self._go(why)
        elif not self._end.done():
            asyncio.get_running_loop().call_later(GLANCE, self._wait_to_go, departure)

    def _go(self, why: str) -> None:
        if not self._end.done():
            log.info("ends: %s", why)
            self._end.set_result(None)

    def _barren(self, job: str, error: BaseException) -> None:
        """Without a trainer the agent ends, and says why."""
        if not self._end.done():
            self._report(TrainerExited(job=job, incarnation="", cause=str(error), asked=False))
            self._end.set_exception(error)

    def _connected(self) -> None:
        """The first words on a new connection, and all that waited for one."""
        settings = self._settings
        self._answered = lease_clock()
        self._line.send(
            AgentRegistered(
                boot=self._boot,
                device=settings.device,
                host=socket.gethostname(),
                pid=os.getpid(),
                version=version("regroup"),
                protocol=PROTOCOL,
                wall=time.time(),
            )
        )
        self._heartbeat()
        self._unsent = deque([*self._measured, *self._unsent], maxlen=UNSENT)
        self._measured.clear()
        self._catch_up()
        log.info("connected to the coordinator as %s", settings.worker)

    def _report(self, report: Report) -> None:
        """Passed on at once, or, in its turn, when the coordinator takes it."""
        self._catch_up()
        bare = isinstance(report, StepsCommitted) and not report.points  # that is in every heartbeat, too
        passed = not self._unsent and self._pass_on(report)
        if not passed and not bare:
            self._unsent.append(report)

    def _pass_on(self, report: Report) -> bool:
        passed = self._line.send(report)
        if passed and isinstance(report, StepsCommitted) and report.points:
            self._measured.append(report)  # for the next coordinator, which keeps one of each step
        return passed

    def _catch_up(self) -> None:
        """Pass on what waits, until a connection takes no more: a busy coordinator's has room again in a moment."""
        while self._unsent and self._line.connected:
            report = self._unsent.popleft()  # first: a connection that is noticed only now passes all others on
            if not self._pass_on(report):
                self._unsent.appendleft(report)
                return

    def _heartbeat(self) -> None:
        self._sequence += 1
        self._leases.sent(self._sequence, lease_clock())
        beat = Heartbeat(
            boot=self._boot,
            sequence=self._sequence,
            trainer=self._guardian.status,
            telemetry=self._telemetry(),
            leaving=self._departure is not None,
            hang=self._guardian.hang,
            pace=self._guardian.pace,
            left=self._guardian.untold,
        )
        self._line.send(beat)

    def _telemetry(self) -> Telemetry:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return Telemetry(memory_used=self._guardian.memory, memory_total=total)

    async def _beat(self) -> None:
        while True:
            self._heartbeat()
            self._catch_up()
            self._health.beat(self._welcome.heartbeat_interval)
            self._leave_who_does_not_lead()
            if self._line.unknown_key:
                self._turned_away(UNKNOWN_KEY)
            self._end_unless_it_trains()
            await asyncio.sleep(self._welcome.heartbeat_interval)

    def _turned_away(self, why: str) -> None:
        if self._unwelcome != why and self._guardian.incarnation is not None:
            log.error("turned away by the coordinator, and going on with what it trains: %s", why)
        self._unwelcome = why

    def _end_unless_it_trains(self) -> None:
        """A job outlives a coordinator that this agent cannot talk to, until one comes back that it can."""
        if self._unwelcome is not None and self._guardian.incarnation is None and not self._end.done():
            self._end.set_exception(TurnedAway(f"turned away by the coordinator: {self._unwelcome}"))

    def _leave_who_does_not_lead(self) -> None:
        """Only a confirmed leader answers heartbeats. One that was overtaken and does not know it keeps its link."""
        now = lease_clock()
        if now - max(self._answered, self._moved) > max(UNANSWERED, 3 * self._welcome.heartbeat_interval):
            self._moved = now
            if not self._unheard:
                log.warning(
                    "no coordinator has answered for %d s; trying on, and what it trains goes on", now - self._answered
                )
            self._unheard = True
            self._line.move()

    async def _follow_orders(self) -> None:
        while True:
            await self._obey(await self._line.receive())

    async def _obey(self, order: Order) -> None:
        match order:
            case Welcome():
                self._welcome, self._unwelcome = order, None
            case TurnAway(reason=reason):
                self._turned_away(reason)
                self._end_unless_it_trains()
            case Heard():
                self._answered, self._unheard = lease_clock(), False
                self._health.answered(self._welcome.heartbeat_interval)
                self._guardian.answered(order.settled)
                if (renewed := self._leases.renewed_by(order)) is not None:
                    self._guardian.tell(renewed)
            case Prepare():
                if self._departure is None:
                    self._guardian.start(order, self._welcome.hang_floor)
            case Halt(job=job) | Form(job=job) | Save(job=job):
                if self._guardian.works_for(job):
                    self._guardian.tell(order)
            case Release(job=job):
                if self._guardian.works_for(job):
                    self._guardian.end()
            case Kill(job=job, incarnation=incarnation, reason=reason):
                if self._guardian.incarnation == incarnation:
                    log.warning("killing the trainer of job %s: %s", job, reason)
                    self._guardian.end()
            case Go(boot=boot):
                if self._departure is not None and boot == self._boot:
                    self._go("nothing rests on it any more")
            case ListRecords() | ReadRecords():
                self._aside(self._answer(order))
            case Discard():
                self._aside(self._discarding.carry_out(order))

    def _aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Beside all else, so that no order waits for the disk."""
        task = asyncio.create_task(work)
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

    async def _answer(self, order: RecordsOrder) -> None:
        self._line.send(await apart(partial(archive.answer, self._settings.data_dir / "records", order)))
