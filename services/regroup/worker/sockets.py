"""The internet sockets of this process, also those that a library opened and keeps to itself.

Owns: finding them by address through /proc, as duplicates, whose numbers nobody else can close and reuse.
Refuses to know: what is spoken over them.
Does not guarantee: to find a socket that another thread opens or closes at this very moment.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress

Address = tuple[str, int]


def _sockets() -> Iterator[socket.socket]:
    """A duplicate of each internet stream socket of this process; the caller closes it."""
    for number in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
                continue
            end = socket.socket(fileno=os.dup(int(number)))
        except OSError:  # closed by another thread since it was listed
            continue
        if end.family in (socket.AF_INET, socket.AF_INET6) and end.type == socket.SOCK_STREAM:
            yield end
        else:
            end.close()


def listeners() -> Iterator[Address]:
    """Where this process listens."""
    for end in _sockets():
        with end:
            if end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                yield end.getsockname()[:2]


def connections(ends: set[Address]) -> Iterator[socket.socket]:
    """A duplicate of each connected socket of this process that has one end at one of these addresses."""
    for end in _sockets():
        with suppress(OSError):  # not connected
            if end.getpeername()[:2] in ends or end.getsockname()[:2] in ends:
                yield end
                continue
        end.close()


def shut(end: socket.socket) -> None:
    with suppress(OSError):  # the peer did so first
        end.shutdown(socket.SHUT_RDWR)
