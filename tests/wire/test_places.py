"""Where the files of one machine lie."""

import stat
from pathlib import Path

import pytest

from regroup.wire.places import Endpoint, Places, default_data_dir, write_privately


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


def test_the_link_is_known_once_it_is_written(tmp_path):
    places = Places(tmp_path)
    assert places.link_address() is None
    places.link.write_text("")
    assert places.link_address() is None
    places.link.write_text("tcp://127.0.0.1:1\n")
    assert places.link_address() == "tcp://127.0.0.1:1"


def test_a_file_is_written_whole_for_its_owner_alone(tmp_path):
    path = tmp_path / "file"
    write_privately(path, b"first", replace=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        write_privately(path, b"second", replace=False)
    with path.open("rb") as reader:
        write_privately(path, b"third", replace=True)
        assert reader.read() == b"first"  # whoever reads it reads all of one or of the other
    assert path.read_bytes() == b"third"
    assert list(tmp_path.iterdir()) == [path]


def test_an_endpoint_survives_its_encoding():
    endpoint = Endpoint("http://127.0.0.1:8787", 42)
    assert Endpoint.decode(endpoint.encode()) == endpoint


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 1, "pid": 2}', '{"url": "x"}'])
def test_what_is_no_endpoint_is_refused(text):
    with pytest.raises(ValueError):
        Endpoint.decode(text)
