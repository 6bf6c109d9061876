"""Torch's Gloo as the engine of a group, and what its own abort does not do: a collective is left within milliseconds.

Owns: the sockets of a group: which they are, that to break the group is to shut them down, and that nothing touches a
tensor any more once it is closed.
Refuses to know: how the ranks found each other (`forming`), what is exchanged, and what is decided when it breaks.
Does not guarantee: notice of a peer that is stopped or cut off without closing its connections: only `patience` ends
that, or whoever kills the peer.
"""

import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from math import inf
from typing import cast

from torch import Tensor
from torch.distributed.distributed_c10d import AllreduceOptions, ProcessGroup, ProcessGroupGloo, Work

from regroup.worker.group import GroupBroken, Pending
from regroup.worker.rendezvous import Meeting
from regroup.worker.sockets import connections, listeners, shut
from regroup.worker.vital import Vital

SLICE = 0.1  # seconds between two looks of who waits whether its group broke
FORGOTTEN = 0.25  # seconds after which a broken group is waited for no longer; what is not forgotten ends in 3 ms


class Gloo:
    """Torch's Gloo group, whose own abort unblocks nothing: it is broken by shutting down its sockets.

    Now and then Gloo forgets a collective whose peer dies while a send to it is being posted: the connection is closed,
    and yet the collective waits on. It touches no tensor any more, so it is left alone once its group broke.
    """

    def __init__(self, engine: ProcessGroup, sockets: list[socket.socket], patience: float) -> None:
        self.rank = engine.rank()
        self.size = engine.size()
        self._engine: ProcessGroup | None = engine
        self._sockets = sockets  # duplicates: their numbers stay ours, whatever Gloo closes
        self._patience = timedelta(seconds=patience)
        self._lock = threading.Lock()
        self._broken: str | None = None
        self._broken_at = inf
        self._flying: set[_Flight] = set()
        self._stop_watching = -1
        self._watcher: Vital | None = None

    def all_reduce(self, tensor: Tensor) -> Pending:
        options = AllreduceOptions()
        options.timeout = self._patience
        return self._start(lambda engine: _Reduction(engine.allreduce([tensor], options)))

    def send(self, tensor: Tensor, peer: int) -> None:
        self._start(lambda engine: _Message(engine.send([tensor], peer, 0), self._patience)).wait()

    def recv(self, tensor: Tensor, peer: int) -> None:
        self._start(lambda engine: _Message(engine.recv([tensor], peer, 0), self._patience)).wait()

    def watch(self, on_broken: Callable[[str], None]) -> None:
        if self._watcher is not None:
            raise RuntimeError("this group is watched already")
        self._stop_watching = os.eventfd(0, os.EFD_CLOEXEC)
        self._watcher = Vital(target=self._look, args=(on_broken,), name=f"watch-{self.rank}")
        self._watcher.start()

    def break_(self, reason: str = "broken on purpose") -> None:
        with self._lock:
            if self._broken is None:
                self._broken, self._broken_at = reason, time.monotonic()
                for end in self._sockets:
                    shut(end)

    def close(self) -> None:
        self.break_("closed")
        for flight in tuple(self._flying):
            with suppress(GroupBroken):
                flight.wait()
        if self._watcher is not None:
            os.eventfd_write(self._stop_watching, 1)
            self._watcher.join()
            os.close(self._stop_watching)
            self._watcher = None
        with self._lock:
            for end in self._sockets:
                end.close()
            self._sockets = []
        if self._engine is not None:
            last, self._engine = [self._engine], None
            # It ends its threads by their next tick, 10 ms later at most: nobody has to wait for that.
            threading.Thread(target=last.clear, name=f"free-{self.rank}", daemon=True).start()

    def _start(self, begin: Callable[[ProcessGroup], "_Reduction | _Message"]) -> "_Flight":
        if self._broken is not None or self._engine is None:
            raise GroupBroken(self._broken)
        try:
            flight = _Flight(self, begin(self._engine))
        except RuntimeError as error:
            raise self._fail(error) from error
        self._flying.add(flight)
        return flight

    def _finish(self, flight: "_Flight", work: "_Reduction | _Message") -> None:
        began = time.monotonic()
        try:
            while not work.ended_within(SLICE):
                now = time.monotonic()
                if now > self._broken_at + FORGOTTEN or now > began + self._patience.total_seconds():
                    raise RuntimeError("it never ended")
        except RuntimeError as error:
            raise self._fail(error) from error
        finally:
            self._flying.discard(flight)

    def _fail(self, error: RuntimeError) -> GroupBroken:
        # One failed collective leaves the others of this group undefined, so it breaks the group as a whole.
        self.break_(f"a collective failed: {first_line(error)}")
        return GroupBroken(self._broken)

    def _look(self, on_broken: Callable[[str], None]) -> None:
        poll = select.poll()
        poll.register(self._stop_watching, select.POLLIN)
        for end in self._sockets:
            poll.register(end, select.POLLRDHUP)  # hang-ups and errors always count; data never wakes it
        poll.poll()
        if self._broken is None:
            on_broken("a peer closed its connection")


class _Reduction:
    """A collective of Gloo's threads."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def ended_within(self, seconds: float) -> bool:
        """Wait so long at most. Raises RuntimeError if it failed."""
        ended = self._work.is_completed()
        try:
            self._work.wait(timedelta(seconds=seconds))
        except RuntimeError:
            if ended:  # else it may have been the waiting that failed, which harms nothing here
                raise
            return False
        return True


class _Message:
    """A message to or from one peer. To give its waiting up would break the connection, so a thread does it."""

    def __init__(self, work: Work, patience: timedelta) -> None:
        self._work, self._patience = work, patience
        self._ended = threading.Event()
        self._failure: str | None = None  # in words: the error's traceback would hold this message, a cycle
        Vital(target=self._wait, name="message").start()

    def ended_within(self, seconds: float) -> bool:
        """Wait so long at most. Raises RuntimeError if it failed."""
        if not self._ended.wait(seconds):
            return False
        if self._failure is not None:
            raise RuntimeError(self._failure)
        return True

    def _wait(self) -> None:
        try:
            self._work.wait(self._patience)
        except RuntimeError as error:
            self._failure = str(error)
        self._ended.set()


class _Flight:
    """What was begun in a Gloo group."""

    def __init__(self, group: Gloo, work: _Reduction | _Message) -> None:
        self._group = group
        self._work = work

    def wait(self) -> None:
        self._group._finish(self, self._work)


_building = threading.Lock()  # so that two groups built at once never take each other's listener for their own


def connect(meeting: Meeting, rank: int, size: int, host: str, timeout: float, patience: float) -> Gloo:
    """Build the engine and find its sockets: those with one end at a listener that a rank of this group published."""
    with _building:
        before = set(listeners())
        # Eager: a peer that dies before the first collective would otherwise hang it beyond the timeout.
        device = ProcessGroupGloo.create_device(hostname=host, lazy_init=False)
        mine = [address for address in listeners() if address not in before]
    meeting.set(listeners_of(rank), " ".join(f"{name}|{port}" for name, port in mine))
    options = ProcessGroupGloo._Options()  # type: ignore[attr-defined]  # the stub names it otherwise
    options._devices = [device]
    options._timeout = timedelta(seconds=timeout)
    engine = cast(ProcessGroup, ProcessGroupGloo(meeting, rank, size, options))  # the stub hides what it shares with it
    published = " ".join(meeting.get(listeners_of(peer)).decode() for peer in range(size)).split()
    ends = {(name, int(port)) for name, _, port in (entry.partition("|") for entry in published)}
    return Gloo(engine, list(connections(ends)), patience)


def listeners_of(rank: int) -> str:
    """The notice that says where a rank listens."""
    return f"listeners/{rank}"


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
