"""The coordinator's end: one encrypted port where all workers' connections arrive.

Owns: who is let in, what is read and in what portions, and who is gone.
Refuses to know: whether a worker is registered, and what is due to it.
Does not guarantee: that one worker cannot take another's name. All that hold the workers' key trust each other.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from errno import EACCES, EADDRINUSE

import zmq
import zmq.asyncio
from zmq.utils import z85

from regroup.core.messages.events import Report
from regroup.core.messages.orders import Order
from regroup.wire.codec import Undecodable, decode_report, encode
from regroup.wire.connections import Connections
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

BATCH = 64  # messages read until the event loop's other tasks get their turn
PATIENCE = 16  # batches that a closed connection's last words may take to arrive


class AddressUnusable(Exception):
    """Nothing can listen there; the message says why and what to do."""


class AddressInUse(AddressUnusable):
    """Somebody listens there already."""


class Hub:
    """Where all workers' connections end.

    `counters` has received, sent, and what was dropped, by reason: unknown_key (at the door), handshake (no peer of
    ours), name, frames, undecodable (reports); unroutable, full, oversize (orders).
    """

    def __init__(
        self,
        *,
        public: bytes,
        secret: bytes,
        allowed: Collection[bytes],
        host: str = "127.0.0.1",
        port: int = 0,
        max_message: int = MAX_MESSAGE,
    ) -> None:
        """Bind. `public` and `secret` are the server's pair, `allowed` the public keys of workers; port 0 is any free.

        Raises AddressInUse, AddressUnusable.
        """
        self.counters: Counter[str] = Counter()
        self._drop = Drops(self.counters)
        self._allowed = frozenset(z85.decode(key) for key in allowed)
        self._connections = Connections()
        self._max_message = max_message
        self._context = zmq.asyncio.Context()
        self._door = self._context.socket(zmq.REP)
        self._door.bind("inproc://zeromq.zap.01")  # the address that libzmq asks about each key (ZAP, RFC 27)
        self._router = self._context.socket(zmq.ROUTER)
        configure(self._router, max_message)
        self._router.curve_server = True
        self._router.curve_publickey = public
        self._router.curve_secretkey = secret
        self._router.zap_domain = b"regroup"
        self._router.router_handover = True  # else a worker that comes back is ignored until its old connection ends
        self._router.router_mandatory = True  # else orders to the absent vanish uncounted
        events = zmq.Event.ACCEPTED | zmq.Event.DISCONNECTED | REFUSALS
        self._monitor = self._router.get_monitor_socket(events)
        self._router_now, self._monitor_now, self._door_now = map(
            NonBlocking, (self._router, self._monitor, self._door)
        )
        address = f"tcp://{f'[{host}]' if ':' in host else host}:{port or '*'}"
        try:
            fit_family(self._router, address)
            self._router.bind(address)
        except zmq.ZMQError as error:
            self.close()
            if error.errno == EADDRINUSE:
                raise AddressInUse(
                    f"port {port} of {host} is in use: stop who listens there, or set REGROUP_LINK_PORT to another"
                ) from error
            advice = "set REGROUP_LINK_HOST to an address of this machine"
            if error.errno == EACCES:
                advice = "set REGROUP_LINK_PORT to one above 1023"
            why = (error.strerror or "").partition(" (addr=")[0]
            raise AddressUnusable(f"cannot listen on {host} port {port} ({why}): {advice}") from error
        self.address = self._router.get_string(zmq.LAST_ENDPOINT).rstrip("\0")

    async def run(self, on_report: Callable[[str, Report], None], on_closed: Callable[[str], None]) -> None:
        """Let workers in and hand over what they say, until cancelled. What the two callables raise ends the run.

        `on_closed(worker)`: its connection ended, and it has no other. All that it had sent was handed over before,
        unless more arrives at once than can be read; it may come back at any time.
        """
        poller = zmq.asyncio.Poller()
        for socket in (self._router, self._monitor, self._door):
            poller.register(socket, zmq.POLLIN)
        closed: set[str] = set()
        undrained = 0  # batches since there was nothing more to read
        while True:
            await poller.poll()
            closed |= self._notice()
            self._answer_door(closed)
            drained = any(not self._read(on_report, closed) for _ in range(BATCH))
            undrained = 0 if drained else undrained + 1
            if drained or undrained > PATIENCE:
                for worker in sorted(closed):
                    if worker not in self._connections:
                        on_closed(worker)
                closed.clear()
            await asyncio.sleep(0)

    def send(self, worker: str, order: Order) -> bool:
        """Hand an order to a worker's connection. False: dropped and counted. Raises Unencodable."""
        return self.send_many((worker,), order) == 1

    def send_many(self, workers: Iterable[str], order: Order) -> int:
        """The same order for many, encoded once. Returns how many connections took it. Raises Unencodable."""
        data = encode(order)
        if len(data) > self._max_message:
            self._drop("oversize", "%s of %d bytes", type(order).__name__, len(data))
            return 0
        return sum(self._send(worker, data) for worker in workers)

    def close(self) -> None:
        """Close every connection and free the port. Idempotent."""
        if self._context.closed:
            return
        self._router.disable_monitor()
        self._context.destroy(linger=0)

    def _send(self, worker: str, data: bytes) -> bool:
        try:
            self._router_now.send([worker.encode(), data])
        except zmq.Again:
            self._drop("full", "worker %s reads nothing", worker)
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self._drop("unroutable", "worker %s is not connected", worker)
        else:
            self.counters["sent"] += 1
            return True
        return False

    def _read(self, on_report: Callable[[str, Report], None], closed: set[str]) -> bool:
        """Read one message; False if there is none."""
        try:
            name = self._router_now.receive()
        except zmq.Again:
            return False
        frame, surplus = self._router_now.receive_single()
        worker = name.bytes.decode("latin-1")
        if not WORKER_NAME.fullmatch(worker):
            self._drop("name", "a worker calls itself %.70r", worker)
            return True
        closed |= self._notice()
        if not self._connections.heard(frame.get(zmq.SRCFD), int(frame.get("User-Id")), worker):
            closed.add(worker)
        if surplus:
            self._drop("frames", "worker %s sent %d frames too many", worker, surplus)
            return True
        try:
            report = decode_report(frame.bytes)
        except Undecodable as reason:
            self._drop("undecodable", "worker %s: %s", worker, reason)
            return True
        self.counters["received"] += 1
        on_report(worker, report)
        return True

    def _notice(self) -> set[str]:
        """Take all the monitor's events. Returns the workers that have no connection any more."""
        gone = set()
        for event, descriptor in events_of(self._monitor_now):
            if event & REFUSALS:
                self._drop("handshake", "a peer that speaks something else")
                continue
            note = self._connections.accepted if event == zmq.Event.ACCEPTED else self._connections.closed
            worker = note(descriptor)
            if worker is not None:
                gone.add(worker)
        return gone

    def _answer_door(self, closed: set[str]) -> None:
        """Answer libzmq's questions whether a key may enter. The User-Id that it puts on messages is our number."""
        while True:
            try:
                version, request, _, address, _, mechanism, *credentials = self._door_now.receive_all()
            except zmq.Again:
                return
            closed |= self._notice()
            if mechanism == b"CURVE" and credentials and credentials[0] in self._allowed:
                self._door_now.send([version, request, b"200", b"OK", b"%d" % self._connections.issue(), b""])
            else:
                self._drop(
                    "unknown_key",
                    "a peer at %s has no key of a worker: give it `regroup join-token`",
                    address.decode("latin-1"),
                )
                self._door_now.send([version, request, b"400", b"unknown key", b"", b""])
