"""Hosts on this machine, each with a network, a name and a home of its own; nothing of the machine's changes.

Owns: the hosts, two cables for each (`control` is its eth0, `data` its eth1), a switch for each network, and that all
of it goes with the processes that hold it: nothing has a name that could be left behind. Needs root.
Refuses to know: what runs on the hosts, and what is to happen there.
"""

import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from regroup.client import Client
from regroup.lab.audit import audit_job
from regroup.wire.places import Places
from regroup.wire.rest import EventView, JobView

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
LIMIT = 60.0  # seconds to wait for anything here; most take a few
NETWORKS = {"control": "eth0", "data": "eth1"}
HOLD = "mount --make-rprivate / && ip link set lo up && echo ready && exec sleep infinity"


def until(condition: Callable[[], Any], what: str, limit: float = LIMIT) -> Any:
    deadline = time.monotonic() + limit
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {limit:g} s in vain: {what}"
        time.sleep(0.02)
    return found


@dataclass(frozen=True, slots=True)
class Host:
    """A network, a name and a home of its own."""

    name: str
    home: Path
    holder: "subprocess.Popen[str]"
    addresses: dict[str, str]  # by network
    running: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    @property
    def data_dir(self) -> Path:
        return self.home / ".local" / "share" / "regroup"

    def enter(self, *command: str) -> list[str]:
        return ["nsenter", f"--target={self.holder.pid}", "--net", "--uts", "--mount", "--", *command]

    def environ(self, environ: dict[str, str]) -> dict[str, str]:
        """A user's who has just logged in there."""
        given = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "PYTHONPATH": str(ROOT / "tests/e2e/user_code"),
        }
        return {**given, **environ}

    def run(self, *command: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.enter(*command),
            env=self.environ(environ),
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )

    def start(self, *command: str, log: str, **environ: str) -> "subprocess.Popen[bytes]":
        """It leads a process group: what it starts goes with it, as where a machine loses its power."""
        with (self.home / f"{log}.log").open("ab") as file:
            process = subprocess.Popen(
                self.enter(*command),
                env=self.environ(environ),
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self.running.append(process)
        return process

    def said(self, log: str) -> str:
        return (self.home / f"{log}.log").read_text(errors="replace")

    def off(self) -> None:
        for process in self.running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.running.clear()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """What this thread opens meanwhile is this host's."""
        with open("/proc/thread-self/ns/net") as here, open(f"/proc/{self.holder.pid}/ns/net") as there:
            _set_namespace(there.fileno())
            try:
                yield
            finally:
                _set_namespace(here.fileno())


class Lan:
    """Hosts on two networks. A pulled cable closes no connection: both ends just hear nothing any more."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._switch = self._hold("switch")
        for network in NETWORKS:
            self._ip("link", "add", network, "type", "bridge", "mcast_snooping", "0")
            self._ip("link", "set", network, "up")
        self.hosts: dict[str, Host] = {}

    def host(self, name: str, **addresses: str) -> Host:
        """One more. It has an address in each network that is named, with its prefix: control="10.77.0.1/24"."""
        home = self._folder / name
        home.mkdir()
        bare = {network: address.partition("/")[0] for network, address in addresses.items()}
        host = self.hosts[name] = Host(name, home, self._hold(name), bare)
        self._stack.callback(host.off)
        for network, address in addresses.items():
            cable, card = f"{name}-{network}", NETWORKS[network]
            self._ip("link", "add", cable, "type", "veth", "peer", "name", card, "netns", str(host.holder.pid))
            self._ip("link", "set", cable, "master", network, "up")
            sound = ["nodad"] if ":" in address else []  # else it takes a second or two until it may be used
            _run(*host.enter("ip", "address", "add", address, "dev", card, *sound))
            _run(*host.enter("ip", "link", "set", card, "up"))
        _run(*host.enter("hostname", name))
        return host

    def pull(self, host: Host, *networks: str) -> None:
        for network in networks or host.addresses:
            self._ip("link", "set", f"{host.name}-{network}", "down")

    def plug(self, host: Host, *networks: str) -> None:
        for network in networks or host.addresses:
            self._ip("link", "set", f"{host.name}-{network}", "up")

    def _ip(self, *words: str) -> None:
        _run("nsenter", f"--target={self._switch.pid}", "--net", "--", "ip", *words)

    def _hold(self, name: str) -> "subprocess.Popen[str]":
        """A process that keeps namespaces of its own for as long as it lives."""
        words = ["unshare", "--net", "--uts", "--mount", "--", "sh", "-c", HOLD]
        holder = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._stack.callback(_end, holder)
        assert holder.stdout is not None
        assert holder.stderr is not None
        if not holder.stdout.readline():
            raise OSError(f"no host {name}: {holder.stderr.read().strip()}")
        return holder


@contextmanager
def lan(folder: Path) -> Iterator[Lan]:
    with ExitStack() as stack:
        yield Lan(folder, stack)


@cache
def not_allowed() -> str | None:
    """Why this machine gives us no hosts; None: it does."""
    if os.geteuid() != 0:
        return "hosts of their own need root, to make network namespaces"
    for tool in ("ip", "nsenter", "unshare", "ss"):
        if shutil.which(tool) is None:
            return f"hosts of their own need {tool} (packages iproute2 and util-linux)"
    return None


@dataclass(slots=True)
class Cluster:
    """The coordinator's host, and how it is asked there."""

    lan: Lan
    at: Host
    link: str
    client: Client

    def ask(self, question: Callable[[Client], Any]) -> Any:
        with self.at.inside():
            return question(self.client)

    def token(self) -> str:
        told = self.at.run("regroup", "join-token")
        assert told.returncode == 0, told.stderr
        return told.stdout.strip()

    def events(self, *kinds: str) -> list[EventView]:
        return [each for each in self.ask(lambda client: list(client.events())) if not kinds or each.kind in kinds]

    def job(self, id: str) -> JobView:
        job = self.ask(lambda client: client.job(id))
        assert isinstance(job, JobView)
        return job

    def until(self, condition: Callable[[], Any], what: str, limit: float = LIMIT) -> Any:
        try:
            return until(condition, what, limit)
        except AssertionError as error:
            told = "\n".join(f"{each.at:.2f} {each.kind}: {each.reason}" for each in self.events()[-25:])
            raise AssertionError(f"{error}\n{told}") from None

    def join(self, host: Host, workers: dict[str, str | None], **environ: str) -> None:
        """An agent for each worker, as its host's user starts it. The values say where other trainers connect to."""
        if host is not self.at:
            environ |= {"REGROUP_COORDINATOR": self.link, "REGROUP_JOIN": self.token()}
        for name, where in workers.items():
            data_host = {} if where is None else {"REGROUP_DATA_HOST": where}
            host.start("regroup-agent", log=name, REGROUP_WORKER=name, **data_host, **environ)

    def registered(self, *workers: str) -> None:
        """Wait until these are there."""

        def there() -> bool:
            known = {each.name for each in self.ask(lambda client: client.workers()) if each.healthy}
            return known == set(workers)

        self.until(there, f"{', '.join(workers)} register")

    def submit(self, **fields: Any) -> str:
        """A job at about 20 steps a second, that ends when it is told to."""
        asked = {"task": "faulty:Slow", "steps": 100_000, "global_batch": 8, "shards": 8, "max_workers": 4, **fields}
        return str(self.ask(lambda client: client.submit(**asked)).id)

    def trains(self, id: str, *workers: str, more: int = 10, limit: float = LIMIT) -> JobView:
        """The job, once exactly these have committed so many steps together."""
        began: dict[int, int] = {}

        def there() -> JobView | None:
            job = self.job(id)
            assert not job.ended, job.reason
            first = began.setdefault(job.generation, job.step)
            met = job.phase == "running" and {each.worker for each in job.members} == set(workers)
            return job if met and job.step >= first + more else None

        found = self.until(there, f"{', '.join(workers)} train {more} steps", limit)
        assert isinstance(found, JobView)
        return found

    def stop(self, id: str) -> None:
        self.ask(lambda client: client.stop(id))
        self.until(lambda: self.job(id).ended, f"job {id} is stopped")

    def audit(self, id: str) -> Any:
        """By the records that the hosts' workers send."""
        return self.ask(lambda client: audit_job(client, id))


@contextmanager
def coordinate(lan: Lan, at: Host, **settings: str) -> Iterator[Cluster]:
    """A coordinator on this host, reached by its control network. `settings` are its own, without the prefix."""
    address = at.addresses["control"]
    given = {f"REGROUP_{name.upper()}": value for name, value in settings.items()}
    process = at.start("regroup-coordinator", log="coordinator", REGROUP_LINK_HOST=address, **given)
    places = Places(at.data_dir)
    until(lambda: places.endpoint.exists() or process.poll() is not None, "the coordinator leads")
    assert process.poll() is None, at.said("coordinator")
    link = places.link_address()
    assert link is not None
    host = at.addresses["control"] if settings.get("host") == at.addresses["control"] else "127.0.0.1"
    url = f"http://[{host}]:8787" if ":" in host else f"http://{host}:8787"
    with Client(url, places.token.read_text().strip()) as client:
        yield Cluster(lan, at, link, client)


def _set_namespace(descriptor: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{shlex.join(words)}: {done.stderr.strip()}")


def _end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


# Test modules cannot import this one, so they get what they need as fixtures.


@pytest.fixture(scope="module", name="lan")
def _lan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lan]:
    if (why := not_allowed()) is not None:
        pytest.skip(why)
    with ExitStack() as stack:
        try:
            made = stack.enter_context(lan(tmp_path_factory.mktemp("hosts")))
        except OSError as error:
            pytest.skip(f"this machine makes no hosts of their own: {error}")
        yield made


@pytest.fixture(scope="session", name="coordinate")
def _coordinate() -> Callable[..., Any]:
    return coordinate


@pytest.fixture(scope="session", name="until")
def _until() -> Callable[..., Any]:
    return until
