"""What the pods mount is all that their processes need: started with it, in folders of this machine, they train.

Not tested here: users, limits, probes, and the network between pods; a container would have its own.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress

import pytest
import yaml

from regroup.client import Client
from regroup.client.errors import RegroupError
from regroup.coordinator.embedded import find_server
from regroup.wire.places import Endpoint, Places
from regroup.wire.provision import provision

from .conftest import K8S, written

LIMIT = 60.0  # seconds to wait for anything here; most take a fraction
MODULES = {"coordinator": "regroup.coordinator", "worker": "regroup.worker"}


class Pod:
    """A container of the base, as a process: its mounts are folders below one, and its paths lead there."""

    def __init__(self, name, root, secrets, elsewhere):
        (self.pod, self.container) = next(
            (pod, container)
            for document in written()
            if "template" in document.get("spec", {})
            for pod in [document["spec"]["template"]["spec"]]
            for container in pod["containers"]
            if container["name"] == name
        )
        self.root, self.elsewhere = root / name, elsewhere
        volumes = {volume["name"]: volume for volume in self.pod["volumes"]}
        for mount in sorted(self.container["volumeMounts"], key=lambda mount: mount["mountPath"]):
            folder = self.root / mount["mountPath"].lstrip("/")
            folder.mkdir(parents=True, exist_ok=True)
            if "secret" in volumes.get(mount["name"], {}):
                for key, file in secrets[volumes[mount["name"]]["secret"]["secretName"]].items():
                    (folder / f"..{key}").write_bytes(file.read_bytes())
                    (folder / key).symlink_to(f"..{key}")  # as Kubernetes mounts them
                folder.chmod(0o500)

    def here(self, word):
        """A word of the pod, where its paths and hosts are others."""
        for there, instead in self.elsewhere.items():
            word = word.replace(there, instead)
        return str(self.root / word.lstrip("/")) if word.startswith("/") else word

    def start(self, *command):
        fields = {"metadata.name": "regroup-worker-0", "status.podIP": "127.0.0.1"}
        told = {
            each["name"]: self.here(each["value"])
            if "value" in each
            else fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            for each in self.container.get("env", [])
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("REGROUP_")}
        ours = {"REGROUP_DATA_DIR": str(self.root / "data"), "REGROUP_PORT": "0", "REGROUP_LINK_PORT": "0"}
        return subprocess.Popen(command, env={**kept, **ours, **told}, stdout=sys.stderr)


def secrets_of(folder):
    """The files of each Secret, by key."""
    listed = yaml.safe_load((K8S / "secrets/kustomization.yaml").read_text())["secretGenerator"]
    parts = {each["name"]: [file.rpartition("=") for file in each["files"]] for each in listed}
    return {
        name: {key or path.rpartition("/")[2]: folder / path for key, _, path in files} for name, files in parts.items()
    }


def until(condition, what):
    deadline = time.monotonic() + LIMIT
    while True:
        with suppress(OSError, ValueError, RegroupError):
            if found := condition():
                return found
        assert time.monotonic() < deadline, f"waited {LIMIT:g} s in vain: {what}"
        time.sleep(0.05)


@pytest.fixture
def ending():
    with ExitStack() as stack:
        yield stack


@pytest.mark.cluster
def test_a_job_is_trained_by_what_the_pods_have(tmp_path, ending):
    provision(tmp_path / "secrets")
    secrets, elsewhere = secrets_of(tmp_path / "secrets"), {}

    def pod(name):
        return Pod(name, tmp_path, secrets, elsewhere)

    def start(one, *command):
        process = one.start(*command)
        ending.callback(process.wait)
        ending.callback(process.kill)
        return process

    redis = pod("redis")
    socket = tmp_path / "s"
    server, *arguments = redis.container["command"]
    assert server == "redis-server"
    start(redis, str(find_server()), *map(redis.here, arguments), "--port", "0", "--unixsocket", str(socket))
    until(socket.exists, "Redis listens")

    elsewhere["redis://regroup-redis:6379/0"] = f"unix://{socket}"
    coordinator = pod("coordinator")
    start(coordinator, sys.executable, "-m", MODULES["coordinator"])
    places = Places(coordinator.root / "data")
    elsewhere["tcp://regroup-coordinator:8788"] = until(places.link_address, "the coordinator leads")
    url = until(lambda: Endpoint.decode(places.endpoint.read_text()).url, "REST is served")

    worker = pod("worker")
    agent = start(worker, sys.executable, "-m", MODULES["worker"])
    with Client(url, token_file=tmp_path / "secrets/coordinator/token") as client:
        until(lambda: [each.name for each in client.workers()] == ["regroup-worker-0"], "the worker is let in")
        job = client.submit(task="digits", steps=5)
        assert client.wait(job.id, timeout=LIMIT).phase == "completed"
    assert list((worker.root / "shared/checkpoints" / job.id).glob("*.safetensors"))
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(LIMIT) == 0
