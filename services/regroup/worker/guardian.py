"""The guardian of one trainer at a time: it has it born, tells it orders, hears it, watches it and ends it.

Owns: the trainer's process and pipe, its status as it last told it, what those before it left untold, and the news of
its hang and its end. While a trainer lives, a spare is kept for its successor.
Refuses to know: the coordinator, and which order is right; what is to be reported goes to `report`, and whenever a
heartbeat would say something new, `changed` is called.
Does not guarantee: that a trainer reads what it is told. What it missed is due again at the next heartbeat. Nor that
one which was killed is gone at once: a dead disk may keep it in the kernel. So long there is no other.
"""

import asyncio
import logging
import os
import select
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from regroup.core.messages.agent_reports import MAX_STACKS, StacksTaken, TrainerExited
from regroup.core.messages.events import Report
from regroup.core.messages.orders import Order, Prepare
from regroup.core.workers import Hang, TrainerPhase, TrainerStatus
from regroup.wire.codec import Undecodable, decode_report, decode_value, encode
from regroup.worker.apart import apart
from regroup.worker.control import REPORT, STATUS
from regroup.worker.inbox import Inbox
from regroup.worker.nursery import EXIT_LIMIT, Nursery, Trainer
from regroup.worker.stacks import stacks_of
from regroup.worker.untold import Untold, answered, left_by
from regroup.worker.watch import Watch

log = logging.getLogger("regroup.agent")


class Guardian:
    """`barren` is called when no trainer can be born: with the job that it was for, "" for a spare, and BirthFailed."""

    def __init__(
        self,
        nursery: Nursery,
        report: Callable[[Report], None],
        changed: Callable[[], None],
        barren: Callable[[str, BaseException], None],
    ) -> None:
        self._nursery, self._report, self._changed, self._barren = nursery, report, changed, barren
        self.status: TrainerStatus | None = None
        self.untold: Untold = ()
        self._trainer: Trainer | None = None
        self._inbox: Inbox | None = None  # of this trainer
        self._asked = False  # its end was asked for
        self._warming: asyncio.Task[None] | None = None  # the first spare
        self._births: set[asyncio.Task[None]] = set()  # one at most, while the fork server gives birth
        self._renewal: asyncio.Task[None] | None = None  # of the spare
        self._empty = asyncio.Event()  # it has no trainer
        self._empty.set()
        self._looks: set[asyncio.Task[None]] = set()  # into a trainer that hangs
        self._watch = Watch(self._hangs)
        self._closed = False

    @property
    def incarnation(self) -> str | None:
        """Of its trainer, or None: it has none."""
        return self._trainer.incarnation if self._trainer is not None else None

    @property
    def hang(self) -> Hang | None:
        return self._watch.hang

    @property
    def pace(self) -> float | None:
        return self._watch.pace

    @property
    def memory(self) -> int | None:
        """Bytes that the trainer's process holds, or None."""
        if self._trainer is None:
            return None
        try:
            pages = Path(f"/proc/{self._trainer.process.pid}/statm").read_text().split()[1]
        except OSError:
            return None
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def works_for(self, job: str) -> bool:
        return self.status is not None and self.status.job == job

    def warm(self) -> None:
        """Have the first spare, before it is needed."""
        self._warming = asyncio.create_task(apart(self._nursery.keep_spare))
        self._warming.add_done_callback(partial(self._born, ""))

    def start(self, order: Prepare, floor: float) -> None:
        """A trainer, if there is none. No limit that is learned of it is below `floor`, in seconds."""
        if self._trainer is None and not self._births:
            birth = asyncio.create_task(self._start(order, floor))
            self._births.add(birth)
            birth.add_done_callback(partial(self._born, order.job))

    def tell(self, order: Order) -> None:
        """A trainer that reads nothing, because it hangs or was stopped, must not make its agent wait: it may have to
        be killed. What it is not told is due again at the next heartbeat."""
        if self._trainer is not None:
            try:
                _, room, _ = select.select([], [self._trainer.pipe], [], 0)
                if room:
                    self._trainer.pipe.send_bytes(encode(order))
            except OSError:
                log.info("the trainer is gone; its end is about to be noticed")

    def end(self) -> None:
        """Kill the trainer, if there is one; where it hangs, once its stacks are taken. Its end is told as soon as
        it is noticed, and not waited for."""
        if self._trainer is not None:
            self._asked = True
            if not self._looks:
                self._trainer.kill()

    def answered(self, settled: Collection[str]) -> None:
        """A coordinator knows these files."""
        self.untold = answered(self.untold, settled)

    async def watch(self) -> None:
        """Look after the trainer, again and again."""
        await self._watch.keep()

    async def close(self) -> None:
        """End whatever lives, also what is about to be born. What takes too long ends with this process."""
        self._closed = True
        for look in self._looks:
            look.cancel()
        self.end()
        births = [birth for birth in (self._warming, self._renewal, *self._births) if birth is not None]
        if births:
            await asyncio.wait(births, timeout=EXIT_LIMIT)
        self.end()
        try:
            await asyncio.wait_for(self._empty.wait(), EXIT_LIMIT)
        except TimeoutError:
            log.warning("trainer %s was killed, and is not gone in %g s", self.incarnation, EXIT_LIMIT)
        self._nursery.close()

    async def _start(self, order: Prepare, floor: float) -> None:
        trainer = self._trainer = await apart(self._nursery.take)
        self._empty.clear()
        self._asked = False
        self.status = TrainerStatus(job=order.job, incarnation=trainer.incarnation, phase=TrainerPhase.PREPARING)
        self._watch.begin(trainer.birth.pulse, floor, order.spec.step_timeout)
        loop = asyncio.get_running_loop()
        self._inbox = Inbox(trainer.pipe, partial(loop.call_soon_threadsafe, self._hear))
        loop.add_reader(trainer.process.sentinel, self._ended, trainer)
        log.info("job %s: trainer %s prepares", order.job, trainer.incarnation)
        self.tell(order)
        self._changed()
        loop.call_later(1.0, self._renew_spare)  # not now: it would compete with the one that is needed

    def _born(self, job: str, birth: asyncio.Task[None]) -> None:
        """Or not. `job` is whose it would have been; "": a spare."""
        self._births.discard(birth)
        error = None if birth.cancelled() else birth.exception()
        if error is not None:
            self._barren(job, error)

    def _renew_spare(self) -> None:
        if not self._closed:
            self._renewal = asyncio.create_task(apart(self._nursery.keep_spare))
            self._renewal.add_done_callback(_renewed)

    def _hear(self) -> None:
        for message in self._inbox.take() if self._inbox is not None else ():
            try:
                self._take_in(message[:1], message[1:])
            except Undecodable as error:  # it is told again, or replaced; what follows is heard all the same
                log.warning("what the trainer said cannot be read: %s", error)

    def _take_in(self, kind: bytes, body: bytes) -> None:
        if kind == STATUS:
            before, self.status = self.status, decode_value(TrainerStatus, body)
            if before is None or self.status.news != before.news:
                self._watch.look()  # what it hung in may be over
                self._changed()
        elif kind == REPORT:
            self._report(decode_report(body))

    def _hangs(self, hang: Hang | None) -> None:
        """It began to hang, or came back."""
        self._changed()
        if hang is not None and self._trainer is not None and self.status is not None:
            look = asyncio.create_task(self._take_stacks(hang, self._trainer, self.status.job))
            self._looks.add(look)
            look.add_done_callback(self._looked)

    def _looked(self, look: asyncio.Task[None]) -> None:
        self._looks.discard(look)
        if self._asked:
            self.end()

    async def _take_stacks(self, hang: Hang, trainer: Trainer, job: str) -> None:
        stacks = await stacks_of(trainer.process.pid or 0, MAX_STACKS)
        log.warning("job %s: the trainer hangs in phase %s; %s", job, hang.phase, stacks)
        self._report(StacksTaken(job=job, incarnation=trainer.incarnation, phase=hang.phase, stacks=stacks))

    def _ended(self, trainer: Trainer) -> None:
        if self._trainer is not trainer:
            return
        asyncio.get_running_loop().remove_reader(trainer.process.sentinel)
        if self._inbox is not None:
            self._inbox.finish()
            self._hear()  # its last words
        job = self.status.job if self.status else ""
        cause, position = trainer.bury(), trainer.last_position()
        step, shard = position if position is not None else (None, None)
        self.untold = left_by(self.untold, self.status)
        self._trainer, self._inbox, self.status = None, None, None
        self._empty.set()
        self._watch.end()
        log.info(
            "job %s: trainer %s ended: %s", job, trainer.incarnation, "as it was asked to" if self._asked else cause
        )
        self._report(
            TrainerExited(
                job=job, incarnation=trainer.incarnation, cause=cause, asked=self._asked, step=step, shard=shard
            )
        )
        self._changed()


def _renewed(renewal: asyncio.Task[None]) -> None:
    """The trainer of now needs no spare. If its successor cannot be started either, that ends the agent."""
    if not renewal.cancelled() and (error := renewal.exception()) is not None:
        log.warning("no spare: %s", error)
