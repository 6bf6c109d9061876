"""A network of this machine's own: each worker behind a cable that can be pulled, by Linux's network namespaces.

Owns: the namespaces, a bridge that joins them with the coordinator, and their removal. Needs root.
Refuses to know: what runs in them. A pulled cable closes no connection: both ends just hear nothing any more.
"""

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

_LISTEN = """
import socket, sys
server = socket.create_server((sys.argv[1], 0))
print(server.getsockname()[1], flush=True)
server.accept()
"""
_CALL = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3)"


class Network:
    def __init__(self, workers: Sequence[str]) -> None:
        self._mark = f"rg{secrets.token_hex(3)}"  # names of interfaces have 15 characters at most
        self._subnet = f"10.213.{secrets.randbelow(250)}"
        self._workers = list(workers)

    @property
    def address(self) -> str:
        """Of the coordinator."""
        return f"{self._subnet}.1"

    def launch(self, worker: str) -> tuple[list[str], Mapping[str, str]]:
        """What starts an agent behind the worker's cable, and where it is reached there."""
        enter = [shutil.which("nsenter") or "nsenter", f"--net=/run/netns/{self._space(worker)}"]
        return enter, {"REGROUP_DATA_HOST": self._address(worker)}

    def hears(self, worker: str, other: str) -> bool:
        """Whether a connection from the other one to this worker comes about."""
        there, here = self.launch(worker)[0], self.launch(other)[0]
        address = self._address(worker)
        command = [*there, sys.executable, "-I", "-c", _LISTEN, address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listening:
            try:
                port = listening.stdout.readline().strip() if listening.stdout is not None else ""
                call = [*here, sys.executable, "-I", "-c", _CALL, address, port]
                return subprocess.run(call, capture_output=True).returncode == 0
            finally:
                listening.kill()

    def pull(self, worker: str) -> None:
        _ip("link", "set", self._cable(worker), "down")

    def plug(self, worker: str) -> None:
        _ip("link", "set", self._cable(worker), "up")

    def lay(self) -> None:
        """Raises OSError, CalledProcessError."""
        _ip("link", "add", self._mark, "type", "bridge")
        _ip("address", "add", f"{self.address}/24", "dev", self._mark)
        _ip("link", "set", self._mark, "up")
        for worker in self._workers:
            space, cable = self._space(worker), self._cable(worker)
            _ip("netns", "add", space)
            _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", cable, "master", self._mark)
            _ip("-n", space, "address", "add", f"{self._address(worker)}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "link", "set", "lo", "up")
            self.plug(worker)

    def remove(self) -> None:
        for worker in self._workers:
            _ip("netns", "delete", self._space(worker), check=False)
        _ip("link", "delete", self._mark, check=False)

    def _space(self, worker: str) -> str:
        return f"{self._mark}-{worker}"

    def _cable(self, worker: str) -> str:
        return f"{self._mark}{worker}"

    def _address(self, worker: str) -> str:
        return f"{self._subnet}.{10 + self._workers.index(worker)}"


@contextmanager
def network(workers: Sequence[str]) -> Iterator[Network]:
    made = Network(workers)
    try:
        made.lay()
        yield made
    finally:
        made.remove()


def not_allowed() -> str | None:
    """Why this machine gives us no network of our own; None: it does, which was tried."""
    if os.geteuid() != 0:
        return "needs root, to make network namespaces"
    for tool in ("ip", "nsenter"):
        if shutil.which(tool) is None:
            return f"needs {tool}, to make network namespaces (packages iproute2 and util-linux)"
    try:
        with network(["w0", "w1"]) as made:
            if made.hears("w0", "w1"):
                return None
            return "lets nothing through between network namespaces (net.bridge.bridge-nf-call-iptables, a firewall)"
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        return f"makes no network namespaces here: {said.strip()}"


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True, text=True)
