"""Two hosts with two workers each that have no IPv4 at all, on two networks; nobody says which the data is to take."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.cluster

ALL = ("a0", "a1", "b0", "b1")


@pytest.fixture(scope="module")
def cluster(lan: Any, coordinate: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    a = lan.host("a", control="fd77::1/64", data="fd78::1/64")
    b = lan.host("b", control="fd77::2/64", data="fd78::2/64")
    shared = {"REGROUP_CHECKPOINTS": str(tmp_path_factory.mktemp("shared"))}
    with coordinate(lan, a, host="fd77::1") as cluster:
        assert cluster.link == "tcp://[fd77::1]:8788"
        cluster.join(a, {"a0": None, "a1": None}, **shared)
        cluster.join(b, {"b0": None}, **shared)
        # A name that has no other address than one of IPv6.
        (b.home / "hosts").write_text("fd77::1 head\n")
        assert b.run("mount", "--bind", str(b.home / "hosts"), "/etc/hosts").returncode == 0
        cluster.link = "tcp://head:8788"
        cluster.join(b, {"b1": None}, **shared)
        cluster.registered(*ALL)
        yield cluster


def test_a_cluster_without_ipv4_trains_over_two_hosts(cluster: Any) -> None:
    a, b = cluster.lan.hosts["a"], cluster.lan.hosts["b"]
    id = cluster.submit(min_workers=4)
    cluster.trains(id, *ALL)
    told = b.run("ss", "-Htn", "state", "established").stdout
    ends = [re.findall(r"\[(\S+)\]:\d+", line) for line in told.splitlines()]
    assert {(here, there) for here, there in ends if here != there} == {("fd77::2", "fd77::1")}, (
        "auto: as to the coordinator"
    )
    # The second host's user, who has the token of REST, asks from there.
    asked = {"REGROUP_URL": "http://[fd77::1]:8787", "REGROUP_TOKEN": (a.data_dir / "token").read_text().strip()}
    cluster.stop(id)
    audit = b.run("regroup", "audit", id, **asked)
    assert audit.returncode == 0, audit.stdout + audit.stderr
    assert "each exactly once" in audit.stdout
