"""`regroup-coordinator` as a process beside others: one leads, a second one leaves or stands by, a successor waits for
its turn."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest

from regroup.client import Client
from regroup.coordinator import embedded
from regroup.core.messages.protocol import PROTOCOL
from regroup.wire.places import Endpoint, Places

pytestmark = pytest.mark.cluster

LEASE = 4.0  # seconds: on a machine that does much else, a second passes in which a process does nothing


@pytest.fixture
def coordinator(cli_for: Any, redis_url: str, tmp_path: Path) -> Any:
    """Starts one, in a data directory of its own, on a store that all in a test share."""
    url = f"{redis_url}?db=9"

    @contextmanager
    def start(name: str, *arguments: str, **environ: str) -> Iterator[tuple["subprocess.Popen[str]", Places]]:
        places = Places(tmp_path / name)
        settings = {"REDIS_URL": url, "PORT": "0", "LINK_PORT": "0", "LEADER_LEASE": str(LEASE)} | environ
        cli = cli_for(places.root, **{f"REGROUP_{name}": value for name, value in settings.items()})
        command = str(Path(cli.command[0]).with_name("regroup-coordinator"))
        with subprocess.Popen([command, *arguments], env=cli.environ, stderr=subprocess.PIPE, text=True) as process:
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
            assert said.endswith(
                "): stop it first, or use another store; with --standby it waits, and takes over when that one dies\n"
            )
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


def test_a_store_that_comes_up_later_is_waited_for(coordinator: Any, until: Any, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    with coordinator("early", REDIS_URL=embedded.where(folder)) as (process, places):
        said = process.stderr.readline()
        assert "WARNING regroup.coordinator: waiting for the store, 30 s at most: no use of Redis at " in said
        with embedded.start(folder):
            until(lambda: leads(process, places), "it leads")
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            assert "waiting" not in process.stderr.read(), "it is said once"


def test_a_store_that_never_comes_is_given_up_with_one_line_and_nobody_has_to_wait_for_that(
    coordinator: Any, tmp_path: Path
) -> None:
    nowhere = f"unix://{tmp_path}/nowhere"
    with coordinator("patient", REDIS_URL=nowhere, STORE_LIMIT="0.5") as (process, _):
        assert process.wait(20) == 1
        waits, ends = process.stderr.read().splitlines()
        assert "waiting for the store, 0.5 s at most" in waits
        assert ends.startswith(f"regroup-coordinator: no use of Redis at {tmp_path}/nowhere (")
        assert ends.endswith("start it, or set REGROUP_REDIS_URL to where it runs")
    with coordinator("impatient", REDIS_URL=nowhere) as (process, _):
        assert "waiting for the store" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


def client_of(places: Places, *ports: str) -> Client:
    return Client(",".join(f"http://127.0.0.1:{port}" for port in ports), places.token.read_text().strip())


def health(url: str) -> str | None:
    try:
        answer = httpx.get(f"{url}/health", trust_env=False)
    except httpx.TransportError:
        return None
    return str(answer.json()["status"])


def test_a_standby_takes_over_once_the_lease_has_run_out_and_the_dead_one_comes_back_as_a_standby(
    coordinator: Any, until: Any
) -> None:
    ports = [free_port(), free_port()]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    with coordinator("shared", PORT=ports[0]) as (first, places):
        until(lambda: leads(first, places), "the first leads")
        with coordinator("shared", "--standby", PORT=ports[1]) as (second, _), ExitStack() as clients:
            until(lambda: health(urls[1]) == "standby", "the second stands by")
            assert leads(first, places), "the files still name the first"
            client = clients.enter_context(client_of(places, *ports))
            [standby] = until(lambda: client.cluster().standbys, "the first knows of it")
            assert (standby.url, f"pid {second.pid}" in standby.holder) == (urls[1], True)
            assert f"pid {first.pid}" in client.cluster().leader

            killed = time.monotonic()
            first.kill()
            first.wait()
            asked = client.cluster()  # waits meanwhile
            assert time.monotonic() - killed < 2 * LEASE, "it waits for no second lease"
            assert (f"pid {second.pid}" in asked.leader, asked.standbys, client.url) == (True, (), urls[1])
            assert leads(second, places)
            with coordinator("shared", STANDBY="true", PORT=ports[0]) as (third, _):
                until(lambda: client.cluster().standbys, "it is known as a standby")
                assert health(urls[0]) == "standby"
                third.send_signal(signal.SIGTERM)
                assert third.wait(20) == 0
                assert client.cluster().standbys == ()
            assert leads(second, places), "a standby that ends takes nothing along"
            second.send_signal(signal.SIGTERM)
            assert second.wait(20) == 0
            said = second.stderr.read()
            assert f"standing by: {socket.gethostname()}, pid {first.pid}, " in said
            assert f"takes over once its lease of {LEASE:g} s has run out; REST on {urls[1]} says so" in said


def test_a_standby_refuses_all_but_its_health_and_tells_the_leader_only_to_who_has_the_token(
    coordinator: Any, until: Any
) -> None:
    port = free_port()
    with coordinator("shared") as (first, places):
        until(lambda: leads(first, places), "the first leads")
        with coordinator("shared", "--standby", PORT=port):
            until(lambda: health(f"http://127.0.0.1:{port}") == "standby", "the second stands by")
            with coordinator("shared", "--check", PORT=port) as (check, _):
                assert check.wait(20) == 0, "one that stands by is well"
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http:
                for path in ("/ready", "/", "/docs", "/nothing"):
                    answer = http.get(path)
                    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/standby")
                    assert str(first.pid) not in answer.text
                assert http.post("/v1/jobs", json={}).status_code == 401
                token = {"Authorization": f"Bearer {places.token.read_text().strip()}"}
                answer = http.post("/v1/jobs", json={}, headers=token)
                assert (answer.status_code, answer.json()["type"]) == (503, "/problems/standby")
                assert answer.headers["content-type"] == "application/problem+json"
                assert f"pid {first.pid}" in answer.json()["detail"]


def test_a_standby_whom_agents_would_refuse_ends_with_one_line(coordinator: Any, until: Any) -> None:
    with coordinator("first") as (first, places):
        until(lambda: leads(first, places), "the first leads")
        with coordinator("second", "--standby") as (second, elsewhere):
            assert second.wait(20) == 1
            said = second.stderr.read()
            assert said.startswith(
                f"regroup-coordinator: the keys in {elsewhere.keys} are not those of the coordinator"
            )
            assert said.endswith("agents would refuse this one; copy that one's folder of keys here\n")
            assert said.count("\n") == 1
        shutil.copytree(places.keys, elsewhere.keys, dirs_exist_ok=True)
        with coordinator("second", "--standby") as (second, elsewhere):
            first.kill()
            until(lambda: leads(second, elsewhere), "with the keys it takes over, on a data directory of its own")


def test_an_agent_with_two_addresses_is_where_the_lead_is(coordinator: Any, cli_for: Any, until: Any) -> None:
    ports = [free_port() for _ in range(4)]
    with coordinator("shared", PORT=ports[0], LINK_PORT=ports[1]) as (first, places):
        until(lambda: leads(first, places), "the first leads")
        links = f"tcp://127.0.0.1:{ports[3]},tcp://127.0.0.1:{ports[1]}"
        cli = cli_for(places.root, REGROUP_COORDINATOR=links, REGROUP_WORKER="w0")
        command = str(Path(cli.command[0]).with_name("regroup-agent"))
        with (
            coordinator("shared", "--standby", PORT=ports[2], LINK_PORT=ports[3]) as (second, _),
            subprocess.Popen([command], env=cli.environ, stderr=subprocess.DEVNULL) as agent,
            Client(
                f"http://127.0.0.1:{ports[0]},http://127.0.0.1:{ports[2]}", places.token.read_text().strip()
            ) as client,
        ):
            try:
                until(lambda: client.cluster().healthy == 1, "the agent passes the standby over")
                until(lambda: client.cluster().standbys, "the second stands by")
                first.send_signal(signal.SIGSTOP)  # it holds its link, and its connections, and leads no more
                until(lambda: leads(second, places), "the second took over")
                with client_of(places, ports[2]) as successor:
                    until(lambda: successor.cluster().healthy == 1, "the agent left who did not answer")
                first.send_signal(signal.SIGCONT)
                assert first.wait(20) == 1
                assert "this one stops" in first.stderr.read()
            finally:
                agent.kill()


@pytest.mark.parametrize(("theirs", "older"), [(0, "agent"), (2, "coordinator")])
def test_an_agent_of_another_protocol_and_its_coordinator_say_the_same(
    theirs: int, older: str, coordinator: Any, cli_for: Any, until: Any, tmp_path: Path
) -> None:
    assert PROTOCOL == 1, "else those above are to be others"
    old = f"import regroup.core.messages.protocol as p; p.PROTOCOL = {theirs}; from regroup.worker import serving"
    with coordinator("first") as (first, places):
        until(lambda: leads(first, places), "it leads")
        cli = cli_for(places.root, REGROUP_WORKER="of-another-release")
        command = [sys.executable, "-c", f"{old}; serving.main()"]
        agent = subprocess.run(command, env=cli.environ, capture_output=True, text=True, timeout=60)
        assert agent.returncode == 1
        last = agent.stderr.splitlines()[-1]
        reason = last.removeprefix("regroup-agent: turned away by the coordinator: ")
        release = f"(Regroup {version('regroup')})"
        assert reason == (
            f"of-another-release speaks protocol {theirs} {release}, "
            f"this coordinator protocol 1 {release}: update the {older}"
        )
        with client_of(places, Endpoint.decode(places.endpoint.read_text()).url.rpartition(":")[2]) as client:
            assert "of-another-release" not in [worker.name for worker in client.workers()]
        first.send_signal(signal.SIGTERM)
        assert f"of-another-release: {reason}" in first.stderr.read()


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
    with coordinator("one", STORE_LIMIT="0", **{setting: value}) as (process, _):
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
