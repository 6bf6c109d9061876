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
    return Random(f"{seed} {name}").random() < SEQUENCES[name].chance


def drawn(name: str, seed: int, workers: int) -> list[Fault]:
    """The faults of this sequence; most lives have none."""
    sequence, random = SEQUENCES[name], Random(f"{seed} {name}")
    may = workers >= sequence.least and random.random() < sequence.chance
    return sequence.faults(random, workers) if may else []
