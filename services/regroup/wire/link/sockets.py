"""What both ends of a link share: limits, keys, a socket's settings, and how it is used without waiting.

Owns: the traps of zmq's sockets on an event loop, so that neither end meets them twice.
Refuses to know: which end it serves, and what is sent.
"""

import logging
import re
import struct
from collections import Counter
from collections.abc import Iterator
from socket import AF_INET, AF_INET6, getaddrinfo

import zmq
import zmq.asyncio

MAX_MESSAGE = 16 * 2**20  # bytes of one frame; a message is one frame
WORKER_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
HEARTBEAT = 1000  # ms between ZeroMQ's own pings
SILENCE = 5000  # ms without any traffic until ZeroMQ closes a connection
REFUSALS = zmq.Event.HANDSHAKE_FAILED_NO_DETAIL | zmq.Event.HANDSHAKE_FAILED_PROTOCOL | zmq.Event.HANDSHAKE_FAILED_AUTH

log = logging.getLogger("regroup.wire.link")


def new_secret() -> bytes:
    """A fresh CURVE secret key, 40 characters of Z85."""
    return zmq.curve_keypair()[1]


def public_of(secret: bytes) -> bytes:
    """The public key of a secret one. Raises ValueError if it is none."""
    try:
        return zmq.curve_public(secret)
    except zmq.ZMQError as error:
        raise ValueError("not a CURVE key") from error


def configure(socket: zmq.asyncio.Socket, max_message: int) -> None:
    socket.linger = 0
    socket.maxmsgsize = max_message
    socket.heartbeat_ivl = HEARTBEAT
    socket.heartbeat_timeout = SILENCE


def fit_family(socket: zmq.asyncio.Socket, address: str) -> None:
    """Before it binds or connects to tcp://host:port. Not IPv6 for all: a name would then be looked up there first.

    A name that has no IPv4 address is looked up there.
    """
    host = address.removeprefix("tcp://").rpartition(":")[0]
    socket.ipv6 = host.startswith("[") or (not _means(host, AF_INET) and _means(host, AF_INET6))


def _means(host: str, family: int) -> bool:
    try:
        return bool(getaddrinfo(host, None, family))
    except OSError:
        return False


class NonBlocking:
    """A second view of an asyncio socket for what can be done at once; raises zmq.Again where it cannot.

    Its asyncio twin waits for a descriptor that signals changes only, and sending may swallow the signal. So the twin
    is made to look again. Receiving until zmq.Again needs no such care.
    """

    def __init__(self, socket: zmq.asyncio.Socket) -> None:
        self._twin = socket
        self._socket: zmq.Socket[bytes] = zmq.Socket.shadow(socket.underlying)

    def receive(self) -> zmq.Frame:
        return self._socket.recv(zmq.NOBLOCK, copy=False)

    def receive_single(self) -> tuple[zmq.Frame, int]:
        """The first frame of what is left of a message, and how many more there were.

        The others are let go one by one, so that a message of very many never stands in a list.
        """
        first = last = self.receive()
        surplus = 0
        while last.more:
            last = self.receive()
            surplus += 1
        return first, surplus

    def receive_all(self) -> list[bytes]:
        return self._socket.recv_multipart(zmq.NOBLOCK)

    def send(self, parts: list[bytes]) -> None:
        try:
            self._socket.send_multipart(parts, zmq.NOBLOCK)
        finally:
            self._twin.get(zmq.EVENTS)


def events_of(monitor: NonBlocking) -> Iterator[tuple[int, int]]:
    """All (event, value) that stand in a monitor's queue; the value of ACCEPTED and DISCONNECTED is a descriptor."""
    while True:
        try:
            event, _ = monitor.receive_all()
        except zmq.Again:
            return
        yield struct.unpack("=HI", event)


class Drops:
    """Counts what is dropped, and logs the 1st, 2nd, 4th, 8th ... of a kind: a flood must not flood the log."""

    def __init__(self, counters: Counter[str]) -> None:
        self._counters = counters

    def __call__(self, reason: str, message: str, *details: object) -> None:
        self._counters[reason] += 1
        count = self._counters[reason]
        if count & (count - 1) == 0:
            log.warning(f"dropped (%s, number %d): {message}", reason, count, *details)
