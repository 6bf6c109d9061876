"""Ownership is a partition of V, and every sample of an epoch belongs to exactly one shard of one step."""

from hypothesis import given, settings
from hypothesis import strategies as st

from regroup.core.shards import assign, default_shards, owned, positions, slice_of, steps_per_epoch

COUNTS = st.integers(1, 70)
FIXED = settings(derandomize=True, deadline=None, database=None)


@FIXED
@given(shards=COUNTS, ranks=COUNTS, turn=st.integers(0, 1000))
def test_ownership_is_a_partition_as_even_as_it_can_be(shards, ranks, turn):
    owners = assign(shards, ranks, turn)
    assert len(owners) == shards
    assert sorted(v for rank in range(ranks) for v in owned(owners, rank)) == list(range(shards))
    loads = [len(owned(owners, rank)) for rank in range(ranks)]
    assert max(loads) - min(loads) <= 1


@FIXED
@given(shards=COUNTS, ranks=COUNTS, turn=st.integers(0, 1000))
def test_each_rank_owns_one_contiguous_slice(shards, ranks, turn):
    owners = assign(shards, ranks, turn)
    for rank in range(ranks):
        mine = owned(owners, rank)
        assert list(mine) == list(range(mine[0], mine[0] + len(mine))) if mine else True


def test_a_rank_beyond_the_shards_is_a_hot_spare():
    assert owned(assign(2, 3), 2) == ()
    assert sum(bool(owned(assign(2, 5), rank)) for rank in range(5)) == 2


def test_a_shard_meets_another_rank_in_the_next_generation():
    assert assign(4, 2, turn=0) == (0, 0, 1, 1)
    assert assign(4, 2, turn=1) == (1, 1, 0, 0)
    assert len({assign(8, 3, turn)[0] for turn in range(3)}) == 3


@FIXED
@given(batch=st.integers(1, 500), workers=st.integers(1, 64))
def test_the_default_shards_divide_the_batch(batch, workers):
    shards = default_shards(batch, workers)
    assert batch % shards == 0
    assert 1 <= shards <= 4 * workers
    assert not [v for v in range(shards + 1, min(4 * workers, batch) + 1) if batch % v == 0]


def test_the_default_is_four_shards_per_worker_where_that_divides():
    assert default_shards(64, 4) == 16
    assert default_shards(64, 3) == 8
    assert default_shards(7, 3) == 7
    assert default_shards(13, 3) == 1


@FIXED
@given(samples=st.integers(1, 200), per_shard=st.integers(1, 6), shards=st.integers(1, 9), epochs=st.integers(1, 3))
def test_every_position_of_every_epoch_is_consumed_exactly_once(samples, per_shard, shards, epochs):
    batch = per_shard * shards
    steps = steps_per_epoch(samples, batch)
    seen = []
    for step in range(epochs * steps):
        for shard in range(shards):
            epoch, part = positions(step, shard, samples=samples, global_batch=batch, shards=shards)
            assert epoch == step // steps
            seen += [(epoch, position) for position in part]
    assert sorted(seen) == [(epoch, position) for epoch in range(epochs) for position in range(samples)]


def test_a_short_last_batch_leaves_some_shards_empty():
    parts = [positions(1, shard, samples=6, global_batch=4, shards=4)[1] for shard in range(4)]
    assert [len(part) for part in parts] == [0, 1, 0, 1]
    assert [list(part) for part in parts if part] == [[4], [5]]


def test_the_next_epoch_begins_at_position_0():
    assert positions(2, 0, samples=6, global_batch=4, shards=2) == (1, range(0, 2))


def test_slices_of_a_batch_follow_the_named_formula():
    assert [slice_of(v, 3, 7) for v in range(3)] == [range(0, 2), range(2, 4), range(4, 7)]


def test_a_batch_larger_than_the_dataset_is_one_short_step_per_epoch():
    assert steps_per_epoch(3, 64) == 1
    assert [len(positions(0, v, samples=3, global_batch=64, shards=8)[1]) for v in range(8)].count(0) == 5
