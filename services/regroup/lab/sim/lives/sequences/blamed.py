"""One worker fails again and again, or seems to: who is blamed, and who is left out.

Owns: these sequences. Refuses to know: what is lost by it (`lost`).
"""

from random import Random

from regroup.lab.sim.lives.plan import Fault, Kind
from regroup.lab.sim.lives.sequences.sequence import (
    ENDINGS,
    Sequence,
    impatient,
    long,
    long_and_small,
    needs_all,
    needs_all_but_one,
    one_after_another,
)

REACHES_NOBODY = 40.0  # seconds: several times as long as a job that could train may make no step


def _dies_before_a_step(random: Random, workers: int) -> list[Fault]:
    """One dies in each generation before its first step."""
    at, one = random.uniform(1.0, 2.5), random.randrange(workers)
    short = Fault(Kind.BREAK, (one,), at=at, border="contributed")
    times = (at + 0.1 + 1.2 * number for number in range(4))
    return [short, *(Fault(Kind.KILL_TRAINER, (one,), at=time, border="regrouped") for time in times)]


def _begins_anew(random: Random, workers: int) -> list[Fault]:
    """One has other code than the others, until its agent starts anew."""
    one = random.randrange(workers)
    return [
        Fault(Kind.MISMATCH, (one,), at=0.0, seconds=2.0),
        Fault(Kind.KILL_AGENT, (one,), at=random.uniform(2.2, 4.0)),
    ]


def _severed_once(random: Random, workers: int) -> list[Fault]:
    """There is no way between two for a moment; they form, and later one is slow to form for another reason."""
    at, (one, other, *_) = random.uniform(1.0, 2.0), random.sample(range(workers), k=workers)
    short = [Fault(Kind.BREAK, (one,), at=when, border="contributed") for when in (at, at + 4.0)]
    apart = Fault(Kind.SEVER, (one,), at=at, border="connecting", seconds=random.choice((0.3, 0.6, 1.0)))
    slow = random.choice((one, other))
    return [*short, apart, *(Fault(Kind.STALL, (slow,), at + when, "form", 3.4) for when in (4.0, 7.1))]


def _nobody_reaches_one(random: Random, workers: int) -> list[Fault]:
    """For long there is no way to one, with or without a state; the others suffice."""
    at, border = random.choice(((0.0, None), (1.0, "form"), (1.0, "stepping")))
    return [Fault(Kind.SEVER, (random.randrange(workers),), at=at, border=border, seconds=REACHES_NOBODY)]


def _unfit_and_needed(random: Random, workers: int) -> list[Fault]:
    """The task raises on one device, from some step on, of a job that needs them all."""
    return [Fault(Kind.UNFIT, (random.randrange(workers),), at=random.uniform(0.5, 4.0), seconds=18.0)]


def _newcomers_die(random: Random, workers: int) -> list[Fault]:
    """One trains on, cut off, while the others die, and again and again as they prepare."""
    at, (one, *others) = random.uniform(1.0, 2.5), random.sample(range(workers), k=workers)
    cut = [Fault(kind, (one,), at=at, seconds=6.0) for kind in (Kind.ISOLATE, Kind.CUT)]
    die = [Fault(Kind.CRASH_TRAINER, (other,), at=at) for other in others]
    again = [(other, number) for other in others for number in (1, 2)]
    return [*cut, *die, *(Fault(Kind.CRASH_TRAINER, (who,), at, "preparing", arrival=n) for who, n in again)]


def _killed_as_it_prepares(random: Random, workers: int) -> list[Fault]:
    """One's trainer dies, by chance or not, and twice more as it prepares, while others train."""
    at, one, dies = random.uniform(1.0, 2.5), random.randrange(workers), random.choice(ENDINGS)
    again = [Fault(dies, (one,), at, "preparing", arrival=number) for number in (1, 2)]
    return [Fault(Kind.KILL_TRAINER, (one,), at=at), *again]


def _not_alone(random: Random, workers: int) -> list[Fault]:
    """The task raises on one device again and again, and in between on another one, too."""
    at, (one, other, *_) = random.uniform(0.5, 2.0), random.sample(range(workers), k=workers)
    unfit = [Fault(Kind.RAISE, (one,), at=at, border="stepping", arrival=number) for number in range(1, 12, 2)]
    return [*unfit, *(Fault(Kind.RAISE, (other,), at, "stepping", arrival=number) for number in (2, 4))]


def _nobody_takes_it(random: Random, workers: int) -> list[Fault]:
    """Whoever is to take the first state raises, each time."""
    return [
        Fault(Kind.RAISE, (one,), at=0.1, border="loaded", arrival=number)
        for one in range(workers)
        for number in range(1, 6)
    ]


def _odd_and_anew(random: Random, workers: int) -> list[Fault]:
    """Who has other code prepares last; before that the coordinator begins anew, and has yet to hear of the others."""
    one, at = random.randrange(workers), random.uniform(0.9, 1.6)
    return [
        Fault(Kind.MISMATCH, (one,), at=0.0, seconds=4.0),
        Fault(Kind.STALL, (one,), at=0.0, border="preparing", seconds=at + random.uniform(0.0, 0.8), arrival=1),
        Fault(Kind.CRASH, (0,), at=at),
        Fault(Kind.SLOW, (0,), at=at, seconds=2.5),
        Fault(Kind.KILL_AGENT, (one,), at=random.uniform(4.2, 5.0)),
    ]


def _never_a_step(random: Random, workers: int) -> list[Fault]:
    """One breaks each generation before its first step, again and again."""
    at, one = random.uniform(1.0, 2.0), random.randrange(workers)
    return [Fault(Kind.BREAK, (one,), at, "contributed", arrival=number) for number in range(1, 26)]


def _refused_and_failing(random: Random, workers: int) -> list[Fault]:
    """All but one cannot take part, and on that one the task dies as it prepares, again and again."""
    one, *others = random.sample(range(workers), k=workers)
    die = [Fault(Kind.CRASH_TRAINER, (one,), 0.9 + 0.5 * number, arrival=0) for number in range(12)]
    return [Fault(Kind.UNPREPARED, tuple(others), at=0.0, seconds=18.0), *die]


def _other_data(random: Random, workers: int) -> list[Fault]:
    """A job begins from another one's checkpoint, and everybody has other data by then."""
    return [Fault(Kind.MISMATCH, tuple(range(workers)), at=random.uniform(1.0, 1.5), seconds=18.0)]


def _data_is_slow(random: Random, workers: int) -> list[Fault]:
    """Data is late again and again, each time for another step."""
    at, everybody = random.uniform(1.2, 1.8), tuple(range(workers))
    late = [(at + 3.3 * number, random.uniform(2.5, 2.9)) for number in range(4)]
    return [Fault(Kind.STARVE, everybody, at=when, seconds=lasts) for when, lasts in late]


def _data_stalls(random: Random, workers: int) -> list[Fault]:
    """The data of some does not come for a moment, and that of the others does."""
    struck = tuple(random.sample(range(workers), k=random.randint(2, workers - 1)))
    return [Fault(Kind.STARVE, struck, at=random.uniform(2.0, 4.0), seconds=random.uniform(3.5, 4.5))]


def _starves_and_stands(random: Random, workers: int) -> list[Fault]:
    """Data comes to nobody, one dies of it, and another one stands still as it waits to form again."""
    at, (one, other, *_) = random.uniform(1.5, 3.0), random.sample(range(workers), k=workers)
    return [
        Fault(Kind.STARVE, tuple(range(workers)), at=at, seconds=8.0),
        Fault(Kind.HANG, (one,), at=at + 1.0, border="idle", seconds=random.uniform(2.5, 5.0), arrival=1),
        Fault(Kind.KILL_TRAINER, (other,), at=at + random.uniform(1.2, 2.0)),
    ]


BLAMED = {  # by the names of their dice
    "dies before a step": Sequence(0.01, 2, _dies_before_a_step, needs_all),
    "begins anew": Sequence(0.01, 2, _begins_anew),
    "severed once": Sequence(0.02, 2, _severed_once, long),
    "nobody reaches one": Sequence(0.01, 3, _nobody_reaches_one, needs_all_but_one, heals=REACHES_NOBODY),
    "unfit and needed": Sequence(0.01, 2, _unfit_and_needed, needs_all),
    "newcomers die": Sequence(0.015, 2, _newcomers_die, long),
    "killed as it prepares": Sequence(0.015, 2, _killed_as_it_prepares, long),
    "not alone": Sequence(0.015, 2, _not_alone, long_and_small),
    "nobody takes it": Sequence(0.015, 2, _nobody_takes_it),
    "odd and anew": Sequence(0.02, 2, _odd_and_anew, needs_all),
    "never a step": Sequence(0.02, 3, _never_a_step, long_and_small),
    "refused and failing": Sequence(0.015, 2, _refused_and_failing),
    "other data": Sequence(0.02, 3, _other_data, one_after_another, begins=True),
    "data is slow": Sequence(0.02, 1, _data_is_slow, impatient),
    "data stalls": Sequence(0.02, 3, _data_stalls, long_and_small),
    "starves and stands": Sequence(0.01, 2, _starves_and_stands, long_and_small, changes={"learned": True}),
}
