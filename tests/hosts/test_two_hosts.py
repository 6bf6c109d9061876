"""Two hosts with two workers each, and two networks between them: one for orders, one for what trainers exchange."""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.cluster

ALL = ("a0", "a1", "b0", "b1")
# Short, so that a test takes seconds; a user's are longer.
SETTINGS = {"halt_limit": "2", "form_limit": "6", "detached_limit": "30", "detached_margin": "1"}
STEP_TIMEOUT = 3.0


@pytest.fixture(scope="module")
def cluster(lan: Any, coordinate: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    a = lan.host("a", control="10.77.0.1/24", data="10.78.0.1/24")
    b = lan.host("b", control="10.77.0.2/24", data="10.78.0.2/24")
    shared = {"REGROUP_CHECKPOINTS": str(tmp_path_factory.mktemp("shared"))}
    with coordinate(lan, a, **SETTINGS) as cluster:
        # An interface, and an address: both are the data network's.
        cluster.join(a, {"a0": "eth1", "a1": "10.78.0.1"}, **shared)
        cluster.join(b, {"b0": "eth1", "b1": "10.78.0.2"}, **shared)
        cluster.registered(*ALL)
        yield cluster


@pytest.fixture
def job(cluster: Any) -> Iterator[str]:
    id = cluster.submit(step_timeout=STEP_TIMEOUT, min_workers=1)
    began = time.monotonic()
    cluster.trains(id, *ALL)
    print("trains", time.monotonic() - began)
    yield id
    if not cluster.job(id).ended:
        cluster.stop(id)


def connections(host: Any) -> set[tuple[str, str]]:
    """The ends of each connection that stands on a host between two hosts: this one's address, the other's."""
    told = host.run("ss", "-Htn", "state", "established")
    assert told.returncode == 0, told.stderr
    ends = [re.findall(r"(\S+):\d+", line) for line in told.stdout.splitlines()]
    return {(here, there) for here, there in ends if here != there}


def test_trainers_of_two_hosts_meet_on_the_data_network_and_agents_on_the_other(cluster: Any, job: str) -> None:
    a, b = cluster.lan.hosts["a"], cluster.lan.hosts["b"]
    assert connections(b) == {("10.78.0.2", "10.78.0.1"), ("10.77.0.2", "10.77.0.1")}
    assert connections(a) == {("10.78.0.1", "10.78.0.2"), ("10.77.0.1", "10.77.0.2")}
    hosts = {each.name: each.host for each in cluster.ask(lambda client: client.workers())}
    assert hosts == {"a0": "a", "a1": "a", "b0": "b", "b1": "b"}
    cluster.stop(job)
    found = cluster.audit(job)
    assert found.ok, found.faults
    print(found.summary)


def test_a_host_that_is_cut_off_is_done_without_and_comes_back(cluster: Any, job: str) -> None:
    lan, b = cluster.lan, cluster.lan.hosts["b"]
    began, wall = time.monotonic(), time.time()
    lan.pull(b)
    cluster.trains(job, "a0", "a1", more=1)
    print("next step", time.monotonic() - began)
    lan.plug(b)
    back, wall2 = time.monotonic(), time.time()
    cluster.trains(job, *ALL, more=1)
    print("back", time.monotonic() - back)
    cluster.stop(job)
    found = cluster.audit(job)
    print(found.summary)
    for each in cluster.events():
        print(f"{each.at - wall:.2f} {each.at - wall2:.2f} {each.kind}: {each.reason}")
    assert found.ok, found.faults
