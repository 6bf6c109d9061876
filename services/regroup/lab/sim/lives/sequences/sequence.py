"""What a sequence is, and the jobs that some of them need.

Owns: these values. Refuses to know: which sequences there are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from regroup.core.spec import JobSpec
from regroup.lab.sim.lives.plan import Fault, Kind

ENDINGS = (Kind.KILL_TRAINER, Kind.CRASH_TRAINER)


@dataclass(frozen=True, slots=True)
class Sequence:
    chance: float  # the part of the lives that have it
    least: int  # workers, or it cannot be
    faults: Callable[[Random, int], list[Fault]]
    asks: Callable[[JobSpec, int], tuple[JobSpec, ...]] = lambda spec, workers: ()  # for these jobs; (): for none
    begins: bool = False  # the later ones begin from the first one's checkpoint
    chunk: float = 0.0  # for an evaluation with chunks of so many seconds
    heals: float = 14.0  # seconds after which all is well
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the plan


def long(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    return (replace(spec, steps=24, epochs=None),)


def long_and_small(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    """All may take part, and one is enough."""
    return (replace(spec, steps=24, epochs=None, min_workers=1, max_workers=workers),)


def for_long(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    """It trains on while some are cut off for as long as rule 7 takes."""
    asked = replace(spec, steps=100, epochs=None, min_workers=1, max_workers=workers)
    return (replace(asked, evaluate_every=None, keep_best=0),)


def written_often(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    return (replace(spec, steps=24, epochs=None, min_workers=1, max_workers=workers, checkpoint_every=2),)


def impatient(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    return (replace(spec, steps=24, epochs=None, min_workers=1, max_workers=1, step_timeout=2.0),)


def one_after_another(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    first = replace(spec, steps=24, epochs=None, min_workers=1, max_workers=1, checkpoint_every=1)
    return first, replace(first, max_workers=workers)


def two_at_least(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    return (replace(spec, steps=24, epochs=None, min_workers=2, max_workers=workers),)


def evaluated(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    return (replace(spec, steps=12, epochs=None, evaluate_every=5),)


def needs_all(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    return (replace(spec, steps=24, epochs=None, min_workers=workers, max_workers=workers),)


def needs_all_but_one(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    return (replace(spec, steps=24, epochs=None, min_workers=workers - 1, max_workers=workers),)


def one_waits_for_all(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    first = replace(spec, steps=24, epochs=None, min_workers=1, max_workers=workers)
    return first, replace(first, steps=4, min_workers=workers)


def two_of_two(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    return (replace(spec, min_workers=2, max_workers=2),) * 2
