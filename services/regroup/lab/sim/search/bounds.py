"""How small the clusters are of which every schedule is looked at, and how much may go wrong in each.

Owns: the bounds of a search, and which ones are searched: SMALL in seconds, with every test; GREAT for an hour each.
Refuses to know: how they are searched, and how far that comes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

FAULTS = ("deaths", "losses", "leaves", "crashes", "cuts", "breaks", "failed_saves", "stops", "leaps")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Counts. What goes wrong may do so at any moment, or never; what died is started again, at any moment."""

    workers: int
    steps: int = 1
    generations: int = 3  # beyond these nothing is looked at any more
    newcomers: int = 0  # of the workers, those that are not there from the start
    deaths: int = 0  # of trainers
    losses: int = 0  # of agents, with their trainers
    leaves: int = 0  # of agents, in good order
    crashes: int = 0  # of the coordinator
    cuts: int = 0  # of connections
    breaks: int = 0  # of collectives, with everybody alive
    failed_saves: int = 0
    stops: int = 0  # by the user
    leaps: int = 0  # over the limit of the leases; 0: a lease never ends

    @property
    def starts(self) -> int:
        """How often one worker's agent and trainers may start, beyond which nothing is looked at."""
        return 4 + self.deaths + 2 * (self.losses + self.leaves)

    def __str__(self) -> str:
        shape = [f"{self.workers} workers" if self.workers > 1 else "1 worker"]
        shape += [f"{self.newcomers} of them later"] if self.newcomers else []
        shape += [f"{self.steps} step" + "s" * (self.steps > 1), f"generation {self.generations}"]
        return ", ".join([*shape, *(f"{name.replace('_', ' ')}: {n}" for name in FAULTS if (n := getattr(self, name)))])


SMALL: Mapping[str, Bounds] = {
    "one worker dies, and the coordinator": Bounds(workers=1, steps=2, generations=3, deaths=1, crashes=1),
    "one worker is stopped, drained, cannot save": Bounds(workers=1, generations=3, stops=1, leaves=1, failed_saves=1),
    "one worker loses its lease": Bounds(workers=1, generations=2, leaps=1, cuts=1, losses=1),
    "two workers form, and one dies": Bounds(workers=2, generations=2, deaths=1),
}
GREAT: Mapping[str, Bounds] = {
    "two workers: a death, a restart, a crash": Bounds(workers=2, steps=1, generations=3, deaths=1, crashes=1),
    "a member and a newcomer, with leases": Bounds(workers=2, newcomers=1, generations=3, deaths=1, leaps=1),
    "three workers": Bounds(workers=3, generations=2, deaths=1),
    "drained, stopped, cannot save": Bounds(workers=2, generations=3, leaves=1, stops=1, failed_saves=1),
    "groups that break": Bounds(workers=2, steps=2, generations=3, breaks=2),
}
