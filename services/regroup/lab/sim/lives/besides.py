"""What goes wrong in a life besides its theme, each kind by dice of its own: the others fall as they would without.

Owns: what that may be, and in which part of the lives that have more than their theme.
Refuses to know: which lives those are (`drawing`), and how a fault is done (`faults`).
"""

from dataclasses import replace
from random import Random

from regroup.lab.sim.lives.plan import GOING, REPORT_FAULTS, STATE_FAULTS, Fault, Kind, Plan, in_time
from regroup.lab.sim.lives.themes.theme import Some
from regroup.lab.sim.model.limits import POLICY

WEATHER = (Kind.LOSSY, Kind.DOUBLING, Kind.JUMBLED, Kind.SLOW)
WEATHER_LASTS = 8.0  # seconds
SPOILT = ("paused", "resumed", "reading", "form", "struck")  # where a file counts
AT_WORK = ("preparing", "connecting", "stepping", "contributed", "applying", "saving")
DETACHED = (2.0, POLICY.detached_limit, 9.0)  # seconds, as an operator may set it between two coordinators
SEVERING = 0.1  # of the lives with more have trainers that cannot reach each other
GOERS = 0.2  # have somebody who is to go
AT_SAVES = 0.25  # have a task whose own code fails a save
# By dice of its own: which part of them, and what.
BY_CHANCE = {
    "strangers": (0.08, Some((Kind.STRANGER,), (1, 2), crowds=(1,))),
    "mistakes": (0.1, Some((Kind.MISTAKE,), (1, 2, 4), waits=0.3)),
    "slow": (0.1, Some((Kind.LAG,), (1, 1, 2), (2.0, 4.0, 18.0), (1,), waits=0.0, until=4.0)),
    "slow store": (0.06, Some((Kind.STORE_SLOW,), (1,), (4.0, 8.0, 18.0), waits=0.0, until=4.0)),
    "unkillable": (0.06, Some((Kind.UNKILLABLE,), (1, 1, 2), (3.0, 7.0, 18.0), (1,), AT_WORK, waits=0.8, until=4.0)),
    "unfit": (0.08, Some((Kind.UNFIT,), (1,), (4.0, 8.0, 18.0), (1, 1, 1, 2, 6), waits=0.0, until=4.0)),
    "undeletable": (0.05, Some((Kind.UNDELETABLE,), (1, 2), (3.0, 18.0), waits=0.0, until=3.0)),
}


def with_more(plan: Plan) -> Plan:
    """Also what is no part of its theme, each by dice of its own: the others fall as they would without."""
    seed, workers, jobs, policy = plan.seed, plan.workers, plan.jobs, plan.policy
    faults = list(plan.faults)
    beginning = Random(f"{seed} beginning")
    begins = beginning.random() < 0.5
    if begins and len(jobs) == 1:
        jobs = (*jobs, replace(jobs[0], keep_last=beginning.choice((1, 2, 3))))
    weather = Random(f"{seed} weather")
    if weather.random() < 0.3:  # the network is bad all the time
        faults.append(Fault(weather.choice(WEATHER), (0,), at=weather.uniform(0.1, 3.0), seconds=WEATHER_LASTS))
    starving = Random(f"{seed} starving")
    if plan.learned and starving.random() < 0.3:
        struck, at = starving.randrange(workers), starving.uniform(1.0, 6.0)
        faults.append(Fault(Kind.STARVE, (struck,), at=at, seconds=starving.choice((2.0, 5.0, 8.0))))
    if plan.learned and starving.random() < 0.02:  # all of them, until it is the task's error
        jobs = tuple(replace(spec, step_timeout=2.0) for spec in jobs)
        faults.append(Fault(Kind.STARVE, tuple(range(workers)), at=starving.uniform(1.0, 2.5), seconds=18.0))
    stopping = Random(f"{seed} stopping")
    if stopping.random() < 0.1:
        faults += Some((Kind.STOP,), (1,)).drawn(stopping, workers)
    faults += _goers(Random(f"{seed} leaving"), workers)
    faults += _severed(Random(f"{seed} severing"), workers)
    faults += _damage(Random(f"{seed} damage"), workers)
    apart = Random(f"{seed} folders")
    folders = apart.random() < 0.2
    if folders:  # with an older checkpoint, so that a job could go back
        jobs = tuple(
            replace(spec, checkpoint_every=apart.choice((1, 3)), keep_last=apart.choice((2, 3))) for spec in jobs
        )
        policy = replace(policy, forget_limit=1.5)
        faults += _parted(apart, workers)
    faults += _at_saves(Random(f"{seed} at saves"), workers)
    for name, (chance, some) in BY_CHANCE.items():
        apart = Random(f"{seed} {name}")
        if apart.random() < chance:
            faults += some.drawn(apart, workers)
    detached = Random(f"{seed} detached")
    return replace(
        plan,
        jobs=jobs,
        policy=policy,
        faults=in_time(faults),
        begins=begins or plan.begins,
        folders=folders,
        detached=tuple(detached.choice(DETACHED) for _ in range(3)) if detached.random() < 0.15 else (),
    )


def _goers(random: Random, workers: int) -> list[Fault]:
    """Agents that are asked to end, and workers that are drained: one after the other, or all at once."""
    if random.random() >= GOERS:
        return []
    crowds = (workers,) if random.random() < 0.3 else (1, 1, 2)
    some = Some(GOING, (1, 2, 4), crowds=crowds, since=1.5, until=random.choice((5.0, 11.0)))
    if random.random() < 0.8:
        return some.drawn(random, workers)
    hold = Fault(Kind.HOLD, (0,), at=random.uniform(2.0, 4.0))  # what is held must not be lost with them
    if random.random() < 0.2:  # before there is any step
        first = replace(
            some, crowds=(workers,), counts=(1,), borders=("form", "connected"), waits=1.0, since=0.0, until=0.5
        )
        return first.drawn(random, workers)
    after = replace(some, crowds=(workers,), waits=0.0, after=(0.4, 2.0))
    return [hold, *after.drawn(random, workers, hold)]


def _damage(random: Random, workers: int) -> list[Fault]:
    """Of files: somebody pauses the job, and what it then begins from is not what was written, or said not to be."""
    if random.random() < 0.8:
        return []
    damage = Some((Kind.DAMAGE,), (1, 2, 3), borders=SPOILT, waits=0.9, since=0.3, until=3.0)
    misread = Some((Kind.MISREAD, Kind.UNREADABLE), (0, 1), (3.0, 7.0), (1, 2), SPOILT, waits=0.7, since=0.3, until=3.0)
    twice = Some((Kind.DOUBLING,), (0, 1), (8.0,), waits=0.0, since=0.3, until=3.0)
    rests = Some((Kind.PAUSE,), (1, 2, 3), borders=("stepping", "written"), waits=1.0, since=0.3, until=3.0)
    return [fault for some in (damage, misread, twice, rests) for fault in some.drawn(random, workers)]


def _severed(random: Random, workers: int) -> list[Fault]:
    """Between hosts there may be no way, though each reaches the coordinator."""
    if workers < 2 or random.random() >= SEVERING:
        return []
    crowds = (1, 1, 2) if workers > 3 else (1,)
    borders = ("form", "connecting", "stepping", "contributed")
    return Some((Kind.SEVER,), (1, 1, 2), (3.0, 7.0, 12.0), crowds, borders, since=1.0).drawn(random, workers)


def _parted(random: Random, workers: int) -> list[Fault]:
    """Of machines whose files nobody else sees: somebody pauses the job, and a machine is off for longer than it is
    remembered, or its worker's name moves to another one."""
    crowds = (1, max(1, workers - 1))  # all but one: whoever wrote the newest file is probably among them
    rests = Some((Kind.PAUSE,), (1, 2), borders=("written",), waits=1.0, since=1.0, until=4.0)
    away = Some((Kind.AWAY, Kind.MOVE), (1, 2), (3.0, 6.0, 12.0), crowds, ("paused",), waits=0.9, since=1.0, until=4.0)
    return [fault for some in (rests, away) for fault in some.drawn(random, workers)]


def _at_saves(random: Random, workers: int) -> list[Fault]:
    """The task's own code, on one worker or on all; and a user who does not wait for a save."""
    if random.random() >= AT_SAVES:
        return []
    crowds = (workers,) if random.random() < 0.5 else (1, 1, 2)
    kinds = (random.choice((*STATE_FAULTS, *REPORT_FAULTS, *REPORT_FAULTS)),)
    wrong = Some(kinds, (1,), (3.0, 18.0, 18.0), crowds, ("saving",), waits=0.8, since=0.2, until=2.0)
    rests = Some((Kind.STOP, Kind.PAUSE), (0, 0, 1), waits=0.0, since=2.0, until=6.0)
    killed = Some((Kind.KILL_TRAINER,), (0, 0, 1), (), (workers,), ("reporting",), waits=1.0, since=0.2, until=2.0)
    at = ("saving", "telling", "stepping", "form")
    now = Some((Kind.STOP_NOW,), (0, 0, 0, 1), (), (1,), at, 0.7, since=random.choice((0.3, 2.0)), until=9.0)
    goes = Some(GOING, (0, 0, 1), (), (1, 1, workers), ("applying", "saving"), 0.7, since=1.0, until=4.0)
    return [fault for some in (wrong, rests, killed, now, goes) for fault in some.drawn(random, workers)]
