"""The notice board over real sockets: who reads what, and what it refuses."""

import socket
import struct
import threading
import time

import pytest

from regroup.worker.rendezvous import FRAME, LARGEST, MOST, Meeting, Rendezvous


@pytest.fixture
def server():
    rendezvous = Rendezvous()
    yield rendezvous
    rendezvous.close()


def address(server: Rendezvous) -> tuple[str, int]:
    host, _, port = server.address.rpartition(":")
    return host, int(port)


def meet(server: Rendezvous, prefix: str = "a", timeout: float = 10.0) -> Meeting:
    return Meeting(address(server), prefix, timeout)


def test_notices_left_before_and_after_one_comes_are_read(server):
    early = meet(server)
    early.set("first", b"1")
    early.get("first")
    late = meet(server)
    early.set("second", "2")
    late.wait(["second", "first"])
    assert (late.get("first"), late.get("second")) == (b"1", b"2")
    early.close(), late.close()


MANY, LARGE = 200, b"x" * 60_000  # more than sockets hold, as some hundred ranks say elsewhere


def leave_many(one: Meeting) -> None:
    """Reading meanwhile, as those do that meet."""
    for number in range(MANY):
        one.set(f"key {number}", LARGE)
        one.get(f"key {number}")


def test_who_comes_when_more_is_there_than_its_socket_holds_reads_all_of_it(server):
    early = meet(server)
    leave_many(early)
    late = meet(server)
    early.set("later", b"1")
    early.get("later")  # so the server has turned to this one since
    assert [late.get(f"key {number}") for number in range(MANY)] == [LARGE] * MANY
    assert late.get("later") == b"1"
    early.close(), late.close()


def test_who_does_not_read_for_a_while_misses_no_part_and_keeps_nobody_waiting(server):
    slow, quick = meet(server), meet(server)
    quick.set("first", b"1")
    slow.get("first")
    leave_many(quick)
    assert [slow.get(f"key {number}") for number in range(MANY)] == [LARGE] * MANY
    slow.close(), quick.close()


def test_prefixes_never_meet(server):
    here, there = meet(server, "here"), meet(server, "there", timeout=0.1)
    here.set("key", b"value")
    here.get("key")
    with pytest.raises(TimeoutError):
        there.get("key")
    here.close(), there.close()


def test_notices_are_dropped_with_the_last_reader(server):
    for _ in range(20):
        only = meet(server)
        only.set("key", b"value")
        only.get("key")
        only.close()
    after = meet(server, timeout=0.3)
    deadline = time.monotonic() + 10
    while len(server._boards) > 1 or (server._boards and server._boards[b"a"].notices):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    after.close()


def test_leaving_ends_a_wait_from_another_thread(server):
    waiting = meet(server, timeout=60)
    threading.Timer(0.1, waiting.leave).start()
    began = time.monotonic()
    with pytest.raises(ConnectionError):
        waiting.get("never")
    assert time.monotonic() - began < 5
    waiting.close()


def test_a_closed_server_ends_every_wait():
    server = Rendezvous()
    waiting = meet(server, timeout=60)
    threading.Timer(0.1, server.close).start()
    with pytest.raises(ConnectionError):
        waiting.get("never")
    waiting.close()


def test_a_server_that_goes_away_at_the_first_words_leaves_no_socket_behind():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reset() -> None:
            end, _ = listener.accept()
            end.recv(1)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.close()

        rude = threading.Thread(target=reset)
        rude.start()
        with pytest.raises(ConnectionError) as caught:
            Meeting(listener.getsockname(), "p" * 50_000_000, timeout=10)  # far more than is sent before it notices
        rude.join()
    locals_of = [entry.frame.f_locals for entry in caught.traceback]
    meeting = next(each["self"] for each in locals_of if isinstance(each.get("self"), Meeting))
    assert meeting._end.fileno() == -1


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        FRAME.pack(3, 0) + b"key",  # no prefix first
        FRAME.pack(0, 1) + b"p" + FRAME.pack(0, LARGEST + 1),
        FRAME.pack(0, 1) + b"p" + b"".join(FRAME.pack(2, 0) + i.to_bytes(2, "big") for i in range(MOST + 1)),
    ],
    ids=["another protocol", "no prefix", "too large", "too many"],
)
def test_who_speaks_out_of_turn_is_dismissed_and_the_others_are_served(server, garbage):
    with socket.create_connection(address(server)) as rude:
        rude.settimeout(10)
        rude.sendall(garbage)
        try:
            while rude.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
    polite = meet(server)
    polite.set("key", b"value")
    assert polite.get("key") == b"value"
    polite.close()
