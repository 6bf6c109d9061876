"""One worker fails again and again, or seems to: who is blamed, and who is left out.

Owns: these sequences. Refuses to know: what is lost by it (`lost`).
"""

from random import Random

from regroup.lab.sim.lives.plan import Fault, Kind
from regroup.lab.sim.lives.sequences.sequence import Sequence, long, needs_all


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


BLAMED = {  # by the names of their dice
    "dies before a step": Sequence(0.01, 2, _dies_before_a_step, needs_all),
    "begins anew": Sequence(0.01, 2, _begins_anew),
    "severed once": Sequence(0.02, 2, _severed_once, long),
    "unfit and needed": Sequence(0.01, 2, _unfit_and_needed, needs_all),
    "newcomers die": Sequence(0.015, 2, _newcomers_die, long),
}
