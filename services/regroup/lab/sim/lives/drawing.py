"""The plan of a life, drawn from its seed: a theme, and from that the cluster, its jobs and what goes wrong.

Owns: the order of the dice, which is what makes a seed a life. Refuses to know: why these themes (`themes`).
"""

from bisect import bisect
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate, chain
from random import Random

from regroup.core.cluster import Policy
from regroup.core.spec import JobSpec
from regroup.lab.sim.lives.plan import GOING, IN_REPORT, IN_STATE, LASTING, OF_ALL, Fault, Kind, Plan
from regroup.lab.sim.lives.sequences import SEQUENCES, drawn
from regroup.lab.sim.lives.themes import BY_HALVES, THEMES
from regroup.lab.sim.lives.themes.theme import SAME, Some, Theme
from regroup.lab.sim.model.limits import POLICY, SPEC

WEATHER = (Kind.LOSSY, Kind.DOUBLING, Kind.JUMBLED, Kind.SLOW)
SPOILT = ("paused", "resumed", "reading", "form", "struck")  # where a file counts
WEATHER_LASTS = 8.0  # seconds
BESIDE = (None, None, 1, 3, 8)  # steps between checkpoints
AT_WORK = ("preparing", "connecting", "stepping", "contributed", "applying", "saving")
DETACHED = (2.0, POLICY.detached_limit, 9.0)  # seconds, as an operator may set it between two coordinators
WEIGHED_TO = list(accumulate(theme.weight for theme in THEMES))  # the sum of the weights up to each theme
SEVERING = 0.1  # of the lives have trainers that cannot reach each other
LEAVING = 0.2  # of the lives have somebody who is to go
ALONE = 0.75  # of the lives are of their theme, and perhaps of a sequence
EARLY, LATE = 12.0, 14.0  # seconds after which all is well: a sequence takes longer
MANY = 0.02  # of the lives have more workers than any theme
QUEUES = 0.02  # have a job that wants more than is free, between two that do not
EVALUATING = 0.2  # of the lives have evaluations
HALVES = 0.04  # of the lives are of a machine that fails by halves, whatever the theme would be
AT_SAVES = 0.25  # have a task whose own code fails a save
# What some lives have besides, by dice of its own: which part of them, and what.
BY_CHANCE = {
    "strangers": (0.08, Some((Kind.STRANGER,), (1, 2), crowds=(1,))),
    "mistakes": (0.1, Some((Kind.MISTAKE,), (1, 2, 4), waits=0.3)),
    "slow": (0.1, Some((Kind.LAG,), (1, 1, 2), (2.0, 4.0, 18.0), (1,), waits=0.0, until=4.0)),
    "slow store": (0.06, Some((Kind.STORE_SLOW,), (1,), (4.0, 8.0, 18.0), waits=0.0, until=4.0)),
    "unkillable": (0.06, Some((Kind.UNKILLABLE,), (1, 1, 2), (3.0, 7.0, 18.0), (1,), AT_WORK, waits=0.8, until=4.0)),
    "undeletable": (0.05, Some((Kind.UNDELETABLE,), (1, 2), (3.0, 18.0), waits=0.0, until=3.0)),
}
GOLDEN = (5**0.5 - 1) / 2  # its multiples, modulo 1, lie evenly: even a few seeds in a row meet all themes


def draw(seed: int) -> Plan:
    plan = _in_order(_themed(seed))
    return plan if Random(f"{seed} alone").random() < ALONE else _with_more(plan)


def _themed(seed: int) -> Plan:
    """A cluster, its jobs, and what its theme says goes wrong."""
    random, beside, best = Random(seed), Random(f"{seed} checkpoints"), Random(f"{seed} best")
    choice = random.choice
    theme = THEMES[bisect(WEIGHED_TO, seed * GOLDEN % 1.0 * WEIGHED_TO[-1])]
    halves = Random(f"{seed} by halves")
    if halves.random() < HALVES:
        theme = halves.choice(BY_HALVES)
    many = Random(f"{seed} many")
    workers = many.choice((5, 6)) if many.random() < MANY else choice(theme.workers)
    spares = choice(theme.spares)
    pace = choice(theme.paces)
    jobs = tuple(_spec(random, theme, workers, max(1, workers - spares)) for _ in range(choice(theme.jobs)))
    jobs = tuple(
        replace(spec, checkpoint_every=beside.choice(BESIDE), keep_last=beside.choice((1, 2, 3))) for spec in jobs
    )
    jobs = tuple(replace(spec, keep_best=best.choice((0, 0, 1, 2))) for spec in jobs)
    if workers > 1 and Random(f"{seed} queue").random() < QUEUES:
        jobs = _queue(jobs[0], workers)
    evaluating = Random(f"{seed} evaluating")
    chunk = evaluating.choice((0.3, 1.0)) if evaluating.random() < EVALUATING else 0.0
    if chunk:  # by the saver alone, or also together before
        jobs = tuple(replace(spec, evaluate_every=evaluating.choice((None, None, 5))) for spec in jobs)
    faults: list[Fault] = []
    for some in theme.faults:
        faults += _some(random, some, workers, faults[0] if faults else None)
    drift = Random(f"{seed} drifting").choice((1.0, 1.0, 4.0))
    return Plan(
        seed=seed,
        workers=workers,
        jobs=jobs,
        policy=_limits(random, seed, drift),
        faults=_in_time(faults),
        skews=tuple(random.uniform(0.0, 1e6) for _ in range(workers + 1)),
        drifts=tuple(drift * random.uniform(-0.01, 0.01) for _ in range(workers + 1)),
        pace=pace,
        learned=Random(f"{seed} watching").random() < 0.6,
        chunk=chunk,
        heals=EARLY,
    )


def _limits(random: Random, seed: int, drift: float) -> Policy:
    margins = (POLICY.detached_margin, POLICY.detached_margin, 0.3) if drift == 1.0 else (POLICY.detached_margin,)
    return replace(
        POLICY,
        error_limit=random.choice([0, 2, 1000, 1000, 1000, 1000]),
        detached_margin=Random(f"{seed} margin").choice(margins),
        forget_limit=random.choice([1.5, POLICY.forget_limit, POLICY.forget_limit]),
        absent_limit=Random(f"{seed} absent").choice((2.0, POLICY.absent_limit)),
        error_forget=Random(f"{seed} forgiving").choice((1.0, 3.0, POLICY.error_forget, POLICY.error_forget)),
    )


def _in_order(plan: Plan) -> Plan:
    """Also sequences of faults, in some lives."""
    ordered = {name: faults for name in SEQUENCES if (faults := drawn(name, plan.seed, plan.workers))}
    if not ordered:
        return plan
    jobs = plan.jobs
    for name in ordered:
        jobs = SEQUENCES[name].asks(jobs[0], plan.workers) or jobs
    more = _in_time([*plan.faults, *chain.from_iterable(ordered.values())])
    chunk = max(plan.chunk, *(SEQUENCES[name].chunk for name in ordered))
    return replace(plan, jobs=jobs, faults=more, chunk=chunk, heals=LATE)


def _with_more(plan: Plan) -> Plan:
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
        faults += _some(stopping, Some((Kind.STOP,), (1,)), workers)
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
            faults += _some(apart, some, workers)
    detached = Random(f"{seed} detached")
    return replace(
        plan,
        jobs=jobs,
        policy=policy,
        faults=_in_time(faults),
        begins=begins,
        folders=folders,
        detached=tuple(detached.choice(DETACHED) for _ in range(3)) if detached.random() < 0.15 else (),
    )


def _in_time(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    return tuple(sorted(faults, key=lambda fault: fault.at))


def _queue(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    """The first trains for long on all workers but one, the next wants all of them, and the last one could start."""
    first = replace(spec, min_workers=1, max_workers=workers - 1, steps=24, epochs=None)
    return first, replace(spec, min_workers=workers, max_workers=workers), replace(spec, min_workers=1, max_workers=1)


def _goers(random: Random, workers: int) -> list[Fault]:
    """Agents that are asked to end, and workers that are drained: one after the other, or all at once."""
    if random.random() >= LEAVING:
        return []
    crowds = (workers,) if random.random() < 0.3 else (1, 1, 2)
    some = Some(GOING, (1, 2, 4), crowds=crowds, since=1.5, until=random.choice((5.0, 11.0)))
    if random.random() < 0.8:
        return _some(random, some, workers)
    hold = Fault(Kind.HOLD, (0,), at=random.uniform(2.0, 4.0))  # what is held must not be lost with them
    if random.random() < 0.2:  # before there is any step
        first = replace(
            some, crowds=(workers,), counts=(1,), borders=("form", "connected"), waits=1.0, since=0.0, until=0.5
        )
        return _some(random, first, workers)
    after = replace(some, crowds=(workers,), waits=0.0, after=(0.4, 2.0))
    return [hold, *_some(random, after, workers, hold)]


def _damage(random: Random, workers: int) -> list[Fault]:
    """Of files: somebody pauses the job, and what it then begins from is not what was written, or said not to be."""
    if random.random() < 0.8:
        return []
    damage = Some((Kind.DAMAGE,), (1, 2, 3), borders=SPOILT, waits=0.9, since=0.3, until=3.0)
    misread = Some((Kind.MISREAD, Kind.UNREADABLE), (0, 1), (3.0, 7.0), (1, 2), SPOILT, waits=0.7, since=0.3, until=3.0)
    twice = Some((Kind.DOUBLING,), (0, 1), (8.0,), waits=0.0, since=0.3, until=3.0)
    rests = Some((Kind.PAUSE,), (1, 2, 3), borders=("stepping", "written"), waits=1.0, since=0.3, until=3.0)
    return [fault for some in (damage, misread, twice, rests) for fault in _some(random, some, workers)]


def _severed(random: Random, workers: int) -> list[Fault]:
    """Between hosts there may be no way, though each reaches the coordinator."""
    if workers < 2 or random.random() >= SEVERING:
        return []
    crowds = (1, 1, 2) if workers > 3 else (1,)
    borders = ("form", "connecting", "stepping", "contributed")
    return _some(random, Some((Kind.SEVER,), (1, 1, 2), (3.0, 7.0, 12.0), crowds, borders, since=1.0), workers)


def _parted(random: Random, workers: int) -> list[Fault]:
    """Of machines whose files nobody else sees: somebody pauses the job, and a machine is off for longer than it is
    remembered, or its worker's name moves to another one."""
    crowds = (1, max(1, workers - 1))  # all but one: whoever wrote the newest file is probably among them
    rests = Some((Kind.PAUSE,), (1, 2), borders=("written",), waits=1.0, since=1.0, until=4.0)
    away = Some((Kind.AWAY, Kind.MOVE), (1, 2), (3.0, 6.0, 12.0), crowds, ("paused",), waits=0.9, since=1.0, until=4.0)
    return [fault for some in (rests, away) for fault in _some(random, some, workers)]


def _at_saves(random: Random, workers: int) -> list[Fault]:
    """The task's own code, on one worker or on all; and a user who does not wait for a save."""
    if random.random() >= AT_SAVES:
        return []
    crowds = (workers,) if random.random() < 0.5 else (1, 1, 2)
    kinds = (random.choice((*IN_STATE, *IN_REPORT, *IN_REPORT)),)
    wrong = Some(kinds, (1,), (3.0, 18.0, 18.0), crowds, ("saving",), waits=0.8, since=0.2, until=2.0)
    rests = Some((Kind.STOP, Kind.PAUSE), (0, 0, 1), waits=0.0, since=2.0, until=6.0)
    killed = Some((Kind.KILL_TRAINER,), (0, 0, 1), (), (workers,), ("reporting",), waits=1.0, since=0.2, until=2.0)
    at = ("saving", "telling", "stepping", "form")
    now = Some((Kind.STOP_NOW,), (0, 0, 0, 1), (), (1,), at, 0.7, since=random.choice((0.3, 2.0)), until=9.0)
    goes = Some(GOING, (0, 0, 1), (), (1, 1, workers), ("applying", "saving"), 0.7, since=1.0, until=4.0)
    return [fault for some in (wrong, rests, killed, now, goes) for fault in _some(random, some, workers)]


def _some(random: Random, some: Some, workers: int, first: Fault | None = None) -> list[Fault]:
    kinds = random.sample(some.kinds, k=random.randint(1, len(some.kinds)))
    return [_fault(random, random.choice(kinds), workers, some, first) for _ in range(random.choice(some.counts))]


def _spec(random: Random, theme: Theme, workers: int, most: int) -> JobSpec:
    whole = random.random() < 0.15  # an epoch of 101 samples: 13 steps, the last one short
    most = random.choice([most, most, most, most, random.randint(1, most)])
    least = min(random.choice(theme.least), most)
    if random.random() < 0.02:  # more than there are
        least = most = workers + 1
    return replace(
        SPEC,
        max_workers=most,
        min_workers=least,
        steps=None if whole else random.choice(theme.steps),
        epochs=1 if whole else None,
        max_restarts=random.choice([1, 1000, 1000, 1000]),
    )


def _fault(random: Random, kind: Kind, workers: int, some: Some, first: Fault | None) -> Fault:
    struck = random.sample(range(workers), k=1 if kind in OF_ALL else min(workers, random.choice(some.crowds)))
    at = random.uniform(some.since, some.until)
    if first is not None and some.after is not None:
        at = first.at + random.uniform(*some.after)
    if first is not None and some.whom is not None:
        others = [number for number in range(workers) if number not in first.workers]
        struck = list(first.workers) if some.whom == SAME else others or struck
    return Fault(
        kind=kind,
        workers=tuple(struck),
        at=at,
        border=random.choice(some.borders) if random.random() < some.waits else None,
        seconds=random.choice(some.seconds) if kind in LASTING else 0.0,
        arrival=some.arrival,
    )
