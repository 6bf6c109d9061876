"""Ranges of seeds, one life each, over all cores.

Owns: the processes. Refuses to know: what a life is, and how outcomes are shown.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.outcome import Outcome, live

CHUNK = 50  # lives that a process is given at once


def lives(first: int, count: int, processes: int) -> Iterator[list[Outcome]]:
    """The outcomes of these seeds, chunk by chunk, in the order of the seeds."""
    starts = range(first, first + count, CHUNK)
    chunks = [(start, min(start + CHUNK, first + count)) for start in starts]
    if processes == 1:
        yield from map(_chunk, chunks)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(_chunk, chunks)


def _chunk(seeds: tuple[int, int]) -> list[Outcome]:
    """The first of them is lived twice: a seed that is not the same life every time reproduces nothing."""
    first, *others = [live(draw(seed)) for seed in range(*seeds)]
    if live(draw(first.seed)).digest != first.digest and first.error is None:
        first = replace(first, error="NotReproducible: lived twice, it was another life")
    return [first, *others]
