"""The data order: a bijection, the same for ever, and well spread."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.worker.order import MAX_SAMPLES, ORDER_NAME, Order

seeds = st.integers(0, 2**63 - 1)


@given(samples=st.integers(1, 3000), seed=seeds, epoch=st.integers(0, 2**40))
def test_every_sample_stands_at_one_position(samples: int, seed: int, epoch: int) -> None:
    found = Order(samples, seed, epoch).at(range(samples))
    assert found.dtype == np.int64
    assert sorted(found.tolist()) == list(range(samples))


@pytest.mark.parametrize("samples", [*range(1, 70), 255, 256, 257, 4095, 4096, 4097, 65536, 65537])
def test_every_sample_stands_at_one_position_around_the_powers_of_two(samples: int) -> None:
    found = Order(samples, 0, 0).at(range(samples))
    assert np.array_equal(np.sort(found), np.arange(samples))


@given(samples=st.integers(1, MAX_SAMPLES), seed=seeds, data=st.data())
def test_a_part_of_the_order_is_the_same_as_in_the_whole(samples: int, seed: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, samples - 1))
    length = data.draw(st.integers(0, min(20, samples - start)))
    order = Order(samples, seed, 3)
    together = order.at(range(start, start + length)).tolist()
    alone = [int(order.at(np.array([position]))[0]) for position in range(start, start + length)]
    assert together == alone
    assert all(0 <= index < samples for index in together)
    assert len(set(together)) == length


def test_the_order_never_changes() -> None:
    """These values are in users' checkpoints. If this test fails, the order needs a new ORDER_NAME."""
    assert ORDER_NAME == "feistel-splitmix64-v1"
    assert Order(1500, 0, 0).at(range(8)).tolist() == [292, 65, 490, 1256, 825, 873, 77, 1012]
    assert Order(1797, 2**63 - 1, 12).at(range(1790, 1797)).tolist() == [1456, 520, 1367, 252, 419, 493, 1060]
    assert Order(2**40, 7, 0).at(range(3)).tolist() == [432975890917, 2861517755, 776732434487]


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = {tuple(Order(100, seed, epoch).at(range(100)).tolist()) for seed in range(10) for epoch in range(10)}
    assert len(orders) == 100


def test_a_dataset_of_one_sample_has_an_order() -> None:
    assert Order(1, 5, 9).at(range(1)).tolist() == [0]


def test_an_empty_range_gives_nothing() -> None:
    assert Order(10, 0, 0).at(range(4, 4)).tolist() == []


@pytest.mark.parametrize("positions", [range(5, 11), range(-1, 3), np.array([10])])
def test_a_position_outside_the_epoch_is_refused(positions: range) -> None:
    with pytest.raises(IndexError):
        Order(10, 0, 0).at(positions)


@pytest.mark.parametrize("samples", [0, -1, MAX_SAMPLES + 1])
def test_an_order_of_no_or_too_many_samples_is_refused(samples: int) -> None:
    with pytest.raises(ValueError, match="samples"):
        Order(samples, 0, 0)


def test_each_sample_comes_first_about_equally_often() -> None:
    epochs, samples = 4000, 20
    counts = np.zeros((3, samples))
    for epoch in range(epochs):
        for row, index in enumerate(Order(samples, 1, epoch).at(np.array([0, 7, 19]))):
            counts[row, index] += 1
    expected = epochs / samples
    chi_squared = ((counts - expected) ** 2 / expected).sum(axis=1)
    assert (chi_squared < 45).all()  # 19 degrees of freedom: beyond 45 in one of 1,300 uniform orders


def test_three_samples_meet_all_their_permutations() -> None:
    seen = [tuple(Order(3, 1, epoch).at(range(3)).tolist()) for epoch in range(1200)]
    for order in permutations(range(3)):
        assert 130 < seen.count(order) < 280  # 200 expected


def test_neighbours_are_torn_apart() -> None:
    found = Order(10_000, 3, 0).at(range(10_000))
    steps = np.abs(np.diff(found))
    assert abs(steps.mean() / 10_000 - 1 / 3) < 0.02  # the mean distance of two uniform points
    assert abs(np.corrcoef(np.arange(10_000), found)[0, 1]) < 0.05
