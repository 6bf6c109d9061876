"""The agent of one device: it registers, heartbeats, spawns and watches the trainer, and passes messages through.

Owns: the trainer's life and the worker's name. Every order about a generation goes to the trainer as it is; every
report of the trainer goes to the coordinator as it is, kept while there is no connection.
Refuses to know: torch, Redis, what a generation is for.
Does not guarantee: that the coordinator is there; steps go on without it, for as long as the lease lasts.
"""

import asyncio
import fcntl
import logging
import os
import secrets
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from regroup.core.messages import (
    AgentLeft,
    AgentRegistered,
    Form,
    Halt,
    Heard,
    Heartbeat,
    Kill,
    ListRecords,
    Order,
    Prepare,
    ReadRecords,
    RecordsOrder,
    Release,
    RenewLease,
    Report,
    Save,
    StepsCommitted,
    TrainerExited,
    Welcome,
)
from regroup.core.workers import Telemetry, TrainerPhase, TrainerStatus
from regroup.wire.codec import decode_report, decode_value, encode
from regroup.wire.environment import BadSettings, read
from regroup.wire.keys import KeysUnreadable, server_public, worker_keys
from regroup.wire.link import Line
from regroup.wire.places import Places
from regroup.worker import archive
from regroup.worker.control import REPORT, STATUS
from regroup.worker.nursery import Nursery, Trainer
from regroup.worker.settings import AgentSettings

log = logging.getLogger("regroup.agent")

TRAINER = "regroup.worker.process:main"
UNSENT = 10_000  # reports kept while there is no connection
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
        self._sent: dict[int, float] = {}  # heartbeat -> when it was sent, monotonic
        self._sequence = 0
        self._trainer: Trainer | None = None
        self._status: TrainerStatus | None = None
        self._asked = False  # the trainer's end was asked for
        self._births: set[asyncio.Task[None]] = set()  # one at most, while the fork server gives birth
        self._readings: set[asyncio.Task[None]] = set()  # of records
        self._leaving = asyncio.Event()

    async def run(self) -> None:
        """Serve until `leave` is called."""
        warming = asyncio.create_task(asyncio.to_thread(self._nursery.keep_spare))
        orders = asyncio.create_task(self._follow_orders())
        beats = asyncio.create_task(self._beat())
        leaving: asyncio.Task[None] = asyncio.create_task(self._left())
        done, _ = await asyncio.wait({orders, beats, leaving}, return_when=asyncio.FIRST_COMPLETED)
        for task in (orders, beats, leaving, *self._readings):
            task.cancel()
        for task in done - {leaving}:
            task.result()
        self._end_trainer()
        await asyncio.gather(warming, *self._births)
        self._end_trainer()
        self._nursery.close()
        self._line.send(AgentLeft(boot=self._boot))
        await self._line.close(flush=1.0)

    def leave(self) -> None:
        self._leaving.set()

    async def _left(self) -> None:
        await self._leaving.wait()

    # --- The coordinator's side

    def _connected(self) -> None:
        """The first words on a new connection, and all that waited for one."""
        settings = self._settings
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
        self._sent[self._sequence] = time.monotonic()
        for old in [sequence for sequence in self._sent if sequence < self._sequence - 100]:
            del self._sent[old]
        beat = Heartbeat(boot=self._boot, sequence=self._sequence, trainer=self._status, telemetry=self._telemetry())
        self._line.send(beat)

    def _telemetry(self) -> Telemetry:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return Telemetry(memory_used=_resident(self._trainer), memory_total=total)

    async def _beat(self) -> None:
        while True:
            self._heartbeat()
            await asyncio.sleep(self._welcome.heartbeat_interval)

    async def _follow_orders(self) -> None:
        while True:
            await self._obey(await self._line.receive())

    async def _obey(self, order: Order) -> None:
        match order:
            case Welcome():
                self._welcome = order
            case Heard(sequence=sequence, generation=generation):
                sent = self._sent.pop(sequence, None)
                if sent is not None and generation:
                    self._tell(RenewLease(generation, sent))
            case Prepare():
                if self._trainer is None and not self._births:
                    birth = asyncio.create_task(self._start(order))
                    self._births.add(birth)
                    birth.add_done_callback(self._births.discard)
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
            case ListRecords() | ReadRecords():
                reading = asyncio.create_task(self._answer(order))
                self._readings.add(reading)
                reading.add_done_callback(self._readings.discard)

    async def _answer(self, order: RecordsOrder) -> None:
        """Beside all else, so that no order waits for the disk."""
        self._line.send(await asyncio.to_thread(archive.answer, self._settings.data_dir / "records", order))

    # --- The trainer's side

    async def _start(self, order: Prepare) -> None:
        trainer = self._trainer = await asyncio.to_thread(self._nursery.take)
        self._asked = False
        self._status = TrainerStatus(job=order.job, incarnation=trainer.incarnation, phase=TrainerPhase.PREPARING)
        loop = asyncio.get_running_loop()
        loop.add_reader(trainer.pipe.fileno(), self._hear, trainer)
        loop.add_reader(trainer.process.sentinel, self._ended, trainer)
        log.info("job %s: trainer %s prepares", order.job, trainer.incarnation)
        self._tell(order)
        self._heartbeat()
        loop.call_later(1.0, self._renew_spare)  # not now: it would compete with the one that is needed

    def _renew_spare(self) -> None:
        if not self._leaving.is_set():
            asyncio.get_running_loop().run_in_executor(None, self._nursery.keep_spare)

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

    def _hear(self, trainer: Trainer) -> None:
        try:
            while trainer.pipe.poll():
                message = trainer.pipe.recv_bytes()
                kind, body = message[:1], message[1:]
                if kind == STATUS:
                    before, self._status = self._status, decode_value(TrainerStatus, body)
                    if before is None or self._status.phase is not before.phase:
                        self._heartbeat()
                elif kind == REPORT:
                    report = decode_report(body)
                    self._report(report)
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(trainer.pipe.fileno())

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
        loop = asyncio.get_running_loop()
        loop.remove_reader(trainer.process.sentinel)
        self._hear(trainer)  # its last words
        loop.remove_reader(trainer.pipe.fileno())
        job = self._status.job if self._status else ""
        cause, position = trainer.bury(), trainer.last_position()
        step, shard = position if position is not None else (None, None)
        self._trainer, self._status = None, None
        log.info(
            "job %s: trainer %s ended: %s", job, trainer.incarnation, "as it was asked to" if self._asked else cause
        )
        self._report(
            TrainerExited(
                job=job, incarnation=trainer.incarnation, cause=cause, asked=self._asked, step=step, shard=shard
            )
        )
        self._heartbeat()


def _resident(trainer: Trainer | None) -> int | None:
    """Bytes of memory that the trainer's process holds, or None."""
    if trainer is None:
        return None
    try:
        pages = Path(f"/proc/{trainer.process.pid}/statm").read_text().split()[1]
    except OSError:
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def hold(path: Path) -> int:
    """Lock a file for the life of this process. Raises BlockingIOError if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


async def serve(settings: AgentSettings) -> None:
    """Run an agent until SIGTERM or SIGINT. Raises WorkerTaken, KeysUnreadable, OSError, ValueError."""
    places = Places(settings.data_dir)
    places.make()
    run = settings.data_dir / "run"
    run.mkdir(exist_ok=True)
    try:
        hold(run / f"{settings.worker}.agent.lock")
    except BlockingIOError:
        message = f"an agent named {settings.worker} runs already: stop it, or set REGROUP_WORKER to another name"
        raise WorkerTaken(message) from None
    nursery = Nursery(settings.worker, settings.data_host, settings.data_dir, settings.threads, TRAINER)
    await _outlive_former_trainer(nursery.lock)
    keys = worker_keys(places.keys)
    server = server_public(places.keys)
    address = settings.coordinator or places.link_address()
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
            where=places.link_address if settings.coordinator is None else lambda: None,
        )

    agent = Agent(settings, line, nursery)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.leave)
    await agent.run()


async def _outlive_former_trainer(lock: Path) -> None:
    """To register anew says that everything of the old agent is dead; its trainer holds this lock while it lives."""
    while True:
        try:
            os.close(hold(lock))
            return
        except BlockingIOError:
            await asyncio.sleep(0.02)


def main() -> None:
    """`regroup-agent`: one worker on this machine."""
    try:
        settings = read(AgentSettings)
        form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
        logging.basicConfig(level=settings.log_level.upper(), format=form)
        asyncio.run(serve(settings))
    except (BadSettings, WorkerTaken, KeysUnreadable, OSError, ValueError) as error:
        sys.exit(f"regroup-agent: {error}")


if __name__ == "__main__":
    main()
