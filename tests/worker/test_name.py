"""The name of a worker: as it was given, or the first number that is free on its data directory."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from regroup.worker.name import WorkerTaken, asked_as, host_name, take

TAKES = """
import sys
from pathlib import Path
from regroup.worker.name import take
print(take(Path(sys.argv[1]), sys.argv[2]), flush=True)
sys.stdin.read()
"""


@contextmanager
def another(run: Path, wanted: str) -> Iterator[str]:
    """The name that another process takes, and has until the end."""
    command = [sys.executable, "-c", TAKES, str(run), wanted]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def test_a_name_that_was_given_is_taken_once(tmp_path):
    with another(tmp_path, "w1") as name:
        assert name == "w1"
        with pytest.raises(WorkerTaken, match=r"^an agent named w1 runs already: stop it, or set REGROUP_WORKER"):
            take(tmp_path, "w1")
    assert take(tmp_path, "w1") == "w1"


def test_a_star_is_the_first_number_that_nobody_has(tmp_path):
    with another(tmp_path, "worker-*") as first:
        with another(tmp_path, "worker-*") as second, another(tmp_path, "other-*") as apart:
            assert (first, second, apart) == ("worker-0", "worker-1", "other-0")
        with another(tmp_path, "worker-*") as again:
            assert again == "worker-1", "whoever is made anew has the name of the one before"


def test_whoever_asks_how_a_numbered_worker_is_knows_it_by_its_host():
    assert asked_as("worker-*") == f"worker-{host_name()}"
    assert asked_as("w1") == "w1"
