"""Secrets are made and told on the machine that has them."""

import pytest
from typer.testing import CliRunner

from regroup.client.cli import app
from regroup.wire.join import read_join_token
from regroup.wire.keys import server_keys, worker_keys
from regroup.wire.token import metrics_token


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("REGROUP_DATA_DIR", str(tmp_path / "data"))
    return lambda *words: CliRunner().invoke(app, words)


def test_the_join_token_is_told_alone_on_a_line(run, tmp_path):
    server, worker = server_keys(tmp_path / "data/keys"), worker_keys(tmp_path / "data/keys")
    told = run("join-token")
    assert told.exit_code == 0
    assert read_join_token(told.stdout) == (server.public, worker)
    assert told.stdout.count("\n") == 1


def test_where_there_are_no_keys_none_are_made_for_a_token(run, tmp_path):
    told = run("join-token", "--data-dir", str(tmp_path))
    assert told.exit_code == 1
    assert "has no keys: start the coordinator once" in told.stderr
    assert not list(tmp_path.iterdir())


def test_the_word_for_metrics_follows_from_the_token_that_the_coordinator_goes_by(run, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/token").write_text("kept\n")
    assert run("metrics-token").stdout == metrics_token("kept") + "\n"
    monkeypatch.setenv("REGROUP_TOKEN", "given")
    assert run("metrics-token").stdout == metrics_token("given") + "\n"
    assert run("metrics-token", "--data-dir", str(tmp_path / "data")).stdout == metrics_token("kept") + "\n"
    monkeypatch.setenv("REGROUP_TOKEN", "two words")
    assert "the token in REGROUP_TOKEN must be one non-empty word" in run("metrics-token").stderr


def test_where_there_is_no_token_none_is_made_for_metrics(run, tmp_path, monkeypatch):
    monkeypatch.delenv("REGROUP_TOKEN", raising=False)
    told = run("metrics-token")
    assert told.exit_code == 1
    assert "has no token: start the coordinator once" in told.stderr
    assert not list(tmp_path.iterdir())


def test_secrets_are_made_once(run, tmp_path):
    folder = tmp_path / "secrets"
    assert "made 10 files" in run("secrets", str(folder)).stderr
    assert "nothing changed" in run("secrets", str(folder)).stderr


def test_a_folder_that_cannot_be_made_is_told_in_one_line(run, tmp_path):
    (tmp_path / "file").touch()
    told = run("secrets", str(tmp_path / "file" / "secrets"))
    assert told.exit_code == 1
    assert told.stderr.startswith("regroup: ")
    assert told.stderr.count("\n") == 1
