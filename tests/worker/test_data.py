"""The loader: which samples, in which passes, recorded how; and that a new ownership never waits."""

import threading
import time
from collections import Counter, namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regroup.core.shards import assign, owned, steps_per_epoch
from regroup.worker.data import (
    DRAWS_NAME,
    DataFailed,
    Loader,
    StepData,
    Superseded,
    cuts,
    draw_seed,
    natural_pass,
    place,
)
from regroup.worker.order import Order

MakeLoader = Callable[..., Loader]


class Numbers:
    """Sample i is i. Counts what it was asked for; may fail at an index, or wait there for a gate."""

    def __init__(self, samples: int, *, fails_at: int = -1, error: BaseException | None = None) -> None:
        self.asked: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.reached = threading.Event()
        self._samples = samples
        self._fails_at = fails_at
        self._error = error or RuntimeError("rotten sample")

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int, /) -> int:
        self.asked.append(index)
        self.reached.set()
        assert self.gate.wait(timeout=60)
        if index == self._fails_at:
            raise self._error
        return index


@pytest.fixture
def make_loader() -> Iterator[MakeLoader]:
    made: list[Loader] = []

    def make(dataset: Any, *, batch: int = 8, shards: int = 4, independent: bool = False, **more: Any) -> Loader:
        options = {"collate": list, "samples": len(dataset), "seed": 5, **more}
        loader = Loader(dataset, global_batch=batch, shards=shards, independent=independent, **options)
        made.append(loader)
        return loader

    yield make
    for loader in made:
        loader.close()


def all_steps(loader: Loader, last: int, first: int = 0) -> list[StepData]:
    return [loader.take(step) for step in range(first, last)]


@given(
    samples=st.integers(1, 40),
    shards=st.integers(1, 5),
    per_shard=st.integers(1, 5),
    workers=st.integers(1, 6),
    micro_batch=st.none() | st.integers(1, 6),
    independent=st.booleans(),
)
def test_workers_together_read_each_sample_once_an_epoch(
    samples: int, shards: int, per_shard: int, workers: int, micro_batch: int | None, independent: bool
) -> None:
    batch = shards * per_shard
    steps = steps_per_epoch(samples, batch)
    owners = assign(shards, workers)
    counted = [Counter[int](), Counter[int]()]
    trained = [Counter[int](), Counter[int]()]
    for rank in range(workers):
        loader = Loader(
            Numbers(samples), list, samples=samples, seed=1, global_batch=batch, shards=shards, independent=independent
        )
        loader.own(owned(owners, rank), 0, 2 * steps, micro_batch)
        for data in all_steps(loader, 2 * steps):
            assert data.epoch == data.step // steps
            assert [read.shard for read in data.reads] == list(owned(owners, rank))
            assert {read.epoch for read in data.reads} <= {data.epoch}
            assert sum(len(read.indices) for read in data.reads) == sum(p.samples for p in data.passes)
            assert data.samples == min(batch, samples - data.step % steps * batch)
            for read in data.reads:
                counted[data.epoch].update(read.indices)
            for each in data.passes:
                assert each.samples == len(each.batch) > 0
                trained[data.epoch].update(each.batch)
            assert len({(p.shard, p.number) for p in data.passes}) == len(data.passes)  # no two passes draw the same
        loader.close()
    once = Counter(range(samples))
    assert counted == trained == [once, once]


def test_a_step_follows_the_keyed_order(make_loader: MakeLoader) -> None:
    loader = make_loader(Numbers(100), batch=8, shards=4)
    loader.own([1, 3], 13, 15, None)  # step 13 begins the second epoch
    data = loader.take(13)
    order = Order(100, 5, 1)
    assert [read.indices for read in data.reads] == [
        tuple(order.at(range(2, 4)).tolist()),
        tuple(order.at(range(6, 8)).tolist()),
    ]


def test_a_read_records_what_the_dataset_was_asked_for(make_loader: MakeLoader) -> None:
    dataset = Numbers(64)
    loader = make_loader(dataset)
    loader.own(range(4), 0, 8, None)
    reads = [index for data in all_steps(loader, 8) for read in data.reads for index in read.indices]
    assert reads == dataset.asked
    assert {type(index) for index in dataset.asked} == {int}


def test_a_short_last_batch_leaves_some_shards_empty(make_loader: MakeLoader) -> None:
    loader = make_loader(Numbers(10), batch=8, shards=4)
    loader.own(range(4), 1, 2, None)
    data = loader.take(1)
    assert [len(read.indices) for read in data.reads] == [0, 1, 0, 1]
    assert [each.shard for each in data.passes] == [1, 3]
    assert data.samples == 2


def test_a_spare_gets_steps_without_samples(make_loader: MakeLoader) -> None:
    loader = make_loader(Numbers(10))
    loader.own([], 0, 2, None)
    assert all_steps(loader, 2) == [StepData(0, 0, (), (), 8), StepData(1, 0, (), (), 2)]


def test_no_pass_straddles_two_shards_unless_samples_are_independent(make_loader: MakeLoader) -> None:
    def passes(independent: bool, micro_batch: int | None) -> list[tuple[int, int, int]]:
        loader = make_loader(Numbers(100), batch=20, shards=4, independent=independent)
        loader.own([0, 2, 3], 0, 1, micro_batch)
        return [(each.shard, each.number, each.samples) for each in loader.take(0).passes]

    assert passes(False, 2) == [(s, n, size) for s in (0, 2, 3) for n, size in enumerate((2, 2, 1))]
    assert passes(False, 64) == [(0, 0, 5), (2, 0, 5), (3, 0, 5)]
    assert passes(False, None) == [(s, n, size) for s in (0, 2, 3) for n, size in enumerate((4, 1))]
    assert passes(True, None) == [(0, 0, 15)]
    assert passes(True, 4) == [(0, 0, 4), (0, 1, 4), (2, 0, 4), (3, 0, 3)]


def test_passes_do_not_depend_on_who_owns_the_shards(make_loader: MakeLoader) -> None:
    def passes(*shards: int) -> list[tuple[int, int, list[int]]]:
        loader = make_loader(Numbers(100), batch=20, shards=4)
        loader.own(shards, 0, 1, 3)
        return [(each.shard, each.number, each.batch) for each in loader.take(0).passes]

    assert passes(3, 1, 0, 2) == passes(0, 1) + passes(2) + passes(3)


def test_the_natural_pass_is_the_largest_power_of_two_in_a_shard() -> None:
    assert [natural_pass(4 * per_shard, 4) for per_shard in (1, 2, 3, 4, 7, 8, 9)] == [1, 2, 2, 4, 4, 8, 8]


def test_cuts_skip_empty_parts() -> None:
    assert [(cut.part, cut.number, cut.start, cut.stop) for cut in cuts([0, 2, 0, 1], None, joined=False)] == [
        (1, 0, 0, 2),
        (3, 0, 2, 3),
    ]
    assert [cut.part for cut in cuts([0, 0, 3], 2, joined=True)] == [2, 2]
    assert cuts([0, 0], None, joined=True) == cuts([], 4, joined=True) == cuts([], None, joined=False) == []


def test_it_fetches_ahead_but_not_further_than_told(make_loader: MakeLoader) -> None:
    dataset = Numbers(400)
    loader = make_loader(dataset, ahead=3)
    loader.own(range(4), 0, 50, None)
    loader.take(0)
    _until(lambda: len(dataset.asked) == 4 * 8)
    loader.take(1)
    _until(lambda: len(dataset.asked) == 5 * 8)


def test_a_new_ownership_begins_where_it_says(make_loader: MakeLoader) -> None:
    loader = make_loader(Numbers(400))
    loader.own([0, 1], 0, 50, None)
    all_steps(loader, 10)
    loader.own([2], 9, 50, None)  # the step that was lost is fetched again, for other shards
    assert [[read.shard for read in data.reads] for data in all_steps(loader, 12, first=9)] == [[2]] * 3


@pytest.mark.parametrize("before", [[0, 1, 2, 3], [0]])  # more is to be read for the stale step, or it is complete
def test_a_new_ownership_does_not_wait_for_a_slow_fetch(make_loader: MakeLoader, before: list[int]) -> None:
    dataset = Numbers(400)
    loader = make_loader(dataset, shards=8)
    dataset.gate.clear()
    loader.own(before, 0, 50, None)
    assert dataset.reached.wait(timeout=30)
    loader.own([7], 20, 50, None)  # hangs here, if it waits
    assert len(dataset.asked) == 1
    dataset.gate.set()
    data = loader.take(20)
    assert (data.step, [read.shard for read in data.reads]) == (20, [7])
    assert dataset.asked[:2] == [dataset.asked[0], *data.reads[0].indices]  # the stale step was dropped at once


def test_a_waiting_take_ends_when_the_ownership_changes(make_loader: MakeLoader) -> None:
    dataset = Numbers(400)
    loader = make_loader(dataset)
    dataset.gate.clear()
    loader.own([0], 0, 50, None)
    raised: list[BaseException] = []
    waiting = threading.Thread(target=lambda: raised.append(_raised(lambda: loader.take(0))))
    waiting.start()
    while waiting.is_alive():  # again, in case it had not begun to wait the first time
        loader.own([0], 0, 50, None)
        waiting.join(timeout=0.05)
    dataset.gate.set()
    assert [type(error) for error in raised] == [Superseded]


def test_a_take_that_begins_after_the_ownership_was_revoked_is_superseded_until_there_is_a_new_one(
    make_loader: MakeLoader,
) -> None:
    """A Halt that falls between two steps must look like one that falls into a step, and not like a wrong program."""
    loader = make_loader(Numbers(400))
    loader.own([0], 0, 50, None)
    loader.take(0)
    loader.revoke()
    for _ in range(2):
        with pytest.raises(Superseded):
            loader.take(1)
    loader.own([1], 1, 50, None)
    assert [read.shard for read in loader.take(1).reads] == [1]


def test_a_waiting_take_ends_when_the_ownership_is_revoked(make_loader: MakeLoader) -> None:
    dataset = Numbers(400)
    loader = make_loader(dataset)
    dataset.gate.clear()
    loader.own([0], 0, 50, None)
    raised: list[BaseException] = []
    waiting = threading.Thread(target=lambda: raised.append(_raised(lambda: loader.take(0))))
    waiting.start()
    assert dataset.reached.wait(timeout=30)
    loader.revoke()
    waiting.join(timeout=30)
    dataset.gate.set()
    assert [type(error) for error in raised] == [Superseded]


def test_closing_ends_the_thread(make_loader: MakeLoader) -> None:
    before = set(threading.enumerate())
    loader = make_loader(Numbers(10))
    (thread,) = set(threading.enumerate()) - before
    loader.close()
    assert not thread.is_alive()
    loader.own([0], 0, 1, None)
    with pytest.raises(Superseded):
        loader.take(0)


@pytest.mark.parametrize("error", [RuntimeError("rotten sample"), SystemExit(3), StopIteration()])
def test_an_error_of_the_dataset_is_told_with_its_step_and_shard(make_loader: MakeLoader, error: BaseException) -> None:
    index = int(Order(100, 5, 0).at(range(13, 14))[0])  # step 1, shard 2 of 4
    loader = make_loader(Numbers(100, fails_at=index, error=error))
    loader.own(range(4), 0, 5, None)
    loader.take(0)
    for _ in range(2):  # it stays that way
        with pytest.raises(DataFailed) as caught:
            loader.take(1)
    assert (caught.value.step, caught.value.shard, caught.value.__cause__) == (1, 2, error)
    assert type(error).__name__ in str(caught.value)
    loader.own([3], 1, 5, None)  # and ends with the ownership
    assert [read.shard for read in loader.take(1).reads] == [3]


def test_an_error_of_collate_is_told_with_the_shard_of_its_pass(make_loader: MakeLoader) -> None:
    def collate(samples: list[int]) -> list[int]:
        raise TypeError("cannot stack")

    loader = make_loader(Numbers(100), collate=collate)
    loader.own([2, 3], 4, 5, None)
    with pytest.raises(DataFailed, match="step 4, shard 2: TypeError: cannot stack"):
        loader.take(4)


def test_a_step_out_of_order_is_refused(make_loader: MakeLoader) -> None:
    loader = make_loader(Numbers(100))
    with pytest.raises(ValueError, match="out of order"):
        loader.take(0)  # owns nothing yet
    loader.own([0], 3, 5, None)
    for step in (2, 4, 5):
        with pytest.raises(ValueError, match="out of order"):
            loader.take(step)
    all_steps(loader, 5, first=3)
    with pytest.raises(ValueError, match="out of order"):
        loader.take(5)


@pytest.mark.parametrize("shards", [[4], [-1], [1, 1]])
def test_shards_that_do_not_exist_are_refused(make_loader: MakeLoader, shards: list[int]) -> None:
    with pytest.raises(ValueError, match="shards"):
        make_loader(Numbers(100)).own(shards, 0, 1, None)


def test_an_empty_dataset_is_refused(make_loader: MakeLoader) -> None:
    with pytest.raises(ValueError, match="empty"):
        make_loader(Numbers(0))


def test_the_seeds_of_draws_never_change() -> None:
    """A restarted or upgraded worker must draw what the others draw. If this test fails, they need a new DRAWS_NAME."""
    assert DRAWS_NAME == "blake2b-v1"
    assert draw_seed(0, 0, 0, 0, 0) == 3987603526669156861
    assert draw_seed(5, 1, 13, 3, 2) == 3272330748625353467


def test_each_pass_has_a_seed_of_its_own() -> None:
    arguments = [
        (a, b, c, d, e) for a in (0, 2**63 - 1) for b in range(3) for c in range(5) for d in range(5) for e in (0, 1)
    ]
    seeds = {draw_seed(*each) for each in arguments}
    assert len(seeds) == len(arguments)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_placing_a_batch_keeps_its_nest() -> None:
    Pair = namedtuple("Pair", "left right")
    one = torch.ones(1)
    batch = {"a": [one, (one, "text")], "b": Pair(one, 3)}
    placed = place(batch, torch.device("meta"))
    assert placed["a"][1][1] == "text"
    assert isinstance(placed["b"], Pair)
    assert placed["b"].right == 3
    moved = (placed["a"][0], placed["a"][1][0], placed["b"].left)
    assert {tensor.device.type for tensor in moved} == {"meta"}
    assert place(batch, torch.device("cpu"))["a"][0] is one


def _raised(act: Callable[[], object]) -> BaseException:
    try:
        act()
    except Exception as error:
        return error
    return AssertionError("it returned")


def _until(condition: Callable[[], bool]) -> None:
    """The loader's thread tells nobody when it rests, so this looks until it does, and once more after that."""
    for _ in range(3000):
        if condition():
            break
        time.sleep(0.01)
    time.sleep(0.02)
    assert condition()
