"""What processes take, against what these very processes were made to take."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from regroup.lab.footprint import Footprint, footprint

HOLDS = """
import sys, threading
memory = bytearray(b"x" * (64 << 20))
files = [open("/dev/null") for _ in range(20)]
threads = [threading.Thread(target=threading.Event().wait, daemon=True) for _ in range(5)]
for thread in threads: thread.start()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def test_memory_descriptors_and_threads_are_those_of_the_process(holder: subprocess.Popen[str]) -> None:
    found = footprint([holder.pid])
    assert 64 << 20 < found.memory < 128 << 20
    assert 23 <= found.descriptors <= 25
    assert (found.processes, found.threads) == (1, 6)


def test_who_ended_and_was_not_buried_counts_as_a_process_and_takes_no_memory(holder: subprocess.Popen[str]) -> None:
    holder.kill()
    assert holder.stdout is not None
    holder.stdout.read()  # its end
    found = footprint([holder.pid])
    assert (found.processes, found.memory, found.descriptors) == (1, 0, 0)
    holder.wait()
    assert footprint([holder.pid]) == Footprint()
