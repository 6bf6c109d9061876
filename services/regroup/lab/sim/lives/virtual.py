"""Virtual time for asyncio: a loop that never waits, and a guard against everything that is not virtual.

Owns: the clock of a simulation, which jumps to the next timer when nothing else is left to do.
Refuses to know: what runs in it. Does not guarantee: that code which asks the machine is found before it does;
inside `sealed` most of it is, and raises (what is not: there).
"""

import asyncio
import datetime
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context
from heapq import heappop, heappush
from types import ModuleType
from typing import Any, NoReturn, TypeVarTuple

Ts = TypeVarTuple("Ts")

# What asks the machine, whatever it is given. Of the global generator it is every function.
ASK: Mapping[Any, tuple[str, ...]] = {
    time: (
        *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "clock_gettime", "sleep"),
        *("clock_gettime_ns", "process_time", "process_time_ns", "thread_time", "thread_time_ns"),
    ),
    os: ("urandom", "getrandom", "getpid", "getppid", "times", "getloadavg"),
    random: tuple(name for name, what in vars(random).items() if getattr(what, "__self__", None) is random._inst),
    random.SystemRandom: ("random", "getrandbits", "randbytes"),  # and so all of `secrets`, whoever holds a name of it
    uuid: ("uuid1", "uuid4", "getnode"),
    socket: (
        *("create_connection", "create_server", "socketpair", "getaddrinfo", "getnameinfo", "gethostname", "getfqdn"),
        *("gethostbyname", "gethostbyname_ex", "gethostbyaddr", "if_nameindex"),
    ),
    socket.socket: ("__init__",),
}
# What asks it only for what is missing: the place of the argument that makes a plain function of it.
ASK_FOR_MORE: Mapping[Any, Mapping[str, int]] = {
    time: {"localtime": 0, "gmtime": 0, "ctime": 0, "asctime": 0, "strftime": 1},
    random.Random: {"seed": 1},  # a generator of one's own, without a seed
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


class _Sealed(threading.local):
    depth = 0


_here = _Sealed()
_lock = threading.Lock()
_threads = 0  # that are sealed now; the first of them puts the refusals up, the last takes them down
_kept: list[tuple[Any, str, Any]] = []


@contextmanager
def sealed() -> Iterator[None]:
    """Real time, sockets and global randomness raise Unreal inside, in this thread; others go on as they did.

    Not caught is what nobody can put a refusal before: a function that was imported by its own name before, as in
    `from time import monotonic`, and so also the type `datetime` itself; what C code asks without Python (locks that
    wait, zmq, numpy, torch); and the order of sets of texts, which another process has another one of.
    """
    with _lock:
        _put_up()
    _here.depth += 1
    try:
        yield
    finally:
        _here.depth -= 1
        with _lock:
            _take_down()


def _put_up() -> None:
    global _threads
    _threads += 1
    if _threads > 1:
        return
    places = [(owner, name, 0) for owner, names in ASK.items() for name in names]
    places += [(owner, name, place + 1) for owner, names in ASK_FOR_MORE.items() for name, place in names.items()]
    for owner, name, arguments in places:
        if not hasattr(owner, name):
            continue  # not every system has each
        real = getattr(owner, name)
        _kept.append((owner, name, real))
        setattr(owner, name, _refusal(f"{owner.__name__}.{name}", real, arguments))
    datetime.__class__ = _Dateless


def _take_down() -> None:
    global _threads
    _threads -= 1
    if _threads:
        return
    for owner, name, real in _kept:
        setattr(owner, name, real)
    _kept.clear()
    datetime.__class__ = ModuleType


def _refusal(name: str, real: Any, arguments: int) -> Any:
    """`arguments`: with so many, of which the last is not None, it asks the machine for nothing; 0: it always does."""

    def refuse(*given: Any, **more: Any) -> Any:
        if _here.depth and not (arguments and _given(given, more, arguments)):
            _raise(name)
        return real(*given, **more)

    return refuse


def _given(given: tuple[Any, ...], more: Mapping[str, Any], arguments: int) -> bool:
    """Only `seed` takes that argument by its name, too."""
    return (given[arguments - 1] if len(given) >= arguments else more.get("a")) is not None


def _raise(name: str) -> NoReturn:
    raise Unreal(f"{name}() was called in a simulation")


class _Dateless(ModuleType):
    """The module `datetime` while it is sealed: its own types cannot be changed, so others stand in for them."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return _STAND_INS.get(name, found) if _here.depth else found


class _Alike(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.__base__ or object)


class _Date(datetime.date, metaclass=_Alike):
    @classmethod
    def today(cls) -> NoReturn:
        _raise("datetime.date.today")


class _Datetime(datetime.datetime, metaclass=_Alike):
    @classmethod
    def now(cls, tz: Any = None) -> NoReturn:
        _raise("datetime.datetime.now")

    @classmethod
    def utcnow(cls) -> NoReturn:
        _raise("datetime.datetime.utcnow")

    @classmethod
    def today(cls) -> NoReturn:
        _raise("datetime.datetime.today")


_STAND_INS = {"date": _Date, "datetime": _Datetime}
