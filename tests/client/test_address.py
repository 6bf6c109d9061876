"""Where the coordinator and its token are looked for."""

import re

import pytest

from regroup.client.address import Address, find
from regroup.client.errors import BadAddress, NotRunning
from regroup.wire.places import Endpoint, Places


@pytest.fixture
def environ(tmp_path):
    """The environment of a machine on which a coordinator runs."""
    places = Places(tmp_path)
    places.token.write_text("local\n")
    places.endpoint.write_text(Endpoint("http://127.0.0.1:1234", 1).encode())
    return {"REGROUP_DATA_DIR": str(tmp_path)}


def test_this_machines_coordinator_is_found_with_its_token(environ):
    assert find(environ) == Address(("http://127.0.0.1:1234",), "local")


def test_an_argument_beats_the_environment_and_that_beats_the_files(environ):
    environ |= {"REGROUP_URL": "http://127.0.0.1:2", "REGROUP_TOKEN": "env"}
    assert find(environ) == Address(("http://127.0.0.1:2",), "env")
    assert find(environ, url="http://localhost:3/", token="mine") == Address(("http://localhost:3",), "mine")


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:33223x", "http://127.0.0.1:99999", "http://127.0.0.1:0", "http://local host:1", "http://[::1"],
)
def test_a_mistyped_host_or_port_is_told_before_anything_is_asked(environ, url):
    with pytest.raises(BadAddress, match=f"{re.escape(url)} is no URL of a coordinator; it looks like"):
        find(environ, url=url)


def test_this_machines_token_is_sent_to_no_other_machine(environ):
    assert find(environ, url="http://10.0.0.1:8787").token is None
    assert find(environ, url="http://127.0.0.1.evil.example:8787").token is None
    assert find(environ, url="http://[::1]:8787").token == "local"


@pytest.mark.parametrize("token", ["two words", "ümlaut", " "])
def test_a_token_that_no_coordinator_has_is_refused_and_not_repeated(environ, token):
    with pytest.raises(
        BadAddress, match=r"^the token is not one word of ASCII characters: give the coordinator's"
    ) as refused:
        find(environ | {"REGROUP_TOKEN": token})
    assert "mlaut" not in str(refused.value)


def test_several_urls_are_kept_in_their_order(environ):
    assert find(environ, url="http://a:1, https://b:2/").urls == ("http://a:1", "https://b:2")


def test_this_machines_token_is_not_sent_where_one_of_several_is_another_machine(environ):
    assert find(environ, url="http://127.0.0.1:1,http://127.0.0.1:2").token == "local"
    assert find(environ, url="http://127.0.0.1:1,http://10.0.0.1:1").token is None


def test_a_token_file_is_used_for_whatever_it_was_named_for(environ, tmp_path):
    (tmp_path / "given").write_text("given\n")
    assert find(environ, url="http://10.0.0.1:1", token_file=tmp_path / "given").token == "given"
    with pytest.raises(BadAddress, match=r"^cannot read the token from \S*/none: No such file or directory$"):
        find(environ, token_file=tmp_path / "none")


@pytest.mark.parametrize(
    "url",
    ["localhost:8787", "ftp://x", "http://", "nonsense", "http://x/v1", "http://x?a", "http://x,", "http://x,y"],
)
def test_what_is_no_url_is_refused(environ, url):
    with pytest.raises(BadAddress, match="no URL"):
        find(environ, url=url)


@pytest.mark.parametrize(
    "url", ["http://me:hunter2@10.0.0.1:8787", "http://hunter2@x", "http://a,http://me:hunter2@b/x"]
)
def test_a_url_with_a_password_is_refused_and_not_repeated(environ, url):
    with pytest.raises(BadAddress, match="must hold no user and password") as error:
        find(environ, url=url)
    assert "hunter2" not in str(error.value)


def test_a_machine_without_a_coordinator_says_how_to_start_one(tmp_path):
    with pytest.raises(NotRunning, match="regroup up"):
        find({"REGROUP_DATA_DIR": str(tmp_path)})


def test_an_unreadable_endpoint_is_told_with_its_path(environ, tmp_path):
    Places(tmp_path).endpoint.write_text("{")
    with pytest.raises(NotRunning, match=str(tmp_path)):
        find(environ)
