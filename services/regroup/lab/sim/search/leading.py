"""From a state to its end by one fair schedule: without another fault, and however far beyond the bounds.

Owns: that schedule, and which states are known to end. What is under way arrives, and whoever can go on goes on, until
nothing is left to do; then all agents beat. Where even that changes nothing, the user resumes a job that is paused, the
operator admits a worker if all are drained, or time passes.
Refuses to know: which states are led, and what a failure means (`breadth`).
Does not guarantee: that other schedules end, too. It finds out whether one does.
"""

from collections.abc import Iterator
from itertools import islice

from regroup.core.jobs import JobPhase, Wanted
from regroup.lab.sim.search.identity import identity
from regroup.lab.sim.search.moves import Do, Sort, moves
from regroup.lab.sim.search.small import Small
from regroup.lab.sim.search.tidying import followed

LIMIT = 400  # moves; sound jobs of small clusters need up to 50
SHOWN = 40  # moves of a way that does not end, for people


class NeverEnds(Exception):
    """A fair schedule without another fault does not end the job. Told with where it stands, and why it says so."""


class Guide:
    def __init__(self) -> None:
        self.led = 0  # states
        self.way: list[int] = []  # the moves of the last one, by index
        self._known: set[int] = set()  # states that are led to their end, so that common ways are gone once

    def lead(self, state: Small) -> None:
        """Until its jobs have ended, or are known to. Raises NeverEnds, and what a move raises."""
        walk, passed = _Walk(state), list[int]()
        self.way = []
        for index, do in walk.schedule():
            if walk.state.over or walk.number in self._known:
                break
            passed.append(walk.number)
            self.way.append(index)
            if len(passed) > LIMIT:
                del self.way[SHOWN:]
                raise NeverEnds(f"{LIMIT} moves without another fault do not end it: {_stands(walk.state)}")
            walk.go(do)
        self._known.update(passed)
        self.led += 1


class _Walk:
    def __init__(self, state: Small) -> None:
        self.state, self.number = state, identity(state)

    def go(self, do: Do) -> None:
        self.state = followed(self.state, do)
        self.number = identity(self.state)

    def schedule(self) -> Iterator[tuple[int, Do]]:
        """The next move, by index, of the state as it is by then."""
        while True:
            before = self.number
            yield from self._due()
            for agent in range(len(self.state.agents)):
                yield from islice(self._of(Sort.BEAT), agent, agent + 1)
                yield from self._due()
            if self.number == before:
                resting = [job for job in self.state.jobs.values() if job.phase is JobPhase.PAUSED]
                paused = any(job.wanted is not Wanted.YIELD for job in resting)  # else it goes on by itself
                other = Sort.ADMIT if self.state.all_drained else Sort.TIME
                yield from islice(self._of(Sort.RESUME if paused else other), 1)

    def _due(self) -> Iterator[tuple[int, Do]]:
        while found := next(self._of(Sort.DUE), None):
            yield found

    def _of(self, kind: Sort) -> Iterator[tuple[int, Do]]:
        return ((index, do) for index, (_, each, do) in enumerate(moves(self.state)) if each is kind)


def _stands(state: Small) -> str:
    return "; ".join(f"{job.phase} in generation {job.generation}, {job.reason}" for job in state.jobs.values())
