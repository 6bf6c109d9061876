"""Several searches at once, each in a process of its own, and how far they are.

Owns: the queue in which they tell. Refuses to know: what is searched, and how it is shown.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.queues import Queue
from queue import Empty
from typing import Any

from regroup.lab.sim.computing import computing
from regroup.lab.sim.search.bounds import Bounds
from regroup.lab.sim.search.breadth import Searched, search

LOOK = 0.5  # seconds between two looks at what the processes told


@dataclass(frozen=True, slots=True)
class Telling:
    """How far a search is."""

    name: str
    states: int
    depth: int
    waiting: int


def searches(
    named: Mapping[str, Bounds],
    seconds: float,
    memory: float,
    processes: int,
    on_told: Callable[[Telling], None] = lambda telling: None,
) -> Generator[tuple[str, Searched], None, None]:
    """What came of each search, in the order in which they end. Raises what a search raises, and
    BrokenProcessPool."""
    fresh = get_context("spawn")  # so that the memory of one search is not counted for the next
    told: Queue[Telling] = fresh.Queue()
    with computing(processes, _begin, told, context=fresh, fresh=True) as pool:
        names = {pool.submit(_search, name, bounds, seconds, memory): name for name, bounds in named.items()}
        running: set[Future[Searched]] = set(names)
        while running:
            done, running = wait(running, LOOK, return_when="FIRST_COMPLETED")
            for telling in _drained(told):
                on_told(telling)
            for one in done:
                yield names[one], one.result()


_told: Any = None  # this process's end of the queue


def _begin(told: "Queue[Telling]") -> None:
    global _told
    _told = told


def _search(name: str, bounds: Bounds, seconds: float, memory: float) -> Searched:
    return search(bounds, seconds, memory, lambda *far: _told.put(Telling(name, *far)))


def _drained(told: "Queue[Telling]") -> Iterator[Telling]:
    while True:
        try:
            yield told.get_nowait()
        except Empty:
            return
