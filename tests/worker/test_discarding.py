"""Deleting files of checkpoints, and nothing else."""

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

from regroup.core.jobs import ORIGIN, Version
from regroup.core.messages.agent_reports import Discarded
from regroup.core.messages.orders import Discard
from regroup.worker.discarding import Discarding, Sweeper
from regroup.worker.storage import Storage

NAME = "checkpoint-g000001-s00000004-0123abcd.safetensors"


LIMIT = 10.0  # seconds


def order(*paths, below=ORIGIN, keep=()):
    return Discard("j", paths, below, keep)


@pytest.fixture
def place(tmp_path):
    """Where checkpoints are kept, with one of job j."""
    folder = tmp_path / "kept" / "j"
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(b"x")
    return tmp_path / "kept"


def discard(place, tmp_path, order):
    return Sweeper(Storage(str(place), tmp_path / "scratch")).discard(order)


def test_a_checkpoint_that_is_not_kept_goes_away_and_once_more_does_no_harm(place, tmp_path):
    path = str(place / "j" / NAME)
    for _ in range(2):
        assert discard(place, tmp_path, order(path)) == Discarded(job="j", paths=(path,))
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
    told = discard(place, tmp_path, order(path))
    assert told.error == f"{path} is no checkpoint of this job in {place}"
    assert (place / "k" / NAME).exists()
    assert (place / "j" / "other.safetensors").exists()


def test_a_file_that_cannot_be_deleted_is_told_and_the_others_go(place, tmp_path):
    other = NAME.replace("s00000004", "s00000008")
    (place / "j" / other).mkdir()  # what cannot be unlinked
    paths = (str(place / "j" / other), str(place / "j" / NAME))
    told = discard(place, tmp_path, order(*paths))
    assert told.error.startswith(f"{paths[0]} cannot be deleted (Is a directory)")
    assert not (place / "j" / NAME).exists()


def test_what_a_killed_writer_told_nobody_of_goes_once_a_newer_state_counts(place, tmp_path):
    names = [f"checkpoint-g{g:06}-s{s:08}-0123abcd.safetensors" for g, s in ((1, 8), (2, 8), (2, 12), (3, 1))]
    for name in (*names, "notes.txt"):
        (place / "j" / name).write_bytes(b"x")
    kept = f"/elsewhere/j/{NAME}"  # the same folder, as another machine knows it
    told = discard(place, tmp_path, order(below=Version(2, 12), keep=(kept,)))
    assert told == Discarded(job="j", paths=())
    assert {each.name for each in (place / "j").iterdir()} == {NAME, *names[2:], "notes.txt"}


def test_what_nobody_told_of_goes_wherever_it_lies_and_other_jobs_files_stay(kept):
    old, newer, counts = named(4, 6, 8)
    for job, name in (("j", old), ("j", newer), ("j", counts), ("jj", old), ("k", old)):
        Path(kept.place, job).mkdir(parents=True, exist_ok=True) if "://" not in kept.place else None
        kept.replace(f"{kept.place}/{job}/{name}", b"x")
    told = Sweeper(kept.storage).discard(order(f"{kept.place}/j/{named(1)[0]}", below=Version(1, 8)))
    assert told.error is None
    assert sorted(kept.names) == [f"j/{counts}", f"jj/{old}", f"k/{old}"]


@pytest.fixture
def asked(monkeypatch):
    """The files that a storage was to delete, time after time."""
    asked, delete = [], Storage.delete
    monkeypatch.setattr(Storage, "delete", lambda storage, paths: asked.extend(paths) or delete(storage, paths))
    return asked


def test_what_was_swept_is_not_deleted_again_when_it_is_told_of_after_all(place, tmp_path, asked):
    (old,) = (f"{place}/j/{name}" for name in named(4))
    Path(old).write_bytes(b"x")
    sweeper = Sweeper(Storage(str(place), tmp_path))
    assert sweeper.discard(order(below=Version(1, 8))).error is None
    assert asked == [old]
    assert sweeper.discard(order(old, below=Version(1, 8))) == Discarded(job="j", paths=(old,))
    assert asked == [old]
    Path(old).write_bytes(b"x")  # it was saved again meanwhile
    assert sweeper.discard(order(old, below=Version(1, 8))) == Discarded(job="j", paths=(old,))
    assert not Path(old).exists()


def test_an_order_that_was_on_its_way_when_its_files_were_told_gone_deletes_only_what_is_new(place, tmp_path, asked):
    first, second = (f"{place}/j/{name}" for name in named(5, 6))
    for path in (first, second):
        Path(path).write_bytes(b"x")
    sweeper = Sweeper(Storage(str(place), tmp_path))
    sweeper.discard(order(first))
    assert sweeper.discard(order(first, second)) == Discarded(job="j", paths=(first, second))
    assert asked == [first, second]


def test_a_file_that_could_not_be_deleted_is_tried_again_when_it_is_ordered_again(place, tmp_path, asked):
    stuck = place / "j" / named(7)[0]
    stuck.mkdir()  # what cannot be unlinked
    sweeper = Sweeper(Storage(str(place), tmp_path))
    assert sweeper.discard(order(str(stuck))).error is not None
    stuck.rmdir()
    assert sweeper.discard(order(str(stuck))) == Discarded(job="j", paths=(str(stuck),))
    assert asked == [str(stuck)] * 2


def test_half_a_file_goes_when_nobody_wrote_to_it_for_an_hour(place, tmp_path):
    fresh, dead = place / "j" / f".{'a' * 16}", place / "j" / f".{'b' * 16}"
    for half in (fresh, dead):
        half.write_bytes(b"x")
    os.utime(dead, times=(time.time() - 3700,) * 2)
    discard(place, tmp_path, order())
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
    assert discard(place / "none", tmp_path, order(below=Version(9, 9))).error is None


def named(*numbers):
    return [f"checkpoint-g000001-s{number:08}-0123abcd.safetensors" for number in numbers]


def test_of_what_nobody_named_one_that_cannot_be_deleted_is_told_once_and_the_others_go(place, tmp_path):
    """Whatever the order is in which the folder names them."""
    names = named(*range(5, 25))
    for name in names:
        (place / "j" / name).write_bytes(b"x")
    stuck = place / "j" / named(25)[0]
    stuck.mkdir()
    sweeper = Sweeper(Storage(str(place), tmp_path))
    told = sweeper.discard(order(str(place / "j" / NAME), below=Version(2, 0)))
    assert told.paths == (str(place / "j" / NAME),)
    assert told.error == f"{stuck} cannot be deleted (Is a directory): mend its permissions"
    assert list((place / "j").iterdir()) == [stuck]
    assert sweeper.discard(order(str(place / "j" / NAME), below=Version(2, 0))).error is None


def test_a_folder_that_does_not_answer_is_told_of_each_file_and_costs_one_thread(place, tmp_path, monkeypatch):
    goes_on = threading.Event()
    monkeypatch.setattr(Path, "unlink", lambda path, missing_ok=False: goes_on.wait(LIMIT))
    sweeper = Sweeper(Storage(str(place), tmp_path, patience=0.2))
    paths = [f"{place}/j/{name}" for name in named(1, 2, 3)]
    for path in paths:
        told = sweeper.discard(order(*paths[paths.index(path) :], below=Version(2, 0)))
        assert told.paths == (path,)
        assert told.error.startswith(f"{path} could not be deleted in 0.2 s: look whether its disk or server answers")
    assert len(left_behind(place)) == 1
    goes_on.set()
    for thread in left_behind(place):
        thread.join(LIMIT)


def test_a_folder_that_cannot_be_listed_in_time_is_told_too(place, tmp_path, monkeypatch):
    goes_on = threading.Event()
    monkeypatch.setattr(Path, "iterdir", lambda path: goes_on.wait(LIMIT))
    told = Sweeper(Storage(str(place), tmp_path, patience=0.2)).discard(order(f"{place}/j/{NAME}"))
    assert told.paths == (f"{place}/j/{NAME}",)
    assert told.error.startswith(f"{place}/j could not be read in 0.2 s")
    goes_on.set()
    for thread in left_behind(place):
        thread.join(LIMIT)


def left_behind(place):
    return [thread for thread in threading.enumerate() if thread.name.startswith(f"storage {place}")]


# --- One after another


class Disk:
    """Deletes one order after another, each once the test lets it go on, or what it can of it."""

    def __init__(self):
        self.asked, self.told = [], []
        self.turn, self.begun = threading.Semaphore(0), threading.Semaphore(0)
        self.most = None  # files at a time
        self.discarding = Discarding(self.discard, self.told.append)

    def discard(self, order):
        self.asked.append(order.paths)
        self.begun.release()
        assert self.turn.acquire(timeout=LIMIT)
        return Discarded(job=order.job, paths=order.paths[: self.most])

    async def begins(self):
        assert await asyncio.to_thread(self.begun.acquire, timeout=LIMIT)


async def test_of_the_orders_that_come_while_files_are_deleted_the_newest_is_carried_out_and_no_file_twice():
    disk = Disk()
    first = asyncio.create_task(disk.discarding.carry_out(order("a", below=Version(1, 1))))
    await disk.begins()
    for paths in (("a",), ("a", "b"), ("a", "b", "c"), ("b", "c", "d")):  # as every heartbeat says it again
        await disk.discarding.carry_out(order(*paths))
    assert disk.asked == [("a",)]
    disk.turn.release(2)
    await first
    assert disk.asked == [("a",), ("b", "c", "d")]
    assert [told.paths for told in disk.told] == disk.asked


async def test_what_was_not_deleted_in_time_is_tried_again_at_once():
    disk = Disk()
    disk.most = 1
    disk.turn.release(3)
    await disk.discarding.carry_out(order("a", "b", "c"))
    assert [told.paths for told in disk.told] == [("a",), ("b",), ("c",)]


async def test_an_order_whose_answer_was_lost_is_carried_out_again():
    disk = Disk()
    disk.turn.release(2)
    for _ in range(2):
        await disk.discarding.carry_out(order("a"))
    assert disk.asked == [("a",), ("a",)]


async def test_the_files_of_one_job_do_not_wait_for_those_of_another():
    disk = Disk()
    tasks = [asyncio.create_task(disk.discarding.carry_out(Discard(job, ("a",), ORIGIN, ()))) for job in "jk"]
    for _ in tasks:
        await disk.begins()
    disk.turn.release(2)
    await asyncio.gather(*tasks)
