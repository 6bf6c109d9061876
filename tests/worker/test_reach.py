import socket

import pytest

from regroup.worker.reach import Unreachable, address_of, address_towards, addresses


def test_towards_a_coordinator_on_this_machine_it_is_loopback():
    assert address_towards("tcp://127.0.0.1:8788") == "127.0.0.1"
    assert address_towards("tcp://localhost:8788") in ("127.0.0.1", "::1")


def test_a_coordinator_that_listens_everywhere_is_on_this_machine():
    assert address_towards("tcp://0.0.0.0:8788") == "127.0.0.1"


def test_the_family_is_the_coordinators():
    if not socket.has_ipv6 or "::1" not in addresses()["lo"]:
        pytest.skip("this machine has no IPv6")
    assert address_towards("tcp://[::1]:8788") == "::1"


def test_a_name_that_means_nothing_yet_is_an_error_to_wait_for():
    with pytest.raises(socket.gaierror):
        address_towards("tcp://coordinator.invalid:8788")


def test_an_address_of_this_machine_is_taken_as_it_is():
    assert address_of("127.0.0.1") == "127.0.0.1"
    assert address_of("localhost") == "localhost"


def test_an_interface_stands_for_its_first_address():
    assert address_of("lo") == "127.0.0.1"


@pytest.mark.parametrize("given", ["192.0.2.7", "eth99", "no such name"])
def test_what_is_no_address_of_this_machine_is_told_with_those_that_are(given):
    with pytest.raises(Unreachable, match=rf"^{given} is no address of this machine \(.+\): .*lo: 127\.0\.0\.1"):
        address_of(given)


@pytest.mark.parametrize("given", ["0.0.0.0", "::"])
def test_every_address_at_once_is_none_that_others_can_connect_to(given):
    with pytest.raises(Unreachable, match="nobody can connect to"):
        address_of(given)
