"""The agent of one device: it registers, heartbeats, spawns and watches the trainer, and passes messages through.

Owns: the trainer's life and the worker's name. Every order about a generation goes to the trainer as it is; every
report of the trainer goes to the coordinator as it is, kept while there is no connection.
Refuses to know: torch, Redis, what a generation is for.
Does not guarantee: that the coordinator is there; steps go on without it, for as long as the lease lasts.
"""

import asyncio
import logging
import os
import secrets
import select
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from importlib.metadata import version
from itertools import cycle
from pathlib import Path
from typing import Any

from regroup.core.messages.agent_reports import (
    MAX_STACKS,
    AgentLeft,
    AgentRegistered,
    Heartbeat,
    StacksTaken,
    TrainerExited,
)
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
    RenewLease,
    Save,
    Welcome,
)
from regroup.core.messages.trainer_reports import StepsCommitted
from regroup.core.workers import Hang, Telemetry, TrainerPhase, TrainerStatus
from regroup.wire.codec import decode_report, decode_value, encode
from regroup.wire.environment import BadSettings, read
from regroup.wire.keys import KeysUnreadable, server_public, worker_keys
from regroup.wire.link import Line
from regroup.wire.places import Places
from regroup.worker import archive
from regroup.worker.control import REPORT, STATUS
from regroup.worker.departure import Departure
from regroup.worker.discarding import discard
from regroup.worker.inbox import Inbox
from regroup.worker.lease_clock import lease_clock
from regroup.worker.locks import hold, outlive, trainer_lock
from regroup.worker.nursery import BirthFailed, Nursery, Trainer
from regroup.worker.settings import AgentSettings
from regroup.worker.stacks import stacks_of
from regroup.worker.watch import Watch

log = logging.getLogger("regroup.agent")

TRAINER = "regroup.worker.process:main"
UNSENT = 10_000  # reports kept while there is no connection
UNANSWERED = 10.0  # seconds, or three heartbeats, until a coordinator that answers nothing is no leader
GLANCE = 0.1  # seconds between two looks whether it has waited long enough
LATEST = 8  # reports of measurements, about two seconds, that a coordinator may have taken along when it died


class WorkerTaken(Exception):
    """Another agent of this name runs on this machine."""


class Agent:
    def __init__(self, settings: AgentSettings, line: Callable[[Callable[[], None]], Line], nursery: Nursery) -> None:
        self._settings = settings
        self._nursery = nursery
        self._boot = secrets.token_hex(6)
        self._line = line(self._connected)
        self._unsent: deque[Report] = deque(maxlen=UNSENT)
        self._measured: deque[Report] = deque(maxlen=LATEST)  # the last that were sent
        self._welcome = Welcome(heartbeat_interval=1.0)
        self._sent: dict[int, float] = {}  # heartbeat -> when it was sent, by the clock of leases
        self._answered = lease_clock()  # when the coordinator answered last, or there was a new one to ask
        self._sequence = 0
        self._trainer: Trainer | None = None
        self._inbox: Inbox | None = None  # of this trainer
        self._status: TrainerStatus | None = None
        self._asked = False  # the trainer's end was asked for
        self._departure: Departure | None = None  # once it was asked to end
        self._births: set[asyncio.Task[None]] = set()  # one at most, while the fork server gives birth
        self._asides: set[asyncio.Task[None]] = set()  # what waits for the disk
        self._discarding: set[Discard] = set()
        self._watch = Watch(nursery.pulse, self._hangs)
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Serve until it leaves. Raises BirthFailed: who can start no trainer must not look healthy."""
        warming = asyncio.create_task(asyncio.to_thread(self._nursery.keep_spare))
        warming.add_done_callback(partial(self._born, ""))
        orders = asyncio.create_task(self._follow_orders())
        beats = asyncio.create_task(self._beat())
        looks = asyncio.create_task(self._watch.keep())
        ends: set[asyncio.Future[None]] = {orders, beats, looks, self._end}
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in (orders, beats, looks, *self._asides):
            task.cancel()
        self._end_trainer()
        await asyncio.gather(warming, *self._births, return_exceptions=True)
        self._end_trainer()
        self._nursery.close()
        if all(end.exception() is None for end in done):
            self._line.send(AgentLeft(boot=self._boot))
        await self._line.close(flush=1.0)
        for end in done:
            end.result()

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
        why = departure.over(lease_clock(), self._answered, self._trainer is not None)
        if why is not None:
            self._go(why)
        elif not self._end.done():
            asyncio.get_running_loop().call_later(GLANCE, self._wait_to_go, departure)

    def _go(self, why: str) -> None:
        if not self._end.done():
            log.info("ends: %s", why)
            self._end.set_result(None)

    # --- The coordinator's side

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
            )
        )
        self._heartbeat()
        waiting = [*self._measured, *self._unsent]
        self._measured.clear()
        self._unsent.clear()
        for report in waiting:
            self._report(report)
        log.info("connected to the coordinator as %s", settings.worker)

    def _report(self, report: Report) -> None:
        bare = isinstance(report, StepsCommitted) and not report.points  # that is in every heartbeat, too
        if not self._line.send(report):
            if not bare:
                self._unsent.append(report)
        elif isinstance(report, StepsCommitted) and not bare:
            self._measured.append(report)  # for the next coordinator, which keeps one of each step

    def _heartbeat(self) -> None:
        self._sequence += 1
        self._sent[self._sequence] = lease_clock()
        for old in [sequence for sequence in self._sent if sequence < self._sequence - 100]:
            del self._sent[old]
        beat = Heartbeat(
            boot=self._boot,
            sequence=self._sequence,
            trainer=self._status,
            telemetry=self._telemetry(),
            leaving=self._departure is not None,
            hang=self._watch.hang,
            pace=self._watch.pace,
        )
        self._line.send(beat)

    def _telemetry(self) -> Telemetry:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return Telemetry(memory_used=_resident(self._trainer), memory_total=total)

    async def _beat(self) -> None:
        while True:
            self._heartbeat()
            self._leave_who_does_not_lead()
            await asyncio.sleep(self._welcome.heartbeat_interval)

    def _leave_who_does_not_lead(self) -> None:
        """Only a confirmed leader answers heartbeats. One that was overtaken and does not know it keeps its link."""
        now = lease_clock()
        if now - self._answered > max(UNANSWERED, 3 * self._welcome.heartbeat_interval):
            self._answered = now
            self._line.move()

    async def _follow_orders(self) -> None:
        while True:
            await self._obey(await self._line.receive())

    async def _obey(self, order: Order) -> None:
        match order:
            case Welcome():
                self._welcome = order
            case Heard(sequence=sequence, generation=generation):
                self._answered = lease_clock()
                sent = self._sent.pop(sequence, None)
                if sent is not None and generation:
                    self._tell(RenewLease(generation, sent))
            case Prepare():
                if self._trainer is None and not self._births and self._departure is None:
                    birth = asyncio.create_task(self._start(order))
                    self._births.add(birth)
                    birth.add_done_callback(partial(self._born, order.job))
            case Halt(job=job) | Form(job=job) | Save(job=job):
                if self._status is not None and self._status.job == job:
                    self._tell(order)
            case Release(job=job):
                if self._status is not None and self._status.job == job:
                    self._end_trainer()
            case Kill(job=job, incarnation=incarnation, reason=reason):
                if self._trainer is not None and self._trainer.incarnation == incarnation:
                    log.warning("killing the trainer of job %s: %s", job, reason)
                    self._end_trainer()
            case Go(boot=boot):
                if self._departure is not None and boot == self._boot:
                    self._go("nothing rests on it any more")
            case ListRecords() | ReadRecords():
                self._aside(self._answer(order))
            case Discard() if order not in self._discarding:  # it is due again at each heartbeat until it is done
                self._discarding.add(order)
                self._aside(self._discard(order))

    def _aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Beside all else, so that no order waits for the disk."""
        task = asyncio.create_task(work)
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

    async def _discard(self, order: Discard) -> None:
        try:
            self._report(await asyncio.to_thread(discard, self._nursery.checkpoints, self._nursery.scratch, order))
        finally:
            self._discarding.discard(order)

    async def _answer(self, order: RecordsOrder) -> None:
        self._line.send(await asyncio.to_thread(archive.answer, self._settings.data_dir / "records", order))

    # --- The trainer's side

    async def _start(self, order: Prepare) -> None:
        trainer = self._trainer = await asyncio.to_thread(self._nursery.take)
        self._asked = False
        self._status = TrainerStatus(job=order.job, incarnation=trainer.incarnation, phase=TrainerPhase.PREPARING)
        self._watch.begin(self._welcome.hang_floor, order.spec.step_timeout)
        loop = asyncio.get_running_loop()
        self._inbox = Inbox(trainer.pipe, partial(loop.call_soon_threadsafe, self._hear))
        loop.add_reader(trainer.process.sentinel, self._ended, trainer)
        log.info("job %s: trainer %s prepares", order.job, trainer.incarnation)
        self._tell(order)
        self._heartbeat()
        loop.call_later(1.0, self._renew_spare)  # not now: it would compete with the one that is needed

    def _born(self, job: str, birth: asyncio.Task[None]) -> None:
        """If no trainer was, the agent ends, and says why. `job` is whose it would have been; "": a spare."""
        self._births.discard(birth)
        error = birth.exception()
        if error is not None and not self._end.done():
            self._report(TrainerExited(job=job, incarnation="", cause=str(error), asked=False))
            self._end.set_exception(error)

    def _renew_spare(self) -> None:
        if not self._end.done():
            renewal = asyncio.get_running_loop().run_in_executor(None, self._nursery.keep_spare)
            renewal.add_done_callback(_renewed)

    def _tell(self, order: Order) -> None:
        """A trainer that reads nothing, because it hangs or was stopped, must not make its agent wait: it may have to
        be killed. What it is not told is due again at the next heartbeat."""
        if self._trainer is not None:
            try:
                _, room, _ = select.select([], [self._trainer.pipe], [], 0)
                if room:
                    self._trainer.pipe.send_bytes(encode(order))
            except OSError:
                log.info("the trainer is gone; its end is about to be noticed")

    def _hear(self) -> None:
        for message in self._inbox.take() if self._inbox is not None else ():
            kind, body = message[:1], message[1:]
            if kind == STATUS:
                before, self._status = self._status, decode_value(TrainerStatus, body)
                if before is None or (self._status.phase, self._status.at_work) != (before.phase, before.at_work):
                    self._watch.look()  # what it hung in may be over
                    self._heartbeat()
            elif kind == REPORT:
                self._report(decode_report(body))

    def _hangs(self, hang: Hang | None) -> None:
        """It began to hang, or came back."""
        self._heartbeat()
        if hang is not None and self._trainer is not None and self._status is not None:
            who = {"job": self._status.job, "incarnation": self._trainer.incarnation}
            self._aside(self._take_stacks(hang, self._trainer, who))

    async def _take_stacks(self, hang: Hang, trainer: Trainer, who: dict[str, str]) -> None:
        stacks = await stacks_of(trainer.process.pid or 0, MAX_STACKS)
        log.warning("job %s: the trainer hangs in phase %s; %s", who["job"], hang.phase, stacks)
        self._report(StacksTaken(**who, phase=hang.phase, stacks=stacks))

    def _end_trainer(self) -> None:
        if self._trainer is not None:
            self._asked = True
            trainer = self._trainer
            trainer.kill()
            trainer.process.join()
            self._ended(trainer)

    def _ended(self, trainer: Trainer) -> None:
        if self._trainer is not trainer:
            return
        asyncio.get_running_loop().remove_reader(trainer.process.sentinel)
        if self._inbox is not None:
            self._inbox.finish()
            self._hear()  # its last words
        job = self._status.job if self._status else ""
        cause, position = trainer.bury(), trainer.last_position()
        step, shard = position if position is not None else (None, None)
        self._trainer, self._inbox, self._status = None, None, None
        self._watch.end()
        log.info(
            "job %s: trainer %s ended: %s", job, trainer.incarnation, "as it was asked to" if self._asked else cause
        )
        self._report(
            TrainerExited(
                job=job, incarnation=trainer.incarnation, cause=cause, asked=self._asked, step=step, shard=shard
            )
        )
        self._heartbeat()


def _renewed(renewal: asyncio.Future[None]) -> None:
    """The trainer of now needs no spare. If its successor cannot be started either, that ends the agent."""
    if (error := renewal.exception()) is not None:
        log.warning("no spare: %s", error)


def _resident(trainer: Trainer | None) -> int | None:
    """Bytes of memory that the trainer's process holds, or None."""
    if trainer is None:
        return None
    try:
        pages = Path(f"/proc/{trainer.process.pid}/statm").read_text().split()[1]
    except OSError:
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


async def serve(settings: AgentSettings) -> None:
    """Run an agent until SIGTERM or SIGINT. Raises WorkerTaken, BirthFailed, KeysUnreadable, OSError, ValueError."""
    places = Places(settings.data_dir)
    places.make()
    run = settings.data_dir / "run"
    run.mkdir(exist_ok=True)
    try:
        hold(run / f"{settings.worker}.agent.lock")
    except BlockingIOError:
        message = f"an agent named {settings.worker} runs already: stop it, or set REGROUP_WORKER to another name"
        raise WorkerTaken(message) from None
    nursery = Nursery(
        settings.worker, settings.data_host, settings.data_dir, settings.threads, TRAINER, settings.checkpoints
    )
    await outlive(trainer_lock(settings.data_dir, settings.worker))
    for left in (nursery.position, nursery.pulse):
        left.unlink(missing_ok=True)  # that one's; who would have read it is dead, too
    keys = worker_keys(places.keys)
    server = server_public(places.keys)
    where: Callable[[], str | None] = places.link_address
    if settings.coordinator is not None:
        where = partial(next, cycle(settings.coordinator.split(",")))
    address = where()
    if address is None:
        raise FileNotFoundError(f"{places.link} names no link: start the coordinator first, or set REGROUP_COORDINATOR")

    def line(on_connected: Callable[[], None]) -> Line:
        return Line(
            address,
            worker=settings.worker,
            public=keys.public,
            secret=keys.secret,
            server=server,
            on_connected=on_connected,
            where=where,
        )

    agent = Agent(settings, line, nursery)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.leave)
    await agent.run()


def main() -> None:
    """`regroup-agent`: one worker on this machine."""
    try:
        settings = read(AgentSettings)
        form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
        logging.basicConfig(level=settings.log_level.upper(), format=form)
        asyncio.run(serve(settings))
    except (BadSettings, WorkerTaken, BirthFailed, KeysUnreadable, OSError, ValueError) as error:
        sys.exit(f"regroup-agent: {error}")


if __name__ == "__main__":
    main()
