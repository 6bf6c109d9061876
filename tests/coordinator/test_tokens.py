"""How a token is compared, and the endpoint, on a real file system."""

import stat

from regroup.coordinator.tokens import matches, remove_endpoint, write_endpoint
from regroup.wire.places import Endpoint, Places


def test_only_the_same_token_matches():
    assert matches("abc", "abc")
    assert not matches("abd", "abc")
    assert not matches("äbc", "abc")


def test_an_endpoint_is_replaced_whole_and_removed_only_by_its_own_process(tmp_path):
    path = Places(tmp_path).endpoint
    write_endpoint(path, Endpoint("http://127.0.0.1:1", 1))
    write_endpoint(path, Endpoint("http://127.0.0.1:2", 2))
    assert Endpoint.decode(path.read_text()) == Endpoint("http://127.0.0.1:2", 2)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    remove_endpoint(path, pid=1)
    assert path.exists()
    remove_endpoint(path, pid=2)
    remove_endpoint(path, pid=2)
    assert not list(tmp_path.iterdir())
