"""The benchmarks on real processes, as short as they can be: that they run, not how fast anything is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from regroup.lab.bench import checkpointing
from regroup.lab.bench.overhead import DDP, OURS, SEPARATE, Duel, Model
from regroup.lab.bench.overhead import measure as measure_overhead

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def _another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """What leads to a cluster that the benchmarks must leave alone."""
    monkeypatch.setenv("REGROUP_REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setenv("REGROUP_TOKEN", "of-another-cluster")


def test_recovery_kills_and_tells_what_it_took(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    words = ["recovery", "--kills", "1", "--json", str(figures), "--data-dir", str(tmp_path / "data")]
    start = "from regroup.lab.bench import app; app()"
    ended = subprocess.run([sys.executable, "-c", start, *words], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "agent + trainer" in ended.stdout
    told = json.loads(figures.read_text())
    assert (told["kills"], told["lost_samples"], told["duplicated_samples"]) == (1, 0, 0)
    assert (told["lost_steps"], told["restarts"]) == (0, 0)
    (folder,) = (tmp_path / "data").iterdir()
    assert ended.stderr.endswith(f"records and logs are kept in {folder}\n")
    assert list(told["scenarios"]) == ["2_to_1_agent", "2_to_1_trainer"]
    for scenario in told["scenarios"].values():
        assert scenario["step_ms"] > 0
        assert 0 < scenario["since_kill_ms"]["noticed"]["p50"] < scenario["kill_to_commit_ms"]["p50"]
        assert scenario["rejoin_ms"]["p50"] > 0


def test_goodput_compares_calm_and_disturbed_stretches(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    words = ["goodput", "--every", "2", "--rounds", "1", "--seconds", "2", "--json", str(figures)]
    start = "from regroup.lab.bench import app; app()"
    ended = subprocess.run([sys.executable, "-c", start, *words], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(figures.read_text())
    assert (told["lost_samples"], told["duplicated_samples"], told["restarts"]) == (0, 0, 0)
    found = told["goodput"]["2"]
    assert found["kills"] == 1
    assert 0 < found["ratio"]["median"] < 2
    assert found["each"][0]["calm"]["steps"] > 0
    assert "0 lost, 0 doubled" in ended.stdout


def test_checkpoint_measures_one_in_each_round(tmp_path: Path) -> None:
    outcome = checkpointing.Outcome(parameters=20_000, every=10)
    checkpointing.measure(outcome, 2, tmp_path)
    assert len(outcome.rounds) == 2
    assert outcome.first is not None
    assert 0 < outcome.first < 5
    assert all(0 < each.copied < each.saving for each in outcome.rounds)
    assert all(each.written > 0 for each in outcome.rounds)
    assert outcome.bytes is not None
    assert outcome.bytes > 3 * 4 * 19_000, "the parameters, and two moments of each"


def test_overhead_measures_all_sides_in_turn(tmp_path: Path) -> None:
    model = Model("tiny", "digits", "regroup.lab.bench.gated:GatedDigits", {"hidden": [8]}, 64)
    duel = Duel(model)
    measure_overhead(duel, 2, 3, tmp_path)
    assert [set(each) for each in duel.rounds] == [{OURS, SEPARATE, DDP}] * 2
    assert all(step > 0 for each in duel.rounds for step in each.values())
    shares = [duel.exchange_share[side] for side in (OURS, SEPARATE)]
    assert all(share is not None and 0 <= share <= 1 for share in shares)
    assert len(list((tmp_path / "cluster" / "checkpoints").iterdir())) == 2, "both jobs were stopped in the end"
