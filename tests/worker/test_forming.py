"""Groups in the making, with real processes: a peer that never comes, a store that is gone, a halt in the middle."""

import os
import signal
import socket
import threading
import time
from multiprocessing.connection import Connection

import pytest
from torch.distributed.distributed_c10d import ProcessGroupGloo

from regroup.worker.forming import Forming, form
from regroup.worker.group import GroupBroken
from regroup.worker.rendezvous import Meeting, Rendezvous

HOST = "127.0.0.1"
SOON = 5.0  # seconds; far below what forming may take, far above a busy machine's delays


def forms_and_idles(pipe: Connection, store: str, rank: int, size: int) -> None:
    group = form(store, rank, size, host=HOST, timeout=20)
    pipe.send("formed")
    pipe.recv()
    group.close()


def test_a_group_whose_peer_never_comes_gives_up():
    meeting = Rendezvous()
    with pytest.raises(GroupBroken):
        form(f"{meeting.address}/1", 0, 2, host=HOST, timeout=0.3)
    meeting.close()


def test_a_group_whose_leader_is_gone_gives_up():
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(GroupBroken):
        form(f"{HOST}:{port}/1", 0, 2, host=HOST, timeout=0.3)


NOWHERE = "255.255.255.255"  # to which no connection can be made


def test_it_is_told_when_the_leader_was_not_reached_and_not_when_its_machine_answered():
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    told: list[int] = []
    for store in (f"{HOST}:{port}/1", f"{NOWHERE}:{port}/1"):
        with pytest.raises(GroupBroken):
            Forming(store, 0, 3, host=HOST, timeout=0.5, leader=2, on_unreached=told.extend).group()
    for thread in threading.enumerate():
        if thread.name.startswith("forming"):
            thread.join()
    assert told == [2]


def test_it_is_told_which_peer_was_not_reached_though_both_meet_at_the_leader():
    meeting, told = Rendezvous(), threading.Event()
    ranks: list[int] = []

    def tell(unreached):
        ranks.extend(unreached)
        told.set()

    host, _, port = meeting.address.rpartition(":")
    with socket.create_server((HOST, 0)) as listener:
        peers = [Meeting((host, int(port)), "1", 20) for _ in range(2)]
        peers[0].set("listeners/1", f"{NOWHERE}|9")
        peers[1].set("listeners/2", f"{HOST}|{listener.getsockname()[1]}")
        forming = Forming(f"{meeting.address}/1", 0, 3, host=HOST, timeout=1, on_unreached=tell)
        with pytest.raises(GroupBroken):
            forming.group()
        assert told.wait(SOON)
    assert ranks == [1]
    for peer in peers:
        peer.close()
    meeting.close()


def test_forming_can_be_broken_while_it_waits_and_the_rendezvous_serves_the_next(start_rank):
    meeting = Rendezvous()
    forming = Forming(f"{meeting.address}/1", 0, 2, host=HOST, timeout=60)
    threading.Timer(0.2, forming.break_, ("halted",)).start()
    began = time.monotonic()
    with pytest.raises(GroupBroken, match="halted"):
        forming.group()
    assert time.monotonic() - began < SOON
    for thread in threading.enumerate():
        if thread.name.startswith("forming"):
            thread.join(SOON)  # its store was taken away, so the constructor ends as well
            assert not thread.is_alive()
    other = start_rank("forms_and_idles", f"{meeting.address}/2", 1, 2)
    group = form(f"{meeting.address}/2", 0, 2, host=HOST, timeout=20)
    assert other.says() == "formed"
    group.close()
    meeting.close()


def test_forming_that_was_broken_before_it_began_never_forms():
    meeting = Rendezvous()
    forming = Forming(f"{meeting.address}/1", 0, 2, host=HOST, timeout=0.5)
    forming.break_("too late")
    forming.break_("again")
    with pytest.raises(GroupBroken, match="too late"):
        forming.group()
    meeting.close()


def dies_while_forming(pipe: Connection, store: str, rank: int, size: int) -> None:
    """Publish the address of its listener, as a constructor does, and die before anybody connects."""
    address, prefix = store.split("/")
    host, port = address.split(":")
    meeting = DyingMeeting((host, int(port)), prefix, 20)
    options = ProcessGroupGloo._Options()
    options._devices = [ProcessGroupGloo.create_device(hostname=HOST, lazy_init=False)]
    ProcessGroupGloo(meeting, rank, size, options)


class DyingMeeting(Meeting):
    def wait(self, keys, timeout=None):
        os.kill(os.getpid(), signal.SIGKILL)  # its own address is told before the first wait for another's


@pytest.mark.parametrize("rank", [0, 1])
def test_a_peer_that_dies_while_forming_delays_nobody_who_is_told(start_rank, rank):
    meeting = Rendezvous()
    dying = start_rank("dies_while_forming", f"{meeting.address}/1", 1 - rank, 2)
    dying.process.join(60)  # the first to be started waits for what it is forked from
    assert dying.process.exitcode == -signal.SIGKILL
    forming = Forming(f"{meeting.address}/1", rank, 2, host=HOST, timeout=1)
    forming.break_("halted")
    with pytest.raises(GroupBroken):
        forming.group()
    abandoned = [thread for thread in threading.enumerate() if thread.name.startswith("forming")]
    assert abandoned, "it waited for the constructor, which Gloo has try a few times"
    for thread in abandoned:
        thread.join()
    meeting.close()


if __name__ == "__rank__":
    globals()[BODY](*ARGS)  # noqa: F821  # given by the test
