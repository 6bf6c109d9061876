"""Figures out of many measurements: quantiles, and how far chance alone could have moved a median.

Owns: the arithmetic, and the shape of a figure in JSON. Refuses to know: what was measured.
Does not guarantee: anything about noise that all measurements share, such as a machine that is busy throughout.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Spread:
    """Half of the values are at most `p50`, 95 % at most `p95`, all at most `max`."""

    p50: float
    p95: float
    max: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A median, and the interval that holds it with 95 % confidence."""

    median: float
    low: float
    high: float


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile, 0 <= q <= 1, interpolated between neighbours (Hyndman and Fan 1996, type 7)."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("there is no quantile of no values")
    place = q * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def spread(values: Sequence[float]) -> Spread | None:
    """None without values."""
    return Spread(quantile(values, 0.5), quantile(values, 0.95), max(values)) if values else None


def bootstrap(values: Sequence[float], seed: int = 0, resamples: int = 10_000) -> Interval | None:
    """The median with its 95 % percentile interval (Efron 1979): medians of resamples, drawn with replacement."""
    if not values:
        return None
    draw = random.Random(seed)
    medians = [median(draw.choices(values, k=len(values))) for _ in range(resamples)]
    return Interval(median(values), quantile(medians, 0.025), quantile(medians, 0.975))
