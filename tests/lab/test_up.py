"""`regroup up`: what it refuses before it starts anything."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from regroup.lab.up import up

app = typer.Typer()
app.command()(up)


def test_a_place_that_no_agent_could_use_is_one_line_and_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGROUP_CHECKPOINTS", "sftp://me:hunter2@host/folder")
    result = CliRunner().invoke(app, ["--port", "0", "--data-dir", str(tmp_path / "data")])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("regroup up: REGROUP_CHECKPOINTS: must hold no user and password: ")
    assert (result.stderr.count("\n"), "hunter2" in result.stderr) == (1, False)
    assert not (tmp_path / "data").exists()
