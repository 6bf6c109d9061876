"""Whole clusters as processes of this machine, asked over REST and by the command line, as their users do."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from regroup.client import Client
from regroup.lab.local import LocalCluster
from regroup.wire.rest import JobView

USER_CODE = Path(__file__).parent / "user_code"
BIN = Path(sys.executable).parent
LIMIT = 90.0  # seconds to wait for anything here; most take a fraction of one, where nothing else runs


def until(condition: Callable[[], Any], what: str, limit: float = LIMIT) -> Any:
    """What `condition` gives once it is true. Processes can only be asked again and again."""
    deadline = time.monotonic() + limit
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {limit:g} s in vain: {what}"
        time.sleep(0.02)
    return found


def users_environ(data_dir: Path, **more: str) -> dict[str, str]:
    """A user's environment: this one's, without what would lead to another cluster or colour a pipe."""
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith("REGROUP_") and name != "FORCE_COLOR"
    }
    return {**environ, "REGROUP_DATA_DIR": str(data_dir), "PYTHONPATH": str(USER_CODE), **more}


def processes_of(data_dir: Path) -> dict[int, str]:
    """The command lines of all processes that belong to this data directory, by pid."""
    mark = f"REGROUP_DATA_DIR={data_dir}\0".encode()
    found = {}
    for process in Path("/proc").iterdir():
        try:
            if not process.name.isdigit():
                continue
            # The store writes its title over its environment, but it works in its folder.
            ours = (
                mark in (process / "environ").read_bytes() + b"\0" or (process / "cwd").readlink() == data_dir / "redis"
            )
            if ours and (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            pass  # it ended meanwhile, or is somebody else's
    return found


class Cli:
    """`regroup`, as a process whose output goes into a pipe."""

    def __init__(self, data_dir: Path, **environ: str) -> None:
        self.command = [str(BIN / "regroup")]
        self.data_dir, self.environ = data_dir, users_environ(data_dir, **environ)

    def __call__(self, *arguments: str, input: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self.command, *arguments], env=self.environ, input=input, capture_output=True, text=True, timeout=LIMIT
        )

    @contextmanager
    def started(self, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
        """A command that goes on; killed at the end if it still does."""
        with subprocess.Popen(
            [*self.command, *arguments],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


@dataclass(frozen=True, slots=True)
class Served:
    """A cluster, and how its users reach it."""

    cluster: LocalCluster
    client: Client
    cli: Cli

    def submit(self, task: str, **fields: Any) -> JobView:
        return self.client.submit(task=task, **{"steps": 8, "global_batch": 8, **fields})

    def ended(self, job: JobView) -> JobView:
        return self.client.wait(job.id, timeout=LIMIT, interval=0.02)

    def after(self, job: JobView, step: int, workers: int = 1) -> JobView:
        """The job, once `step` steps are committed and it runs, on so many workers at least."""

        def there() -> JobView | None:
            found = self.client.job(job.id)
            assert not found.ended, found.reason
            runs = found.phase == "running" and len(found.members) >= workers
            return found if runs and found.step >= step else None

        found = until(there, f"job {job.id} runs on {workers} and commits {step} steps")
        assert isinstance(found, JobView)
        return found

    def all_serve(self) -> None:
        """Both workers train a sound job together, to its end."""
        job = self.ended(self.submit("faulty:Sound", steps=3, min_workers=2, max_workers=2))
        assert job.phase == "completed", job.reason

    def stop_all(self) -> None:
        for job in self.client.jobs():
            if not job.ended:
                self.client.stop(job.id)
        until(lambda: all(worker.doing == "idle" for worker in self.client.workers()), "all workers are free")


@contextmanager
def serve(data_dir: Path, workers: int, coordinators: int = 1, **settings: str) -> Iterator[Served]:
    """A supervised cluster whose workers have registered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(USER_CODE))
        cluster = LocalCluster(
            data_dir, workers, coordinators=coordinators, isolated=True, threads=1, settings=settings
        )
    with cluster, cluster.client() as client:
        until(lambda: client.cluster().healthy == workers, f"{workers} workers register")
        yield Served(cluster, client, Cli(data_dir))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two workers, for all tests of a module."""
    with serve(tmp_path_factory.mktemp("cluster"), workers=2) as served:
        yield served


# Test modules cannot import this one, so they get its functions as fixtures.


@pytest.fixture(name="until", scope="session")
def _until() -> Callable[..., Any]:
    return until


@pytest.fixture(name="serve", scope="session")
def _serve() -> Callable[..., Any]:
    return serve


@pytest.fixture(name="cli_for", scope="session")
def _cli_for() -> type[Cli]:
    return Cli


@pytest.fixture(name="processes_of", scope="session")
def _processes_of() -> Callable[[Path], dict[int, str]]:
    return processes_of
