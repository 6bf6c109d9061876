"""Groups over real processes: they form, break from any side, and leave nothing behind."""

import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection

import pytest
import torch

from regroup.worker.forming import Forming, form
from regroup.worker.group import Group, GroupBroken
from regroup.worker.rendezvous import Meeting, Rendezvous

HOST = "127.0.0.1"
SOON = 5.0  # seconds; far below the patience of a collective, far above a busy machine's delays


def join(store: str, rank: int, size: int, patience: float = 60.0) -> Group:
    torch.set_num_threads(1)
    return form(store, rank, size, host=HOST, timeout=20, patience=patience)


def sums_then_waits(pipe: Connection, store: str, rank: int, size: int) -> None:
    """Sum once, then do what the test says: `reduce` again, `close`, or nothing."""
    group = join(store, rank, size)
    broken = threading.Event()
    group.watch(lambda reason: (pipe.send(("watched", reason)), group.break_(reason), broken.set()))
    tensor = torch.arange(1000, dtype=torch.float32) / 3 + rank
    group.all_reduce(tensor).wait()
    pipe.send(tensor.numpy().tobytes())
    while True:
        match pipe.recv():
            case "reduce":
                work = group.all_reduce(torch.ones(1000))
                pipe.send("reducing")
                try:
                    work.wait()
                    pipe.send("reduced")
                except GroupBroken as error:
                    pipe.send(("broken", str(error)))
            case "close":
                group.close()
                pipe.send("closed")


def test_three_ranks_get_the_same_bits(start_rank):
    meeting = Rendezvous()
    ranks = [start_rank("sums_then_waits", f"{meeting.address}/1", rank, 3) for rank in range(3)]
    sums = {rank.says() for rank in ranks}
    assert len(sums) == 1
    expected = torch.arange(1000) / 3 * 3 + 3
    torch.testing.assert_close(torch.frombuffer(bytearray(sums.pop()), dtype=torch.float32), expected)
    meeting.close()


def test_a_killed_rank_releases_every_survivor(start_rank):
    meeting = Rendezvous()
    ranks = [start_rank("sums_then_waits", f"{meeting.address}/1", rank, 3) for rank in range(3)]
    for rank in ranks:
        rank.says()
    for survivor in ranks[1:]:
        survivor.tell("reduce")
        assert survivor.says() == "reducing"
    began = time.monotonic()
    ranks[0].kill()
    for survivor in ranks[1:]:
        first = survivor.says(SOON)[0]  # whichever thread hears of it first
        assert first == "broken" or (first == "watched" and survivor.says(SOON)[0] == "broken")
    assert time.monotonic() - began < SOON
    meeting.close()


def test_a_rank_that_computes_hears_of_a_neighbours_death(start_rank):
    meeting = Rendezvous()
    killed, computing = (start_rank("sums_then_waits", f"{meeting.address}/1", rank, 2) for rank in range(2))
    killed.says(), computing.says()
    killed.kill()
    assert computing.says(SOON)[0] == "watched"  # it is in no collective
    meeting.close()


def test_a_peer_that_closes_cleanly_is_noticed_and_closing_ones_own_end_is_not(start_rank):
    meeting = Rendezvous()
    ranks = [start_rank("sums_then_waits", f"{meeting.address}/1", rank, 2) for rank in range(2)]
    for rank in ranks:
        rank.says()
    ranks[0].tell("close")
    assert ranks[0].says() == "closed"  # and not: watched
    assert ranks[1].says(SOON)[0] == "watched"
    meeting.close()


def breaks_its_group(pipe: Connection, store: str, rank: int, size: int) -> None:
    """Hang in a collective that the peer never calls, until a thread breaks the group."""
    group = join(store, rank, size)
    watched: list[str] = []
    group.watch(watched.append)
    tensors = [torch.ones(100_000) for _ in range(5)]
    works = [group.all_reduce(tensor) for tensor in tensors]
    threading.Timer(0.1, group.break_, ("as the test says",)).start()
    said = []
    for attempt in (works[0].wait, lambda: group.all_reduce(tensors[0]), lambda: group.send(tensors[0], 1 - rank)):
        with pytest.raises(GroupBroken, match="as the test says") as caught:
            attempt()
        said.append(str(caught.value))
    group.break_("twice")
    group.close()
    # Four collectives were never waited for: after close() none of them may write any more.
    for tensor in tensors:
        tensor.zero_()
    time.sleep(0.1)
    assert not any(tensor.any() for tensor in tensors)
    assert watched == []
    pipe.send(said)


def waits_for_what_never_ends(pipe: Connection, store: str, rank: int, size: int, call: str) -> None:
    """As when Gloo forgets what it began: breaking the group ends nothing, because there is no socket to shut."""
    group = join(store, rank, size)
    group._sockets.clear()
    tensor = torch.zeros(100)
    threading.Timer(0.3, group.break_, ("as the test says",)).start()
    began = time.monotonic()
    with pytest.raises(GroupBroken, match="as the test says"):
        group.all_reduce(tensor).wait() if call == "all_reduce" else group.recv(tensor, 1 - rank)
    group.close()
    pipe.send(time.monotonic() - began)


@pytest.mark.parametrize("call", ["all_reduce", "recv"])
def test_what_gloo_forgets_in_a_broken_group_is_given_up(start_rank, call):
    meeting = Rendezvous()
    start_rank("forms_and_idles", f"{meeting.address}/1", 1, 2)
    waits = start_rank("waits_for_what_never_ends", f"{meeting.address}/1", 0, 2, call)
    assert waits.says() < SOON
    meeting.close()


def reduces_late(pipe: Connection, store: str, rank: int, size: int) -> None:
    group = join(store, rank, size)
    tensor = torch.full((100,), float(rank))
    if rank == 1:
        time.sleep(0.35)  # more than one slice of the other's waiting
    group.all_reduce(tensor).wait()
    if rank == 1:
        time.sleep(0.35)
        group.send(tensor, 0)
    else:
        group.recv(tensor, 1)
    pipe.send(tensor.tolist())


def test_a_late_peer_is_waited_for_in_slices_and_nothing_breaks(start_rank):
    meeting = Rendezvous()
    ranks = [start_rank("reduces_late", f"{meeting.address}/1", rank, 2) for rank in range(2)]
    assert [rank.says() for rank in ranks] == [[1.0] * 100] * 2
    meeting.close()


def forms_and_idles(pipe: Connection, store: str, rank: int, size: int) -> None:
    group = join(store, rank, size)
    pipe.send("formed")
    pipe.recv()
    group.close()


def test_a_group_broken_from_another_thread_raises_for_good(start_rank):
    meeting = Rendezvous()
    breaking = start_rank("breaks_its_group", f"{meeting.address}/1", 0, 2)
    idle = start_rank("forms_and_idles", f"{meeting.address}/1", 1, 2)
    assert idle.says() == "formed"
    assert breaking.says(SOON) == ["as the test says"] * 3
    meeting.close()


def waits_for_a_stopped_peer(pipe: Connection, store: str, rank: int, size: int) -> None:
    group = join(store, rank, size, patience=1.0)
    pipe.send("formed")
    pipe.recv()
    began = time.monotonic()
    with pytest.raises(GroupBroken):
        group.all_reduce(torch.ones(4)).wait()
    pipe.send(time.monotonic() - began)
    group.close()


def test_patience_ends_a_collective_with_a_stopped_peer(start_rank):
    meeting = Rendezvous()
    waiting = start_rank("waits_for_a_stopped_peer", f"{meeting.address}/1", 0, 2)
    stopped = start_rank("forms_and_idles", f"{meeting.address}/1", 1, 2)
    assert waiting.says() == stopped.says() == "formed"
    os.kill(stopped.process.pid, signal.SIGSTOP)
    waiting.tell("go")
    assert 0.5 < waiting.says(20) < SOON
    meeting.close()


def held_after(turn: Callable[[int], None], times: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """(descriptors, threads) of this process after the first turn and after the last, with no garbage collected."""

    def held() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    gc.disable()
    first = (0, 0)
    for number in range(times):
        turn(number)
        for thread in threading.enumerate():
            if thread.name.startswith(("free", "forming", "message")):
                thread.join()
        first = held() if number == 0 else first
    deadline = time.monotonic() + SOON
    while not no_more(held(), first) and time.monotonic() < deadline:
        time.sleep(0.01)  # a thread that was joined leaves the process a moment later
    return first, held()


def no_more(last: tuple[int, int], first: tuple[int, int]) -> bool:
    return last[0] <= first[0] and last[1] <= first[1]


def forms_often(pipe: Connection, address: str, rank: int, times: int) -> None:
    def turn(number: int) -> None:
        group = join(f"{address}/{number}", rank, 2)
        group.watch(lambda reason: None)
        tensor = torch.ones(10)
        group.all_reduce(tensor).wait()
        assert tensor[0] == 2
        group.close()

    pipe.send(held_after(turn, times))


def fails_to_form_often(pipe: Connection, address: str, rank: int, times: int) -> None:
    def turn(number: int) -> None:
        forming = Forming(f"{address}/{number}", rank, 2, host=HOST, timeout=20)
        host, _, port = address.rpartition(":")
        with closing(Meeting((host, int(port)), str(number), 20)) as guest:
            guest.get(f"listeners/{rank}")  # it has its sockets, and waits for the other's
        forming.break_("halted")
        with pytest.raises(GroupBroken, match="halted"):
            forming.group()

    pipe.send(held_after(turn, times))


def fails_to_hear_often(pipe: Connection, address: str, rank: int, times: int) -> None:
    def turn(number: int) -> None:
        group = join(f"{address}/{number}", rank, 2)
        breaking = threading.Timer(0.05, group.break_)
        breaking.start()
        with pytest.raises(GroupBroken):
            group.recv(torch.ones(10), 1 - rank)
        breaking.join()
        group.close()

    pipe.send(held_after(turn, times))


@pytest.mark.parametrize(
    ("body", "ranks", "times"), [("forms_often", 2, 50), ("fails_to_form_often", 1, 10), ("fails_to_hear_often", 2, 10)]
)
def test_groups_leave_descriptors_and_threads_flat_however_they_end(start_rank, body, ranks, times):
    meeting = Rendezvous()
    started = [start_rank(body, meeting.address, rank, times) for rank in range(ranks)]
    for rank in started:
        first, last = rank.says(60)
        assert no_more(last, first), f"(descriptors, threads) grew from {first} to {last}"
    meeting.close()


def passes_tensors(pipe: Connection, store: str, rank: int, size: int) -> None:
    group = join(store, rank, size)
    if rank == 0:
        group.send(torch.arange(5, dtype=torch.uint8), 1)
    else:
        tensor = torch.zeros(5, dtype=torch.uint8)
        group.recv(tensor, 0)
        pipe.send(tensor.tolist())
    pipe.recv()


def test_a_tensor_goes_from_rank_to_rank(start_rank):
    meeting = Rendezvous()
    ranks = [start_rank("passes_tensors", f"{meeting.address}/1", rank, 2) for rank in range(2)]
    assert ranks[1].says() == [0, 1, 2, 3, 4]
    meeting.close()


def opens_a_socket_meanwhile(pipe: Connection, store: str, rank: int, size: int) -> None:
    """Another thread opens connections and listeners all the time; breaking the group must leave them alone."""
    stop = threading.Event()
    foreign: list[tuple[socket.socket, socket.socket]] = []

    def open_some() -> None:
        while not stop.is_set():
            with socket.create_server((HOST, 0)) as listener:
                near = socket.create_connection(listener.getsockname())
                foreign.append((near, listener.accept()[0]))
            stop.wait(0.002)

    opening = threading.Thread(target=open_some)
    opening.start()
    group = join(store, rank, size)
    stop.set()
    opening.join()
    group.break_()
    for near, far in foreign:
        near.sendall(b"x")
        assert far.recv(1) == b"x"
        near.close(), far.close()
    group.close()
    pipe.send(len(foreign))


def test_breaking_a_group_leaves_foreign_sockets_alone(start_rank):
    meeting = Rendezvous()
    opening = start_rank("opens_a_socket_meanwhile", f"{meeting.address}/1", 0, 2)
    start_rank("forms_and_idles", f"{meeting.address}/1", 1, 2)
    assert opening.says() > 0
    meeting.close()


def test_a_group_of_one_needs_no_sockets():
    group = form("nowhere:1/never", 0, 1, host=HOST, timeout=1)
    tensor = torch.ones(3)
    group.all_reduce(tensor).wait()
    assert tensor.tolist() == [1, 1, 1]
    group.break_()
    with pytest.raises(GroupBroken):
        group.all_reduce(tensor)
    group.close()


def test_a_rendezvous_listens_on_its_host_alone():
    meeting = Rendezvous(HOST)
    port = int(meeting.address.rpartition(":")[2])
    with open("/proc/net/tcp") as table, open("/proc/net/tcp6") as table6:
        rows = [line.split() for line in (*table, *table6)]
    listening = {row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")}
    assert listening == {f"0100007F:{port:04X}"}
    meeting.close()


if __name__ == "__rank__":
    globals()[BODY](*ARGS)  # noqa: F821  # given by the test
