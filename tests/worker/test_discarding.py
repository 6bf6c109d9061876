"""Deleting files of checkpoints, and nothing else."""

import os
import time

import pytest

from regroup.core.jobs import ORIGIN, Version
from regroup.core.messages.agent_reports import Discarded
from regroup.core.messages.orders import Discard
from regroup.worker.discarding import discard

NAME = "checkpoint-g000001-s00000004-0123abcd.safetensors"


def order(*paths, below=ORIGIN, keep=()):
    return Discard("j", paths, below, keep)


@pytest.fixture
def place(tmp_path):
    """Where checkpoints are kept, with one of job j."""
    folder = tmp_path / "kept" / "j"
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(b"x")
    return tmp_path / "kept"


def test_a_checkpoint_that_is_not_kept_goes_away_and_once_more_does_no_harm(place, tmp_path):
    path = str(place / "j" / NAME)
    for _ in range(2):
        assert discard(str(place), tmp_path, order(path)) == Discarded(job="j", paths=(path,))
        assert list((place / "j").iterdir()) == []


@pytest.mark.parametrize(
    "path",
    [
        "{place}/j/other.safetensors",
        "{place}/k/" + NAME,  # another job's
        "{place}/j/../k/" + NAME,
        "{place}/j/.." + NAME,
        "/etc/passwd",
        NAME,
        "s3://bucket/j/" + NAME,
        "",
    ],
)
def test_whatever_is_no_checkpoint_of_the_job_in_this_place_stays(place, tmp_path, path):
    path = path.format(place=place)
    (place / "k").mkdir()
    for kept in (place / "k" / NAME, place / "j" / "other.safetensors"):
        kept.write_bytes(b"x")
    told = discard(str(place), tmp_path, order(path))
    assert told.error == f"{path} is no checkpoint of this job in {place}"
    assert (place / "k" / NAME).exists()
    assert (place / "j" / "other.safetensors").exists()


def test_a_file_that_cannot_be_deleted_is_told_and_the_others_go(place, tmp_path):
    other = NAME.replace("s00000004", "s00000008")
    (place / "j" / other).mkdir()  # what cannot be unlinked
    paths = (str(place / "j" / other), str(place / "j" / NAME))
    told = discard(str(place), tmp_path, order(*paths))
    assert told.error.startswith(f"{paths[0]} cannot be deleted (Is a directory)")
    assert not (place / "j" / NAME).exists()


def test_what_a_killed_writer_told_nobody_of_goes_once_a_newer_state_counts(place, tmp_path):
    names = [f"checkpoint-g{g:06}-s{s:08}-0123abcd.safetensors" for g, s in ((1, 8), (2, 8), (2, 12), (3, 1))]
    for name in (*names, "notes.txt"):
        (place / "j" / name).write_bytes(b"x")
    kept = f"/elsewhere/j/{NAME}"  # the same folder, as another machine knows it
    told = discard(str(place), tmp_path, order(below=Version(2, 12), keep=(kept,)))
    assert told == Discarded(job="j", paths=())
    assert {each.name for each in (place / "j").iterdir()} == {NAME, *names[2:], "notes.txt"}


def test_half_a_file_goes_when_nobody_wrote_to_it_for_an_hour(place, tmp_path):
    fresh, dead = place / "j" / f".{'a' * 16}", place / "j" / f".{'b' * 16}"
    for half in (fresh, dead):
        half.write_bytes(b"x")
    os.utime(dead, times=(time.time() - 3700,) * 2)
    discard(str(place), tmp_path, order())
    assert fresh.exists()
    assert not dead.exists()


def test_half_a_file_is_not_dead_because_this_machines_clock_is_ahead(place, tmp_path, monkeypatch):
    fresh = place / "j" / f".{'a' * 16}"
    fresh.write_bytes(b"x")
    ahead = time.time() + 7200
    monkeypatch.setattr(time, "time", lambda: ahead)
    discard(str(place), tmp_path, order())
    assert fresh.exists()
    assert [each for each in (place / "j").iterdir() if each.name.startswith("tmp")] == []


def test_a_job_without_a_folder_here_has_nothing_to_delete(place, tmp_path):
    assert discard(str(place / "none"), tmp_path, order(below=Version(9, 9))).error is None
