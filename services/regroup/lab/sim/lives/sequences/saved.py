"""Who saves, reads, or tells of a file does so late, twice, or in vain.

Owns: these sequences. Refuses to know: who else holds what is saved (`lost`).
"""

from dataclasses import replace
from random import Random

from regroup.lab.sim.lives.plan import Fault, Kind
from regroup.lab.sim.lives.sequences.sequence import ENDINGS, Sequence, long, written_often

RESTS = (Kind.PAUSE, Kind.PAUSE, Kind.STOP)


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


def _raises_again(random: Random, workers: int) -> list[Fault]:
    """The task's state() raises at a save; its user goes on, another worker is to save, and there it raises, too."""
    at, everybody = random.uniform(1.0, 2.0), tuple(range(workers))
    pauses = [Fault(Kind.PAUSE, (0,), at=at + 0.7 * number) for number in range(8)]
    gone = Fault(Kind.GONE, (0,), at=at + 0.1, border="resumed")
    return [Fault(Kind.STATE_RAISES, everybody, at=0.5, seconds=18.0), *pauses, gone]


def _writes_for_long(random: Random, workers: int) -> list[Fault]:
    """Whoever writes a state at a rest takes longer than a step may, and is asked again meanwhile."""
    at, everybody = random.uniform(1.0, 2.0), tuple(range(workers))
    slow = Fault(Kind.STALL, everybody, at=at, border="writing", seconds=random.uniform(5.0, 9.0))
    return [slow, Fault(random.choice(RESTS), (0,), at=at)]


def _told_in_vain(random: Random, workers: int) -> list[Fault]:
    """A state is written while one is cut off, and nobody knows whether that one has its step. The writer dies, tells
    of it, and is cut off, too; the others train on from beyond it, and die at once."""
    at, (cut, writer, *others) = random.uniform(1.0, 3.0), random.sample(range(workers), k=workers)
    return [
        Fault(Kind.ISOLATE, (cut,), at=at, seconds=12.0),
        Fault(random.choice(ENDINGS), (writer,), at=at, border="written", arrival=1),
        Fault(Kind.ISOLATE, (writer,), at=at + 0.1, border="form", seconds=9.0),
        Fault(Kind.KILL_AGENT, tuple(others), at=at + 0.1, border="form"),
    ]


def _told_and_over(random: Random, workers: int) -> list[Fault]:
    """States are written while the reports of one are lost, and nobody knows what it committed; then all is over."""
    at, (mute, *_) = random.uniform(1.0, 3.0), random.sample(range(workers), k=workers)
    over, everybody = at + random.uniform(0.8, 2.5), tuple(range(workers))
    ends = random.choice(
        (
            Fault(Kind.STOP_NOW, (0,), at=over),
            Fault(Kind.POISON, (0,), at=over, seconds=18.0),
            Fault(random.choice((Kind.KILL_AGENT, *ENDINGS)), everybody, at=over),
        )
    )
    return [Fault(Kind.SILENCE, (mute,), at=at, seconds=random.uniform(4.0, 8.0)), ends]


SAVED = {  # by the names of their dice
    "unheard": Sequence(0.04, 1, _unheard),
    "a step more": Sequence(0.03, 2, _a_step_more),
    "told late": Sequence(0.03, 2, _told_late),
    "reads again": Sequence(0.02, 2, _reads_again),
    "saved twice": Sequence(0.02, 1, _saved_twice),
    "writes for long": Sequence(0.02, 1, _writes_for_long),
    "told in vain": Sequence(0.03, 3, _told_in_vain, written_often),
    "told and over": Sequence(0.02, 2, _told_and_over, written_often),
    "raises again": Sequence(0.02, 2, _raises_again, long),
}
