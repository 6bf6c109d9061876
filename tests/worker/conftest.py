"""Ranks of a group as real processes: forked from a server that imported torch, killed at the end of each test."""

import multiprocessing
import runpy
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["torch", "torch.distributed.distributed_c10d", "pytest", "regroup.worker.group"])


class Rank:
    """A process that runs a function of the test's own file, which gets a pipe to the test as its first argument."""

    def __init__(self, file: Path, body: str, args: tuple[Any, ...]) -> None:
        self.pipe, far = processes.Pipe()
        start = {"BODY": body, "ARGS": (far, *args)}
        # The test's module has no name that another process could import, so it is run by its path.
        self.process = processes.Process(target=runpy.run_path, args=(str(file), start, "__rank__"), daemon=True)
        self.process.start()
        far.close()

    def says(self, seconds: float = 30.0) -> Any:
        """What it sends next. Fails the test when it says nothing in time, or died (EOFError)."""
        assert self.pipe.poll(seconds), "the rank said nothing"
        return self.pipe.recv()

    def tell(self, word: Any) -> None:
        self.pipe.send(word)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


@pytest.fixture
def start_rank(request: pytest.FixtureRequest) -> Iterator[Callable[..., Rank]]:
    """`start_rank("body", *args)` runs body(pipe, *args) in a process; the file ends in `if __name__ == "__rank__"`."""
    started: list[Rank] = []

    def start(body: str, *args: Any) -> Rank:
        started.append(Rank(request.path, body, args))
        return started[-1]

    yield start
    for rank in started:
        rank.kill()
        rank.pipe.close()
        rank.process.close()


__all__ = ["Connection", "Rank"]
