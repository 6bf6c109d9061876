"""What a soak says of made-up measurements, and one on real processes, as short as it can be."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from regroup.lab.audit import Audit
from regroup.lab.local import LocalCluster
from regroup.lab.soak import sampling
from regroup.lab.soak.report import complaints, summary, tables, verdicts
from regroup.lab.soak.run import SURVIVOR, Half, Outcome
from regroup.lab.soak.sampling import series

AUDIT = Audit(
    ok=True,
    steps=10,
    generations=3,
    epochs=0,
    samples=240,
    lost=0,
    doubled=0,
    missing_records=0,
    void_steps=0,
    summary="",
    faults=(),
)
LOSSY = replace(AUDIT, ok=False, lost=2, faults=("gone",))


def soaked(growing: str = "", audit: Audit | None = AUDIT, restarts: int = 0, kills: int = 90) -> Outcome:
    """A hundred measurements; one series grows by a third."""
    half = Half(seconds=60.0, steps=10, regroups=200, kills=kills, restarts=restarts, audit=audit)
    samples = [
        (2 * number, {one.name: 300.0 + (number if one.name == growing else 0) for one in series(SURVIVOR)})
        for number in range(100)
    ]
    return Outcome(regroups=half, samples=samples)


def stormed(faults: int, audit: Audit | None = AUDIT) -> Outcome:
    return Outcome(storm=Half(seconds=600.0, steps=10, regroups=200, audit=audit, deeds=Counter({"killed": faults})))


def test_a_flat_and_exact_soak_has_no_complaints() -> None:
    assert complaints(soaked()) == []
    assert "0 samples lost, 0 doubled" in summary(soaked())[0]
    assert len(tables(soaked())) == 2


@pytest.mark.parametrize("name", [one.name for one in series(SURVIVOR) if one.judged])
def test_whatever_grows_is_named(name: str) -> None:
    (complaint,) = complaints(soaked(growing=name))
    assert complaint.startswith(f"{name} is not flat: from 3")


def test_records_may_grow_with_the_steps() -> None:
    assert complaints(soaked(growing="records")) == []


def test_a_lost_sample_and_a_restart_in_the_first_half_fail_it() -> None:
    assert complaints(soaked(audit=LOSSY)) == ["regroups: 2 samples lost, 0 doubled; gone"]
    assert complaints(soaked(restarts=1)) == ["all state was lost, and the job began again, 1 times"]


def test_it_fails_without_an_audit_whatever_else_was_found() -> None:
    unknown = "it did not come to the audit, so nothing is known of its samples"
    assert complaints(soaked(audit=None)) == [f"regroups: {unknown}"]
    assert complaints(stormed(100, audit=None)) == [f"storm: {unknown}"]


def test_a_fifth_of_the_regroups_at_least_must_have_begun_by_sigkill() -> None:
    assert complaints(soaked(kills=40)) == []
    assert complaints(soaked(kills=39)) == ["SIGKILL began 39 of 200 regroups: it must be a fifth at least"]
    assert "90 of them begun by SIGKILL" in summary(soaked())[0]


def test_a_storm_that_lost_samples_or_hardly_blew_fails() -> None:
    assert complaints(stormed(100)) == []
    assert complaints(stormed(100, LOSSY)) == ["storm: 2 samples lost, 0 doubled; gone"]
    assert complaints(stormed(59)) == ["the storm did 59 faults in 10.0 minutes: there must be 60 at least"]
    assert "100 faults" in summary(stormed(100))[0]


def test_shared_memory_counts_by_whatever_name_unless_it_was_there_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "SHARED_MEMORY", tmp_path)
    (tmp_path / "another's").touch()
    before = sampling.segments()
    for name in ("torch_17_1", "psm_4f2a", "regroup-1"):
        (tmp_path / name).touch()
    measured = sampling.sample(LocalCluster(tmp_path / "cluster", 0), SURVIVOR, before)
    assert measured["shared memory: segments"] == 3


def test_an_interrupted_soak_without_measurements_is_told() -> None:
    assert verdicts(Outcome()) == []
    assert (complaints(Outcome()), tables(Outcome()), summary(Outcome())) == ([], [], [])


@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_dozen_regroups_are_measured_and_audited(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    words = ["--regroups", "12", "--minutes", "0", "--json", str(figures), "--data-dir", str(tmp_path / "data")]
    start = "import typer; from regroup.lab.soak.command import soak; typer.run(soak)"
    ended = subprocess.run([sys.executable, "-c", start, *words], capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "too few to say what is flat" in ended.stdout
    told = json.loads(figures.read_text())
    half = told["halves"]["regroups"]
    assert half["regroups"] >= 12
    assert half["kills"] >= 1
    assert (half["audit"]["ok"], half["audit"]["lost"], half["audit"]["doubled"]) == (True, 0, 0)
    assert {each.name for each in series(SURVIVOR)} == set(told["series"])
    last = told["samples"][-1]
    assert last["files of records"] == 3, "one of each worker, however many trainers it had"
    for part in ("coordinator", "store", f"agent {SURVIVOR}", f"trainer {SURVIVOR}"):
        assert last[f"{part}: memory"] > 1
        assert last[f"{part}: descriptors"] > 3
        assert last[f"{part}: threads"] >= 1
    assert last["processes"] >= 12


def test_a_soak_of_nothing_is_wrong_usage() -> None:
    start = "import typer; from regroup.lab.soak.command import soak; typer.run(soak)"
    ended = subprocess.run(
        [sys.executable, "-c", start, "--regroups", "0", "--minutes", "0"], capture_output=True, text=True, timeout=100
    )
    assert ended.returncode == 2
    assert "give --regroups, --minutes, or both" in ended.stderr
