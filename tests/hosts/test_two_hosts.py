"""Two hosts with two workers each, and two networks between them: one for orders, one for what trainers exchange."""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from regroup.lab.audit.lines import Applied, parse

pytestmark = pytest.mark.cluster

ALL = ("a0", "a1", "b0", "b1")
# Short, so that a test takes seconds; a user's are longer.
SETTINGS = {"halt_limit": "2", "form_limit": "5", "detached_limit": "30", "detached_margin": "1"}
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
    cluster.trains(id, *ALL)
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
    assert "each exactly once" in found.summary


def test_a_host_that_is_cut_off_is_done_without_and_comes_back(cluster: Any, job: str) -> None:
    lan, b = cluster.lan, cluster.lan.hosts["b"]
    began = time.time()
    lan.pull(b)
    cluster.trains(job, "a0", "a1", more=1)
    went_on = time.time()
    lan.plug(b)
    back = time.time()
    cluster.trains(job, *ALL, more=1)
    whole = time.time()
    cluster.trains(job, *ALL, more=10)
    cluster.stop(job)
    found = cluster.audit(job)
    assert found.ok, found.faults
    assert not [each for each in cluster.events("rolled_back", "refused", "quarantined") if each.at > began]
    tell("all networks", noticed(cluster, began), went_on - began, whole - back)


def test_a_host_that_the_coordinator_does_not_reach_trains_on(cluster: Any, job: str) -> None:
    lan, b = cluster.lan, cluster.lan.hosts["b"]
    generation, began = cluster.job(job).generation, time.time()
    lan.pull(b, "control")
    cluster.until(lambda: cluster.ask(lambda client: client.cluster().healthy) == 2, "two workers are not heard")
    steps = applied(b, job)
    cluster.until(lambda: applied(b, job) >= steps + 60, "its trainers go on for longer than step_timeout")
    lan.plug(b, "control")
    back = time.time()
    cluster.until(lambda: cluster.ask(lambda client: client.cluster().healthy) == 4, "its agents are heard again")
    tell("control", None, 0.0, time.time() - back)
    cluster.trains(job, *ALL, more=1)
    assert cluster.job(job).generation == generation
    assert not [each for each in cluster.events("halt") if each.at > began]
    cluster.stop(job)
    found = cluster.audit(job)
    assert found.ok, found.faults


def test_a_host_that_no_data_reaches_is_done_without_and_taken_in_again_once_some_does(cluster: Any, job: str) -> None:
    """Each of its workers is heard by the coordinator, and says whom it cannot reach; nobody else is blamed. It is the
    host of which nobody leads."""
    lan, b = cluster.lan, cluster.lan.hosts["b"]
    began = time.time()
    lan.pull(b, "data")
    leads = cluster.until(lambda: alone(cluster.job(job)), "the workers of one host train")
    cluster.trains(job, f"{leads}0", f"{leads}1", more=1)
    went_on = time.time()
    lan.plug(b, "data")
    back = time.time()
    cluster.trains(job, *ALL, more=1)
    whole = time.time()
    evicted = [each for each in cluster.events("evicted") if each.at > began]
    assert {each.worker for each in evicted} == {one for one in ALL if not one.startswith(leads)}
    reason = rf" is evicted: it cannot reach {leads}[01], as others can$"
    assert all(re.search(reason, each.reason) for each in evicted)
    assert cluster.job(job).refused == {}
    assert [each.errors for each in cluster.ask(lambda client: client.workers())] == [0, 0, 0, 0]
    cluster.stop(job)
    found = cluster.audit(job)
    assert found.ok, found.faults
    tell("data", noticed(cluster, began), went_on - began, whole - back)


def alone(job: Any) -> str | None:
    """The host all of whose workers train, and nobody else."""
    names = {each.worker for each in job.members}
    return next((host for host in "ab" if job.phase == "running" and names == {f"{host}0", f"{host}1"}), None)


def noticed(cluster: Any, began: float) -> float:
    return float(next(each.at for each in cluster.events("halt") if each.at > began) - began)


def applied(host: Any, job: str) -> int:
    """The steps that the workers of a host wrote down as done."""
    lines = [
        parse(line)
        for file in (host.data_dir / "records" / job).glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    return max(line.step for line in lines if isinstance(line, Applied))


def tell(cut: str, noticed: float | None, went_on: float, whole: float) -> None:
    """The figures of docs/hosts.md, which `pytest -s` shows."""
    print(f"\n{cut}: noticed {noticed or 0:.1f} s, next step {went_on:.1f} s; plugged in again: all {whole:.1f} s")
