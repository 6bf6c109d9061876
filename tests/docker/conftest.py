"""A cluster in real containers, by the file that users have: built, started, reached at its published port, removed.

Owns: that nothing of it is left, and the words for why there is none. It is started once for all tests, on free ports.
"""

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from regroup.client import Client
from regroup.client.errors import Unavailable, Unreachable
from regroup.lab.audit import audit_job
from regroup.wire.rest import JobView

ROOT = Path(__file__).parents[2]
LIMIT = 120.0  # seconds; a trainer that limits and memory of a container slow down imports torch for ten of them


def run(*words: str, check: bool = True, **environ: str) -> str:
    done = subprocess.run(words, cwd=ROOT, env=os.environ | environ, capture_output=True, text=True)
    if check and done.returncode:
        pytest.fail(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout.strip()


def no_engine() -> str | None:
    """Why there is no engine here; None: there is one."""
    try:
        for words in (["docker", "info"], ["docker", "compose", "version"]):
            subprocess.run(words, check=True, capture_output=True, timeout=20)
    except FileNotFoundError:
        return "there is no docker on this machine"
    except subprocess.SubprocessError as error:
        return f"no Docker engine with Compose answers: {error}"
    return None


@dataclass(frozen=True, slots=True)
class Composed:
    """A cluster of two CPU workers, as its users have it."""

    project: str
    client: Client
    token: str

    def compose(self, *words: str, check: bool = True) -> str:
        return compose(self.project, *words, check=check)

    def containers(self, service: str) -> list[str]:
        return self.compose("ps", "--all", "--quiet", service).split()

    def until(self, met: Callable[[], Any], what: str, limit: float = LIMIT) -> Any:
        deadline = time.monotonic() + limit
        while not (found := met()):
            if time.monotonic() > deadline:
                events = "\n".join(f"{one.kind}: {one.reason}" for one in list(self.client.events())[-20:])
                pytest.fail(f"waited {limit:g} s in vain: {what}\n{events}\n{self.compose('logs', '--tail', '20')}")
            time.sleep(0.2)
        return found

    def serves(self) -> bool:
        """Whether it can be asked to do something: the coordinator answers, and has its store."""
        try:
            return self.client.cluster().trouble is None
        except (Unreachable, Unavailable):
            return False

    def trains(self, job: str, steps: int = 5, members: int = 2) -> JobView:
        """The job, once so many commit that many steps more."""
        since = self.client.job(job).step

        def there() -> JobView | None:
            found = self.client.job(job)
            assert not found.ended, found.reason
            return found if found.step >= since + steps and len(found.members) == members else None

        found = self.until(there, f"{members} workers train on, from step {since}")
        assert isinstance(found, JobView)
        return found

    def submitted(self) -> str:
        """A job that goes on until it is stopped, once both workers train it."""
        job = self.client.submit(task="digits", steps=1_000_000, max_workers=2, global_batch=64).id
        self.trains(job)
        return job

    def stopped(self, job: str) -> JobView:
        """Its end: stopped, and each sample of its steps trained exactly once."""
        self.trains(job)
        self.client.stop(job)
        ended = self.client.wait(job, timeout=LIMIT)
        assert ended.phase == "stopped", ended.reason
        audit = audit_job(self.client, job)
        assert audit.ok, audit.faults
        return ended


@cache
def ports() -> dict[str, str]:
    """Free ones, and the same all the time: Docker would take other ones each time that a container starts."""
    with socket.create_server(("127.0.0.1", 0)) as rest, socket.create_server(("127.0.0.1", 0)) as link:
        found = [str(each.getsockname()[1]) for each in (rest, link)]
    return dict(zip(("REGROUP_PORT", "REGROUP_LINK_PORT"), found, strict=True))


def compose(project: str, *words: str, check: bool = True) -> str:
    return run("docker", "compose", "--project-name", project, *words, check=check, COMPOSE_PROFILES="cpu", **ports())


@pytest.fixture(scope="session")
def project() -> Iterator[str]:
    """The name of a project whose images are built and whose containers run."""
    if why := no_engine():
        pytest.skip(why)
    name = f"regroup-test-{secrets.token_hex(3)}"
    compose(name, "build")
    try:
        compose(name, "up", "--detach", "--wait")
        yield name
    finally:
        compose(name, "down", "--volumes", "--timeout", "40", check=False)


@pytest.fixture
def cluster(project: str) -> Iterator[Composed]:
    """Both workers are free, and its jobs end with the test."""
    address = compose(project, "port", "coordinator", "8787")
    token = compose(project, "exec", "-T", "coordinator", "cat", "/data/token")
    with Client(f"http://{address}", token) as client:
        one = Composed(project, client, token)
        one.until(lambda: client.cluster().idle == 2, "both workers are free")
        yield one
        one.until(one.serves, "it serves again")
        for job in client.jobs():
            if not job.ended:
                client.stop(job.id)
        one.until(lambda: all(job.ended for job in client.jobs()), "its jobs have ended")
