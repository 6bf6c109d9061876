"""Which replica is kept when members hold different bits."""

import pytest

from regroup.core.replicas import sound


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
    assert sound(digests, leader) == kept
