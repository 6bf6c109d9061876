"""Who is to go holds what those that stay need.

Owns: these sequences. Refuses to know: deaths of those that stay (`lost`).
"""

from random import Random

from regroup.lab.sim.lives.plan import GOING, Fault, Kind
from regroup.lab.sim.lives.sequences.sequence import Sequence, long_and_small


def _goes_untold(random: Random, workers: int) -> list[Fault]:
    """Who is to go is off its job, and cut off; who took over dies, and the coordinator: nobody knows what it holds."""
    at, (goes, *others) = random.uniform(1.5, 3.0), random.sample(range(workers), k=workers)
    slow = Fault(Kind.SLOW, (0,), at=at, border="halt", seconds=1.0)
    cut, die = Fault(Kind.CUT, (goes,), at=at, border="unlent"), Fault(Kind.KILL_AGENT, tuple(others), at, "unlent")
    return [Fault(Kind.HAND_OVER, (goes,), at=at), slow, cut, die, Fault(Kind.CRASH, (0,), at=at, border="unlent")]


def _one_stays_away(random: Random, workers: int) -> list[Fault]:
    """All but one are to go, and that one is cut off from the boundary on."""
    at, (stays, *goers) = random.uniform(1.5, 3.0), random.sample(range(workers), k=workers)
    border = random.choice(("halt", "halted", "idle", "saving", "writing"))
    cut = [Fault(kind, (stays,), at, border, random.uniform(2.0, 4.5)) for kind in (Kind.ISOLATE, Kind.CUT)]
    return [Fault(random.choice(GOING), tuple(goers), at=at), *cut]


def _all_end_while_held(random: Random, workers: int) -> list[Fault]:
    """A job is held, and one is cut off for a moment; the agents of all others are asked to end, and do not wait."""
    at, (stays, *goers) = random.uniform(1.5, 3.0), random.sample(range(workers), k=workers)
    cut = [Fault(kind, (stays,), at=at + 0.8, seconds=random.uniform(2.0, 4.5)) for kind in (Kind.ISOLATE, Kind.CUT)]
    return [Fault(Kind.HOLD, (0,), at=at), *cut, Fault(Kind.HAND_OVER, tuple(goers), at=at + 1.1)]


LEAVING = {  # by the names of their dice
    "goes untold": Sequence(0.015, 2, _goes_untold),
    "one stays away": Sequence(0.02, 2, _one_stays_away),
    "all end while held": Sequence(0.01, 2, _all_end_while_held, long_and_small, heals=20.0),
}
