"""The data order: which sample of the dataset stands at each position of an epoch.

Owns: a keyed bijection of [0, N) for each (seed, epoch), computed where it is needed, in constant memory.
Refuses to know: steps, shards, workers. It answers for positions.
Does not guarantee: cryptography. It spreads samples well; whoever sees some of an order may guess the rest.

A change to this file that moves any sample is a new order and needs a new ORDER_NAME: checkpoints and fingerprints
quote it.
"""

from hashlib import blake2b
from struct import pack

import numpy as np
import numpy.typing as npt

ORDER_NAME = "feistel-splitmix64-v1"
ROUNDS = 8
MAX_SAMPLES = 2**40

Positions = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


class Order:
    """The permutation of [0, samples) that an epoch follows.

    A balanced Feistel network over 2k bits, 2**(2k) >= samples, with a keyed round function; values that fall outside
    are encrypted again until they fall inside ("cycle walking": Black and Rogaway, Ciphers with Arbitrary Finite
    Domains, CT-RSA 2002). At most 4 walks on average (16 for fewer than 4 samples). The round function is the
    finalizer of splitmix64 (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
    """

    def __init__(self, samples: int, seed: int, epoch: int) -> None:
        """1 <= samples <= 2**40, 0 <= seed < 2**64, 0 <= epoch < 2**64; ValueError for another number of samples."""
        if not 1 <= samples <= MAX_SAMPLES:
            raise ValueError(f"an order needs 1 to 2**40 samples, not {samples}")
        self.samples = samples
        half = max(2, -(-(samples - 1).bit_length() // 2))  # fewer than 2 bits a side would mix too little
        self._bits = np.uint64(half)
        self._mask = np.uint64((1 << half) - 1)
        key = blake2b(pack("<QQ", seed, epoch), digest_size=8 * ROUNDS, person=b"regroup.order").digest()
        self._keys = np.frombuffer(key, dtype="<u8").astype(np.uint64)

    def at(self, positions: range | Positions) -> Positions:
        """The dataset's indices at these positions of the epoch, int64, as given. IndexError outside [0, N)."""
        if isinstance(positions, range):
            positions = np.arange(positions.start, positions.stop, positions.step, dtype=np.int64)
        if len(positions) and not (positions.min() >= 0 and positions.max() < self.samples):
            raise IndexError(f"positions must be within [0, {self.samples})")
        found = self._permute(positions.astype(np.uint64))
        while (outside := np.flatnonzero(found >= self.samples)).size:
            found[outside] = self._permute(found[outside])
        return found.astype(np.int64)

    def _permute(self, words: Words) -> Words:
        """One pass through the network: a bijection of [0, 2**(2k))."""
        left, right = words >> self._bits, words & self._mask
        for key in self._keys:
            left, right = right, left ^ (_mix(right ^ key) & self._mask)
        return left << self._bits | right


def _mix(words: Words) -> Words:
    """The finalizer of splitmix64 (variant 13 of Stafford's mixers), modulo 2**64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
