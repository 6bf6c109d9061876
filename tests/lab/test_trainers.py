"""Finding a worker's trainer by its lock."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from regroup.lab.trainers import trainer_of

HOLD_AND_FORK = """
import fcntl, os, sys, time
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(600)
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run" / "w0.trainer.lock"


@pytest.fixture
def holder(lock: Path) -> Iterator[tuple[int, int]]:
    """A process that holds the lock, and its fork, which has the same file open."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_AND_FORK, str(lock)], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
        os.killpg(process.pid, 9)


def test_a_trainer_is_who_took_the_lock_and_not_its_fork_nor_who_has_it_open(
    tmp_path: Path, lock: Path, holder: tuple[int, int]
) -> None:
    with lock.open("rb"):
        assert trainer_of(tmp_path, "w0") == holder[0]
    assert trainer_of(tmp_path, "w1") is None


def test_a_lock_that_nobody_holds_is_nobodys(tmp_path: Path, lock: Path) -> None:
    with lock.open("wb") as file:
        assert trainer_of(tmp_path, "w0") is None
        fcntl.flock(file, fcntl.LOCK_EX)
        assert trainer_of(tmp_path, "w0") == os.getpid()
    assert trainer_of(tmp_path, "w0") is None
