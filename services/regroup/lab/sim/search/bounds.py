"""How small the clusters are of which every schedule is looked at, and how much may go wrong in each.

Owns: the bounds of a search, and which ones are searched: SMALL with every test, in seconds, the last one in a minute;
GREAT for an hour each. Of those a sample of what is beyond the bounds stands for all: it takes up to a fifth of the
time. The first six of GREAT take a minute; five of them are small ones with a generation more.
Refuses to know: how they are searched, and how far that comes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

FAULTS = (
    *("deaths", "losses", "leaves", "departures", "drains", "crashes", "cuts", "breaks"),
    *("failed_saves", "unreadable", "stops", "pauses", "holds", "leaps"),
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Counts. What goes wrong may do so at any moment, or never; what died is started again, at any moment."""

    workers: int
    steps: int = 1
    generations: int = 3  # beyond these nothing is looked at any more
    beside: int = 0  # steps between checkpoints beside the training; 0: there are none
    newcomers: int = 0  # of the workers, those that are not there from the start
    deaths: int = 0  # of trainers
    losses: int = 0  # of agents, with their trainers
    leaves: int = 0  # of agents, with a goodbye, and nothing handed over
    departures: int = 0  # likewise, and they hand over before that
    drains: int = 0  # of workers, by their operator; each may be admitted again, at any moment
    crashes: int = 0  # of the coordinator
    cuts: int = 0  # of connections
    breaks: int = 0  # of collectives, with everybody alive
    failed_saves: int = 0
    unreadable: int = 0  # how often a leader cannot read the checkpoint that it is to begin from
    stops: int = 0  # by the user, as the next two
    pauses: int = 0  # each may be followed by a resumption, at any moment
    holds: int = 0  # likewise
    leaps: int = 0  # over the limit of the leases; 0: a lease never ends
    sampled: int = 1  # of so many states beyond the bounds, one is led to its end; in each process others

    @property
    def starts(self) -> int:
        """How often one worker's agent and trainers may start, beyond which nothing is looked at."""
        return 4 + self.deaths + self.pauses + self.drains + 2 * (self.losses + self.leaves + self.departures)

    def __str__(self) -> str:
        shape = [f"{self.workers} workers" if self.workers > 1 else "1 worker"]
        shape += [f"{self.newcomers} of them later"] if self.newcomers else []
        shape += [f"a checkpoint every {self.beside}"] if self.beside else []
        shape += [f"{self.steps} step" + "s" * (self.steps > 1), f"generation {self.generations}"]
        return ", ".join([*shape, *(f"{name.replace('_', ' ')}: {n}" for name in FAULTS if (n := getattr(self, name)))])


SMALL: Mapping[str, Bounds] = {
    "one worker dies, and the coordinator": Bounds(workers=1, generations=2, deaths=1, crashes=1),
    "one worker is stopped, leaves, cannot save": Bounds(workers=1, generations=2, stops=1, leaves=1, failed_saves=1),
    "one worker is stopped, and cut off": Bounds(workers=1, generations=2, stops=1, cuts=1),
    "one worker loses its lease": Bounds(workers=1, generations=2, leaps=1, losses=1),
    "one worker is paused, and the coordinator dies": Bounds(workers=1, generations=2, pauses=1, crashes=1),
    "one worker is paused, and cannot read": Bounds(workers=1, generations=3, pauses=1, unreadable=1),
    "one worker is held, and dies": Bounds(workers=1, generations=2, holds=1, deaths=1),
    "one worker writes beside its training, and dies": Bounds(workers=1, steps=3, generations=2, beside=1, deaths=1),
    "one worker hands over": Bounds(workers=1, generations=3, departures=1),
    "one worker is drained, and the coordinator dies": Bounds(workers=1, generations=2, drains=1, crashes=1),
    "two workers form, and one dies": Bounds(workers=2, generations=2, deaths=1),
}
_GREAT: Mapping[str, Bounds] = {
    "one worker dies, and the coordinator, in three": Bounds(workers=1, generations=3, deaths=1, crashes=1),
    "one is stopped, leaves, cannot save, in three": Bounds(
        workers=1, generations=3, stops=1, leaves=1, failed_saves=1
    ),
    "one is paused, and cannot read, in four": Bounds(workers=1, generations=4, pauses=1, unreadable=1),
    "one is held, and dies, in three": Bounds(workers=1, generations=3, holds=1, deaths=1),
    "one is drained, and the coordinator dies, in three": Bounds(workers=1, generations=3, drains=1, crashes=1),
    "two workers form, and one is drained": Bounds(workers=2, generations=2, drains=1),
    "two workers: a death, a restart, a crash": Bounds(workers=2, steps=1, generations=3, deaths=1, crashes=1),
    "two workers: a death, and one is cut off": Bounds(workers=2, generations=3, deaths=1, cuts=1),
    "a member and a newcomer, with leases": Bounds(workers=2, newcomers=1, generations=3, deaths=1, leaps=1),
    "three workers": Bounds(workers=3, generations=2, deaths=1),
    "two workers, and one hands over": Bounds(workers=2, generations=2, departures=1),
    "two workers: one is drained, and one dies": Bounds(workers=2, generations=2, drains=1, deaths=1),
    "two workers: one is drained, and one is cut off": Bounds(workers=2, generations=2, drains=1, cuts=1),
    "one worker hands over, and the coordinator dies": Bounds(workers=1, generations=3, departures=1, crashes=1),
    "one leaves, a stop, cannot save": Bounds(workers=2, generations=3, leaves=1, stops=1, failed_saves=1),
    "two workers are paused, and one dies": Bounds(workers=2, generations=3, pauses=1, deaths=1),
    "two workers are held, and one dies": Bounds(workers=2, generations=3, holds=1, deaths=1),
    "groups that break": Bounds(workers=2, steps=2, generations=3, breaks=2),
    "one worker, two steps: a death, a crash": Bounds(workers=1, steps=2, generations=3, deaths=1, crashes=1),
    "one worker: its lease, its agent, its connection": Bounds(workers=1, generations=2, leaps=1, cuts=1, losses=1),
    "one worker is paused for long, and a crash": Bounds(workers=1, generations=3, pauses=1, crashes=1),
}
GREAT: Mapping[str, Bounds] = {name: replace(bounds, sampled=8) for name, bounds in _GREAT.items()}
