"""When a series is flat: leaks are found under noise, outliers and warm-ups are borne."""

import random

import pytest

from regroup.lab.soak.flat import ENOUGH, judge, theil_sen

DRAW = random.Random(1)
NOISE = [DRAW.gauss(0, 2) for _ in range(500)]


def series(growth: float, count: int = 500) -> list[tuple[float, float]]:
    """A level of 100, and so much more at the end, under noise."""
    return [(2 * number, 100 + growth * number / count + NOISE[number]) for number in range(count)]


def test_noise_about_a_level_is_flat() -> None:
    verdict = judge(series(0), floor=1.0)
    assert verdict.flat
    assert verdict.judged
    assert verdict.bound == pytest.approx(5, rel=0.05)


def test_a_leak_is_found_under_noise() -> None:
    verdict = judge(series(12), floor=1.0)
    assert not verdict.flat
    assert verdict.slope * 1000 == pytest.approx(12, rel=0.1)


def test_what_rises_less_than_the_floor_is_flat() -> None:
    assert judge(series(12), floor=20.0).flat


def test_a_step_at_the_end_is_found_though_the_line_is_flat() -> None:
    points = [(x, value if x < 900 else value + 10) for x, value in series(0)]
    assert not judge(points, floor=1.0).flat


def test_a_warm_up_and_outliers_are_no_leak() -> None:
    points = [(x, value / 2 if x < 200 else value) for x, value in series(0)]
    points[300] = (points[300][0], 1e6)
    points[-1] = (points[-1][0], 1e6)
    assert judge(points, floor=1.0).flat


def test_what_falls_is_flat() -> None:
    assert judge(series(-50), floor=0.0).flat


def test_too_few_measurements_are_not_judged() -> None:
    points = [(float(x), float(x)) for x in range(ENOUGH - 1)]
    assert judge(points, floor=0.0).flat
    assert not judge(points, floor=0.0).judged
    assert not judge([*points, (ENOUGH, ENOUGH)], floor=0.0).flat


def test_one_file_more_than_none_is_no_flat_series_without_a_floor() -> None:
    assert not judge([(float(x), float(x > 150)) for x in range(200)], floor=0.0).flat


def test_the_line_is_the_median_of_all_slopes() -> None:
    assert theil_sen([(0, 1), (1, 3), (2, 5)]) == 2
    assert theil_sen([(0, 0), (1, 2), (2, 4), (3, 6), (4, 1000)]) == 2
    assert theil_sen([(1, 5), (1, 9)]) == 0
