"""Two ends of a real, encrypted connection: what arrives, what does not, and who is noticed to be gone."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
import zmq

from regroup.core.messages.agent_reports import AgentRegistered, ReportTooLarge
from regroup.core.messages.events import Report
from regroup.core.messages.orders import Halt, Order, Release, Welcome
from regroup.core.messages.trainer_reports import GroupBroke
from regroup.wire.codec import encode
from regroup.wire.link import AddressInUse, AddressUnusable, Hub, Line, line, new_secret, public_of

SERVER, WORKER, STRANGER = new_secret(), new_secret(), new_secret()
LIMIT = 20.0  # seconds; what is awaited here takes milliseconds


@dataclass
class Heard:
    """What a hub handed over, in its order, and a way to wait until it says something."""

    events: list[tuple[str, Report | None]] = field(default_factory=list)  # None: closed
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def report(self, worker: str, report: Report) -> None:
        self.events.append((worker, report))
        self.changed.set()

    def closed(self, worker: str) -> None:
        self.events.append((worker, None))
        self.changed.set()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(LIMIT):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


def loopback6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


async def eventually(condition: Callable[[], object]) -> None:
    """For what happens without an event to wait for, such as a counter that moves."""
    for _ in range(int(LIMIT * 100)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


@asynccontextmanager
async def hub_running(port: int = 0, **limits: Any) -> AsyncIterator[tuple[Hub, Heard]]:
    hub = Hub(public=public_of(SERVER), secret=SERVER, allowed=[public_of(WORKER)], port=port, **limits)
    heard = Heard()
    running = asyncio.create_task(hub.run(heard.report, heard.closed))
    try:
        yield hub, heard
    finally:
        running.cancel()
        await asyncio.wait([running])
        hub.close()
        if not running.cancelled():
            running.result()


def registered(boot: str = "b1") -> AgentRegistered:
    return AgentRegistered(boot=boot, device="cpu", host="here", pid=1, version="0")


class Agent:
    """A line that registers on each connection, and collects its orders."""

    def __init__(self, address: str, worker: str, secret: bytes = WORKER, server: bytes | None = None, **more: Any):
        self.orders: asyncio.Queue[Order] = asyncio.Queue()
        self.connected = asyncio.Event()
        self.connections = 0
        self.line = Line(
            address,
            worker=worker,
            public=public_of(secret),
            secret=secret,
            server=server or public_of(SERVER),
            on_connected=self.register,
            **more,
        )
        self.task = asyncio.create_task(self.work())

    def register(self) -> None:
        self.connections += 1
        assert self.line.send(registered(f"b{self.connections}"))
        self.connected.set()

    async def work(self) -> None:
        while True:
            self.orders.put_nowait(await self.line.receive())

    async def order(self) -> Order:
        return await asyncio.wait_for(self.orders.get(), LIMIT)

    async def close(self, flush: float = 0.0) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.line.close(flush)


@asynccontextmanager
async def agent(address: str, worker: str = "w1", secret: bytes = WORKER, **more: Any) -> AsyncIterator[Agent]:
    one = Agent(address, worker, secret, **more)
    try:
        yield one
    finally:
        await one.close()


@asynccontextmanager
async def bare_dealer(hub: Hub, name: bytes = b"w1", secret: bytes = WORKER) -> AsyncIterator[zmq.Socket[bytes]]:
    """A peer that has a key and says what it likes."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 1000
        dealer.routing_id = name
        dealer.curve_serverkey = public_of(SERVER)
        dealer.curve_publickey, dealer.curve_secretkey = public_of(secret), secret
        dealer.connect(hub.address)
        yield dealer


async def test_what_is_said_arrives_and_is_answered() -> None:
    async with hub_running() as (hub, heard), agent(hub.address) as one:
        await heard.until(lambda: ("w1", registered()) in heard.events)
        assert hub.send("w1", Welcome(1.0))
        assert await one.order() == Welcome(1.0)
        broke = GroupBroke(job="j", incarnation="i", generation=3, reason="reset by peer")
        assert one.line.send(broke)
        await heard.until(lambda: ("w1", broke) in heard.events)
        assert hub.counters == {"received": 2, "sent": 1}
        assert one.line.counters == {"received": 1, "sent": 2}


async def test_an_order_for_nobody_is_dropped_and_counted() -> None:
    async with hub_running() as (hub, _):
        assert not hub.send("nobody", Halt("j", 1))
        assert hub.counters == {"unroutable": 1}


async def test_an_unknown_key_gets_nothing() -> None:
    async with hub_running() as (hub, heard), agent(hub.address, "stranger", STRANGER) as one:
        await eventually(lambda: hub.counters["unknown_key"])
        async with agent(hub.address, "w1"):
            await heard.until(lambda: heard.events)
        assert not one.line.connected
        assert not one.line.send(registered())
        assert one.line.counters["detached"] == 1
        assert {worker for worker, _ in heard.events} == {"w1"}
        assert not hub.send("stranger", Halt("j", 1))


async def test_a_line_knows_that_its_key_was_refused_and_tries_again_when_it_is_told_to() -> None:
    async with hub_running() as (hub, _):
        one = Agent(hub.address, "w1", STRANGER)
        await eventually(lambda: one.line.unknown_key)
        port = int(hub.address.rpartition(":")[2])
    hub = Hub(public=public_of(SERVER), secret=SERVER, allowed=[public_of(STRANGER)], port=port)
    heard = Heard()
    running = asyncio.create_task(hub.run(heard.report, heard.closed))
    one.line.move()
    await heard.until(lambda: heard.events)
    assert not one.line.unknown_key
    await one.close()
    running.cancel()
    await asyncio.wait([running])
    hub.close()


async def test_whoever_listens_there_without_the_coordinators_key_refuses_none() -> None:
    other = Hub(public=public_of(STRANGER), secret=STRANGER, allowed=[])
    async with agent(other.address) as one:
        await eventually(lambda: one.line.counters["refused"])
        assert not one.line.unknown_key
    other.close()


async def test_a_worker_does_not_talk_to_a_coordinator_with_another_key() -> None:
    async with hub_running() as (hub, heard):
        one = Agent(hub.address, "w1", server=public_of(STRANGER))
        async with agent(hub.address, "w2"):
            await heard.until(lambda: heard.events)
        await eventually(lambda: one.line.counters["refused"])
        assert not one.line.connected
        await one.close()


async def test_random_bytes_on_the_port_stop_nothing() -> None:
    async with hub_running() as (hub, heard):
        host, port = hub.address.removeprefix("tcp://").split(":")
        for garbage in (b"", b"\x00", b"GET / HTTP/1.1\r\n\r\n", os.urandom(5000), b"\xff" + os.urandom(63)):
            _, writer = await asyncio.open_connection(host, int(port))
            with suppress(OSError):  # the hub may hang up first
                writer.write(garbage)
                writer.write_eof()
                writer.close()
                await writer.wait_closed()
        async with agent(hub.address):
            await heard.until(lambda: heard.events)
        assert heard.events[0] == ("w1", registered())


async def test_garbage_from_a_peer_with_a_key_is_counted_and_the_next_report_is_heard() -> None:
    async with hub_running() as (hub, heard), bare_dealer(hub) as dealer:
        for data in (b"", b"{", os.urandom(100), encode(Halt("j", 1)), encode(registered("good"))):
            dealer.send(data)
        await heard.until(lambda: heard.events)
        assert heard.events == [("w1", registered("good"))]
        assert hub.counters == {"undecodable": 4, "received": 1}


async def test_a_message_of_too_many_frames_is_dropped_whole() -> None:
    async with hub_running() as (hub, heard), bare_dealer(hub) as dealer:
        dealer.send_multipart([encode(registered("bad"))] * 10_000)
        dealer.send(encode(registered("good")))
        await heard.until(lambda: heard.events)
        assert heard.events == [("w1", registered("good"))]
        assert hub.counters["frames"] == 1


async def test_a_frame_above_the_limit_costs_its_sender_the_connection_and_nobody_else() -> None:
    async with hub_running(max_message=10_000) as (hub, heard), agent(hub.address, "w2"):
        async with bare_dealer(hub) as dealer:
            dealer.send(encode(registered("small")))
            await heard.until(lambda: ("w1", registered("small")) in heard.events)
            dealer.send(b"x" * 10_001)
            await heard.until(lambda: ("w1", None) in heard.events)
        await heard.until(lambda: ("w2", registered()) in heard.events)
        assert ("w2", None) not in heard.events


async def test_what_is_too_large_to_be_received_is_not_sent() -> None:
    async with hub_running(max_message=10_000) as (hub, heard), agent(hub.address, max_message=10_000):
        await heard.until(lambda: heard.events)
        assert not hub.send("w1", Release("x" * 10_001))
        assert hub.counters["oversize"] == 1


async def test_of_a_report_that_is_too_large_it_is_told_that_there_was_one() -> None:
    async with hub_running(max_message=10_000) as (hub, heard), agent(hub.address, max_message=10_000) as one:
        await heard.until(lambda: heard.events)
        huge = GroupBroke(job="j", incarnation="i", generation=1, reason="x" * 10_001)
        assert one.line.send(huge)
        told = ReportTooLarge(job="j", report="GroupBroke", size=len(encode(huge)))
        await heard.until(lambda: ("w1", told) in heard.events)
        assert one.line.counters["oversize"] == 1


@pytest.mark.parametrize("name", [b"no/slash", b"x" * 65, b"new\nline", "ü".encode()])
async def test_a_peer_whose_name_is_no_name_is_dropped(name: bytes) -> None:
    async with hub_running() as (hub, heard), bare_dealer(hub, name) as dealer, agent(hub.address, "w2"):
        dealer.send(encode(registered()))
        await eventually(lambda: hub.counters["name"])
        await heard.until(lambda: heard.events)
        assert {worker for worker, _ in heard.events} == {"w2"}


def test_a_line_refuses_a_name_that_is_no_name() -> None:
    with pytest.raises(ValueError, match="1 to 64"):
        Line("tcp://127.0.0.1:1", worker="no/slash", public=b"", secret=b"", server=b"")


async def test_two_hundred_workers_are_heard_and_answered() -> None:
    async with hub_running() as (hub, heard):
        names = [f"w{number}" for number in range(200)]
        agents = [Agent(hub.address, name) for name in names]
        await heard.until(lambda: {worker for worker, _ in heard.events} == set(names))
        assert hub.send_many(names, Halt("j", 1)) == 200
        assert [await one.order() for one in agents] == [Halt("j", 1)] * 200
        for one in agents:
            await one.close()
        await heard.until(lambda: sum(report is None for _, report in heard.events) == 200)
        assert {worker for worker, report in heard.events if report is None} == set(names)


async def test_a_flood_starves_no_other_task() -> None:
    turns = 0

    async def breathe() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with hub_running() as (hub, heard), bare_dealer(hub) as dealer:
        data = encode(registered())
        dealer.send(data)
        await heard.until(lambda: heard.events)
        for _ in range(1000):  # all are there before anything is read
            dealer.send(data)
        breathing = asyncio.create_task(breathe())
        await heard.until(lambda: len(heard.events) == 1001)
        breathing.cancel()
        assert turns >= 1000 // 64


PEER = """
import asyncio, sys
from regroup.core.messages.agent_reports import AgentRegistered
from regroup.wire.link import Line, public_of

async def main(address, worker, secret, server):
    line = Line(address, worker=worker, public=public_of(secret), secret=secret, server=server,
                on_connected=lambda: line.send(AgentRegistered(boot="b", device="cpu", host="h", pid=1, version="0")))
    await line.receive()

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3].encode(), sys.argv[4].encode()))
"""


async def test_a_killed_process_is_noticed_by_its_closed_connection() -> None:
    async with hub_running() as (hub, heard), agent(hub.address, "w2"):
        peer = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", PEER, hub.address, "w1", WORKER, public_of(SERVER)]
        )
        await heard.until(lambda: {worker for worker, _ in heard.events} == {"w1", "w2"})
        peer.send_signal(signal.SIGKILL)
        await heard.until(lambda: ("w1", None) in heard.events)  # ZeroMQ's own pings would need SILENCE
        peer.wait()
        assert ("w2", None) not in heard.events


async def test_the_last_words_come_before_the_notice_that_the_connection_closed() -> None:
    async with hub_running() as (hub, heard):
        one = Agent(hub.address, "w1")
        await heard.until(lambda: heard.events)
        for number in range(500):
            assert one.line.send(registered(str(number)))
        await one.close(flush=LIMIT)
        await heard.until(lambda: ("w1", None) in heard.events)
        assert heard.events[1:] == [*(("w1", registered(str(number))) for number in range(500)), ("w1", None)]


async def test_a_name_that_connects_again_takes_over_and_its_old_connection_is_no_news() -> None:
    async with hub_running() as (hub, heard), bare_dealer(hub) as old:
        old.send(encode(registered("old")))
        await heard.until(lambda: heard.events)
        async with agent(hub.address) as new:
            await heard.until(lambda: len(heard.events) == 2)
            old.close()
            async with agent(hub.address, "w2"):  # its whole conversation comes after the old one's end
                await heard.until(lambda: len(heard.events) == 3)
            assert ("w1", None) not in heard.events
            assert hub.send("w1", Halt("j", 1))
            assert await new.order() == Halt("j", 1)
        await heard.until(lambda: ("w1", None) in heard.events)


async def test_a_line_finds_a_restarted_coordinator_and_its_first_words_are_a_registration() -> None:
    async with hub_running() as (hub, heard):
        port = int(hub.address.rpartition(":")[2])
        one = Agent(hub.address, "w1")
        await heard.until(lambda: heard.events)
    stale = GroupBroke(job="j", incarnation="i", generation=1, reason="said to nobody")
    await eventually(lambda: not one.line.send(stale))
    async with hub_running(port) as (_, heard):
        await heard.until(lambda: heard.events)
        assert heard.events == [("w1", registered("b2"))]
        assert one.line.counters["detached"] == 1
        await one.close()


@pytest.mark.parametrize("words", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 503 Service Unavailable\r\n\r\n", b""])
async def test_a_line_comes_back_although_somebody_else_answered_on_its_coordinators_port(
    words: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "ATTEMPT", 1.0)
    answered = asyncio.Event()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            writer.write(words)
            await writer.drain()
            answered.set()
            writer.close()
            await writer.wait_closed()

    stranger = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = stranger.sockets[0].getsockname()[1]
    async with agent(f"tcp://127.0.0.1:{port}") as one:
        await asyncio.wait_for(answered.wait(), LIMIT)
        stranger.close()
        await stranger.wait_closed()
        async with hub_running(port) as (_, heard), asyncio.timeout(LIMIT):
            while not heard.events:
                one.line.move()  # as an agent does that hears nothing
                await asyncio.sleep(0.1)
    assert one.connections == 1


async def test_what_waited_for_a_lost_connection_does_not_precede_the_first_words_on_the_next() -> None:
    hub = Hub(public=public_of(SERVER), secret=SERVER, allowed=[public_of(WORKER)])
    port = int(hub.address.rpartition(":")[2])
    heard = Heard()
    running = asyncio.create_task(hub.run(heard.report, heard.closed))
    one = Agent(hub.address, "w1")
    await heard.until(lambda: heard.events)
    running.cancel()
    await asyncio.wait([running])
    stuck = GroupBroke(job="j", incarnation="i", generation=1, reason="x" * 10_000)
    while one.line.send(stuck):
        pass
    assert one.line.counters["full"] == 1
    hub.close()
    async with hub_running(port) as (_, heard):
        await heard.until(lambda: heard.events)
        assert heard.events == [("w1", registered("b2"))]
        await one.close()


async def test_a_line_follows_a_coordinator_that_comes_back_on_another_port() -> None:
    said: list[str | None] = [None]
    async with hub_running() as (hub, heard):
        one = Agent(hub.address, "w1", where=lambda: said[0])
        await heard.until(lambda: heard.events)
    async with hub_running() as (elsewhere, heard):
        assert elsewhere.address != hub.address
        said[0] = elsewhere.address
        await heard.until(lambda: heard.events)
        assert heard.events == [("w1", registered("b2"))]
        assert elsewhere.send("w1", Halt("j", 1))
        assert await one.order() == Halt("j", 1)
        await one.close()


async def test_a_line_with_several_addresses_goes_round_until_somebody_listens_and_not_as_fast_as_they_refuse() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        ports = [each.getsockname()[1] for each in (one, two)]
    asked: list[str] = []

    def where() -> str:
        asked.append(f"tcp://127.0.0.1:{ports[(len(asked) + 1) % 2]}")
        return asked[-1]

    async with agent(f"tcp://127.0.0.1:{ports[0]}", where=where) as one_agent:
        began = asyncio.get_running_loop().time()
        await eventually(lambda: len(asked) >= 6)
        assert asyncio.get_running_loop().time() - began > 6 * 0.05
        async with hub_running(ports[1]) as (_, heard):
            await heard.until(lambda: heard.events)
            before = len(asked)
            await asyncio.sleep(0.3)
            assert (one_agent.line.connected, len(asked)) == (True, before), "where it is connected it stays"


async def test_a_line_that_is_told_to_move_leaves_a_standing_connection() -> None:
    async with (
        hub_running() as (silent, before),
        hub_running() as (leader, heard),
        agent(silent.address, where=lambda: leader.address) as one,
    ):
        await before.until(lambda: before.events)
        one.line.move()
        await heard.until(lambda: heard.events)
        await before.until(lambda: ("w1", None) in before.events)
        await eventually(lambda: one.line.connected)
        one.line.move()
        assert one.line.connected, "there is nowhere else to go"


async def test_a_line_leaves_a_port_that_another_cluster_took() -> None:
    other = Hub(public=public_of(STRANGER), secret=STRANGER, allowed=[])
    async with hub_running() as (hub, heard), agent(other.address, where=lambda: hub.address) as one:
        await heard.until(lambda: heard.events)
        assert one.line.connected
    other.close()


async def test_a_line_leaves_a_port_where_somebody_listens_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regroup.wire.link.line.HANDSHAKE", 100)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        async with hub_running() as (hub, heard), agent(address, where=lambda: hub.address):
            await heard.until(lambda: heard.events)


async def test_what_is_no_address_is_counted_and_the_former_one_tried_on() -> None:
    async with hub_running() as (hub, heard):
        port = int(hub.address.rpartition(":")[2])
        one = Agent(hub.address, "w1", where=lambda: "nonsense")
        await heard.until(lambda: heard.events)
    await eventually(lambda: one.line.counters["address"])
    async with hub_running(port) as (_, heard):
        await heard.until(lambda: heard.events)
        await one.close()


def test_a_line_refuses_an_address_that_is_none() -> None:
    keys = {"public": public_of(WORKER), "secret": WORKER, "server": public_of(SERVER)}
    with pytest.raises(ValueError, match=r"nowhere is no address of a link: give tcp://host:port"):
        Line("nowhere", worker="w1", **keys)


@pytest.mark.skipif(not loopback6(), reason="this machine has no ::1")
async def test_a_link_over_ipv6_works_on_both_ends() -> None:
    async with hub_running(host="::1") as (hub, heard), agent(hub.address) as one:
        assert hub.address.startswith("tcp://[::1]:")
        await heard.until(lambda: heard.events)
        assert hub.send("w1", Halt("j", 1))
        assert await one.order() == Halt("j", 1)


async def test_an_order_that_cannot_be_understood_is_dropped_and_the_next_arrives() -> None:
    async with hub_running() as (hub, heard), agent(hub.address) as one:
        await heard.until(lambda: heard.events)
        hub._router_now.send([b"w1", b"\x00nonsense"])
        hub._router_now.send([b"w1", encode(Halt("j", 1)), b"more"])
        hub.send("w1", Halt("j", 2))
        assert await one.order() == Halt("j", 2)
        assert one.line.counters["undecodable"] == one.line.counters["frames"] == 1


async def test_a_port_in_use_is_said_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            AddressInUse, match=f"port {port} of 127.0.0.1 is in use: .*set REGROUP_LINK_PORT to another"
        ):
            Hub(public=public_of(SERVER), secret=SERVER, allowed=[], port=port)


async def test_an_address_of_another_machine_is_refused_in_one_line() -> None:
    with pytest.raises(AddressUnusable, match=r"cannot listen on 192\.0\.2\.1"):
        Hub(public=public_of(SERVER), secret=SERVER, allowed=[], host="192.0.2.1")


async def test_nothing_is_left_open_after_closing() -> None:
    async def converse() -> None:
        async with hub_running() as (hub, heard), agent(hub.address):
            await heard.until(lambda: heard.events)

    await converse()
    before = len(os.listdir("/proc/self/fd"))
    tasks = asyncio.all_tasks()
    for _ in range(5):
        await converse()
    assert len(os.listdir("/proc/self/fd")) <= before
    assert asyncio.all_tasks() == tasks


async def test_closing_twice_is_harmless() -> None:
    hub = Hub(public=public_of(SERVER), secret=SERVER, allowed=[])
    line = Line(hub.address, worker="w", public=public_of(WORKER), secret=WORKER, server=public_of(SERVER))
    for _ in range(2):
        await line.close()
        hub.close()
