"""`regroup-coordinator` as a process beside others: one leads, a second one leaves, a successor waits for its turn."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from regroup.wire.places import Endpoint, Places

pytestmark = pytest.mark.cluster

LEASE = 1.5  # seconds


@pytest.fixture
def coordinator(cli_for: Any, redis_url: str, tmp_path: Path) -> Any:
    """Starts one, in a data directory of its own, on a store that all in a test share."""
    url = f"{redis_url}?db=9"

    @contextmanager
    def start(name: str, **environ: str) -> Iterator[tuple["subprocess.Popen[str]", Places]]:
        places = Places(tmp_path / name)
        settings = {"REDIS_URL": url, "PORT": "0", "LINK_PORT": "0", "LEADER_LEASE": str(LEASE)} | environ
        cli = cli_for(places.root, **{f"REGROUP_{name}": value for name, value in settings.items()})
        command = str(Path(cli.command[0]).with_name("regroup-coordinator"))
        with subprocess.Popen([command], env=cli.environ, stderr=subprocess.PIPE, text=True) as process:
            try:
                yield process, places
            finally:
                process.kill()

    return start


def leads(process: Any, places: Places) -> bool:
    try:
        return Endpoint.decode(places.endpoint.read_text()).pid == process.pid
    except (OSError, ValueError):
        return False


def test_a_second_one_on_the_same_store_leaves_with_one_line_and_disturbs_nothing(coordinator: Any, until: Any) -> None:
    with coordinator("first") as (first, places):
        until(lambda: leads(first, places), "the first leads")
        with coordinator("second") as (second, elsewhere):
            assert second.wait(20) == 1
            said = second.stderr.read()
            assert said.startswith("regroup-coordinator: another coordinator leads this cluster (")
            assert f"pid {first.pid}" in said
            assert said.endswith("): stop it first, or use another store\n")
            assert said.count("\n") == 1
            assert not elsewhere.endpoint.exists()
        assert leads(first, places)
        first.send_signal(signal.SIGTERM)
        assert first.wait(20) == 0
        assert not places.endpoint.exists()


def test_after_a_kill_a_restart_waits_the_old_lease_out_and_leads_on_the_same_ports(
    coordinator: Any, until: Any
) -> None:
    with coordinator("one") as (first, places):
        until(lambda: leads(first, places), "the first leads")
        url, link = Endpoint.decode(places.endpoint.read_text()).url, places.link.read_text()
        first.kill()
        first.wait()
        killed = time.monotonic()
        with coordinator("one") as (second, _):
            until(lambda: leads(second, places), "the second leads")
            waited = time.monotonic() - killed
            # The lease was renewed last within a quarter of itself before the kill.
            assert waited > LEASE / 2, "the dead one may still have been writing"
            assert Endpoint.decode(places.endpoint.read_text()).url == url
            assert places.link.read_text() == link
            second.send_signal(signal.SIGINT)
            assert second.wait(20) == 0


def test_an_orderly_end_gives_the_lease_back(coordinator: Any, until: Any) -> None:
    with coordinator("first", LEADER_LEASE="3600") as (first, places):
        until(lambda: leads(first, places), "the first leads")
        first.send_signal(signal.SIGTERM)
        assert first.wait(20) == 0
    with coordinator("second") as (second, elsewhere):
        until(lambda: leads(second, elsewhere), "the second need not wait an hour")
        second.send_signal(signal.SIGTERM)
        assert second.wait(20) == 0


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("PORT", "http", "REGROUP_PORT: Input should be a valid integer"),
        ("LEADER_LEASE", "nan", "REGROUP_LEADER_LEASE: Input should be a finite number"),
        ("HOST", "203.0.113.1", "cannot listen on 203.0.113.1 port 0: "),
        ("REDIS_URL", "redis://127.0.0.1:1", "no use of Redis at 127.0.0.1:1 ("),
        ("REDIS_URL", "localhost", "the address of Redis cannot be read: it looks like redis://host:6379/0 or "),
        ("DATA_DIR", "/dev/null/data", "cannot make the data directory /dev/null/data (Not a directory): give another"),
    ],
)
def test_what_cannot_be_used_is_one_line(setting: str, value: str, said: str, coordinator: Any) -> None:
    with coordinator("one", **{setting: value}) as (process, _):
        assert process.wait(20) == 1
        complaint = process.stderr.read()
        assert complaint.startswith(f"regroup-coordinator: {said}")
        assert complaint.count("\n") == 1


def test_two_coordinators_cannot_share_an_embedded_store(
    cli_for: Any, processes_of: Any, tmp_path: Path, until: Any
) -> None:
    cli = cli_for(tmp_path, REGROUP_PORT="0", REGROUP_LINK_PORT="0")
    command = str(Path(cli.command[0]).with_name("regroup-coordinator"))
    places = Places(tmp_path)
    with subprocess.Popen([command], env=cli.environ, stderr=subprocess.DEVNULL) as first:
        try:
            until(lambda: leads(first, places), "the first leads")
            second = subprocess.run([command], env=cli.environ, capture_output=True, text=True, timeout=30)
            assert second.returncode == 1
            assert second.stderr == (
                f"regroup-coordinator: another server uses {tmp_path / 'redis'}: "
                "stop the cluster that runs there, or give another data directory\n"
            )
        finally:
            os.kill(first.pid, signal.SIGTERM)
        assert first.wait(20) == 0
    until(lambda: not processes_of(tmp_path), "the store goes with it")


def test_a_link_whose_former_port_is_taken_moves_and_says_so(coordinator: Any, until: Any) -> None:
    with coordinator("one") as (first, places):
        until(lambda: leads(first, places), "it leads")
        former = places.link_address()
        first.send_signal(signal.SIGTERM)
        assert first.wait(20) == 0
    port = int(former.rpartition(":")[2])
    with (
        socket.create_server(("127.0.0.1", port)),
        coordinator("one") as (second, _),
    ):
        until(lambda: leads(second, places), "it leads again")
        assert places.link_address() != former
        second.send_signal(signal.SIGTERM)
        assert f"the link's former port {port} is in use" in second.stderr.read()
