"""Checkpoints beside the training: the copy, the thread that writes it, and what goes wrong."""

import threading

import pytest
import torch

from regroup.core.jobs import Checkpoint, Version
from regroup.worker import beside as module
from regroup.worker import checkpoint as checkpoints
from regroup.worker.beside import Beside
from regroup.worker.storage import Storage

LIMIT = 10.0  # seconds


class Told:
    """What was written, held back until the test lets it go, and what was said of it."""

    def __init__(self):
        self.gate, self.over = threading.Event(), threading.Event()
        self.trees, self.wrote, self.failed = [], [], []

    def write(self, version, tree):
        assert self.gate.wait(LIMIT)
        self.trees.append(tree)
        return Checkpoint(version, "/c", "sum", 1)

    def wrote_it(self, checkpoint):
        self.wrote.append(checkpoint)
        self.over.set()

    def failed_it(self, step, error):
        self.failed.append((step, str(error)))
        self.over.set()


@pytest.fixture
def told():
    made = Told()
    yield made
    made.gate.set()


@pytest.fixture
def beside(told):
    return Beside(4, told.write, told.wrote_it, told.failed_it)


def written(told):
    """Let it be written, and wait until it is."""
    told.gate.set()
    for thread in threading.enumerate():
        if thread.name == "checkpoint":
            thread.join(LIMIT)


def test_every_so_many_steps_one_is_due_and_without_a_number_never(beside):
    assert [step for step in range(1, 13) if beside.due(Version(1, step))] == [4, 8, 12]
    assert not Beside(None, None, None, None).due(Version(1, 4))


def test_what_is_written_is_the_state_of_that_moment(beside, told):
    weight = torch.ones(3)
    beside.take(Version(1, 4), lambda: {"weight": weight, "step": 4})
    weight += 1  # the next step
    told.gate.set()
    assert told.over.wait(LIMIT)
    (tree,) = told.trees
    assert torch.equal(tree["weight"], torch.ones(3))
    assert told.wrote == [Checkpoint(Version(1, 4), "/c", "sum", 1)]
    assert told.failed == []


def test_while_one_is_written_those_that_come_due_are_left_out(beside, told, capfd):
    beside.take(Version(1, 4), lambda: {})
    assert not beside.due(Version(1, 8))
    assert "no checkpoint of step 8: the last one is still being written" in capfd.readouterr().err
    written(told)
    assert beside.due(Version(1, 12))


def test_while_many_do_not_count_no_other_is_written_for_nobody_would_delete_them(beside, capfd):
    assert not beside.due(Version(2, 12), room=False)
    assert "no checkpoint of step 12: the last 8 do not count yet" in capfd.readouterr().err
    assert beside.due(Version(2, 12), room=True)


def test_what_is_written_is_not_due_again_where_a_generation_begins_with_it(beside, told):
    told.gate.set()
    beside.take(Version(1, 4), lambda: {})
    beside._thread.join()
    assert told.wrote
    assert not beside.due(Version(1, 4))
    assert beside.due(Version(2, 4))  # trained again, by others


def test_a_write_that_fails_is_told_and_raises_nothing(told, capfd):
    def refuse(version, tree):
        raise OSError(28, "No space left on device")

    Beside(4, refuse, told.wrote_it, told.failed_it).take(Version(1, 4), lambda: {})
    assert told.over.wait(LIMIT)
    assert told.failed == [(4, "[Errno 28] No space left on device")]
    assert "No space left" in capfd.readouterr().err


def test_soon_after_one_that_failed_no_other_is_tried_so_that_a_full_disk_fills_no_timeline(told, monkeypatch, capfd):
    def refuse(version, tree):
        raise OSError(28, "No space left on device")

    for pause, due in ((60.0, False), (0.0, True)):
        monkeypatch.setattr(module, "PAUSE", pause)
        beside = Beside(4, refuse, told.wrote_it, told.failed_it)
        beside.take(Version(1, 4), lambda: {})
        beside._thread.join(LIMIT)
        assert beside.due(Version(1, 8)) is due
    assert "no checkpoint of step 8: the last one could not be written just now" in capfd.readouterr().err


def test_a_write_that_never_ends_is_told_in_time_and_so_is_the_next_one(told, tmp_path, monkeypatch, capfd):
    """As in a folder whose server is gone. No more than one of them is left waiting there."""
    monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setattr(checkpoints, "save_file", lambda *given, **more: told.gate.wait(LIMIT))
    storage = Storage(str(tmp_path), tmp_path / "scratch", patience=0.3)

    def write(version, tree):
        return checkpoints.write(storage, "j", version, tree, {})

    beside = Beside(4, write, told.wrote_it, told.failed_it)
    for step in (4, 8):
        told.over.clear()
        assert beside.due(Version(1, step))
        beside.take(Version(1, step), lambda: {"weight": torch.ones(3)})
        assert told.over.wait(LIMIT)
        beside._thread.join()
    assert [step for step, _ in told.failed] == [4, 8]
    assert all(f"{tmp_path}/j could not be written in 0.3 s" in error for _, error in told.failed)
    assert len([one for one in threading.enumerate() if one.name.startswith(f"storage {tmp_path}")]) == 1
    capfd.readouterr()


def test_a_state_that_cannot_be_kept_is_told_by_its_path(beside, told, capfd):
    beside.take(Version(1, 4), lambda: {"task": {"open": object()}})
    assert told.failed[0][0] == 4
    assert "/task/open is a object" in told.failed[0][1]
    capfd.readouterr()


def test_the_memory_of_a_copy_is_used_again_for_the_next_one_of_the_same_state(beside, told):
    told.gate.set()
    weight, places, values = torch.ones(3), [], []
    for number, tensor in enumerate((weight, weight + 1, torch.zeros(5, dtype=torch.float64))):
        told.over.clear()
        beside.take(Version(1, 4 * number), lambda tree={"weight": tensor, "step": number}: tree)
        assert told.over.wait(LIMIT)
        beside._thread.join()
        places.append(told.trees[-1]["weight"].data_ptr())
        values.append(told.trees[-1]["weight"].clone())
    assert places[0] == places[1] != weight.data_ptr()
    assert [value.tolist() for value in values] == [[1.0] * 3, [2.0] * 3, [0.0] * 5]
    assert values[2].dtype == torch.float64
    assert told.failed == []
