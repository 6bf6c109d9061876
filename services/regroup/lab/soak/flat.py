"""When a series of measurements is flat. Pure.

Owns: the criterion. The first quarter of the measurements is the warm-up. Over the rest, what the Theil-Sen line (the
median of the slopes of all pairs, so that no outlier moves it) rises from its beginning to its end, and what the last
tenth lies above the first tenth after the warm-up, must both be at most a twentieth of the level, or the floor if that
is larger: what is no leak at this length, such as a history that is capped and still fills up.
Refuses to know: what was measured. Does not guarantee: anything about leaks too slow to be seen at this length; the
figures tell the slope for whoever wants to know how slow that is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

WARM_UP = 1 / 4  # of the measurements
SHARE = 1 / 20  # of the level, that it may rise
ENOUGH = 40  # measurements; of fewer nothing is judged
MOST = 400  # points that the line is drawn through: all pairs of more would take long


@dataclass(frozen=True, slots=True)
class Verdict:
    level: float  # after the warm-up
    end: float
    slope: float  # per unit of x
    rise: float  # of the line, from the warm-up to the end
    bound: float
    judged: bool  # False: there were too few measurements

    @property
    def flat(self) -> bool:
        return not self.judged or max(self.rise, self.end - self.level) <= self.bound


def judge(points: Sequence[tuple[float, float]], floor: float) -> Verdict:
    """`points` are (x, value) in the order of x; there is at least one."""
    kept = points[int(len(points) * WARM_UP) :]
    tenth = max(1, len(kept) // 10)
    level = median(value for _, value in kept[:tenth])
    end = median(value for _, value in kept[-tenth:])
    slope = theil_sen(kept[:: -(-len(kept) // MOST)])
    rise = slope * (kept[-1][0] - kept[0][0])
    return Verdict(level, end, slope, rise, max(SHARE * level, floor), len(points) >= ENOUGH)


def theil_sen(points: Sequence[tuple[float, float]]) -> float:
    """The median slope of all pairs (Theil 1950, Sen 1968); 0 where no two differ in x."""
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2) if b[0] != a[0]]
    return median(slopes) if slopes else 0.0
