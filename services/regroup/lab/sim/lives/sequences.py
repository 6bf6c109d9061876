"""Faults that lead to a hole only in their order, each sequence drawn by dice of its own, in a part of the lives.

Owns: these sequences, and the jobs that some of them need. Single dice would hardly ever fall so, and a theme
knows only times after its first fault.
Refuses to know: what else goes wrong in the same life (`themes`, `besides`), and how one strikes (`faults`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from regroup.core.spec import JobSpec
from regroup.lab.sim.lives.plan import GOING, Fault, Kind

ENDINGS = (Kind.KILL_TRAINER, Kind.CRASH_TRAINER)
RESTS = (Kind.PAUSE, Kind.PAUSE, Kind.STOP)


def drawn(name: str, seed: int, workers: int) -> list[Fault]:
    """The faults of this sequence; most lives have none."""
    sequence, random = SEQUENCES[name], Random(f"{seed} {name}")
    may = workers >= sequence.least and random.random() < sequence.chance
    return sequence.faults(random, workers) if may else []


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


def _killed_while_held(random: Random, workers: int) -> list[Fault]:
    """One trains on while the other is cut off; it dies while the job is held, and its steps with it."""
    at, (ahead, *others) = random.uniform(1.5, 2.5), random.sample(range(workers), k=workers)
    cut = [Fault(kind, tuple(others), at=at, seconds=3.0) for kind in (Kind.ISOLATE, Kind.CUT)]
    short = Fault(Kind.BREAK, (ahead,), at=at + 0.2, border="contributed")
    hold = Fault(Kind.HOLD, (0,), at=at + random.uniform(2.0, 6.0))
    dies = Fault(random.choice((Kind.KILL_AGENT, *ENDINGS)), (ahead,), at=hold.at + 0.5)
    return [*cut, short, hold, dies]


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


def _all_killed(random: Random, workers: int) -> list[Fault]:
    """All trainers are killed at once, in an evaluation or before."""
    return [Fault(Kind.KILL_TRAINER, tuple(range(workers)), at=random.uniform(1.0, 5.0))]


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


def _severed_once(random: Random, workers: int) -> list[Fault]:
    """There is no way between two for a moment; they form, and later one is slow to form for another reason."""
    at, (one, other, *_) = random.uniform(1.0, 2.0), random.sample(range(workers), k=workers)
    short = [Fault(Kind.BREAK, (one,), at=when, border="contributed") for when in (at, at + 4.0)]
    apart = Fault(Kind.SEVER, (one,), at=at, border="connecting", seconds=random.choice((0.3, 0.6, 1.0)))
    slow = random.choice((one, other))
    return [*short, apart, *(Fault(Kind.STALL, (slow,), at + when, "form", 3.4) for when in (4.0, 7.1))]


def _reads_again(random: Random, workers: int) -> list[Fault]:
    """Who could not read a checkpoint begins anew while another one reads, which dies."""
    at, (one, other, *_) = random.uniform(1.5, 3.0), random.sample(range(workers), k=workers)
    return [
        Fault(Kind.PAUSE, (0,), at=at),
        Fault(Kind.UNREADABLE, (one,), at=at, border="reading", seconds=18.0),
        Fault(Kind.KILL_TRAINER, (one,), at=at + 0.1, border="unreadable"),
        Fault(Kind.STALL, (other,), at=at + 0.1, border="reading", arrival=1, seconds=2.5),
        Fault(Kind.KILL_TRAINER, (other,), at=at + 0.1, border="reading", arrival=1),
    ]


def _saved_twice(random: Random, workers: int) -> list[Fault]:
    """A job that is paused is resumed, and paused again; what was told of the first save comes once more."""
    at, border = random.uniform(1.5, 2.0), random.choice(("form", "connected", "regrouped", "stepping"))
    twice = Fault(Kind.DOUBLING, (0,), at=at, border="writing", seconds=2.5)
    slow = Fault(Kind.SLOW, (0,), at=at, border="writing", seconds=random.uniform(0.1, 0.5))
    return [Fault(Kind.PAUSE, (0,), at=at), twice, slow, Fault(Kind.PAUSE, (0,), at=at + 0.3, border=border)]


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


@dataclass(frozen=True, slots=True)
class Sequence:
    chance: float  # the part of the lives that have it
    least: int  # workers, or it cannot be
    faults: Callable[[Random, int], list[Fault]]
    asks: Callable[[JobSpec, int], tuple[JobSpec, ...]] = lambda spec, workers: ()  # for these jobs; (): for none
    chunk: float = 0.0  # for an evaluation with chunks of so many seconds


def _long(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    return (replace(spec, steps=24, epochs=None),)


def _evaluated(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    return (replace(spec, steps=12, epochs=None, evaluate_every=5),)


def _needs_all(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    return (replace(spec, steps=24, epochs=None, min_workers=workers, max_workers=workers),)


def _two_of_two(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    return (replace(spec, min_workers=2, max_workers=2),) * 2


SEQUENCES = {  # by the names of their dice
    "ahead": Sequence(0.03, 1, _ahead),
    "left behind": Sequence(0.05, 2, _left_behind),
    "unheard": Sequence(0.04, 1, _unheard),
    "last of all": Sequence(0.03, 2, _last_of_all),
    "comes back": Sequence(0.03, 2, _comes_back),
    "a step more": Sequence(0.03, 2, _a_step_more),
    "lack at first": Sequence(0.03, 4, _lack_at_first, _two_of_two),
    "killed while held": Sequence(0.015, 2, _killed_while_held, _long),
    "dies before a step": Sequence(0.01, 2, _dies_before_a_step, _needs_all),
    "begins anew": Sequence(0.01, 2, _begins_anew),
    "all killed": Sequence(0.01, 2, _all_killed, _evaluated, chunk=1.0),
    "goes untold": Sequence(0.015, 2, _goes_untold),
    "one stays away": Sequence(0.02, 2, _one_stays_away),
    "severed once": Sequence(0.02, 2, _severed_once, _long),
    "reads again": Sequence(0.02, 2, _reads_again),
    "saved twice": Sequence(0.02, 1, _saved_twice),
    "told late": Sequence(0.03, 2, _told_late),
    "newcomers die": Sequence(0.015, 2, _newcomers_die, _long),
    "unfit and needed": Sequence(0.01, 2, _unfit_and_needed, _needs_all),
}
