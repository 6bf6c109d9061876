"""Where the files of one machine lie."""

import stat
from pathlib import Path

import pytest

from regroup.wire.places import Endpoint, Places, default_data_dir


def test_the_data_directory_is_named_or_follows_xdg_or_lies_at_home():
    assert default_data_dir({"REGROUP_DATA_DIR": "/a", "XDG_DATA_HOME": "/b"}) == Path("/a")
    assert default_data_dir({"XDG_DATA_HOME": "/b"}) == Path("/b/regroup")
    assert default_data_dir({"XDG_DATA_HOME": "relative"}) == Path.home() / ".local/share/regroup"
    assert default_data_dir({}) == Path.home() / ".local/share/regroup"


def test_a_data_directory_is_made_for_its_owner_alone(tmp_path):
    places = Places(tmp_path / "deep" / "down")
    places.make()
    places.make()
    assert stat.S_IMODE(places.root.stat().st_mode) == 0o700


def test_a_data_directory_below_a_file_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        Places(tmp_path / "file" / "data").make()


def test_an_endpoint_survives_its_encoding():
    endpoint = Endpoint("http://127.0.0.1:8787", 42)
    assert Endpoint.decode(endpoint.encode()) == endpoint


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 1, "pid": 2}', '{"url": "x"}'])
def test_what_is_no_endpoint_is_refused(text):
    with pytest.raises(ValueError):
        Endpoint.decode(text)
