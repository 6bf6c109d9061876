"""The life of a process group: it is formed for one generation, broken by anybody at any instant, and never used again.

Owns: the sockets of a group, and the promise that a broken or closed group touches no tensor any more.
Refuses to know: who ought to be in it, what is exchanged, and what is decided when it breaks.
Does not guarantee: encryption or authentication (bind it to a trusted address), notice of a peer that is stopped or cut
off without closing its connections (only `patience` ends that, or whoever kills the peer), nor order between tensors:
every rank makes the same calls in the same order. A peer that dies while the group forms is noticed by `timeout` alone,
unless somebody calls `Forming.break_`.

`Group` is the seam: Gloo is the engine here, and another one (NCCL) is another class with these eight members.
"""

import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import timedelta
from math import inf
from typing import Protocol, cast

from torch import Tensor
from torch.distributed.distributed_c10d import (
    AllreduceOptions,
    ProcessGroup,
    ProcessGroupGloo,
    Work,
)

from regroup.worker.rendezvous import Meeting
from regroup.worker.rendezvous import Rendezvous as Rendezvous  # part of what a group needs
from regroup.worker.sockets import connections, listeners, shut


class GroupBroken(Exception):
    """A collective failed, the group could not form, or it was broken on purpose. Form a new one; never retry."""


class Pending(Protocol):
    """A collective in flight."""

    def wait(self) -> None:
        """Return once the tensor holds the result. Raises GroupBroken; the tensor is garbage then."""


class Group(Protocol):
    """Ranks 0 to size - 1 that exchange tensors on the CPU. Everything but `break_` belongs to one thread."""

    rank: int
    size: int

    def all_reduce(self, tensor: Tensor) -> Pending:
        """Start to sum a dense tensor of any shape, in place and bit-identical on every rank. Raises GroupBroken."""

    def send(self, tensor: Tensor, peer: int) -> None:
        """Give a dense tensor to `peer`, which calls `recv`. Blocks until it is on its way. Raises GroupBroken."""

    def recv(self, tensor: Tensor, peer: int) -> None:
        """Fill a dense tensor of the sender's size and dtype. Blocks. Raises GroupBroken."""

    def watch(self, on_broken: Callable[[str], None]) -> None:
        """Call `on_broken(reason)` once, from a thread, when a peer closes its end, cleanly or by dying; at most once
        per group. Not called once this side broke or closed it, or a collective failed. It breaks nothing by itself,
        and must not wait for the thread that closes the group."""

    def break_(self, reason: str = "broken on purpose") -> None:
        """From any thread: whatever waits in this group raises within milliseconds, and so does every later call."""

    def close(self) -> None:
        """Break it and free everything. When it returns, no thread of the group reads or writes a tensor any more."""


class Alone:
    """A group of one: nothing to exchange, nobody to lose."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self._broken: str | None = None

    def all_reduce(self, tensor: Tensor) -> Pending:
        self.wait()
        return self

    def wait(self) -> None:
        if self._broken is not None:
            raise GroupBroken(self._broken)

    def send(self, tensor: Tensor, peer: int) -> None:
        raise ValueError("there is nobody to send to in a group of one")

    def recv(self, tensor: Tensor, peer: int) -> None:
        raise ValueError("there is nobody to receive from in a group of one")

    def watch(self, on_broken: Callable[[str], None]) -> None:
        pass

    def break_(self, reason: str = "broken on purpose") -> None:
        self._broken = self._broken or reason

    def close(self) -> None:
        self.break_("closed")


def form(store: str, rank: int, size: int, *, host: str, timeout: float, patience: float = 30.0) -> Group:
    """The group of `size` ranks that meet at `store` ("host:port/prefix"). Arguments and errors: see `Forming`."""
    return Forming(store, rank, size, host=host, timeout=timeout, patience=patience).group()


class Forming:
    """A group in the making: `break_` is valid from any thread, before, during and after it has formed.

    `store` is a rendezvous's address and a prefix that no earlier group used; `host` the address to bind. Forming may
    take `timeout` seconds in all, each later collective `patience` seconds. It is built on a thread of its own, because
    nothing can stop the constructor: broken or late, it is left to end by itself, and frees what it built.
    """

    def __init__(self, store: str, rank: int, size: int, *, host: str, timeout: float, patience: float = 30.0) -> None:
        self._timeout = timeout
        self._lock = threading.Lock()
        self._settled = threading.Event()
        self._group: Group | None = None
        self._broken: str | None = None
        self._cause: Exception | None = None
        self._meeting: Meeting | None = None
        if size == 1:
            self._settle(Alone())
            return
        build = threading.Thread(
            target=self._build, args=(store, rank, size, host, patience), name=f"forming-{rank}", daemon=True
        )
        build.start()

    def group(self) -> Group:
        """Wait for it. Raises GroupBroken if it cannot form in time, or was broken."""
        if not self._settled.wait(self._timeout):
            self.break_(f"could not form within {self._timeout:g} s")
        if self._group is None:
            raise GroupBroken(self._broken) from self._cause
        return self._group

    def break_(self, reason: str = "broken on purpose") -> None:
        """Whoever waits for the group, or in it, raises within milliseconds. From any thread, any number of times."""
        with self._lock:
            if self._broken is None:
                self._broken = reason
            group, meeting = self._group, self._meeting
            self._settled.set()
            if group is None and meeting is not None:
                meeting.leave()
        if group is not None:
            group.break_(reason)

    def _build(self, store: str, rank: int, size: int, host: str, patience: float) -> None:
        address, _, prefix = store.partition("/")
        name, _, port = address.rpartition(":")
        try:
            with closing(Meeting((name, int(port)), prefix, self._timeout)) as meeting:
                with self._lock:
                    self._meeting = meeting
                self._settle(_connect(meeting, rank, size, host, self._timeout, patience))
                with self._lock:
                    self._meeting = None
        except Exception as error:  # torch names no type for it; whatever it was, the group did not form
            with self._lock:
                self._broken = self._broken or f"could not form: {_first_line(error)}"
                self._cause = error.with_traceback(None)  # its frames hold this object and what was built: a cycle
                self._meeting = None
            self._settled.set()

    def _settle(self, group: Group) -> None:
        with self._lock:
            if self._broken is None:
                self._group = group
        self._settled.set()
        if self._group is None:
            group.close()


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
        self._watcher: threading.Thread | None = None

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
        self._watcher = threading.Thread(target=self._look, args=(on_broken,), name=f"watch-{self.rank}", daemon=True)
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
            threading.Thread(target=last.clear, name=f"free-{self.rank}").start()

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
        self.break_(f"a collective failed: {_first_line(error)}")
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
        threading.Thread(target=self._wait, name="message", daemon=True).start()

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


def _connect(meeting: Meeting, rank: int, size: int, host: str, timeout: float, patience: float) -> Gloo:
    """Build the engine and find its sockets: those with one end at a listener that a rank of this group published."""
    with _building:
        before = set(listeners())
        # Eager: a peer that dies before the first collective would otherwise hang it beyond the timeout.
        device = ProcessGroupGloo.create_device(hostname=host, lazy_init=False)
        mine = [address for address in listeners() if address not in before]
    meeting.set(f"listeners/{rank}", " ".join(f"{name}|{port}" for name, port in mine))
    options = ProcessGroupGloo._Options()  # type: ignore[attr-defined]  # the stub names it otherwise
    options._devices = [device]
    options._timeout = timedelta(seconds=timeout)
    engine = cast(ProcessGroup, ProcessGroupGloo(meeting, rank, size, options))  # the stub hides what it shares with it
    published = " ".join(meeting.get(f"listeners/{peer}").decode() for peer in range(size)).split()
    ends = {(name, int(port)) for name, _, port in (entry.partition("|") for entry in published)}
    return Gloo(engine, list(connections(ends)), patience)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
