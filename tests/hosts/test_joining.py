"""Who is let in from another host, with the join token and with nothing else; and what it says where it is not."""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from regroup.core.messages.agent_reports import AgentRegistered
from regroup.wire.codec import encode
from regroup.wire.join import join_token
from regroup.wire.keys import server_public, worker_keys
from regroup.wire.link import new_secret, public_of

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(lan: Any, coordinate: Any) -> Iterator[Any]:
    first = lan.host("one", control="10.77.0.1/24", data="10.78.0.1/24")
    lan.host("two", control="10.77.0.2/24", data="10.78.0.2/24")
    with coordinate(lan, first, host="10.77.0.1") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def two(cluster: Any) -> Any:
    """The host that is to join."""
    return cluster.lan.hosts["two"]


@pytest.fixture(scope="module")
def token(cluster: Any) -> str:
    return str(cluster.token())


def in_vain(cluster: Any, host: Any, until: Any, what: str, **environ: str) -> str:
    """What an agent says that goes on trying; it is killed once it said so."""
    log = f"agent-{time.monotonic_ns()}"
    agent = host.start("regroup-agent", log=log, **environ)
    try:
        until(lambda: what in host.said(log) or agent.poll() is not None, f"it says: {what}", 20.0)
        assert agent.poll() is None, host.said(log)
        assert [each.name for each in cluster.ask(lambda client: client.workers())] == []
    finally:
        agent.kill()
        agent.wait()
    return str(host.said(log))


def test_without_the_token_an_agent_ends_and_says_how_to_get_one(cluster: Any, two: Any) -> None:
    told = two.run("regroup-agent", REGROUP_COORDINATOR=cluster.link)
    missing = two.data_dir / "keys" / "server.public"
    advice = "start the coordinator first, or set REGROUP_JOIN to its join token"
    assert (told.returncode, told.stderr) == (1, f"regroup-agent: {missing} does not exist: {advice}\n")


def test_with_half_a_token_likewise(cluster: Any, two: Any, token: str) -> None:
    told = two.run("regroup-agent", REGROUP_COORDINATOR=cluster.link, REGROUP_JOIN=token[:-7])
    advice = "copy it whole from `regroup join-token`, on the coordinator's machine"
    assert (told.returncode, told.stderr) == (1, f"regroup-agent: REGROUP_JOIN: is no join token: {advice}\n")


def test_with_a_token_that_the_coordinator_does_not_know_it_ends_and_says_what_to_do(cluster: Any, two: Any) -> None:
    wrong = join_token(server_public(cluster.at.data_dir / "keys"), new_secret())
    told = two.run("regroup-agent", REGROUP_COORDINATOR=cluster.link, REGROUP_JOIN=wrong)
    assert told.returncode == 1
    assert f"{cluster.link} does not know our key" in told.stderr
    assert "regroup join-token" in told.stderr.splitlines()[-1]
    assert wrong not in told.stderr
    assert cluster.ask(lambda client: list(client.workers())) == []


def test_with_a_token_of_another_coordinator_it_is_not_let_in_says_so_and_goes_on_trying(
    cluster: Any, two: Any, until: Any
) -> None:
    wrong = {"REGROUP_COORDINATOR": cluster.link, "REGROUP_JOIN": join_token(public_of(new_secret()), new_secret())}
    said = in_vain(cluster, two, until, f"{cluster.link} has another key than the coordinator's, or went away", **wrong)
    assert wrong["REGROUP_JOIN"] not in said


@pytest.mark.parametrize("address", ["tcp://10.77.0.1:8789", "tcp://10.77.0.9:8788"])
def test_where_nobody_answers_an_agent_says_that_it_goes_on_trying(
    address: str, cluster: Any, two: Any, token: str, until: Any
) -> None:
    said = in_vain(cluster, two, until, "nobody answers at", REGROUP_COORDINATOR=address, REGROUP_JOIN=token)
    assert said.count(f"nobody answers at {address} yet; trying again") == 1


def test_an_ipv6_address_without_brackets_is_told(two: Any, token: str) -> None:
    told = two.run("regroup-agent", REGROUP_COORDINATOR="tcp://fd77::1:8788", REGROUP_JOIN=token)
    advice = "must be tcp://host:port, IPv6 as tcp://[fd00::1]:8788; of several, with commas between"
    assert (told.returncode, told.stderr) == (1, f"regroup-agent: REGROUP_COORDINATOR: {advice}\n")


KNOWN = "lo: 127.0.0.1, ::1; eth0: 10.77.0.2; eth1: 10.78.0.2"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("eth9", r"eth9 is no address of this machine \(.+\): give an address or an interface of"),
        ("10.77.0.1", r"10.77.0.1 is no address of this machine \(Cannot assign requested address\): give .+ of"),
        ("eth2", r"the interface eth2 is down; there are:"),
        ("eth3", r"the interface eth3 has no address now; there are:"),
    ],
)
def test_a_data_host_that_is_none_is_told_in_one_line(
    given: str, told: str, cluster: Any, two: Any, token: str
) -> None:
    if given == "eth2":
        two.run("ip", "link", "add", "eth2", "type", "veth", "peer", "name", "eth3")
    if given == "eth3":
        two.run("ip", "link", "set", "eth2", "up")
        two.run("ip", "link", "set", "eth3", "addrgenmode", "none", "up")
    done = two.run("regroup-agent", REGROUP_COORDINATOR=cluster.link, REGROUP_JOIN=token, REGROUP_DATA_HOST=given)
    assert done.returncode == 1
    assert re.fullmatch(rf"regroup-agent: {told} {KNOWN}\n", done.stderr), done.stderr


def test_an_unknown_key_gets_nothing_and_the_same_words_with_a_known_one_are_answered(
    cluster: Any, two: Any, until: Any
) -> None:
    server, worker = server_public(cluster.at.data_dir / "keys"), worker_keys(cluster.at.data_dir / "keys")
    words = encode(AgentRegistered(boot="b", device="cpu", host="two", pid=1, version="0"))

    def answers(secret: bytes, seconds: float) -> bool:
        with two.inside(), zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
            dealer.linger, dealer.routing_id = 0, b"stranger"
            dealer.curve_serverkey, dealer.curve_publickey, dealer.curve_secretkey = server, public_of(secret), secret
            dealer.connect(cluster.link)
            dealer.send(words)
            return bool(dealer.poll(int(seconds * 1000)))

    assert not answers(new_secret(), 1.0)
    assert cluster.ask(lambda client: list(client.workers())) == []
    assert "(unknown_key, number" in cluster.at.said("coordinator")
    assert answers(worker.secret, 20.0)
