"""An agent's end: one encrypted connection to the coordinator, which it makes again whenever it is lost.

Owns: the connection, the moment at which it stands, and that it is looked for where the coordinator is now.
Refuses to know: where that is written, what is said first, and what should be said again after a loss; its user is
told and decides.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import zmq
import zmq.asyncio

from regroup.core.messages.agent_reports import ReportTooLarge
from regroup.core.messages.events import Report
from regroup.core.messages.orders import Order
from regroup.wire.codec import Undecodable, decode_order, encode
from regroup.wire.link.sockets import (
    MAX_MESSAGE,
    REFUSALS,
    WORKER_NAME,
    Drops,
    NonBlocking,
    configure,
    events_of,
    fit_family,
)

log = logging.getLogger("regroup.wire.link")

RECONNECT = (50, 500)  # ms between attempts: at first, at most
CONNECT = 2000  # ms until an attempt ends where nobody refuses it: a machine that is gone says nothing
UNKNOWN = 400  # the status by which the coordinator's door refuses a key (ZAP, RFC 27)
WRONG_KEY = "%s does not know our key"
NOT_OURS = "%s has another key than the coordinator's, or went away: `regroup join-token` tells there what to set"
HANDSHAKE = 5000  # ms until an attempt ends: whoever took the coordinator's port may accept and say nothing
ATTEMPT = (RECONNECT[1] + CONNECT + HANDSHAKE) / 1000  # seconds until zmq says that it tries again, as a rule
LONGEST = 120.0  # seconds, if it says nothing: a name may take long to be looked up


class Line:
    """An agent's connection to the coordinator; it reconnects by itself, for ever.

    `counters` has received, sent, and what was dropped, by reason: detached, full, oversize (reports); undecodable,
    frames (orders); refused (attempts to connect: one of the keys is wrong); address (one that is none).
    """

    def __init__(
        self,
        address: str,
        *,
        worker: str,
        public: bytes,
        secret: bytes,
        server: bytes,
        on_connected: Callable[[], None] = lambda: None,
        where: Callable[[], str | None] = lambda: None,
        max_message: int = MAX_MESSAGE,
    ) -> None:
        """Begin to connect to `address` (tcp://host:port), whose public key must be `server`.

        `on_connected` is called from within `receive` or `send`, each time that a connection stands, before anything
        else is sent through it: what it sends are the first words. `where` is called whenever an attempt failed or the
        connection was lost, though not oftener than RECONNECT says at first, and by `move`. It gives the address to go
        on with; None: the same. Raises ValueError for a name or an address that is none.
        """
        if not WORKER_NAME.fullmatch(worker):
            raise ValueError(f"a worker's name has 1 to 64 of the characters A-Z a-z 0-9 . _ -, not {worker[:70]!r}")
        self.counters: Counter[str] = Counter()
        self._drop = Drops(self.counters)
        self.connected = False
        self._told = False  # that nobody answers, since the last connection
        self._stirred = time.monotonic()  # when zmq last said anything of this connection
        self._patience = ATTEMPT  # until it counts as given up
        self.unknown_key = False  # said by the coordinator, which is the right one, at the last attempt
        self._on_connected, self._where = on_connected, where
        self._max_message = max_message
        self._context = zmq.asyncio.Context()
        self._dealer = self._context.socket(zmq.DEALER)
        configure(self._dealer, max_message)
        self._dealer.routing_id = worker.encode()
        self._dealer.curve_serverkey = server
        self._dealer.curve_publickey = public
        self._dealer.curve_secretkey = secret
        self._dealer.immediate = True  # else reports pile up for an absent coordinator and precede the first words
        self._dealer.reconnect_ivl, self._dealer.reconnect_ivl_max = RECONNECT
        self._dealer.connect_timeout = CONNECT
        self._dealer.handshake_ivl = HANDSHAKE
        self._monitor = self._dealer.get_monitor_socket(
            zmq.Event.HANDSHAKE_SUCCEEDED | zmq.Event.DISCONNECTED | zmq.Event.CONNECT_RETRIED | REFUSALS
        )
        self._now, self._monitor_now = NonBlocking(self._dealer), NonBlocking(self._monitor)
        try:
            fit_family(self._dealer, address)
            self._connect(address)
        except zmq.ZMQError as error:
            self._dealer.disable_monitor()
            self._context.destroy(linger=0)
            raise ValueError(f"{address} is no address of a link: give tcp://host:port") from error

    def send(self, report: Report) -> bool:
        """Hand a report to the connection. False: dropped and counted. Raises Unencodable.

        Of one that is too large it is told that there was one: whoever waits for it must not wait without a word.
        """
        data = encode(report)
        if len(data) > self._max_message:
            kind, size = type(report).__name__, len(data)
            self._drop("oversize", "%s of %d bytes", kind, size)
            data = encode(ReportTooLarge(job=getattr(report, "job", ""), report=kind, size=size))
        self._notice()
        if not self.connected:
            self.counters["detached"] += 1
            return False
        try:
            self._now.send([data])
        except zmq.Again:
            self._drop("full", "the coordinator reads nothing")
            return False
        self.counters["sent"] += 1
        return True

    async def receive(self) -> Order:
        """The next order. Must be awaited all the time: it also notices connections. Safe to cancel."""
        poller = zmq.asyncio.Poller()
        for socket in (self._dealer, self._monitor):
            poller.register(socket, zmq.POLLIN)
        while True:
            self._notice()
            try:
                frame, surplus = self._now.receive_single()
            except zmq.Again:
                await poller.poll()
                continue
            order = self._decode(frame, surplus)
            if order is not None:
                return order

    def move(self) -> None:
        """Go on at the address that `where` gives, if it is another one, though this connection stands.

        At the same one, too, if zmq has given it up: it does where our key was refused, and, without a word, where
        somebody else answered who speaks another protocol, such as a proxy in front of a coordinator that restarts.
        """
        now = self._where() or self._address
        silent = not self.connected and time.monotonic() - self._stirred > self._patience
        if now != self._address:
            self._patience = ATTEMPT
            self._follow(now)
        elif self.unknown_key or silent:
            self._patience = min(2 * self._patience, LONGEST)
            self._follow(now)

    async def close(self, flush: float = 0.0) -> None:
        """Close, and give what was sent at most `flush` seconds to leave. Idempotent."""
        if self._context.closed:
            return
        self._dealer.disable_monitor()
        self._monitor.close(linger=0)
        self._dealer.close(linger=int(flush * 1000))
        await asyncio.to_thread(self._context.term)

    def _decode(self, frame: zmq.Frame, surplus: int) -> Order | None:
        if surplus:
            self._drop("frames", "an order of %d frames too many", surplus)
            return None
        try:
            order = decode_order(frame.bytes)
        except Undecodable as reason:
            self._drop("undecodable", "%s", reason)
            return None
        self.counters["received"] += 1
        return order

    def _connect(self, address: str) -> None:
        self._dealer.connect(address)
        self._address = address
        self._since = self._stirred = time.monotonic()

    def _follow(self, address: str) -> None:
        former = self._address
        try:
            if address == former:
                self._forsake(former)
            else:  # it waits for a name to be looked up
                fit_family(self._dealer, address)
            self._connect(address)
        except zmq.ZMQError:
            self._drop("address", "%s is said to be the coordinator's", address)
        else:
            if address != former:
                self._forsake(former)
            self.connected = self.unknown_key = False

    def _forsake(self, address: str) -> None:
        with suppress(zmq.ZMQError):  # nothing may be left of it
            self._dealer.disconnect(address)

    def _notice(self) -> None:
        retried = False
        for event, value in events_of(self._monitor_now):
            self._stirred, self._patience = time.monotonic(), ATTEMPT
            if event == zmq.Event.CONNECT_RETRIED:
                retried = True
                continue
            if event & REFUSALS:
                self.unknown_key = event == zmq.Event.HANDSHAKE_FAILED_AUTH and value == UNKNOWN
                self._drop("refused", WRONG_KEY if self.unknown_key else NOT_OURS, self._address)
            self.connected = event == zmq.Event.HANDSHAKE_SUCCEEDED
            if self.connected:
                self.unknown_key = self._told = False
                self._on_connected()
        if retried and not self.connected and not self._told:
            log.warning("nobody answers at %s yet; trying again", self._address)
            self._told = True
        # Without the pause, several addresses where nobody listens would be tried as fast as they refuse.
        if retried and not self.connected and time.monotonic() - self._since > RECONNECT[0] / 1000:
            self.move()
