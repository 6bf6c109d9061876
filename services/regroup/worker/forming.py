"""The forming of a process group: the ranks of one generation meet, and become a group or give up.

Owns: the promise that whoever waits for a group to form is let go in time, or at once when it is told; that what was
built in vain is freed; and finding out to whom no connection came about.
Refuses to know: who ought to be in it, what is decided when it does not form, and how a group works (`gloo`).
Does not guarantee: notice of a peer that dies meanwhile: only `timeout` ends that, or somebody calls `Forming.break_`.
"""

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import closing

from regroup.worker.gloo import connect, first_line, listeners_of
from regroup.worker.group import Alone, Group, GroupBroken
from regroup.worker.rendezvous import Meeting
from regroup.worker.vital import Vital

SOUNDING = 1.0  # seconds in which a peer's machine must answer


def form(store: str, rank: int, size: int, *, host: str, timeout: float, patience: float = 30.0) -> Group:
    """The group of `size` ranks that meet at `store` ("host:port/prefix"). Arguments and errors: see `Forming`."""
    return Forming(store, rank, size, host=host, timeout=timeout, patience=patience).group()


class Forming:
    """A group in the making: `break_` is valid from any thread, before, during and after it has formed.

    `store` is a rendezvous's address and a prefix that no earlier group used; `host` the address to bind. Forming may
    take `timeout` seconds in all, each later collective `patience` seconds. It is built on a thread of its own, because
    nothing can stop the constructor: broken or late, it is left to end by itself, and frees what it built. To whom no
    connection came about, `leader` (whose rendezvous it is) or others, is told on that thread, sooner or later.
    """

    def __init__(
        self,
        store: str,
        rank: int,
        size: int,
        *,
        host: str,
        timeout: float,
        patience: float = 30.0,
        leader: int = 0,
        on_unreached: Callable[[Sequence[int]], None] = lambda ranks: None,
    ) -> None:
        self._timeout = timeout
        self._leader, self._on_unreached = leader, on_unreached
        self._late = False
        self._lock = threading.Lock()
        self._settled = threading.Event()
        self._group: Group | None = None
        self._broken: str | None = None
        self._cause: Exception | None = None
        self._meeting: Meeting | None = None
        if size == 1:
            self._settle(Alone())
            return
        build = Vital(target=self._build, args=(store, rank, size, host, patience), name=f"forming-{rank}")
        build.start()

    def group(self) -> Group:
        """Wait for it. Raises GroupBroken if it cannot form in time, or was broken."""
        if not self._settled.wait(self._timeout):
            self._late = True
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
            with closing(self._meet((name, int(port)), prefix)) as meeting:
                with self._lock:
                    self._meeting = meeting
                try:
                    self._settle(connect(meeting, rank, size, host, self._timeout, patience))
                except Exception:
                    if self._broken is None or self._late:  # else it was told to give up, which says nothing of peers
                        self._sound(meeting, rank, size)
                    raise
                with self._lock:
                    self._meeting = None
        except Exception as error:  # torch names no type for it; whatever it was, the group did not form
            with self._lock:
                self._broken = self._broken or f"could not form: {first_line(error)}"
                self._cause = error.with_traceback(None)  # its frames hold this object and what was built: a cycle
                self._meeting = None
            self._settled.set()

    def _meet(self, address: tuple[str, int], prefix: str) -> Meeting:
        try:
            return Meeting(address, prefix, self._timeout)
        except ConnectionRefusedError:
            raise  # its machine was reached
        except OSError:
            self._on_unreached((self._leader,))
            raise

    def _sound(self, meeting: Meeting, rank: int, size: int) -> None:
        """Tell which ranks have left an address here that nobody can connect to from this machine."""
        unreached = []
        for peer in range(size):
            left = meeting.known(listeners_of(peer)) if peer != rank else b""
            for name, _, port in (each.rpartition("|") for each in left.decode().split()):
                try:
                    socket.create_connection((name, int(port)), SOUNDING).close()
                except ConnectionRefusedError:
                    pass
                except OSError:
                    unreached.append(peer)
                    break
        if unreached:
            self._on_unreached(unreached)

    def _settle(self, group: Group) -> None:
        with self._lock:
            if self._broken is None:
                self._group = group
        self._settled.set()
        if self._group is None:
            group.close()
