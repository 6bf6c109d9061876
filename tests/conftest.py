"""Real servers for all tests that want one, Redis-compatible and S3: started once; each test has its own in there."""

import ctypes
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import hypothesis
import pytest

from regroup.coordinator import embedded

# How fast a machine is says nothing about what is tested.
hypothesis.settings.register_profile("regroup", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("regroup")

LONGEST_FIRST = (
    "simulation/test_search.py",
    "simulation/test_identity.py",
    "simulation",
    "properties",
    "slurm",
    "lab",
    "integration",
    "e2e",
    "hosts",
    "worker",
)


def pytest_configure() -> None:
    """A shell's background job ignores Ctrl-C, and so would every command that a test starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What computes for minutes begins first, and others wait for their clusters beside it. Short files fill the end:
    each is one process's."""
    tests = Path(__file__).parent
    rank = {place: number for number, place in enumerate(LONGEST_FIRST)}

    def turn(item: pytest.Item) -> int:
        path = item.path.relative_to(tests)
        return min(rank.get(str(path), len(rank)), rank.get(path.parts[0], len(rank)))

    items.sort(key=turn)


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that lives as long as the test session."""
    with embedded.start(tmp_path_factory.mktemp("store")) as server:
        yield server.url


def _bound_by_modes() -> None:
    """In a process that is about to begin: the modes of files bind it, also as root (PR_CAPBSET_DROP, Linux)."""
    for capability in (1, 2, 3):  # to write, to read and to own what is another's
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)


@pytest.fixture
def refusal() -> Callable[..., str]:
    """What a process says that must end at once, with one line: `refusal(data_dir, *command, **settings)`."""

    def run(data_dir: Path, *command: str, **settings: str) -> str:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("REGROUP_")}
        given = {f"REGROUP_{name}": value for name, value in settings.items()}
        done = subprocess.run(
            command,
            env={**clean, "REGROUP_DATA_DIR": str(data_dir), **given},
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=_bound_by_modes,
        )
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr.rstrip("\n")

    return run


@pytest.fixture(scope="session")
def mounted() -> Callable[..., list[str]]:
    """The beginning of a command that runs with this mounted: `mounted("-o", "ro", "--bind", folder, folder)`."""
    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "mount -t tmpfs none /mnt"]).returncode:
        pytest.skip("nothing may be mounted here")

    def begin(*mount: str) -> list[str]:
        return [*unshare, 'mount $0 && exec "$@"'.replace("$0", " ".join(mount)), "sh"]

    return begin


@pytest.fixture
def key_prefix() -> str:
    """What this test's keys begin with."""
    return f"test-{uuid4().hex}:"


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 API that lives as long as the test session."""
    from moto.server import ThreadedMotoServer  # seconds, for those who want it

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def s3_environ(s3_server: str) -> dict[str, str]:
    """What leads a process there, and not to whatever account its user may have."""
    return {
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_ACCESS_KEY_ID": "AKIA-of-the-tests",
        "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-tests",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


@pytest.fixture(scope="session")
def make_bucket(s3_server: str) -> Callable[[], str]:
    """Gives the URL of a new bucket."""

    def make() -> str:
        name = f"bucket-{uuid4().hex}"
        httpx.put(f"{s3_server}/{name}", timeout=60).raise_for_status()  # its first answer takes imports, too
        return f"s3://{name}"

    return make


@pytest.fixture
def bucket(
    s3_environ: dict[str, str], make_bucket: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The URL of an empty bucket; this process may use it."""
    for name, value in s3_environ.items():
        monkeypatch.setenv(name, value)
    yield make_bucket()
    for thread in threading.enumerate():  # a call that was given up tries again, and draws from `random` to do so
        if thread.name.startswith("storage "):
            thread.join(60)
            assert not thread.is_alive(), thread.name
