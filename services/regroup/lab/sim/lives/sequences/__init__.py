"""Faults that lead to a hole only in their order, each sequence drawn by dice of its own, in a part of the lives.

Owns: which sequences there are. Single dice would hardly ever fall so, and a theme knows only times after its first
fault.
Refuses to know: what else goes wrong in the same life (`themes`, `besides`), and how one strikes (`faults`).
"""

from random import Random

from regroup.lab.sim.lives.plan import Fault
from regroup.lab.sim.lives.sequences.blamed import BLAMED
from regroup.lab.sim.lives.sequences.leaving import LEAVING
from regroup.lab.sim.lives.sequences.lost import LOST
from regroup.lab.sim.lives.sequences.saved import SAVED

SEQUENCES = {**LOST, **SAVED, **BLAMED, **LEAVING}  # by the names of their dice


def may_have(name: str, seed: int) -> bool:
    """Whether the dice of this life say so, if it has enough workers; to ask takes less than to draw a life."""
    return _dice(name, seed) is not None


def drawn(name: str, seed: int, workers: int) -> list[Fault]:
    """The faults of this sequence; most lives have none."""
    sequence, random = SEQUENCES[name], _dice(name, seed)
    return sequence.faults(random, workers) if random is not None and workers >= sequence.least else []


def _dice(name: str, seed: int) -> Random | None:
    """What is left of its dice once they have fallen for it; None: they have not."""
    random = Random(f"{seed} {name}")
    return random if random.random() < SEQUENCES[name].chance else None
