"""Deleting files of checkpoints, and nothing else."""

import pytest

from regroup.core.messages.agent_reports import Discarded
from regroup.core.messages.orders import Discard
from regroup.worker.discarding import discard

NAME = "checkpoint-g000001-s00000004-0123abcd.safetensors"


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
        assert discard(str(place), tmp_path, Discard("j", (path,))) == Discarded(job="j", paths=(path,))
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
    told = discard(str(place), tmp_path, Discard("j", (path,)))
    assert told.error == f"{path} is no checkpoint of this job in {place}"
    assert (place / "k" / NAME).exists()
    assert (place / "j" / "other.safetensors").exists()


def test_a_file_that_cannot_be_deleted_is_told_and_the_others_go(place, tmp_path):
    other = NAME.replace("s00000004", "s00000008")
    (place / "j" / other).mkdir()  # what cannot be unlinked
    paths = (str(place / "j" / other), str(place / "j" / NAME))
    told = discard(str(place), tmp_path, Discard("j", paths))
    assert told.error.startswith(f"{paths[0]} cannot be deleted (Is a directory)")
    assert not (place / "j" / NAME).exists()
