"""What a theme of lives is: the faults that meet in it, and what else of a plan is drawn from a narrower choice.

Owns: what can be said of a theme, how its faults are drawn, and the kinds and borders that go together.
Refuses to know: which themes there are (`failing`, `asking`, `rare`), and how a plan is drawn from one (`drawing`).
"""

from dataclasses import dataclass
from functools import partial
from random import Random

from regroup.lab.sim.lives.plan import BEGUN, BORDERS, GOING, LASTING, OF_ALL, REPORT_FAULTS, STATE_FAULTS, Fault, Kind

SAME, OTHERS = "the same", "the others"
DEATHS = (Kind.KILL_TRAINER, Kind.KILL_AGENT, Kind.LEAVE, Kind.CRASH_TRAINER)
CUTS = (Kind.ISOLATE, Kind.DEAFEN, Kind.SILENCE, Kind.CUT, Kind.STALL)
BREAKS = (Kind.BREAK, Kind.RAISE, Kind.HANG)
LEADERS = (Kind.CRASH, Kind.CRASH_UNSAVED, Kind.CRASH_UNSENT, Kind.FREEZE, Kind.STORE_CRASH)
CRASHES = (Kind.CRASH, Kind.CRASH_UNSENT)
RESTS = (Kind.PAUSE, Kind.HOLD)
TASKS = (Kind.MISMATCH, Kind.UNPREPARED, Kind.BAD_SPEC, Kind.POISON, Kind.DIVERGE, Kind.FLIP)  # the users' own doing
DIES_PREPARING = (Kind.CRASH_TRAINER, Kind.DEADLOCK)
FOREVER = (Kind.DEADLOCK, Kind.WEDGE, Kind.GONE)  # what no healing mends
FILES = (Kind.DAMAGE, Kind.MISREAD, Kind.AWAY, Kind.MOVE)
BY_ITSELF = (Kind.SEVER, Kind.STOP_NOW, Kind.MISTAKE, Kind.LAG, Kind.UNDELETABLE, Kind.UNKILLABLE, Kind.UNFIT)
APART = (*FILES, *GOING, *STATE_FAULTS, *REPORT_FAULTS, *BY_ITSELF)  # drawn by themselves (`besides`)
USUAL = tuple(kind for kind in Kind if kind not in APART)
ANYTHING = tuple(kind for kind in USUAL if kind not in (Kind.STOP, Kind.STARVE, *TASKS, *FOREVER))
FORMING = ("halt", "form", "connecting", "connected", "loaded", "started", "regrouped", "rolled_back")
MEETING = ("form", "connecting", "connected")
STEPPING = ("stepping", "contributed", "applying")
EARLY = 12.0  # seconds: a sequence takes longer


@dataclass(frozen=True, slots=True)
class Some:
    """Faults of some of these kinds, as many as one of `counts` says."""

    kinds: tuple[Kind, ...]
    counts: tuple[int, ...]
    seconds: tuple[float, ...] = (0.3, 1.0, 3.0, 7.0, 18.0)
    crowds: tuple[int, ...] = (1, 1, 1, 1, 2, 3)  # workers that one fault strikes
    borders: tuple[str, ...] = BORDERS
    waits: float = 0.6  # how many of them wait for a border
    since: float = 0.5  # seconds after the start
    until: float = BEGUN
    after: tuple[float, float] | None = None  # so many seconds after the theme's first fault
    arrival: int = 0  # strikes when its first worker is at the border for so many times; 0: whoever comes there
    whom: str | None = None  # SAME or OTHERS: strikes those that the first fault strikes, or all but those

    def drawn(self, random: Random, workers: int, first: Fault | None = None) -> list[Fault]:
        """`first`: the theme's first fault."""
        kinds = random.sample(self.kinds, k=random.randint(1, len(self.kinds)))
        return [self._one(random, random.choice(kinds), workers, first) for _ in range(random.choice(self.counts))]

    def _one(self, random: Random, kind: Kind, workers: int, first: Fault | None) -> Fault:
        struck = random.sample(range(workers), k=1 if kind in OF_ALL else min(workers, random.choice(self.crowds)))
        at = random.uniform(self.since, self.until)
        if first is not None and self.after is not None:
            at = first.at + random.uniform(*self.after)
        if first is not None and self.whom is not None:
            others = [number for number in range(workers) if number not in first.workers]
            struck = list(first.workers) if self.whom == SAME else others or struck
        return Fault(
            kind=kind,
            workers=tuple(struck),
            at=at,
            border=random.choice(self.borders) if random.random() < self.waits else None,
            seconds=random.choice(self.seconds) if kind in LASTING else 0.0,
            arrival=self.arrival,
        )


@dataclass(frozen=True, slots=True)
class Theme:
    """A class of lives: the faults that meet in them, and what else of a plan is drawn from a narrower choice."""

    faults: tuple[Some, ...]
    weight: int = 1
    workers: tuple[int, ...] = (1, 2, 2, 2, 2, 3, 3, 4)
    spares: tuple[int, ...] = (0, 0, 1)  # workers that the job does not want
    jobs: tuple[int, ...] = (1, 1, 1, 1, 2)
    paces: tuple[float, ...] = (0.02, 0.08, 0.2)
    steps: tuple[int, ...] = (1, 2, 6, 12)
    least: tuple[int, ...] = (1, 1, 1, 2)  # workers that a job needs, of those that it may have
    heals: float = EARLY  # seconds after which all is well


def by_halves(border: str, arrivals: range) -> tuple[Some, ...]:
    """A machine fails before it is off: a step breaks, then so many more times what comes to this border."""
    one = partial(Some, counts=(1,), crowds=(1,), waits=1.0, after=(0.0, 0.0), whom=SAME)
    broken = one((Kind.BREAK,), borders=("contributed",), since=1.0, until=3.0, arrival=1)
    again = (one((Kind.BREAK,), borders=(border,), arrival=number) for number in arrivals)
    off = one((Kind.AWAY,), borders=(border,), seconds=(3.0, 7.0, 12.0), arrival=arrivals.stop)
    return (broken, *again, off)


long_life = partial(Theme, jobs=(1,), paces=(0.14, 0.26), steps=(8, 11))  # a job that outlasts its faults
