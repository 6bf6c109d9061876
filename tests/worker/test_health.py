"""An agent says until when it lives and is answered; whoever looks later finds that it does not."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from regroup.worker import health as module
from regroup.worker.health import PATIENCE, Health, file_of, trouble


@pytest.fixture
def path(tmp_path):
    (tmp_path / "run").mkdir()
    return file_of(tmp_path, "w0")


def said(path: Path, word: Callable[[float], None], interval: float) -> None:
    """Say it, and wait until it is written."""
    before, limit = path.read_bytes(), time.monotonic() + 10.0
    word(interval)
    while path.read_bytes() == before:
        assert time.monotonic() < limit, "nothing was written"
        time.sleep(0.001)


def test_who_beats_and_is_answered_is_well(path):
    health = Health(path)
    said(path, health.beat, 1.0)
    said(path, health.answered, 1.0)
    assert trouble(path, time.monotonic(), unheard=True) is None


def test_who_is_not_answered_lives_all_the_same(path):
    said(path, Health(path).beat, 1.0)
    assert trouble(path, time.monotonic(), unheard=False) is None
    assert "no coordinator answers it" in (trouble(path, time.monotonic(), unheard=True) or "")


def test_who_beats_no_more_is_gone_after_three_of_its_own_intervals(path):
    health = Health(path)
    said(path, health.beat, 20.0)
    assert trouble(path, time.monotonic() + 55.0, unheard=False) is None
    assert trouble(path, time.monotonic() + 61.0, unheard=False) == "the agent does nothing, or is gone"
    said(path, health.beat, 0.1)
    assert trouble(path, time.monotonic() + PATIENCE + 1.0, unheard=False) is not None


def test_what_a_machine_wrote_before_it_was_started_again_says_nothing(path):
    said(path, Health(path).beat, 1.0)
    assert trouble(path, time.monotonic() - 1e6, unheard=False) == "the agent does nothing, or is gone"


def test_a_new_agent_is_not_taken_for_the_last_one(path):
    said(path, Health(path).beat, 1.0)
    Health(path)
    assert trouble(path, time.monotonic(), unheard=False) == "no agent of this name has run here"


def test_a_disk_that_hangs_and_then_refuses_a_word_keeps_nobody_waiting_and_takes_the_next_one(path, monkeypatch):
    began, thawed = threading.Event(), threading.Event()

    def freeze(*_: object) -> None:
        began.set()
        thawed.wait()
        raise OSError(30, "Read-only file system")

    health = Health(path)
    monkeypatch.setattr(module.os, "pwrite", freeze)
    health.beat(1.0)
    assert began.wait(10.0)
    health.beat(1.0)  # comes back although the first word is still under way
    monkeypatch.undo()
    before = path.read_bytes()
    thawed.set()
    while path.read_bytes() == before:  # the word that waited, as the one before was refused
        time.sleep(0.001)
    said(path, health.beat, 20.0)
    assert trouble(path, time.monotonic() + 55.0, unheard=False) is None


def test_the_command_asks_for_the_worker_of_its_environment(path, tmp_path):
    def asked(flag: str, worker: str) -> tuple[int, str]:
        environ = os.environ | {"REGROUP_DATA_DIR": str(tmp_path), "REGROUP_WORKER": worker}
        words = [sys.executable, "-m", "regroup.worker", flag]
        ended = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60)
        return ended.returncode, ended.stdout

    said(path, Health(path).beat, 1000.0)
    assert asked("--alive", "w0") == (0, "w0: well\n")
    assert asked("--check", "w0") == (1, "w0: no coordinator answers it; what it trains goes on\n")
    assert asked("--alive", "w1") == (1, "w1: no agent of this name has run here\n")
