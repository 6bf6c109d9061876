"""Which replica is kept when members hold different bits."""

import pytest

from regroup.core.jobs import Formation, Member, Seat, Version
from regroup.core.replicas import sound

BASE = Version(1, 100)


def formation(size: int, leader: int, receivers: tuple[int, ...] = ()) -> Formation:
    """Of which all but the receivers held its base."""
    held = [None if rank in receivers else BASE for rank in range(size)]
    seats = tuple(Seat(Member(f"w{rank}", "i1"), version) for rank, version in enumerate(held))
    return Formation(generation=2, seats=seats, leader=leader, base=BASE, owners=(0,) * 4, store="w0:1/2")


@pytest.mark.parametrize(
    ("digests", "leader", "kept"),
    [
        ((1, 1), 0, 1),
        ((1, 2), 0, 1),
        ((1, 2), 1, 2),
        ((1, 2, 2), 0, 2),
        ((1, 2, 3), 2, 3),
        ((1, 1, 2, 2), 3, 2),
        ((1, 2, 1, 1), 1, 1),
    ],
    ids=str,
)
def test_what_most_have_is_kept_and_else_what_the_leader_has(digests, leader, kept):
    assert sound(digests, formation(len(digests), leader), BASE.step) == kept


@pytest.mark.parametrize(
    ("digests", "receivers", "kept"),
    [
        ((1, 2, 2, 1), (3,), 2),
        ((1, 2, 2, 1, 1), (3, 4), 2),
        ((1, 1, 2), (1, 2), 1),
        ((1, 2, 1), (2,), 1),
    ],
    ids=str,
)
def test_whoever_was_just_given_the_leaders_state_is_no_witness_of_it(digests, receivers, kept):
    assert sound(digests, formation(len(digests), 0, receivers), BASE.step) == kept


def test_later_in_the_generation_each_is_a_witness():
    assert sound((1, 2, 2, 1, 1), formation(5, 0, (3, 4)), BASE.step + 100) == 1
