"""A state on its way from rank to rank, over real processes."""

import os
import signal
from multiprocessing.connection import Connection

import pytest
import torch

from regroup.worker import transfer
from regroup.worker.forming import form
from regroup.worker.group import GroupBroken
from regroup.worker.rendezvous import Rendezvous
from regroup.worker.tree import as_bytes, pack

HOST = "127.0.0.1"


def tree() -> dict:
    draw = torch.Generator().manual_seed(0)
    sizes = [0, 1, 7, 1000, transfer.DIRECT // 4 - 1, transfer.DIRECT // 4, transfer.CHUNK // 4 + 3, 5]
    return {
        "model": {f"{index}.weight": torch.randn(size, generator=draw) for index, size in enumerate(sizes)},
        "many": [torch.randn(60_000, generator=draw) for _ in range(100)],  # more than one shared message
        "strided": torch.arange(12).view(3, 4).T,
        "half": torch.ones(3, dtype=torch.bfloat16),
        "step": 7,
        "rate": float("inf"),
    }


def bits(state: dict) -> bytes:
    skeleton, tensors = pack(state)
    return skeleton + b"".join(as_bytes(tensor).numpy().tobytes() for tensor in tensors)


def member(pipe: Connection, store: str, rank: int, size: int, leader: int, receivers: tuple[int, ...]) -> None:
    torch.set_num_threads(1)
    group = form(store, rank, size, host=HOST, timeout=30)
    if rank == leader:
        transfer.give(group, tree(), receivers)
    elif rank in receivers:
        pipe.send(bits(transfer.take(group, leader)) == bits(tree()))
    pipe.send("done")
    pipe.recv()


@pytest.mark.parametrize(("size", "leader", "receivers"), [(2, 0, (1,)), (3, 1, (0, 2)), (3, 2, (0,))])
def test_receivers_hold_the_leaders_state_bit_by_bit(start_rank, size, leader, receivers):
    meeting = Rendezvous()
    ranks = [start_rank("member", f"{meeting.address}/1", rank, size, leader, receivers) for rank in range(size)]
    for rank in receivers:
        assert ranks[rank].says() is True
    assert ranks[leader].says() == "done"
    meeting.close()


def dies_giving(pipe: Connection, store: str) -> None:
    group = form(store, 0, 2, host=HOST, timeout=30)

    class Dying:
        rank, size, sent = 0, 2, 0

        def send(self, tensor: torch.Tensor, peer: int) -> None:
            self.sent += 1
            if self.sent == 4:
                os.kill(os.getpid(), signal.SIGKILL)
            group.send(tensor, peer)

    transfer.give(Dying(), tree(), [1])


def gives_garbage(pipe: Connection, store: str) -> None:
    group = form(store, 0, 2, host=HOST, timeout=30)
    group.send(torch.zeros(transfer.HEADER.size, dtype=torch.uint8), 1)
    pipe.recv()


@pytest.mark.parametrize("leader", ["dies_giving", "gives_garbage"])
def test_a_leader_that_dies_or_gives_garbage_breaks_the_group(start_rank, leader):
    meeting = Rendezvous()
    start_rank(leader, f"{meeting.address}/1")
    group = form(f"{meeting.address}/1", 1, 2, host=HOST, timeout=30)
    with pytest.raises(GroupBroken):
        transfer.take(group, 0)
    group.close()
    meeting.close()


if __name__ == "__rank__":
    globals()[BODY](*ARGS)  # noqa: F821  # given by the test
