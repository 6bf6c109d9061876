"""A coordinator that cannot start, as its operator sees it: one line, what to do, and an end."""

import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

Refusal = Callable[..., str]


@pytest.fixture
def coordinator(refusal: Refusal, tmp_path: Path) -> Refusal:
    return partial(refusal, tmp_path, sys.executable, "-m", "regroup.coordinator", PORT="0")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            {"LINK_HOST": "203.0.113.1"},
            "cannot listen on 203.0.113.1 port {link} (Cannot assign requested address): set",
        ),
        ({"HOST": "nowhere.invalid"}, "cannot listen on nowhere.invalid port 0: "),
        ({"TOKEN": "two words"}, "the token in REGROUP_TOKEN must be one non-empty word"),
    ],
)
def test_what_cannot_be_used_is_one_line(coordinator: Refusal, setting: dict[str, str], said: str) -> None:
    assert coordinator(LINK_PORT="0", **setting).startswith(f"regroup-coordinator: {said.format(link=0)}")


def test_a_port_that_is_taken_is_told_with_the_variable_to_set(refusal: Refusal, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "regroup.coordinator")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert refusal(tmp_path, *command, PORT=port, LINK_PORT="0").startswith(
            f"regroup-coordinator: cannot listen on 127.0.0.1 port {port}: Address already in use; set REGROUP_PORT"
        )
        assert refusal(tmp_path, *command, PORT="0", LINK_PORT=port) == (
            f"regroup-coordinator: port {port} of 127.0.0.1 is in use: "
            "stop who listens there, or set REGROUP_LINK_PORT to another"
        )


def test_a_data_directory_that_cannot_be_written_is_told(coordinator: Refusal, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    said = coordinator(LINK_PORT="0")
    assert said.startswith(
        f"regroup-coordinator: cannot write to the data directory {tmp_path} (Permission denied: it is"
    )
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("name", ["keys", "token", "redis"])
def test_what_is_another_users_in_there_is_told(coordinator: Refusal, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name).chmod(0)
    said = coordinator(LINK_PORT="0")
    assert str(tmp_path / name) in said
    assert "): " in said, "what to do follows"
    (tmp_path / name).chmod(0o700)


def test_a_secret_that_cannot_be_read_is_told(coordinator: Refusal, tmp_path: Path) -> None:
    secret = tmp_path / "secrets" / "regroup_token"
    secret.parent.mkdir()
    secret.write_text("a-word")
    secret.chmod(0)
    said = coordinator(LINK_PORT="0", SECRETS_DIR=str(secret.parent))
    assert said.startswith(
        f"regroup-coordinator: REGROUP_SECRETS_DIR: cannot use {secret} (Permission denied: it is uid"
    )
    secret.parent.chmod(0)
    assert "regroup-coordinator: REGROUP_SECRETS_DIR: cannot use" in coordinator(SECRETS_DIR=str(secret.parent))
    secret.parent.chmod(0o700)


def test_a_read_only_volume_is_told(refusal: Refusal, tmp_path: Path, mounted: Callable[..., list[str]]) -> None:
    command = mounted("-o", "ro", "-t", "tmpfs", "none", str(tmp_path))
    said = refusal(tmp_path, *command, sys.executable, "-m", "regroup.coordinator")
    assert said.startswith(
        f"regroup-coordinator: cannot write to the data directory {tmp_path} (Read-only file system): "
    )


def test_a_store_that_refuses_the_password_ends_it(coordinator: Refusal, redis_url: str) -> None:
    url = redis_url.replace("unix://", "unix://nobody:hunter2@")
    said = coordinator(LINK_PORT="0", REDIS_URL=url)
    assert said.startswith("regroup-coordinator: no use of Redis at ")
    assert said.endswith(
        "set REGROUP_REDIS_PASSWORD to its password, or REGROUP_REDIS_URL to one with its user and password"
    )
    assert "hunter2" not in said
