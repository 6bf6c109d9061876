"""Those who hold the newest state are away, or die, and it comes back or does not.

Owns: these sequences. Refuses to know: who is blamed for it (`blamed`), and what a saver tells (`saved`).
"""

from random import Random

from regroup.lab.sim.lives.plan import GOING, Fault, Kind
from regroup.lab.sim.lives.sequences.sequence import (
    ENDINGS,
    Sequence,
    evaluated,
    for_long,
    long,
    long_and_small,
    one_waits_for_all,
    two_at_least,
    two_of_two,
)


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


def _killed_while_held(random: Random, workers: int) -> list[Fault]:
    """One trains on while the other is cut off; it dies while the job is held, and its steps with it."""
    at, (ahead, *others) = random.uniform(1.5, 2.5), random.sample(range(workers), k=workers)
    cut = [Fault(kind, tuple(others), at=at, seconds=3.0) for kind in (Kind.ISOLATE, Kind.CUT)]
    short = Fault(Kind.BREAK, (ahead,), at=at + 0.2, border="contributed")
    hold = Fault(Kind.HOLD, (0,), at=at + random.uniform(2.0, 6.0))
    dies = Fault(random.choice((Kind.KILL_AGENT, *ENDINGS)), (ahead,), at=hold.at + 0.5)
    return [*cut, short, hold, dies]


def _may_not_grow(random: Random, workers: int) -> list[Fault]:
    """A job loses a worker for which another one waits that wants them all; it comes back."""
    at, one = random.uniform(1.0, 2.5), random.randrange(workers)
    away = [Fault(kind, (one,), at=at, seconds=random.uniform(4.0, 7.0)) for kind in (Kind.CUT, Kind.ISOLATE)]
    return [*away, Fault(Kind.KILL_AGENT, (one,), at=at + 0.2)]


def _all_killed(random: Random, workers: int) -> list[Fault]:
    """All trainers are killed at once, in an evaluation or before."""
    return [Fault(Kind.KILL_TRAINER, tuple(range(workers)), at=random.uniform(1.0, 5.0))]


def _lack_at_first(random: Random, workers: int) -> list[Fault]:
    """Two jobs lose a machine each before they could begin: each keeps what the other lacks."""
    return [Fault(Kind.GONE, (number,), at=0.1, border="preparing", arrival=1) for number in (0, 2)]


def _answers_and_is_gone(random: Random, workers: int) -> list[Fault]:
    """One is slow to leave its group, and who has answered is not heard of any more."""
    at, (slow, *others) = random.uniform(1.5, 3.0), random.sample(range(workers), k=workers)
    gone = at + random.uniform(0.6, 1.5)
    return [
        Fault(Kind.STALL, (slow,), at=at, border="stepping", seconds=8.0, arrival=1),
        Fault(Kind.BREAK, (others[0],), at=at, border="contributed", arrival=1),
        *(Fault(Kind.ISOLATE, (one,), at=gone, seconds=8.0) for one in others),
    ]


def _away_while_held(random: Random, workers: int) -> list[Fault]:
    """A job is held; one that has its state dies while all others are cut off for a moment."""
    at, (one, *others) = random.uniform(1.5, 3.0), random.sample(range(workers), k=workers)
    hold, dies = Fault(Kind.HOLD, (0,), at=at), Fault(Kind.KILL_TRAINER, (one,), at=at + 1.0)
    return [hold, dies, *(Fault(kind, tuple(others), at + 0.8, seconds=2.0) for kind in (Kind.CUT, Kind.ISOLATE))]


def _late_and_alone(random: Random, workers: int) -> list[Fault]:
    """One does not hear that it is to halt, and is given up; then the others die."""
    at, (late, *others) = random.uniform(1.0, 3.0), random.sample(range(workers), k=workers)
    deaf = Fault(Kind.DEAFEN, (late,), at=at, seconds=random.uniform(2.5, 4.0))
    short = Fault(Kind.BREAK, tuple(others), at=at + 0.1, border="contributed")
    dies, border = random.choice((Kind.KILL_AGENT, *ENDINGS)), random.choice(("form", "connecting"))
    return [deaf, short, Fault(dies, tuple(others), at=at + 1.0, border=border)]


def _answers_and_hangs(random: Random, workers: int) -> list[Fault]:
    """One is slow to leave its group, and who has answered hangs for ever."""
    at, (slow, *others) = random.uniform(1.5, 3.0), random.sample(range(workers), k=workers)
    return [
        Fault(Kind.STALL, (slow,), at=at, border="stepping", seconds=8.0, arrival=1),
        Fault(Kind.BREAK, (others[0],), at=at, border="contributed", arrival=1),
        Fault(Kind.DEADLOCK, tuple(others), at=at + random.uniform(0.6, 1.2)),
    ]


def _hangs_as_it_forms(random: Random, workers: int) -> list[Fault]:
    """The others die, and the only one that has the state hangs as it forms again. Its job may be stopped, and
    it dies before it hears that it is given up."""
    at, (one, *others) = random.uniform(1.0, 3.0), random.sample(range(workers), k=workers)
    dies, hangs = random.choice((Kind.KILL_AGENT, *ENDINGS)), Fault(Kind.DEADLOCK, (one,), at + 0.1, "connecting")
    lost = [Fault(dies, tuple(others), at=at), hangs]
    if random.random() < 0.5:
        return lost
    stop, deaf = Fault(Kind.STOP, (0,), at=at + 2.0), Fault(Kind.DEAFEN, (one,), at=at + 2.0, seconds=8.0)
    return [*lost, stop, deaf, Fault(random.choice(ENDINGS), (one,), at=at + random.uniform(6.0, 9.0))]


def _hangs_unseen(random: Random, workers: int) -> list[Fault]:
    """The others are off for as long as one waits for them, with the only state; as they prepare anew it hangs for a
    while, and its agent does not see that."""
    at, (one, *others) = random.uniform(1.5, 2.5), random.sample(range(workers), k=workers)
    off = random.uniform(6.0, 7.5)
    hangs = Fault(Kind.HANG, (one,), at=at + off, border="prepared", seconds=4.0)
    return [Fault(Kind.AWAY, tuple(others), at=at, seconds=off), hangs]


def _under_another_limit(random: Random, workers: int) -> list[Fault]:
    """One is cut off and trains on; the others die, and the next coordinator has a shorter limit for a lease."""
    at, (one, *others) = random.uniform(1.5, 3.0), random.sample(range(workers), k=workers)
    cut, dies = Fault(Kind.ISOLATE, (one,), at=at, seconds=12.0), Fault(Kind.KILL_TRAINER, tuple(others), at=at + 0.3)
    return [cut, dies, Fault(Kind.CRASH, (0,), at=at + 0.6)]


def _two_lines(random: Random, workers: int) -> list[Fault]:
    """Some are cut off; the others go on without them, and are cut off in their turn. The first are back, and go on
    from where they were, as rule 7 lets them; some or all of them die as they do, and the others come back."""
    at, order = random.uniform(1.5, 2.5), random.sample(range(workers), k=workers)
    some = random.randint(1, workers - 1)
    first, others = tuple(order[:some]), tuple(order[some:])
    dies, border = random.choice((Kind.KILL_AGENT, *ENDINGS)), random.choice(("form", "connecting", "regrouped"))
    return [
        Fault(Kind.ISOLATE, first, at=at, border="applying", seconds=random.uniform(5.0, 7.0)),
        Fault(Kind.BREAK, others, at=at + 0.1, border="contributed"),
        Fault(Kind.ISOLATE, others, at=at + random.uniform(2.0, 3.5), seconds=random.uniform(9.0, 14.0)),
        Fault(dies, first[: random.randint(1, some)], at=at + 9.0, border=border),
    ]


def _cut_off_as_they_form(random: Random, workers: int) -> list[Fault]:
    """One is cut off as a group forms anew, and another one dies before all are heard to have formed."""
    at, (cut, dead, *others) = random.uniform(1.0, 3.0), random.sample(range(workers), k=workers)
    off = [Fault(kind, (cut,), at=at + 0.1, border="connecting", seconds=4.0) for kind in (Kind.ISOLATE, Kind.CUT)]
    dies = Fault(random.choice(ENDINGS), (dead,), at=at + 0.1, border=random.choice(("connecting", "connected")))
    return [Fault(Kind.BREAK, (others[0],), at=at, border="contributed"), *off, dies]


LOST = {  # by the names of their dice
    "ahead": Sequence(0.03, 1, _ahead),
    "left behind": Sequence(0.05, 2, _left_behind),
    "last of all": Sequence(0.03, 2, _last_of_all),
    "comes back": Sequence(0.03, 2, _comes_back),
    "killed while held": Sequence(0.015, 2, _killed_while_held, long),
    "all killed": Sequence(0.01, 2, _all_killed, evaluated, chunk=1.0),
    "may not grow": Sequence(0.015, 2, _may_not_grow, one_waits_for_all),
    "lack at first": Sequence(0.03, 4, _lack_at_first, two_of_two),
    "answers and is gone": Sequence(0.02, 2, _answers_and_is_gone, long_and_small),
    "late and alone": Sequence(0.02, 2, _late_and_alone, long_and_small),
    "answers and hangs": Sequence(0.02, 2, _answers_and_hangs, long_and_small),
    "hangs as it forms": Sequence(0.02, 2, _hangs_as_it_forms, long_and_small),
    "away while held": Sequence(0.015, 2, _away_while_held, long),
    "hangs unseen": Sequence(0.01, 2, _hangs_unseen, two_at_least, heals=20.0, changes={"learned": False}),
    "cut off as they form": Sequence(0.01, 3, _cut_off_as_they_form, long_and_small),
    "two lines": Sequence(0.02, 2, _two_lines, for_long, heals=24.0),
    "another limit": Sequence(
        0.01, 2, _under_another_limit, long_and_small, heals=20.0, changes={"detached": (9.0, 2.0)}
    ),
}
