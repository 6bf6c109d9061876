"""The agent's settings, from a real environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regroup.wire.environment import BadSettings, read
from regroup.wire.join import join_token
from regroup.wire.keys import server_keys, worker_keys
from regroup.worker.settings import AgentSettings


@pytest.fixture(autouse=True)
def _clean(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("REGROUP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("REGROUP_DATA_DIR", str(tmp_path))


def test_without_variables_nothing_is_chosen_for_it(tmp_path):
    settings = read(AgentSettings)
    assert (settings.data_host, settings.data_dir, settings.coordinator) == (None, tmp_path, None)


def test_opening_rest_does_not_open_the_data_plane(monkeypatch):
    monkeypatch.setenv("REGROUP_HOST", "0.0.0.0")
    assert read(AgentSettings).data_host is None
    monkeypatch.setenv("REGROUP_DATA_HOST", "10.0.0.7")
    assert read(AgentSettings).data_host == "10.0.0.7"


def test_a_join_token_is_a_secret(monkeypatch, tmp_path):
    token = join_token(server_keys(tmp_path).public, worker_keys(tmp_path).secret)
    monkeypatch.setenv("REGROUP_JOIN", token)
    settings = read(AgentSettings)
    assert settings.join is not None
    assert settings.join.get_secret_value() == token
    assert token not in repr(settings)


def test_a_secret_may_be_a_file(monkeypatch, tmp_path):
    token = join_token(server_keys(tmp_path).public, worker_keys(tmp_path).secret)
    (tmp_path / "regroup_join").write_text(f"{token}\n")
    monkeypatch.setenv("REGROUP_SECRETS_DIR", str(tmp_path))
    settings = read(AgentSettings)
    assert settings.join is not None
    assert settings.join.get_secret_value() == token


def test_a_folder_of_secrets_that_is_not_there_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("REGROUP_SECRETS_DIR", str(tmp_path / "none"))
    with pytest.raises(BadSettings, match=r"^REGROUP_SECRETS_DIR: there is no folder .*none: mount"):
        read(AgentSettings)


def test_the_data_directory_may_begin_at_home(monkeypatch):
    monkeypatch.setenv("REGROUP_DATA_DIR", "~/somewhere")
    assert read(AgentSettings).data_dir == Path.home() / "somewhere"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("THREADS", "0"),
        ("DATA_HOST", ""),
        ("WORKER", "no/slash"),
        ("WORKER", ""),
        ("LOG_LEVEL", "loud"),
        ("DEVICE", "cuda"),
        ("COORDINATOR", "localhost:8788"),
        ("COORDINATOR", "tcp://nowhere"),
        ("CHECKPOINTS", ""),
        ("CHECKPOINTS", "sftp://me:secret@host/folder"),
        ("COORDINATOR", "tcp://a:1,b:2"),
        ("COORDINATOR", "tcp://a:1,"),
        ("JOIN", "half-a-secret"),
    ],
)
def test_a_bad_value_is_told_in_one_line_naming_the_variable(monkeypatch, variable, value):
    monkeypatch.setenv(f"REGROUP_{variable}", value)
    with pytest.raises(BadSettings, match=rf"^REGROUP_{variable}: ") as error:
        read(AgentSettings)
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)


def test_checkpoints_go_to_the_data_directory_unless_a_folder_or_url_is_set(monkeypatch, tmp_path):
    assert read(AgentSettings).checkpoints is None
    monkeypatch.setenv("REGROUP_CHECKPOINTS", f"{tmp_path}/there/")
    assert read(AgentSettings).checkpoints == f"{tmp_path}/there"
    monkeypatch.setenv("REGROUP_CHECKPOINTS", "s3://bucket/prefix")
    assert read(AgentSettings).checkpoints == "s3://bucket/prefix"


@pytest.mark.parametrize(
    "address", ["tcp://10.0.0.1:8788", "tcp://[::1]:8788", "tcp://head-node.cluster:8788", "tcp://a:1,tcp://b:2"]
)
def test_the_coordinator_may_be_any_address_of_a_link(monkeypatch, address):
    monkeypatch.setenv("REGROUP_COORDINATOR", address)
    assert read(AgentSettings).coordinator == address


def run_agent() -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "regroup.worker.serving"], capture_output=True, text=True, timeout=60)


def test_an_agent_with_bad_values_ends_with_a_line_for_each(monkeypatch):
    monkeypatch.setenv("REGROUP_THREADS", "0")
    monkeypatch.setenv("REGROUP_LOG_LEVEL", "loud")
    done = run_agent()
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first.startswith("regroup-agent: REGROUP_LOG_LEVEL: ")
    assert second.startswith("REGROUP_THREADS: ")


def test_an_agent_that_knows_no_coordinator_says_what_to_do():
    done = run_agent()
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "start the coordinator first" in done.stderr


@pytest.mark.parametrize(
    "address", ["10.0.0.1:8788", "tcp://fd00::1:8788", "tcp://a:0", "tcp://a:65536", "tcp://a", "tcp://a:1,", ""]
)
def test_what_is_no_address_of_a_link_is_told_with_one_that_is(monkeypatch, address):
    monkeypatch.setenv("REGROUP_COORDINATOR", address)
    with pytest.raises(BadSettings, match=r"^REGROUP_COORDINATOR: must be tcp://host:port, IPv6 as tcp://\[fd00::1\]"):
        read(AgentSettings)


@pytest.mark.parametrize("wanted", ["w1", "a.b_c-0", "worker-*", "*"])
def test_a_star_may_end_a_name(monkeypatch, wanted):
    monkeypatch.setenv("REGROUP_WORKER", wanted)
    assert read(AgentSettings).worker == wanted


@pytest.mark.parametrize("wanted", ["", "*-w", "w**", "a b", "w/1", "x" * 65, "x" * 64 + "*"])
def test_what_no_worker_may_be_called_is_refused(monkeypatch, wanted):
    monkeypatch.setenv("REGROUP_WORKER", wanted)
    with pytest.raises(BadSettings, match=r"^REGROUP_WORKER: must match .*, and may end with \* for the first number"):
        read(AgentSettings)
