"""The file of figures: there is none, the one of before, or all that was found."""

import json
from pathlib import Path

import pytest
import typer

from regroup.lab.result_file import result_file, text_file


def test_figures_are_written_and_replace_those_of_before(tmp_path):
    path = tmp_path / "figures.json"
    for figures in ({"lives": 1}, {"lives": 2}):
        with result_file(path) as save:
            save(figures)
        assert json.loads(path.read_text()) == figures
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("wrong", [KeyboardInterrupt, SystemExit, ValueError])
def test_what_ends_before_anything_is_found_leaves_the_file_of_before(tmp_path, wrong):
    path = tmp_path / "figures.json"
    path.write_text("mine")
    with pytest.raises(wrong), result_file(path):
        raise wrong
    assert [*tmp_path.iterdir()] == [path]
    assert path.read_text() == "mine"


def test_a_link_goes_on_leading_to_the_file(tmp_path):
    path, link = tmp_path / "figures.html", tmp_path / "latest.html"
    path.write_text("before")
    link.symlink_to(path)
    with text_file(link) as write:
        write("now")
    assert path.read_text() == "now"
    assert link.is_symlink()


def test_what_is_no_plain_file_is_written_as_it_is():
    with text_file(Path("/dev/null")) as write:
        write("now")
    assert not Path("/dev/null").is_file()


def test_a_full_disk_is_named_with_the_file(capsys):
    with pytest.raises(typer.Exit) as ended, text_file(Path("/dev/full")) as write:
        write("now")
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == "regroup: cannot write /dev/full: No space left on device\n"


@pytest.mark.parametrize(("place", "why"), [(".", "Is a directory"), ("nowhere/x", "No such file or directory")])
def test_a_file_that_cannot_be_written_is_said_before_the_work(tmp_path, capsys, place, why):
    with pytest.raises(typer.Exit) as ended, result_file(tmp_path / place):
        raise AssertionError("it is begun")
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == f"regroup: cannot write {tmp_path / place}: {why}\n"
