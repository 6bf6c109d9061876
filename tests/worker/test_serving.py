"""An agent that cannot start, as its operator sees it: one line, what to do, and an end."""

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from regroup.wire.keys import server_keys, worker_keys

Refusal = Callable[..., str]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory that names a coordinator, at which nobody answers."""
    server_keys(tmp_path / "keys")
    worker_keys(tmp_path / "keys")
    (tmp_path / "link").write_text("tcp://127.0.0.1:1\n")
    return tmp_path


@pytest.fixture
def agent(refusal: Refusal, data: Path) -> Refusal:
    return partial(refusal, data, sys.executable, "-m", "regroup.worker")


@pytest.mark.parametrize("name", ["run", "records", "logs", "checkpoints", "there"])
def test_a_folder_that_cannot_be_written_is_told(agent: Refusal, data: Path, name: str) -> None:
    folder = data / name
    folder.mkdir(mode=0o500)
    variable = "CHECKPOINTS" if name in ("checkpoints", "there") else "DATA_DIR"
    said = agent(**({"CHECKPOINTS": str(folder)} if name == "there" else {}))
    assert said.startswith(f"regroup-agent: cannot write to the folder {folder} (Permission denied: it is uid ")
    assert said.endswith(f"or set REGROUP_{variable} to another folder")


def test_keys_that_cannot_be_read_are_told(agent: Refusal, data: Path) -> None:
    (data / "keys").chmod(0)
    assert f"{data / 'keys'}" in agent()
    (data / "keys").chmod(0o700)


def test_a_read_only_volume_is_told(refusal: Refusal, data: Path, mounted: Callable[..., list[str]]) -> None:
    command = mounted("-o", "ro", "-t", "tmpfs", "none", str(data))
    said = refusal(data, *command, sys.executable, "-m", "regroup.worker")
    assert said.startswith(f"regroup-agent: cannot write to the data directory {data} (Read-only file system): give")


def test_an_address_of_another_machine_is_told_with_those_of_this_one(agent: Refusal) -> None:
    said = agent(DATA_HOST="203.0.113.1")
    assert said.startswith(
        "regroup-agent: 203.0.113.1 is no address of this machine (Cannot assign requested address): give an address"
    )
    assert "127.0.0.1" in said


def test_a_gpu_that_is_not_there_is_told(agent: Refusal) -> None:
    assert agent(DEVICE="cuda").startswith("regroup-agent: REGROUP_DEVICE: ")


def test_half_a_join_token_is_told(agent: Refusal) -> None:
    said = agent(JOIN="regroup-join-1-half")
    assert said == (
        "regroup-agent: REGROUP_JOIN: is no join token: "
        "copy it whole from `regroup join-token`, on the coordinator's machine"
    )


def test_a_coordinator_that_does_not_answer_is_waited_for_and_that_is_said(data: Path) -> None:
    code = (
        "import regroup.worker.agent as agent, regroup.worker.serving as serving\n"
        "agent.UNANSWERED = 0.2\n"
        "serving.main()"
    )
    log = data / "agent.log"
    environ = {"REGROUP_DATA_DIR": str(data), "PATH": "/usr/bin:/bin"}
    with log.open("wb") as err, subprocess.Popen([sys.executable, "-c", code], env=environ, stderr=err) as process:
        try:
            deadline = time.monotonic() + 30
            while "no coordinator has answered" not in (said := log.read_text()) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert "trying on, and what it trains goes on" in said
            assert process.poll() is None
        finally:
            process.kill()
