"""`regroup sim` as a user calls it."""

import json

import pytest
import typer
from typer.testing import CliRunner

from regroup.lab.sim.command import sim
from regroup.lab.sim.search.bounds import GREAT, SMALL


@pytest.fixture
def regroup_sim():
    app = typer.Typer()
    app.command()(sim)
    return lambda *words: CliRunner().invoke(app, list(map(str, words)))


def test_a_record_grows_from_where_it_ended(regroup_sim, tmp_path):
    record = tmp_path / "lives.json"
    for ranges in ([[0, 12]], [[0, 24]]):
        done = regroup_sim("--count", 12, "--record", record, "--processes", 1)
        assert done.exit_code == 0, done.output
        assert json.loads(record.read_text())["ranges"] == ranges
    assert "24 lives on this code" in done.output
    assert "seeds 12 to 23: 0 broke a rule" in done.output


def test_a_record_that_is_none_is_refused_and_left_alone(regroup_sim, tmp_path):
    (tmp_path / "notes.txt").write_text("mine\n")
    done = regroup_sim("--count", 1, "--record", tmp_path / "notes.txt")
    assert done.exit_code == 2
    assert "is no record of lives" in " ".join(done.output.replace("│", " ").split())
    assert (tmp_path / "notes.txt").read_text() == "mine\n"


def test_one_life_is_told_and_written_down(regroup_sim, tmp_path):
    done = regroup_sim("--seed", 3, "--json", tmp_path / "life.json")
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "life.json").read_text())
    assert told["digest"] in done.output
    assert told["error"] is None
    assert len(told["story"]) > 50


@pytest.mark.cluster
def test_a_search_that_has_no_time_says_how_far_it_came(regroup_sim, tmp_path):
    done = regroup_sim("--exhaustive", "--minutes", 0, "--json", tmp_path / "found.json")
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["commit"] is None or found["commit"]
    for name in (*SMALL, *GREAT):
        assert not found[name]["complete"]
        assert found[name]["error"] is None
        assert 0 < found[name]["depth"] < 30
        assert found[name]["states"] > 2000
    assert "to depth" in done.output
