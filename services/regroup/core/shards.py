"""Who owns which shard, and which positions of the epoch a shard is. Pure arithmetic on integers.

Owns: the partition of a step's samples into V slices and the partition of V shards over ranks.
Refuses to know: which dataset index stands at a position (that is the worker's keyed order), and who the ranks are.
"""


def default_shards(global_batch: int, max_workers: int) -> int:
    """V when the user gives none: 4 per worker where that divides the batch, else the largest divisor below."""
    return next(v for v in range(min(4 * max_workers, global_batch), 0, -1) if global_batch % v == 0)


def assign(shards: int, ranks: int, turn: int = 0) -> tuple[int, ...]:
    """The owner of each shard: contiguous slices, as even as they can be.

    `turn` rotates the slices over the ranks, so that a shard whose passes failed meets another worker
    in the next generation. A rank beyond the number of shards owns none: a hot spare.
    """
    slices = (v * ranks // shards if shards >= ranks else v for v in range(shards))
    return tuple((rank + turn) % ranks for rank in slices)


def owned(owners: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The shards of one rank, ascending."""
    return tuple(v for v, owner in enumerate(owners) if owner == rank)


def steps_per_epoch(samples: int, global_batch: int) -> int:
    return -(-samples // global_batch)


def batch_of(step: int, *, samples: int, global_batch: int) -> int:
    """The samples of a step: the global batch, or what is left of the epoch at its last one."""
    t = step % steps_per_epoch(samples, global_batch)
    return min(global_batch, samples - t * global_batch)


def slice_of(shard: int, shards: int, batch: int) -> range:
    """The positions, within a step's batch of `batch` samples, of one shard. Empty if a short batch leaves it none."""
    return range(shard * batch // shards, (shard + 1) * batch // shards)


def positions(step: int, shard: int, *, samples: int, global_batch: int, shards: int) -> tuple[int, range]:
    """(epoch, positions in the epoch's order) that `shard` consumes in committed step `step`.

    With N samples, step t of an epoch consumes positions [t*B, min((t+1)*B, N)), and shard v the v-th of V slices.
    """
    epoch, t = divmod(step, steps_per_epoch(samples, global_batch))
    start = t * global_batch
    part = slice_of(shard, shards, batch_of(step, samples=samples, global_batch=global_batch))
    return epoch, range(start + part.start, start + part.stop)
