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
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
    """An event loop whose time is counted, not measured. It has no file descriptors, no threads and no signals."""

    def __init__(self, start: float = 0.0) -> None:
        super().__init__()
        self._virtual = start
        self._rounds = 0  # since time passed
        self._selector = self  # of which the loop wants `select` alone

    def time(self) -> float:
        return self._virtual

    def select(self, timeout: float | None) -> list[Any]:
        """What the loop calls between two rounds of what is ready: wait until the next timer, if nothing is."""
        if timeout is None:
            raise NothingLeft("no timer is set, and nothing is ready")
        self._rounds = 0 if timeout else self._rounds + 1
        if self._rounds > STANDSTILL:
            raise NothingLeft(f"time stands still at {self._virtual:.3f}")
        self._virtual += timeout
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Nobody has to be woken: there is one thread."""


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
