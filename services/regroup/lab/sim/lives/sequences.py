"""Faults that lead to a hole only in their order, each sequence drawn by dice of its own, in a part of the lives.

Owns: these sequences. Single dice would hardly ever fall so, and a theme draws no order.
Refuses to know: what else goes wrong in the same life (`drawing`), and how one strikes (`faults`).
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from regroup.lab.sim.lives.plan import GOING, Fault, Kind

ENDINGS = (Kind.KILL_TRAINER, Kind.CRASH_TRAINER)
LACKING = "lack at first"  # of a plan with two jobs that have no worker to spare
RESTS = (Kind.PAUSE, Kind.PAUSE, Kind.STOP)


def sequences(seed: int, workers: int) -> Iterator[Fault]:
    for name in SEQUENCES:
        yield from drawn(name, seed, workers)


def drawn(name: str, seed: int, workers: int) -> list[Fault]:
    """The faults of this sequence; most lives have none."""
    chance, least, draw = SEQUENCES[name]
    random = Random(f"{seed} {name}")
    return draw(random, workers) if workers >= least and random.random() < chance else []


def _ahead(random: Random, workers: int) -> list[Fault]:
    """Who is to go has applied a step that the others have not."""
    at = random.uniform(1.0, 4.0)
    struck = tuple(random.sample(range(workers), k=workers))
    goes = Fault(random.choice(GOING), struck[:1], at=at, border="applying")
    return [goes, Fault(Kind.BREAK, struck, at=at, border="applying")]


def _left_behind(random: Random, workers: int) -> list[Fault]:
    """Some are cut short in a step; the others, who may have done it, die before those have their state."""
    at, order = random.uniform(1.0, 4.0), random.sample(range(workers), k=workers)
    short = random.randint(1, workers - 1)
    dies = random.choice((Kind.KILL_AGENT, Kind.KILL_TRAINER))
    border = random.choice(("form", "form", "connecting"))
    ahead = Fault(dies, tuple(order[short:]), at=at, border=border)
    return [Fault(Kind.BREAK, tuple(order[:short]), at=at, border="applying"), ahead]


def _unheard(random: Random, workers: int) -> list[Fault]:
    """Whoever writes a state is cut off meanwhile, and ends before anybody heard of its file."""
    at, everybody, ends = random.uniform(1.0, 4.0), tuple(range(workers)), random.choice(ENDINGS)
    beside = random.random() < 0.5
    seconds = random.choice((0.5, 2.0, 5.0))
    cut = Fault(Kind.ISOLATE, everybody, at=at, border="applying" if beside else "writing", seconds=seconds)
    if random.random() < 0.4:
        cut = replace(cut, kind=Kind.CRASH, workers=(0,), seconds=0.0)
    if beside:
        return [cut, Fault(ends, everybody, at=at, border="written")]
    rests = Fault(random.choice(RESTS), (0,), at=at)
    # Each is idle once it halted, and again when it has saved.
    return [rests, cut, *(Fault(ends, (one,), at=at, border="idle", arrival=2) for one in everybody)]


def _last_of_all(random: Random, workers: int) -> list[Fault]:
    """One is cut off, the others go on without it and die, and another coordinator hears of that before it hears it."""
    at, (last, *others) = random.uniform(1.0, 3.0), random.sample(range(workers), k=workers)
    cut = Fault(Kind.ISOLATE, (last,), at=at, border="stepping", seconds=random.uniform(1.0, 4.0))
    short = Fault(Kind.BREAK, tuple(others), at=at + 0.1, border="contributed")
    die = Fault(Kind.KILL_AGENT, tuple(others), at=at + 0.1, border="regrouped")
    return [cut, short, die, Fault(Kind.CRASH, (0,), at=at + 0.1, border="regrouped")]


def _comes_back(random: Random, workers: int) -> list[Fault]:
    """One is cut off, the others go on without it and die, and it is back in time with what it holds."""
    at, (last, *others) = random.uniform(1.0, 2.5), random.sample(range(workers), k=workers)
    cut = Fault(Kind.ISOLATE, (last,), at=at, border="stepping", seconds=random.uniform(3.0, 6.0))
    short = Fault(Kind.BREAK, tuple(others), at=at + 0.1, border="contributed")
    dies, border = random.choice((Kind.KILL_AGENT, *ENDINGS)), random.choice(("regrouped", "connected"))
    return [cut, short, Fault(dies, tuple(others), at=at + 0.1, border=border)]


def _ahead_and_stopped(random: Random, order: list[int]) -> list[Fault]:
    """The first of these has applied a step that the others have not, and they are to stop."""
    at, arrival = random.uniform(0.3, 2.0), random.randint(1, 3)
    short = Fault(Kind.BREAK, tuple(order), at=at, border="applying", arrival=arrival)
    return [short, Fault(Kind.STOP, tuple(order[:1]), at=at, border="applying", arrival=arrival)]


def _a_step_more(random: Random, workers: int) -> list[Fault]:
    """Who saves a job that is to stop has a step more than the others, and dies once its file is whole."""
    order = random.sample(range(workers), k=workers)
    stopped = _ahead_and_stopped(random, order)
    dies = random.choice((Kind.KILL_AGENT, *ENDINGS))
    return [*stopped, Fault(dies, tuple(order[:1]), at=stopped[0].at, border="reporting", arrival=1)]


def _told_late(random: Random, workers: int) -> list[Fault]:
    """Who saves is a step ahead, is cut off, and tells of its file while the others save theirs, or cannot."""
    first, *others = order = random.sample(range(workers), k=workers)
    stopped = _ahead_and_stopped(random, order)
    at = stopped[0].at
    cut = Fault(Kind.ISOLATE, (first,), at=at, border="writing", arrival=1, seconds=random.uniform(4.0, 9.0))
    if random.random() < 0.5:
        return [*stopped, cut, Fault(Kind.UNWRITABLE, tuple(others), at=at, seconds=18.0)]
    slow = [Fault(Kind.STALL, (one,), at=at, border="writing", arrival=1, seconds=4.0) for one in others]
    return [*stopped, cut, *slow]


def _lack_at_first(random: Random, workers: int) -> list[Fault]:
    """Two jobs lose a machine each before they could begin: each keeps what the other lacks."""
    return [Fault(Kind.GONE, (number,), at=0.1, border="preparing", arrival=1) for number in (0, 2)]


# By the name of its dice: in which part of the lives, of how many workers at least, and what.
SEQUENCES: dict[str, tuple[float, int, Callable[[Random, int], list[Fault]]]] = {
    "ahead": (0.04, 1, _ahead),
    "left behind": (0.1, 2, _left_behind),
    "unheard": (0.06, 1, _unheard),
    "last of all": (0.04, 2, _last_of_all),
    "comes back": (0.04, 2, _comes_back),
    "a step more": (0.04, 2, _a_step_more),
    LACKING: (0.03, 4, _lack_at_first),
    "told late": (0.06, 2, _told_late),
}
