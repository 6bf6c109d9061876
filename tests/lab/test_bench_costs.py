"""Goodput and checkpoints: the arithmetic, from made-up commits."""

import json

import pytest
import typer

from regroup.lab.bench import _count
from regroup.lab.bench.checkpointing import LAYERS, OUTSIDE, Round, width
from regroup.lab.bench.checkpointing import Outcome as Saved
from regroup.lab.bench.following import Applied
from regroup.lab.bench.goodput import Cost, Ending, Outcome, Stretch, cost, surviving
from regroup.lab.bench.goodput import Round as Killed
from regroup.lab.bench.machine import this_machine
from regroup.lab.bench.telling_costs import checkpoint_json, checkpoint_table, goodput_json, goodput_table


def commit(step: int, at_ms: float, generation: int = 1, worker: str = "w0") -> Applied:
    return Applied(worker, "i", generation, step, 0.0, int(at_ms * 1e6))


def test_a_kill_costs_what_passes_beyond_its_steps_at_the_calm_speed() -> None:
    """Steps of 100 ms; killed at 230; the survivors stand until 500, and again when the third comes back."""
    commits = [
        commit(0, 100),
        commit(1, 200),
        commit(2, 500, 2),
        commit(3, 600, 2),
        commit(4, 850, 3),
        commit(5, 960, 3),
    ]
    found = cost(commits, kill=int(230e6), until=int(2e9), step=100.0)
    assert found.stood == pytest.approx(200)
    assert found.returned == pytest.approx(150)
    assert found.lost == pytest.approx(960 - 200 - 400)
    assert found.slowed == pytest.approx(10)


def test_the_next_kill_ends_what_is_put_down_to_this_one() -> None:
    commits = [commit(0, 100), commit(1, 400, 2), commit(2, 900, 3)]
    found = cost(commits, kill=int(150e6), until=int(600e6), step=100.0)
    assert (found.lost, found.stood, found.returned) == (pytest.approx(200), pytest.approx(200), None)


def test_a_step_that_was_done_again_counts_once_and_as_it_was_last() -> None:
    seen = [commit(0, 100), commit(0, 101, worker="w1"), commit(1, 200), commit(1, 500, 2, "w1"), commit(2, 600, 2)]
    assert [(one.step, one.at // 1_000_000, one.generation) for one in surviving(seen)] == [
        (0, 100, 1),
        (1, 500, 2),
        (2, 600, 2),
    ]


def test_goodput_is_the_ratio_of_the_rates_and_a_respawn_what_the_steps_do_not_explain() -> None:
    calm, disturbed = Stretch(10.0, 100, 20.0), Stretch(12.0, 108, 22.6)
    one = Killed(calm, disturbed, (Cost(500.0, 200.0, 100.0), Cost(300.0, 200.0, None)))
    assert one.goodput == pytest.approx(0.9)
    assert one.respawn == pytest.approx((22.6 - 108 * 0.2) / 2)
    outcome = Outcome(5.0, [one])
    assert outcome.total == pytest.approx(0.9)
    told = json.loads(json.dumps(goodput_json([outcome], Ending(), 10.0, this_machine(), False)))
    assert told["goodput"]["5"]["ratio"]["median"] == 0.9
    assert told["goodput"]["5"]["lost_ms"]["p50"] == 400
    assert goodput_table([outcome, Outcome(60.0)]).row_count == 2
    assert any("REGROUP_ERROR_LIMIT=1000000" in note for note in told["notes"])


def test_a_restart_fails_the_goodput() -> None:
    assert Ending(restarts=1).faults == ["all state was lost, and the job began again, 1 times"]
    assert Ending().faults == []


def test_the_wait_is_a_share_of_the_steps_between_two_checkpoints() -> None:
    outcome = Saved(25_000_000, 50, 300_000_000, 0.2, [Round(10.0, 10.5, 0.15, 1.0, False)] * 3)
    assert outcome.wait is not None
    assert outcome.wait.median == pytest.approx(0.015)
    assert outcome.ratio_of_totals == pytest.approx(1.05)
    assert outcome.step_ms == 200
    told = json.loads(json.dumps(checkpoint_json(outcome, this_machine(), False)))
    assert told["first_ms"] == 200
    assert (told["wait_share"]["median"], told["ratio"]["median"], told["outlasted"]) == (0.015, 1.05, 0)
    assert checkpoint_table(Saved(1000, 50)).row_count == 1


@pytest.mark.parametrize("parameters", [10_000, 1_000_000, 25_000_000, 100_000_000])
def test_the_model_has_about_as_many_parameters_as_were_asked_for(parameters: int) -> None:
    wide = width(parameters)
    exact = 64 * wide + wide + (LAYERS - 1) * (wide * wide + wide) + 10 * wide + 10
    assert OUTSIDE == 74
    assert exact == pytest.approx(parameters, rel=0.02)


def test_a_count_may_be_told_in_thousands_and_millions() -> None:
    assert [_count(text) for text in ("25M", "100k", "1.5M", "5000", "1G")] == [
        25_000_000,
        100_000,
        1_500_000,
        5000,
        10**9,
    ]
    for wrong in ("", "M", "-1M", "25T", "2G", "10", "nan"):
        with pytest.raises(typer.BadParameter, match="such as 25M"):
            _count(wrong)
