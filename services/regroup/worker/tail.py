"""The few floats that travel with the gradients: weight, loss, and what all ranks must agree on at the same step.

Owns: the layout of the reduction's tail. Each rank writes flags and digests into slots of its own, so that the sum
shows every rank's value *as contributed*: a sum of different versions can never pass for agreement.
Refuses to know: what is agreed on. Every value survives float32 exactly: flags and halves of digests are below 2**24.
"""

from dataclasses import dataclass

HALF = 24  # bits of a digest in one slot


def size(seats: int) -> int:
    """Slots for groups of up to `seats` ranks."""
    return 2 + 3 * seats


@dataclass(frozen=True, slots=True)
class Tail:
    """One rank's contribution, or the sum of all. `flags` and `digests` have one entry per rank."""

    weight: float
    loss: float  # the summed loss, divided by the nominal weight
    flags: tuple[int, ...]  # 0: holds no proposal
    digests: tuple[int, ...]  # of 48 bits; 0: none at this step

    @classmethod
    def of(cls, rank: int, seats: int, *, weight: float, loss: float, flag: int, digest: int) -> "Tail":
        own = [0] * seats
        return cls(weight, loss, (*own[:rank], flag, *own[rank + 1 :]), (*own[:rank], digest, *own[rank + 1 :]))

    def slots(self) -> list[float]:
        high = [float(digest >> HALF) for digest in self.digests]
        low = [float(digest & (1 << HALF) - 1) for digest in self.digests]
        return [self.weight, self.loss, *map(float, self.flags), *high, *low]

    @classmethod
    def read(cls, slots: list[float], seats: int) -> "Tail":
        flags, high, low = (slots[2 + part * seats : 2 + (part + 1) * seats] for part in range(3))
        digests = tuple((int(h) << HALF) | int(x) for h, x in zip(high, low, strict=True))
        return cls(slots[0], slots[1], tuple(int(flag) for flag in flags), digests)

    def agreed(self, ranks: int) -> int | None:
        """The proposal that all ranks held when they contributed, or None."""
        held = set(self.flags[:ranks])
        return held.pop() if len(held) == 1 and 0 not in held else None

    def differing(self, ranks: int) -> bool:
        """Whether the ranks' digests are not all the same."""
        return len(set(self.digests[:ranks])) > 1
