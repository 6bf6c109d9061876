"""Trouble of the control plane while a job trains: the steps go on, and what broke comes back."""

import os
import random
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from regroup.client.errors import Unavailable
from regroup.coordinator import embedded
from regroup.lab.bench.following import Following
from regroup.wire.places import Places

pytestmark = pytest.mark.cluster


# Seconds; half a minute is what `-m long` tries, and with `-s` it shows the rates that docs/failure-modes.md tells.
away_for = pytest.mark.parametrize("seconds", [4.0, pytest.param(30.0, marks=pytest.mark.long)])


@pytest.fixture
def training(served: Any) -> Iterator[Any]:
    """A job that trains on both workers."""
    job = served.submit("faulty:Slow", steps=100_000, min_workers=2, max_workers=2)
    yield served.after(job, 3)
    served.stop_all()


def garbage() -> list[bytes]:
    draw = random.Random(0)
    return [
        b"",
        b"\0" * 4096,
        b"\xff\0\0\0\0\0\0\0\1\x7f",  # a ZeroMQ greeting that breaks off
        b"\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL" + b"\0" * 48,  # one that wants no encryption
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /v1/jobs HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nContent-Length: -1\r\n\r\n{",
        *(draw.randbytes(draw.choice((1, 100, 70_000))) for _ in range(20)),
    ]


def throw(host: str, port: int, what: bytes) -> None:
    with socket.create_connection((host, port), timeout=5) as connection:
        try:
            connection.sendall(what)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(0.1)
            connection.recv(4096)
        except OSError:
            pass  # thrown out, which is as it should be


def rate(following: Following, steps: int = 30) -> float:
    """Committed steps per second, over the next so many of them, by the workers' own records."""
    following.forget()

    def found() -> float | None:
        times: dict[int, int] = {}
        for one in sorted(following.seen, key=lambda one: one.at):
            times.setdefault(one.step, one.at)
        return steps * 1e9 / (max(times.values()) - min(times.values())) if len(times) > steps else None

    return following.until(found, f"{steps} steps are committed", lambda: None)


def at_full_speed(what: str, before: float, away: float, record_property: Any) -> None:
    """Told, and held to a loose bound: others use this machine."""
    told = f"{away:.1f} steps/s while {what} is away, {before:.1f} before: {away / before:.2f}"
    print(told)
    record_property("rate", told)
    assert away / before > 0.5, told


def test_garbage_on_both_ports_does_not_disturb_a_job(served: Any, training: Any) -> None:
    rest, link = urlsplit(served.client.url), urlsplit(Places(served.cluster.data_dir).link.read_text().strip())
    pid = served.cluster.coordinator.process.pid
    for what in garbage():
        for address in (rest, link):
            throw(address.hostname, address.port, what)
    job = served.after(training, served.client.job(training.id).step + 10)
    assert job.generation == training.generation
    assert (served.cluster.coordinator.process.pid, served.client.cluster().healthy) == (pid, 2)


def test_the_embedded_store_is_killed_and_comes_back_with_a_new_coordinator(
    served: Any, training: Any, processes_of: Any, until: Any
) -> None:
    processes = processes_of(served.cluster.data_dir)
    store = next(pid for pid, line in processes.items() if "valkey-server" in line or "redis-server" in line)
    former = served.cluster.coordinator.process.pid
    before = served.client.job(training.id).step
    os.kill(store, signal.SIGKILL)
    until(lambda: served.cluster.coordinator.process.pid != former, "the supervisor starts a new coordinator")
    log = (served.cluster.data_dir / "logs" / "coordinator.log").read_text().splitlines()
    assert [line for line in log if line.startswith("regroup-coordinator: ")] == [
        "regroup-coordinator: the embedded Redis server was killed by SIGKILL: start the coordinator again, "
        f"and see {served.cluster.data_dir / 'redis' / 'log'} if it repeats"
    ]
    until(lambda: served.cli("jobs").returncode == 0, "it answers, once the former lease is over")
    with served.cluster.client() as client:
        until(lambda: client.cluster().healthy == 2, "the workers come back")
        job = served.after(training, before + 10)
        assert job.generation == training.generation, "nobody regrouped"
        assert client.cluster().trouble is None


def test_workers_that_nobody_answers_stop_committing_at_the_detached_limit_and_then_go_on(
    serve: Any, until: Any, tmp_path: Path
) -> None:
    limit = 4.0
    with serve(tmp_path, 2, detached_limit=str(limit)) as served:
        job = served.after(served.submit("faulty:Slow", steps=100_000, min_workers=2, max_workers=2), 3)
        following = Following(served.cluster.data_dir / "records" / job.id)

        def quiet() -> bool:
            following.look()
            return time.monotonic() - max(one.at for one in following.seen) / 1e9 > 1.0

        coordinator = served.cluster.coordinator.process.pid
        os.kill(coordinator, signal.SIGSTOP)
        deaf = time.monotonic()
        until(quiet, "no step was committed for a second")
        last = max(one.at for one in following.seen) / 1e9
        assert limit - 2.0 < last - deaf < limit + 0.5
        os.kill(coordinator, signal.SIGCONT)
        again = served.after(job, served.client.job(job.id).step + 10)
        assert (again.generation, again.history) == (job.generation, job.history)


@away_for
def test_without_a_coordinator_and_its_store_the_steps_go_on_at_full_speed(
    serve: Any, tmp_path: Path, record_property: Any, seconds: float
) -> None:
    with serve(tmp_path, 2) as served:
        job = served.after(served.submit("faulty:Slow", steps=100_000, min_workers=2, max_workers=2), 3)
        following = Following(served.cluster.data_dir / "records" / job.id)
        before = rate(following)
        coordinator = served.cluster.coordinator
        coordinator.restart = False
        coordinator.kill()
        coordinator.process.wait()
        at_full_speed("the control plane", before, rate(following, int(seconds * before)), record_property)
        assert {one.generation for one in following.seen} == {job.generation}


@away_for
def test_while_redis_is_away_the_coordinator_is_not_ready_and_the_steps_go_on_at_full_speed(
    serve: Any, until: Any, tmp_path: Path, record_property: Any, seconds: float
) -> None:
    with (
        TemporaryDirectory() as store,  # a short path, so that the second server has the first one's address
        embedded.start(Path(store)) as server,
        serve(tmp_path, 1, redis_url=server.url) as served,
    ):
        job = served.after(served.submit("faulty:Slow", steps=100_000), 3)
        following = Following(served.cluster.data_dir / "records" / job.id)
        before = rate(following)
        pid = served.cluster.coordinator.process.pid
        server.process.kill()
        server.stop()

        def why_not_ready() -> str | None:
            answer = httpx.get(f"{served.client.url}/ready")
            return answer.json()["detail"] if answer.status_code == 503 else None

        reason = until(why_not_ready, "it is not ready")
        assert "no use of Redis at " in reason or "has not confirmed this coordinator's leadership" in reason
        with pytest.raises(Unavailable, match="Redis"):
            served.submit("faulty:Sound")
        [at] = [each.step for each in served.client.jobs()]
        until(lambda: served.client.jobs()[0].step > at + 10, "steps go on, and are shown")
        at_full_speed("Redis", before, rate(following, int(seconds * before)), record_property)

        with embedded.start(Path(store)):
            until(lambda: httpx.get(f"{served.client.url}/ready").status_code == 200, "it is ready again")
            now = served.after(job, served.client.job(job.id).step + 5)
            assert now.generation == job.generation
            served.client.stop(job.id)
            assert served.ended(job).phase == "stopped"
            assert served.cluster.coordinator.process.pid == pid


def test_a_cluster_that_comes_up_again_with_fewer_workers_goes_on_with_its_job(
    serve: Any, tmp_path: Path, until: Any
) -> None:
    with serve(tmp_path, 3) as before:
        job = before.submit("faulty:Slow", steps=100_000, min_workers=1, max_workers=3)
        before.after(job, 3)
    with serve(tmp_path, 2) as after:
        until(lambda: after.client.job(job.id).phase == "running", "the job trains again")
        found = after.client.job(job.id)
        assert {member.worker for member in found.members} <= {"w0", "w1"}
        assert found.restarts == 0, "it was stopped on purpose"
        left = [event.worker for event in after.client.events() if event.kind == "left"]
        assert sorted(left) == ["w0", "w1", "w2"]
