"""Keys are made once, are the same for everybody, and are readable by their owner only."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from regroup.wire.keys import Keys, KeysUnreadable, server_keys, server_public, worker_keys


def test_keys_are_made_at_the_first_start_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "keys"
    server, worker = server_keys(folder), worker_keys(folder)
    assert server != worker
    assert (server_keys(folder), worker_keys(folder)) == (server, worker)
    assert server_public(folder) == server.public
    assert all(len(key) == 40 for key in (*server, *worker))


def test_only_the_owner_may_read_them(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    server_keys(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name for path in folder.iterdir()} == {"server.secret", "server.public"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())


def test_many_starters_at_once_get_the_same_keys(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        for attempt in range(20):
            folder = tmp_path / str(attempt)
            assert len(set(pool.map(server_keys, [folder] * 16))) == 1
            assert server_public(folder) == server_keys(folder).public
            assert len(list(folder.iterdir())) == 2


def test_a_secret_is_not_shown() -> None:
    assert "sssss" not in f"{Keys(b'p' * 40, b's' * 40)} {Keys(b'p' * 40, b's' * 40)!r}"


def test_a_public_key_that_was_not_made_yet_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(KeysUnreadable, match=r"server\.public does not exist: start the coordinator first"):
        server_public(tmp_path)


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 40, b"x" * 41, b"%" * 40])
def test_a_damaged_key_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "server.secret").write_bytes(content)
    with pytest.raises(KeysUnreadable, match=r"server\.secret holds no key"):
        server_keys(tmp_path)


def test_a_lost_public_key_is_made_again(tmp_path: Path) -> None:
    keys = server_keys(tmp_path)
    (tmp_path / "server.public").unlink()
    server_keys(tmp_path)
    assert server_public(tmp_path) == keys.public


def test_a_public_key_follows_its_secret_when_that_is_made_anew(tmp_path: Path) -> None:
    former = server_keys(tmp_path)
    (tmp_path / "server.secret").write_bytes(b"damaged")
    with pytest.raises(KeysUnreadable, match="remove it to have a new one made"):
        server_keys(tmp_path)
    (tmp_path / "server.secret").unlink()
    keys = server_keys(tmp_path)
    assert keys != former
    assert server_public(tmp_path) == keys.public
    assert {path.name for path in tmp_path.iterdir()} == {"server.secret", "server.public"}


def test_a_public_key_that_is_right_is_left_alone(tmp_path: Path) -> None:
    server_keys(tmp_path)
    before = (tmp_path / "server.public").stat()
    server_keys(tmp_path)
    assert (tmp_path / "server.public").stat().st_ino == before.st_ino


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KeysUnreadable, match=r"no access to the keys at .*file"):
        server_keys(tmp_path / "file" / "keys")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_key_of_somebody_else_is_named(tmp_path: Path) -> None:
    server_keys(tmp_path)
    (tmp_path / "server.secret").chmod(0)
    with pytest.raises(KeysUnreadable, match=r"server\.secret.*run as the owner"):
        server_keys(tmp_path)
