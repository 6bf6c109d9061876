"""The trainer's line to its agent: orders in, status and reports out, and the lock around the session.

Owns: two threads and the pipe. One reads orders, feeds the session and breaks the group when it must; the other sends,
so that a slow agent never makes the step loop wait. Refuses to know: torch, the network, what a step is.
Does not guarantee: delivery; the status repeats what matters, and the agent repeats the status.
"""

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Protocol

from regroup.core.jobs import StepPoint, Version
from regroup.core.messages.orders import Form, Halt, RenewLease, Save
from regroup.core.messages.trainer_reports import GroupBroke, StepsCommitted, TrainerReport
from regroup.core.workers import TrainerPhase
from regroup.wire.codec import decode_order, encode, encode_value
from regroup.wire.lease_clock import lease_clock
from regroup.worker.happenings import BreakGroup, CameBack, ChunkEvaluated, Join, LoopEvent, Say, StepApplied, Write
from regroup.worker.log import log
from regroup.worker.session import Session, begin_apply, begin_load, handle, take_task
from regroup.worker.vital import Vital

STATUS, REPORT = b"s", b"r"  # the first byte of what goes to the agent: for its heartbeats, or to be passed on
FLUSH_INTERVAL = 0.25  # seconds between reports of progress; the first step of a generation is reported at once
TELLING = 1.0  # seconds at most that the step loop waits until all is told
UNLEASED = 1.0  # seconds for which a lease is missing, until the log says so: the first answer may be on its way
REPEATED_POINTS = 256  # measurements that the leader says again after a regroup, because its predecessor may have died


class Breakable(Protocol):
    def break_(self) -> None: ...


class Control:
    def __init__(self, pipe: Connection, session: Session) -> None:
        self._pipe = pipe
        self._session = session
        self._lock = threading.Condition()
        self._group: Breakable | None = None
        self._lost: int | None = None  # the generation in which a neighbour's socket closed
        self._tasks: deque[Join | Write] = deque()
        self._outbox: deque[bytes] = deque()
        self._tells = False  # this generation's measurements are told by this trainer
        self._points: deque[StepPoint] = deque(maxlen=4096)  # to be told
        self._recent: deque[StepPoint] = deque(maxlen=REPEATED_POINTS)  # kept by all, for whoever tells next
        self._flushed = 0.0
        self._urgent = True
        self._unsaid = False
        self._committed: Version | None = None  # the last that was reported
        self._sending = False  # what was in the outbox

    def start(self) -> None:
        Vital(target=self._read, name="orders").start()
        Vital(target=self._write, name="reports").start()
        with self._lock:
            self._push_status()

    # --- What the step loop asks

    def next_task(self) -> Join | Write:
        """What to do next. Blocks until an order gives something; an older formation or save is forgotten."""
        with self._lock:
            self._take(CameBack())
            while not self._tasks:
                self._lock.wait()
            task = self._tasks.pop()
            self._tasks.clear()
            self._session = take_task(self._session)
            return task

    def trains_in(self, generation: int) -> bool:
        return self._session.trains_in(generation) and self._lost != generation

    def interrupted(self, generation: int) -> bool:
        """Whether work for `generation` is in vain. Called often, from gradient hooks: reads without the lock."""
        return self._session.generation != generation or not self.trains_in(generation)

    def saves(self, generation: int) -> bool:
        return self._session.phase is TrainerPhase.SAVING and self._session.promised == generation

    def may_write(self, generation: int) -> bool:
        return self._session.may_write(generation)

    def flag(self) -> int:
        """What to contribute to the boundary's flag: how far the Halt held is above this generation; 0 for none."""
        session = self._session
        return 0 if session.boundary is None else session.boundary - session.generation

    def begin_apply(self, generation: int) -> bool:
        """Whether the optimizer step may begin now. Waits while only the lease is missing."""
        may = self._begin_apply(generation, UNLEASED)
        if may is None:
            log(f"nothing is committed: {self._session.lease_words(lease_clock())}")
            may = self._begin_apply(generation)
            log("a heartbeat was answered: steps are committed again" if may else "and nothing will be: it is to halt")
        return bool(may)

    def begin_load(self, generation: int) -> bool:
        """Whether the leader's state, which is here complete, may replace this one's now."""
        with self._lock:
            if not self._session.may_load(generation):
                return False
            self._session = begin_load(self._session)
            return True

    def applied(self, step: int, point: StepPoint, agreed: int | None) -> None:
        """`step` steps are committed; `point` measures the last of them."""
        with self._lock:
            self._note_point(point)
            self._take(StepApplied(step, agreed))

    def measured(self, step: int, metrics: Mapping[str, float]) -> None:
        """An evaluation after `step` (counted from 0) was committed."""
        with self._lock:
            known = next((point for point in self._recent if point.step == step), None)
            point = known or StepPoint(step, None, 0.0, 0, 0.0, 0.0)
            self._note_point(replace(point, metrics=metrics))

    def evaluated(self, chunks: int) -> None:
        """So many chunks of an evaluation are done: it goes on, and no step tells so."""
        with self._lock:
            self._unsaid = True
            self._take(ChunkEvaluated(chunks))

    def happened(self, event: LoopEvent) -> None:
        with self._lock:
            self._take(event)

    def heard(self) -> None:
        """Return once all that was said so far is on its way, or cannot be sent: what follows may end this process."""
        with self._lock:
            self._lock.wait_for(lambda: not self._outbox and not self._sending, TELLING)

    def say(self, report: TrainerReport) -> None:
        """A fact that the session need not know."""
        with self._lock:
            self._post(REPORT + encode(report))

    def begin_telling(self, tells: bool, step: int, own: bool = True) -> None:
        """Of a state at `step`: whoever tells from now on repeats its last measurements; what lies beyond is void.

        `own`: the state is the one that was measured, and not another one that took its place.
        """
        with self._lock:
            kept = [point for point in self._recent if own and point.step < step]
            self._recent = deque(kept, REPEATED_POINTS)
            self._tells = tells
            self._points.clear()
            self._points.extend(kept if tells else ())
            self._unsaid = self._unsaid or bool(self._points)
            self._urgent = True

    def hold(self, group: Breakable, generation: int) -> bool:
        """What to break when the session says so. False if it was said already."""
        with self._lock:
            self._group = group
            return self._session.may_load(generation) or self.trains_in(generation)

    def neighbour_lost(self, generation: int, reason: str) -> None:
        """From the group's own watch. Reported at once; a reduction that is complete already may still be applied."""
        with self._lock:
            if self._session.generation != generation or self._session.phase is not TrainerPhase.TRAINING:
                return
            self._lost = generation
            who = {"job": self._session.job, "incarnation": self._session.member.incarnation}
            self._post(REPORT + encode(GroupBroke(**who, generation=generation, reason=reason)))
            self._lock.notify_all()

    def _begin_apply(self, generation: int, patience: float | None = None) -> bool | None:
        """None: the lease was missing for so long, in seconds."""

        def settled() -> bool:
            return not self._session.trains_in(generation) or self._session.may_apply(lease_clock())

        with self._lock:
            if not self._lock.wait_for(settled, patience):
                return None
            if not self._session.trains_in(generation):
                return False
            self._session = begin_apply(self._session)
            return True

    # --- Threads

    def _read(self) -> None:
        while True:
            try:
                order = decode_order(self._pipe.recv_bytes())
            except (EOFError, OSError):
                os.kill(os.getpid(), signal.SIGKILL)  # the agent is gone, and a trainer without an agent is nobody's
                return
            if isinstance(order, Halt | Form | Save | RenewLease):
                with self._lock:
                    self._take(order)

    def _write(self) -> None:
        while True:
            with self._lock:
                while not self._outbox and not self._progress_due():
                    self._lock.wait(FLUSH_INTERVAL if self._unsaid else None)
                if self._progress_due():
                    self._post_progress()
                messages = list(self._outbox)
                self._outbox.clear()
                self._sending = True
            try:
                for message in messages:
                    self._pipe.send_bytes(message)
            except (BrokenPipeError, ConnectionResetError):
                return  # the reading thread sees the same end
            with self._lock:
                self._sending = False
                self._lock.notify_all()

    # --- With the lock held

    def _take(self, happening: Halt | Form | Save | RenewLease | LoopEvent) -> None:
        before = self._session
        self._session, actions = handle(before, happening)
        after = self._session
        if after.news != before.news:
            self._push_status()
        for action in actions:
            match action:
                case Say(report=report):
                    self._post_progress()
                    self._post(REPORT + encode(report))
                case BreakGroup():
                    if self._group is not None:
                        self._group.break_()
                case Join() | Write():
                    self._tasks.append(action)
        self._lock.notify_all()

    def _push_status(self) -> None:
        self._post(STATUS + encode_value(self._session.status))

    def _post(self, message: bytes) -> None:
        self._outbox.append(message)
        self._lock.notify_all()

    def _note_point(self, point: StepPoint) -> None:
        self._recent.append(point)
        if self._tells:
            self._points.append(point)
        self._unsaid = True

    def _progress_due(self) -> bool:
        sayable = self._unsaid and self._session.version is not None
        return sayable and (self._urgent or time.monotonic() - self._flushed >= FLUSH_INTERVAL)

    def _post_progress(self) -> None:
        session = self._session
        if session.version is None:  # of a torn state nothing is said, also not under the next generation
            self._points.clear()
            self._unsaid = False
            return
        if not self._unsaid:
            return
        points = tuple(self._points)
        self._points.clear()
        self._unsaid, self._urgent, self._flushed = False, False, time.monotonic()
        self._push_status()
        if not points and session.version == self._committed:
            return  # it is an evaluation that goes on
        self._committed = session.version
        report = StepsCommitted(
            job=session.job,
            incarnation=session.member.incarnation,
            generation=session.version.generation,
            step=session.version.step,
            points=points,
        )
        self._post(REPORT + encode(report))
