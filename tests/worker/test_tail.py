"""The reduction's tail: what each rank said can be told from the sum of all, also in float32."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from regroup.worker.tail import Tail, size

DIGESTS = st.integers(0, 2**48 - 1)
FLAGS = st.integers(0, 2**24 - 1)


def summed(*tails: Tail) -> Tail:
    """As a group sums them, in the narrowest type that travels."""
    total = torch.tensor([tail.slots() for tail in tails], dtype=torch.float32).sum(dim=0)
    return Tail.read(total.tolist(), len(tails[0].flags))


@given(st.lists(st.tuples(FLAGS, DIGESTS), min_size=1, max_size=5), st.integers(0, 3))
def test_the_sum_shows_every_ranks_own_flag_and_digest(said: list[tuple[int, int]], empty: int) -> None:
    seats = len(said) + empty
    tails = [
        Tail.of(rank, seats, weight=1.0, loss=0.5, flag=flag, digest=digest) for rank, (flag, digest) in enumerate(said)
    ]
    assert {len(tail.slots()) for tail in tails} == {size(seats)}
    total = summed(*tails)
    assert (total.weight, total.loss) == (len(said), len(said) / 2)
    assert total.flags == (*(flag for flag, _ in said), *[0] * empty)
    assert total.digests == (*(digest for _, digest in said), *[0] * empty)


def tails_with(flags: list[int], digests: list[int], seats: int = 4) -> Tail:
    return summed(
        *(
            Tail.of(rank, seats, weight=0.0, loss=0.0, flag=flag, digest=digest)
            for rank, (flag, digest) in enumerate(zip(flags, digests, strict=True))
        )
    )


def test_a_proposal_is_agreed_on_when_every_rank_held_it() -> None:
    assert tails_with([2, 2, 2], [0, 0, 0]).agreed(3) == 2
    assert tails_with([2, 2, 0], [0, 0, 0]).agreed(3) is None
    assert tails_with([0, 0, 0], [0, 0, 0]).agreed(3) is None


def test_different_proposals_are_no_agreement_whatever_their_sum() -> None:
    assert tails_with([1, 3], [0, 0]).agreed(2) is None


def test_ranks_whose_digests_are_not_the_same_are_seen() -> None:
    digest = 2**47 + 12345
    assert not tails_with([0, 0], [digest, digest]).differing(2)
    assert tails_with([0, 0], [digest + 1, digest]).differing(2)
    assert tails_with([0, 0], [digest - 2**40, digest]).differing(2)
