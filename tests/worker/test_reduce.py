"""The exchange against torch's own gradients and clipping, alone and over real processes."""

import threading
import time
from multiprocessing.connection import Connection

import pytest
import torch
from torch import nn

from regroup.core.shards import assign, owned
from regroup.worker.forming import form
from regroup.worker.group import GroupBroken
from regroup.worker.reduce import Exchange, Interrupted, MovingBuffers, moving_buffers
from regroup.worker.rendezvous import Rendezvous

HOST = "127.0.0.1"
NO_TAIL = torch.zeros(0)


def network(dtype: torch.dtype = torch.float64) -> nn.Sequential:
    torch.manual_seed(0)
    # No bias before BatchNorm: its gradient is zero but for rounding, which AdamW would blow up to whole steps.
    first = nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3)
    return nn.Sequential(*first, nn.Linear(16, 16), nn.Linear(16, 3)).to(dtype)


def samples(step: int, shard: int, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """A shard's samples, more or fewer of them: shapes (n, 8) and (n,)."""
    draw = torch.Generator().manual_seed(100 * step + shard)
    count = 2 + (step + shard) % 3
    return torch.randn(count, 8, generator=draw, dtype=dtype), torch.randint(3, (count,), generator=draw)


def loss(model: nn.Module, step: int, shard: int) -> tuple[torch.Tensor, int]:
    inputs, labels = samples(step, shard, next(model.parameters()).dtype)
    torch.manual_seed(1000 * step + shard)
    return nn.functional.cross_entropy(model(inputs), labels, reduction="sum"), len(labels)


def train(exchange: Exchange, moving: MovingBuffers, model: nn.Module, shards: tuple[int, ...], steps: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        exchange.begin()
        moving.start()
        weight = 0.0
        for shard in shards:
            value, count = loss(model, step, shard)
            if shard == shards[-1]:
                exchange.expect_last_pass()
            value.backward()
            moving.end_shard(count)
            weight += count
        total = exchange.finish(torch.tensor([weight, float(step)]))
        exchange.scale(1 / float(total[0]))
        exchange.clip(0.5)
        optimizer.step()
        exchange.apply_moving()


def owner(pipe: Connection, store: str, rank: int, size: int, shards: int, bucket_bytes: int) -> None:
    torch.set_num_threads(1)
    model = network()
    names = moving_buffers(model, lambda: loss(model, 0, 0)[0].backward())
    moving = MovingBuffers(model, names)
    exchange = Exchange(model, moving, tail=2, bucket_bytes=bucket_bytes)
    exchange.join(form(store, rank, size, host=HOST, timeout=30))
    train(exchange, moving, model, owned(assign(shards, size), rank), steps=20)
    pipe.send({name: value.tolist() for name, value in model.state_dict().items()})
    pipe.recv()


def ownership(start_rank, size: int, shards: int = 6, bucket_bytes: int = 1000) -> list[dict[str, torch.Tensor]]:
    meeting = Rendezvous()
    ranks = [start_rank("owner", f"{meeting.address}/1", rank, size, shards, bucket_bytes) for rank in range(size)]
    states = [rank.says(60) for rank in ranks]
    meeting.close()
    return [{name: torch.tensor(value, dtype=torch.float64) for name, value in state.items()} for state in states]


def test_any_ownership_trains_the_same_model_with_dropout_and_batchnorm(start_rank):
    [alone] = ownership(start_rank, 1)
    assert alone["1.num_batches_tracked"] == 20 * 6
    for size in (2, 3):
        states = ownership(start_rank, size)
        for state in states:
            for name, value in state.items():
                assert torch.equal(value, states[0][name]), f"ranks differ in {name}"
                assert (value - alone[name]).abs().max() <= 1e-14, name


def test_a_rank_without_shards_sends_zeros_and_gets_the_same_model(start_rank):
    [alone] = ownership(start_rank, 1, shards=2)
    states = ownership(start_rank, 3, shards=2)
    for state in states:
        for name, value in state.items():
            assert (value - alone[name]).abs().max() <= 1e-14, name


def test_gradients_are_those_of_torch_and_stay_views_of_one_buffer():
    ours, theirs = network(), network()
    exchange = Exchange(ours, tail=1, bucket_bytes=500)
    for shard in range(3):
        loss(ours, 0, shard)[0].backward()
        loss(theirs, 0, shard)[0].backward()
    assert exchange.finish(torch.tensor([7.0])).tolist() == [7.0]
    pairs = list(zip(ours.parameters(), theirs.parameters(), strict=True))
    assert all(torch.equal(mine.grad, other.grad) for mine, other in pairs)
    assert len({mine.grad.untyped_storage().data_ptr() for mine, _ in pairs}) == 1
    exchange.scale(2.0)
    assert all(torch.equal(mine.grad, other.grad * 2) for mine, other in pairs)


@pytest.mark.parametrize("max_norm", [0.01, 1e6])
def test_clipping_is_that_of_torch(max_norm):
    ours, theirs = network(torch.float32), network(torch.float32)
    exchange = Exchange(ours, tail=0)
    for model in (ours, theirs):
        loss(model, 0, 0)[0].backward()
    exchange.finish(NO_TAIL)
    expected = torch.nn.utils.clip_grad_norm_(theirs.parameters(), max_norm)
    assert exchange.clip(max_norm) == pytest.approx(float(expected), rel=1e-6)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad)


def test_parameters_that_got_no_gradient_have_a_zero_one():
    model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    exchange = Exchange(model, tail=0)
    for _ in range(2):  # the first step leaves something in the buffer
        for layer in model:
            exchange.begin()
            exchange.expect_last_pass()
            layer(torch.ones(1, 2)).sum().backward()
            exchange.finish(NO_TAIL)
    assert model[0].weight.grad.abs().sum() == 0
    assert model[1].weight.grad.abs().sum() > 0


def test_a_gradient_that_user_code_replaced_counts():
    model = nn.Linear(2, 1, bias=False)
    exchange = Exchange(model, tail=0)
    model(torch.ones(1, 2)).sum().backward()
    model.weight.grad = model.weight.grad * 3
    exchange.finish(NO_TAIL)
    exchange.scale(2.0)
    assert model.weight.grad.tolist() == [[6.0, 6.0]]


def test_mixed_dtypes_are_exchanged_too():
    model = nn.Sequential(nn.Linear(4, 4).bfloat16(), nn.Linear(4, 4))
    exchange = Exchange(model, tail=2, bucket_bytes=10)
    model[0](torch.ones(1, 4, dtype=torch.bfloat16)).sum().backward()
    model[1](torch.ones(1, 4)).sum().backward()
    assert exchange.finish(torch.tensor([2.0**24 - 1, 1])).tolist() == [2.0**24 - 1, 1]
    exchange.clip(1.0)
    assert {str(parameter.grad.dtype) for parameter in model.parameters()} == {"torch.bfloat16", "torch.float32"}


def test_sparse_gradients_are_refused():
    model = nn.Embedding(4, 2, sparse=True)
    Exchange(model, tail=0)
    with pytest.raises(TypeError, match="the gradient of weight is sparse"):
        model(torch.tensor([1])).sum().backward()


def test_a_model_without_parameters_is_refused():
    with pytest.raises(ValueError, match="no parameter"):
        Exchange(nn.ReLU(), tail=0)


def test_backward_stops_when_interrupted():
    model = network()
    exchange = Exchange(model, tail=0)
    exchange.interrupted = lambda: True
    with pytest.raises(Interrupted):
        loss(model, 0, 0)[0].backward()
    exchange.interrupted = lambda: False
    exchange.begin()
    loss(model, 0, 0)[0].backward()
    exchange.finish(NO_TAIL)
    reference = network()
    loss(reference, 0, 0)[0].backward()
    assert torch.equal(model[5].weight.grad, reference[5].weight.grad)


def deserted(pipe: Connection, store: str, rank: int, size: int) -> None:
    """Rank 0 exchanges; rank 1 never does. The group is broken while buckets are under way."""
    torch.set_num_threads(1)
    group = form(store, rank, size, host=HOST, timeout=30)
    if rank == 1:
        pipe.send("formed")
        pipe.recv()
        return
    model = network()
    exchange = Exchange(model, tail=1, bucket_bytes=100)
    exchange.join(group)
    exchange.expect_last_pass()
    loss(model, 0, 0)[0].backward()
    threading.Timer(0.2, group.break_, ("halted",)).start()
    with pytest.raises(GroupBroken, match="halted"):
        exchange.finish(torch.zeros(1))
    assert exchange.seconds > 0.1
    exchange.begin()
    exchange.expect_last_pass()
    with pytest.raises(GroupBroken, match="halted"):  # a hook of autograd raises it
        loss(model, 0, 0)[0].backward()
    exchange.join(None)
    loss(model, 0, 0)[0].backward()
    exchange.finish(torch.zeros(1))
    time.sleep(0.05)
    reference = network()
    loss(reference, 0, 0)[0].backward()
    pipe.send(all(torch.equal(a.grad, b.grad) for a, b in zip(model.parameters(), reference.parameters(), strict=True)))


def test_a_broken_exchange_leaves_nothing_behind_that_writes_into_gradients(start_rank):
    meeting = Rendezvous()
    ranks = [start_rank("deserted", f"{meeting.address}/1", rank, 2) for rank in range(2)]
    assert ranks[0].says() is True
    meeting.close()


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("layout", ["channels last", "transposed", "with gaps"])
def test_gradients_lie_as_their_weights_do_as_a_fused_optimizer_expects(layout, fused):
    def trained(by_exchange):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 10))
        if layout == "channels last":
            model.to(memory_format=torch.channels_last)
        elif layout == "transposed":
            model[3].weight = nn.Parameter(model[3].weight.detach().t().contiguous().t())
        else:
            model[3].weight = nn.Parameter(torch.randn(10, 256)[:, ::2] / 16)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=fused and layout != "with gaps")
        exchange = Exchange(model, tail=0) if by_exchange else None
        for step in range(20):
            draw = torch.Generator().manual_seed(step)
            inputs, labels = torch.randn(6, 3, 6, 6, generator=draw), torch.randint(10, (6,), generator=draw)
            if exchange is None:
                optimizer.zero_grad()
            else:
                exchange.begin()
                exchange.expect_last_pass()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            if exchange is not None:
                exchange.finish(NO_TAIL)
            optimizer.step()
        return list(model.parameters())

    for mine, alone in zip(trained(True), trained(False), strict=True):
        torch.testing.assert_close(mine, alone)
        assert layout == "with gaps" or mine.grad.stride() == mine.stride()


if __name__ == "__rank__":
    globals()[BODY](*ARGS)  # noqa: F821  # given by the test
