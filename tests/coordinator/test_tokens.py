"""The token and the endpoint, on a real file system."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from regroup.coordinator.tokens import BadToken, api_token, load_or_make, matches, remove_endpoint, write_endpoint
from regroup.wire.places import Endpoint, Places


def test_a_token_is_made_once_for_its_owner_alone(tmp_path):
    path = tmp_path / "token"
    token = load_or_make(path)
    assert len(token) >= 40
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_or_make(path) == token
    assert os.listdir(tmp_path) == ["token"]


def test_processes_that_start_at_once_agree_on_one_token(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(lambda _: load_or_make(tmp_path / "token"), range(32)))
    assert len(tokens) == 1


@pytest.mark.parametrize("content", [b"", b"  \n", b"two words", b"\xff\xfe"])
def test_a_file_that_holds_no_token_is_refused_by_name(tmp_path, content):
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(BadToken, match=str(path)):
        load_or_make(path)


def test_a_given_token_is_taken_and_nothing_is_written(tmp_path):
    assert api_token(tmp_path / "token", " given ") == "given"
    assert not list(tmp_path.iterdir())
    with pytest.raises(BadToken, match="REGROUP_TOKEN"):
        api_token(tmp_path / "token", "")


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
