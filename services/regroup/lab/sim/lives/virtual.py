"""Virtual time for asyncio: a loop that never waits, and a guard against everything that is not virtual.

Owns: the clock of a simulation, which jumps to the next timer when nothing else is left to do.
Refuses to know: what runs in it. Does not guarantee: that code which asks the machine is found before it does;
inside `sealed` it is, and raises.
"""

import asyncio
import os
import random
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from heapq import heappop, heappush
from typing import Any, TypeVarTuple

Ts = TypeVarTuple("Ts")

REAL: dict[Any, tuple[str, ...]] = {
    time: ("time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns", "sleep"),
    socket: ("create_connection", "getaddrinfo", "gethostname"),
    socket.socket: ("__init__",),
    random: ("random", "randrange", "randint", "choice", "choices", "shuffle", "sample", "uniform", "getrandbits"),
    secrets: ("token_hex", "token_bytes", "token_urlsafe", "choice", "randbelow"),
    os: ("urandom", "getpid"),
}


STANDSTILL = 100_000  # rounds of the loop in one instant


class Unreal(AssertionError):
    """Something in a simulation asked the machine for its time, its randomness or its network."""


class NothingLeft(AssertionError):
    """Everything waits for something, and nothing will ever happen."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose time is counted, not measured. It has no file descriptors, no threads and no signals.

    Of two timers for one instant, the one that was set first comes first. Most of a simulation's time is spent in
    here, which is why it does not go through asyncio's own heap of timers.
    """

    def __init__(self, start: float = 0.0) -> None:
        super().__init__()
        self.now = start
        self._timers: list[tuple[float, int, asyncio.TimerHandle | None, Callable[..., object], tuple[Any, ...]]] = []
        self._count = 0  # of timers, ever
        self._rounds = 0  # since time passed

    def time(self) -> float:
        return self.now

    def at(self, when: float, what: Callable[..., object], *given: Any) -> None:
        """`call_at`, for what is never cancelled."""
        self._count += 1
        heappush(self._timers, (when, self._count, None, what, given))

    def sleep(self, seconds: float) -> "asyncio.Future[None]":
        """`asyncio.sleep`, without what makes it general."""
        future = self.create_future()
        self.at(self.now + seconds, _wake, future)
        return future

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._count += 1
        heappush(self._timers, (when, self._count, handle, callback, args))
        return handle

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def _run_once(self) -> None:
        """All that is ready; or else the next timer, whenever it is."""
        ready, timers = self._ready, self._timers  # type: ignore[attr-defined]
        self._rounds += 1
        if self._rounds > STANDSTILL:
            raise NothingLeft(f"time stands still at {self.now:.3f}")
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
        if self._stopping or (ready and not (timers and timers[0][0] <= self.now)):  # type: ignore[attr-defined]
            return
        if not timers:
            raise NothingLeft("no timer is set, and nothing is ready")
        when, _, handle, what, given = heappop(timers)
        if handle is not None and handle._cancelled:
            return
        if when > self.now:
            self.now, self._rounds = when, 0
        if handle is not None:
            handle._run()
            return
        try:
            what(*given)
        except Exception as error:
            self.call_exception_handler({"message": f"{what} failed", "exception": error})

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Nobody has to be woken: there is one thread."""


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


@contextmanager
def sealed() -> Iterator[None]:
    """Real time, sockets and global randomness raise Unreal inside, in this thread; others go on as they did."""
    kept = [(module, name, getattr(module, name)) for module, names in REAL.items() for name in names]
    for module, name, real in kept:
        setattr(module, name, _refusal(f"{module.__name__}.{name}", real, threading.get_ident()))
    try:
        yield
    finally:
        for module, name, real in kept:
            setattr(module, name, real)


def _refusal(name: str, real: Any, thread: int) -> Any:
    def refuse(*given: Any, **more: Any) -> Any:
        if threading.get_ident() == thread:
            raise Unreal(f"{name}() was called in a simulation")
        return real(*given, **more)

    return refuse
