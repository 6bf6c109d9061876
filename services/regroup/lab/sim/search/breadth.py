"""Every schedule of a small cluster, breadth first: is a rule ever broken, and can every job still be completed?

Owns: the order in which states are looked at, which were seen, and the graph on which progress is checked: from each
state within the bounds, moves that are no faults lead to an end or to a state beyond them, and from there on `leading`
shows that the job ends. To end is to be completed, so its last commit stays reachable: only a job that its user stopped
may end otherwise (`small`), and to stop it is a fault.
Refuses to know: what a state is (`small`), when two are one (`identity`), and what must hold (`model`).
Does not guarantee: anything beyond the bounds, the time or the memory that it was given; it says how far it came. Nor
progress within the bounds, where states are left that were not looked at: it is not checked then, and that is said.
"""

import gc
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from resource import RUSAGE_SELF, getrusage

from regroup.lab.sim.search.bounds import Bounds
from regroup.lab.sim.search.identity import identity
from regroup.lab.sim.search.leading import Guide
from regroup.lab.sim.search.moves import Sort, moves
from regroup.lab.sim.search.small import Small
from regroup.lab.sim.search.tidying import followed, tidy

ROUND = 500  # states between two looks at the clock and the memory
OPEN, END, CUT = 0, 1, 2  # to be expanded; every job ended; beyond the bounds
NOT_CHECKED = "not checked"
Tell = Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search found, and how far it came."""

    bounds: Bounds
    states: int
    moves: int
    depth: int  # in moves: everything that can happen in so many was seen
    complete: bool  # no state within the bounds is left
    error: str | None  # the rule that was broken, or that a job never ends, or not as it should
    path: tuple[str, ...]  # how: the moves, and no fewer would do
    ends: int  # states in which every job ended
    cut: int  # states beyond the bounds
    led: int  # of them, those that were led to their end
    stuck: int | None  # states from which no end and no bound is reached without another fault; None: not checked
    seconds: float  # of the processor

    @property
    def sound(self) -> bool:
        """Nothing wrong was found, as far as it came: it says nothing of what was not `checked`."""
        return self.error is None and not self.stuck

    @property
    def progress(self) -> str:
        """Whether it was checked within the bounds, in words."""
        return NOT_CHECKED if self.stuck is None else f"{self.stuck:,} stuck" if self.stuck else "kept"


def search(
    bounds: Bounds, seconds: float = 3600.0, memory: float = 8e9, tell: Tell = lambda states, depth, waiting: None
) -> Searched:
    """Until a rule is broken, nothing is left, or `seconds` of the processor or `memory` bytes are spent.

    `tell` is given the states seen, the depth, and the states that wait, from time to time.
    """
    began = time.process_time()
    graph, waiting, depth, enough = _Graph(bounds), deque[tuple[int, int, Small]](), 0, False
    broken: _Broken | None = None
    gc.disable()  # a state holds no circle, and there are millions of them
    try:
        waiting.extend((number, 0, state) for number, state in graph.begin())
        while waiting and not enough:
            number, depth, state = waiting.popleft()
            waiting.extend((new, depth + 1, after) for new, after in graph.expand(number, state))
            if graph.expanded % ROUND == 0:
                tell(len(graph.kinds), depth, len(waiting))
                enough = time.process_time() - began > seconds or _memory() > memory
    except _Broken as found:
        broken = found
    finally:
        gc.enable()
    complete = broken is None and not waiting
    return Searched(
        bounds=bounds,
        states=len(graph.kinds),
        moves=graph.moves,
        depth=waiting[0][1] if waiting and broken is None else depth,
        complete=complete,
        error=broken.words if broken else None,
        path=_named(bounds, broken.path) if broken else (),
        ends=graph.kinds.count(END),
        cut=graph.kinds.count(CUT),
        led=graph.guide.led,
        stuck=graph.without_way() if complete else None,
        seconds=time.process_time() - began,
    )


class _Broken(Exception):
    """A rule is broken, the code under test raised, or a job never ends, at the end of this path."""

    def __init__(self, cause: Exception, path: tuple[int, ...]) -> None:
        self.words, self.path = f"{type(cause).__name__}: {cause}", path


class _Graph:
    """States by number, in the order in which they were met, and the moves between them that are no faults."""

    def __init__(self, bounds: Bounds) -> None:
        self.kinds, self.expanded, self.moves, self._bounds = bytearray(), 0, 0, bounds
        self.guide = Guide()
        self._numbers: dict[int, int] = {}
        self._parents, self._indexes = array("I"), array("H")
        self._edges = array("I"), array("I")

    def begin(self) -> Iterator[tuple[int, Small]]:
        try:
            yield from self._reach(_begun(self._bounds), 0, 0, fault=False)
        except Exception as broken:
            raise _Broken(broken, ()) from broken

    def expand(self, number: int, state: Small) -> Iterator[tuple[int, Small]]:
        """All that can follow a state and is new, where more can happen."""
        self.expanded += 1
        for index, (_, kind, do) in enumerate(moves(state)):
            self.moves += 1
            try:
                after = followed(state, do)
            except Exception as broken:
                raise _Broken(broken, (*self._path(number), index)) from broken
            for new in self._reach(after, number, index, kind is Sort.FAULT):
                after.share(state)
                yield new

    def _reach(self, state: Small, parent: int, index: int, fault: bool) -> Iterator[tuple[int, Small]]:
        same = identity(state)
        number = self._numbers.setdefault(same, len(self.kinds))
        new = number == len(self.kinds)
        if new:
            self.kinds.append(END if state.over else CUT if state.beyond else OPEN)
            self._parents.append(parent)
            self._indexes.append(index)
        if not fault:
            self._edges[0].append(parent)
            self._edges[1].append(number)
        if new and self.kinds[number] == OPEN:
            yield number, state
        elif new and self.kinds[number] == CUT and same % self._bounds.sampled == 0:
            self._lead(number, state)

    def _lead(self, number: int, state: Small) -> None:
        try:
            self.guide.lead(state)
        except Exception as broken:
            raise _Broken(broken, (*self._path(number), *self.guide.way)) from broken

    def _path(self, number: int) -> tuple[int, ...]:
        """The moves, by index, that lead to a state."""
        found: list[int] = []
        while number:
            found.append(self._indexes[number])
            number = self._parents[number]
        return tuple(reversed(found))

    def without_way(self) -> int:
        """How many states have no way to an end, or beyond the bounds, by moves that are no faults."""
        good = bytearray(kind != OPEN for kind in self.kinds)
        grows = True
        while grows:  # most edges lead from a lower number to a higher one, so a few sweeps do
            grows = False
            for before, after in zip(reversed(self._edges[0]), reversed(self._edges[1]), strict=True):
                if good[after] and not good[before]:
                    good[before] = grows = True
        return good.count(0)


def _begun(bounds: Bounds) -> Small:
    state = Small(bounds)
    tidy(state)
    return state


def _named(bounds: Bounds, path: tuple[int, ...]) -> tuple[str, ...]:
    """The moves by name: the path is gone once more, up to the last of them, which raises."""
    if not path:
        return ()
    names, state = [], _begun(bounds)
    for index in path[:-1]:
        name, _, do = list(moves(state))[index]
        names.append(name)
        state = followed(state, do)
    return (*names, list(moves(state))[path[-1]][0])


def _memory() -> float:
    """The most bytes that this process ever held."""
    return getrusage(RUSAGE_SELF).ru_maxrss * 1024.0
