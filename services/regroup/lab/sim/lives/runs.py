"""Ranges of seeds, one life each, over all cores.

Owns: how many of them a process is given at once, and that some are lived twice: the first that each is given, again
after the others. So what one life leaves behind in its process, and the next one minds, is found.
Refuses to know: what a life is, and how outcomes are shown.
Does not guarantee: that the others are the same life every time, or those in an interpreter with other hashes: all
processes are copies of one, and have its own. 40 seeds are lived with other hashes by tests/simulation/test_life.py.
"""

import gc
from collections import deque
from collections.abc import Generator
from dataclasses import replace

from regroup.lab.sim.computing import computing
from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.outcome import Outcome, live

MOST, LEAST = 100, 5  # lives that a process is given at once
ANOTHER = "NotReproducible: lived twice, it was another life"
LOOKS = 10  # times at least that each process tells of its lives, if they are enough


def lives(first: int, count: int, processes: int) -> Generator[list[Outcome], None, None]:
    """The outcomes of these seeds, chunk by chunk, in the order of the seeds. Raises BrokenProcessPool."""
    size = max(LEAST, min(MOST, count // (LOOKS * processes)))
    chunks = [(start, min(start + size, first + count)) for start in range(first, first + count, size)]
    if processes == 1:
        yield from map(_chunk, chunks)
        return
    with computing(processes, _collect_seldom) as pool:
        outcomes = deque(pool.submit(_chunk, chunk) for chunk in chunks)
        while outcomes:
            yield outcomes.popleft().result()


def _collect_seldom() -> None:
    """A life is small, and most of it is freed without the collector, which looks at each of its objects again."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _chunk(seeds: tuple[int, int]) -> list[Outcome]:
    """The first of them is lived twice: a seed that is not the same life every time reproduces nothing."""
    first, *others = [live(draw(seed)) for seed in range(*seeds)]
    if live(draw(first.seed)).digest != first.digest and first.error is None:
        first = replace(first, error=ANOTHER)
    return [first, *others]
