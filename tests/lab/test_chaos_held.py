"""The task by which a trainer is held: where it stops, and what the words make it do."""

import resource
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from regroup.core.jobs import Version
from regroup.lab.chaos import held
from regroup.lab.chaos.held import Held, PlantedFault, _run_out_of_memory
from regroup.lab.chaos.hold import Hold
from regroup.worker.checkpoint import write
from regroup.worker.storage import Storage


@pytest.fixture
def hold(tmp_path, monkeypatch):
    monkeypatch.setenv("REGROUP_WORKER", "w1")
    return Hold(tmp_path / "cell")


@pytest.fixture
def task(hold):
    return Held(folder=str(hold.folder), pace=0.0, last=50)


def until_held(hold):
    while (found := hold.held("*")) is None:
        threading.Event().wait(0.005)
    return found


def test_nobody_is_held_who_was_not_armed(task, hold):
    task.meet("forward")
    hold.arm({"w0": "forward"})
    task.meet("forward")
    hold.arm({"w1": "optimizer"})
    task.meet("forward")
    assert hold.held("*") is None


def test_who_is_held_waits_for_the_word_and_goes_on(task, hold):
    hold.arm({"w1": "forward"}, step=7)
    task.meet("forward")
    assert hold.held("w1") is None, "its state has not so many steps yet"
    task.step = 7
    with ThreadPoolExecutor() as pool:
        held = pool.submit(task.meet, "forward")
        assert until_held(hold).step == 7
        assert not held.done()
        hold.say("go")
        held.result(timeout=10)


def test_a_fault_is_done_once(task, hold):
    hold.arm({"*": "checkpoint"})
    hold.say("raise")
    with pytest.raises(PlantedFault):
        task.state()
    assert task.state() == {"step": 0}


def test_an_update_that_raises_is_half_done(task, hold):
    model = task.model()
    before = next(model.parameters()).detach().clone()
    hold.arm({"w1": "optimizer"})
    hold.say("raise")
    with pytest.raises(PlantedFault):
        task.meet("optimizer", model)
    assert (next(model.parameters()) == before / 2).all()


def test_data_waits_at_both_gates_on_the_loaders_thread_alone(task, hold):
    dataset = task.dataset()
    assert dataset[0] is not None, "while a trainer prepares nothing is held back"
    with ThreadPoolExecutor() as pool:
        first = pool.submit(dataset.__getitem__, 0)
        assert not first.done()
        hold.start()
        first.result(timeout=10)
        task.step = 50
        last = pool.submit(dataset.__getitem__, 0)
        assert not last.done()
        hold.finish()
        last.result(timeout=10)


def test_at_a_gate_each_step_waits_once_and_not_for_ever(task, hold, monkeypatch):
    monkeypatch.setattr(held, "PATIENCE", 0.3)
    dataset, waited = task.dataset(), []
    with ThreadPoolExecutor() as pool:
        for step, index in ((0, 0), (0, 1), (1, 2)):
            task.step, began = step, time.monotonic()
            pool.submit(dataset.__getitem__, index).result(timeout=10)
            waited.append(time.monotonic() - began >= 0.3)
    assert waited == [True, False, True]


def test_who_watches_its_exchanges_says_so_before_anybody_is_held(task, hold, monkeypatch):
    monkeypatch.setattr(Held, "_watch", lambda self: None)
    batch = (torch.zeros(2, 4, dtype=torch.float64), torch.zeros(2, 1, dtype=torch.float64))
    task.loss(task.model(), batch)
    assert not hold.watched()
    hold.arm({"w1": "exchange"})
    task.loss(task.model(), batch)
    assert hold.watched()


def test_a_writer_is_held_in_its_thread_while_the_step_loop_goes_on(task, hold, tmp_path):
    hold.arm({"w1": "beside"})
    model, batch = task.model(), (torch.ones(2, 4).double(), torch.ones(2, 1).double())
    task.loss(model, batch)
    storage = Storage(str(tmp_path / "kept"), tmp_path / "scratch")
    try:
        with ThreadPoolExecutor() as pool:
            written = pool.submit(write, storage, "j", Version(1, 4), {"weight": torch.ones(3)}, {})
            until_held(hold)
            task.loss(model, batch)
            assert not written.done()
            hold.say("go")
            assert Path(written.result(timeout=10).path).exists()
    finally:
        threading.setprofile(None)


def test_memory_really_runs_out_and_is_there_again():
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(RuntimeError, match="allocate"):
        _run_out_of_memory()
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_the_wall_clock_jumps_and_the_monotonic_one_does_not():
    code = """
import time
from regroup.lab.chaos.held import _jump
wall, monotonic = time.time(), time.monotonic()
_jump(3600)
assert 3600 <= time.time() - wall < 3660
assert 3600 <= time.clock_gettime(time.CLOCK_REALTIME) - wall < 3660
assert time.monotonic() - monotonic < 60
"""
    subprocess.run([sys.executable, "-c", code], check=True)
