"""Which faults a seed draws. Uniform draws would hardly ever bring together what a hole needs, so lives have themes.

Owns: the themes and their weights. Most faults wait for a border of the protocol, because that is where the holes are.
Refuses to know: how a fault is done, and which theme finds what.
"""

from dataclasses import dataclass, replace
from functools import partial
from random import Random

from regroup.core.jobs import JobSpec
from regroup.lab.sim.plan import BEGIN, BORDERS, LASTING, OF_ALL, POLICY, SPEC, Fault, Kind, Plan


def draw(seed: int) -> Plan:
    random = Random(seed)
    choice = random.choice
    theme = choice(THEMES)
    workers = choice(theme.workers)
    spares = choice(theme.spares)
    pace = choice(theme.paces)
    jobs = tuple(_spec(random, theme, max(1, workers - spares)) for _ in range(choice(theme.jobs)))
    faults = [fault for drawn in theme.faults for fault in _some(random, drawn, workers)]
    if random.random() < 0.35:  # weather: the network is bad all the time
        kind = choice([Kind.LOSSY, Kind.DOUBLING, Kind.JUMBLED, Kind.SLOW])
        faults.append(Fault(kind, (0,), at=random.uniform(0.1, 3.0), seconds=BEGIN))
    if random.random() < 0.1:
        faults.append(_fault(random, Kind.STOP, workers))
    return Plan(
        seed=seed,
        workers=workers,
        jobs=jobs,
        policy=replace(POLICY, error_limit=choice([2, 1000, 1000, 1000])),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        skews=tuple(random.uniform(0.0, 1e6) for _ in range(workers + 1)),
        drifts=tuple(random.uniform(-0.01, 0.01) for _ in range(workers + 1)),
        pace=pace,
    )


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
    until: float = BEGIN


@dataclass(frozen=True, slots=True)
class Theme:
    """A class of lives, in which certain faults meet: uniform draws would hardly ever bring them together."""

    faults: tuple[Some, ...]
    workers: tuple[int, ...] = (1, 2, 2, 3, 3, 3, 4)
    spares: tuple[int, ...] = (0, 0, 1)  # workers that the job does not want
    jobs: tuple[int, ...] = (1, 1, 1, 2)
    paces: tuple[float, ...] = (0.02, 0.06, 0.15)
    steps: tuple[int, ...] = (1, 6, 25, 60)


_long = partial(Theme, jobs=(1,), paces=(0.1, 0.2), steps=(30, 50))  # a job that outlasts its faults
_DEATHS = (Kind.KILL_TRAINER, Kind.KILL_AGENT, Kind.LEAVE, Kind.CRASH_TRAINER)
_CUTS = (Kind.ISOLATE, Kind.DEAFEN, Kind.SILENCE, Kind.CUT, Kind.STALL)
_LEADERS = (Kind.CRASH, Kind.CRASH_UNSAVED, Kind.CRASH_UNSENT, Kind.FREEZE)
_CRASHES = (Kind.CRASH, Kind.CRASH_UNSENT)
_FORMING = ("halt", "form", "connecting", "connected", "loaded", "started", "regrouped", "rolled_back")
_MEETING = ("form", "connecting", "connected")
_BREAKS = (Kind.BREAK, Kind.RAISE, Kind.HANG)
_STEPPING = ("stepping", "contributed", "applying")
_ANYTHING = tuple(kind for kind in Kind if kind is not Kind.STOP)
THEMES = (
    *(Theme((Some((kind,), (1, 2, 4, 8)),)) for kind in _ANYTHING),  # one kind alone
    *[Theme((Some(_ANYTHING, (2, 4, 8, 16)),))] * 12,  # anything
    # deaths and broken groups while a formation is made, again and again
    *[Theme((Some((*_DEATHS, Kind.BREAK), (2, 4, 8), borders=_FORMING, waits=0.9),))] * 6,
    # the members are cut off for longer than their lease, and others could take their place
    *[
        _long(
            (
                Some((Kind.ISOLATE,), (1,), (2.5, 4.0, 10.0, 18.0), crowds=(2, 3), since=2.5, until=5.0),
                Some((*_LEADERS, Kind.KILL_AGENT), (0, 1, 2), borders=_FORMING, waits=0.3, until=7.0),
            ),
            workers=(3, 4),
            spares=(1, 2),
        )
    ]
    * 12,
    # one falls out, the others go on; it comes back, and they fall out
    *[
        _long(
            (
                Some(_CUTS, (1, 2), (3.0, 5.0, 7.0), crowds=(1,), borders=_STEPPING, waits=0.9, since=2.0, until=4.0),
                Some((*_DEATHS, Kind.ISOLATE), (1, 2), (3.0, 7.0), crowds=(1, 2), borders=_FORMING, since=3.0),
            ),
            workers=(2, 3, 3, 4),
        )
    ]
    * 12,
    # most are cut off while a round is under way, and the coordinator begins anew
    *[
        _long(
            (
                Some(
                    (Kind.ISOLATE,),
                    (1,),
                    (10.0, 18.0),
                    crowds=(1, 2, 2),
                    borders=("halt",),
                    waits=1.0,
                    since=2.5,
                    until=4.0,
                ),
                Some(_CRASHES, (1,), borders=("halt",), waits=1.0, since=2.5, until=4.0),
                Some((Kind.KILL_TRAINER, Kind.BREAK), (1, 2), crowds=(1,), waits=0.0, since=4.2, until=6.0),
            ),
            workers=(2, 3, 3),
            spares=(0,),
        )
    ]
    * 8,
    # one falls out and comes back, and whoever would give it the state dies before
    *[
        _long(
            (
                Some((Kind.ISOLATE,), (1,), (2.0, 3.0, 4.0), crowds=(1,), borders=_STEPPING, since=2.5, until=3.5),
                Some((Kind.BREAK,), (1,), crowds=(1,), borders=_STEPPING, since=4.0, until=5.0),
                Some((Kind.KILL_AGENT,), (1, 2, 3), crowds=(1,), borders=_MEETING, waits=1.0, since=5.0, until=9.0),
            ),
            workers=(2, 2, 3),
            spares=(0,),
        )
    ]
    * 16,
    # one falls out and comes back while all the others are cut off
    *[
        _long(
            (
                Some((Kind.ISOLATE,), (1,), (4.0, 5.0, 6.0), crowds=(1,), borders=_STEPPING, since=2.5, until=3.5),
                Some((Kind.KILL_AGENT, Kind.BREAK), (1,), crowds=(1,), borders=_STEPPING, since=4.0, until=5.0),
                Some((Kind.ISOLATE,), (1,), (7.0, 10.0), crowds=(1, 2, 3), waits=0.0, since=6.0, until=9.0),
                Some(_LEADERS, (0, 0, 1), since=6.0, until=12.0),
            ),
            workers=(3, 3, 4),
            spares=(0,),
        )
    ]
    * 12,
    # within one step: some have applied it and others have not
    *[
        Theme(
            (
                Some(_CUTS, (1, 2), (1.0, 2.0, 3.0), crowds=(1,), borders=_STEPPING, waits=0.9, since=2.0, until=4.0),
                Some((*_DEATHS, *_BREAKS), (1, 2, 3), borders=(*_STEPPING, "halt"), waits=0.9, since=2.0),
            ),
            workers=(2, 3, 3, 4),
            jobs=(1,),
            paces=(0.2, 0.4),
            steps=(12, 24),
        )
    ]
    * 12,
    # user code raises while the state is being changed
    *[Theme((Some((Kind.RAISE,), (2, 4), borders=("applying",), waits=1.0), Some((Kind.CUT, Kind.STALL), (0, 1, 2))))]
    * 6,
    # orders and reports overtake each other while formations follow each other
    *[
        Theme(
            (
                Some((Kind.JUMBLED, Kind.DOUBLING, Kind.SLOW), (1, 2), seconds=(12.0,), waits=0.0, until=2.0),
                Some((*_DEATHS, *_BREAKS), (2, 4, 8), borders=("halt", "form", "form", "connecting"), waits=0.9),
            ),
            workers=(2, 3, 3),
            jobs=(1,),
        )
    ]
    * 12,
    # two coordinators at once
    *[
        _long(
            (
                Some((Kind.STORE_CUT, Kind.FREEZE), (1,), seconds=(2.0, 10.0, 18.0), until=3.0),
                Some((Kind.KILL_AGENT, Kind.CUT, Kind.KILL_TRAINER), (1, 2, 3), until=9.0),
            ),
            workers=(2, 3, 4),
            spares=(0, 1),
        )
    ]
    * 8,
    # the coordinator dies while it decides about something
    *[Theme((Some(_LEADERS, (1, 2, 4)), Some((*_DEATHS, *_CUTS), (1, 2, 4), borders=_FORMING)))] * 8,
)


def _some(random: Random, drawn: Some, workers: int) -> list[Fault]:
    kinds = random.sample(drawn.kinds, k=random.randint(1, len(drawn.kinds)))
    return [_fault(random, random.choice(kinds), workers, drawn) for _ in range(random.choice(drawn.counts))]


def _spec(random: Random, theme: "Theme", most: int) -> JobSpec:
    whole = random.random() < 0.15  # an epoch of 100 samples: 13 steps, the last one short
    most = random.choice([most, most, most, most, random.randint(1, most)])
    return replace(
        SPEC,
        max_workers=most,
        min_workers=random.choice([1, 1, 1, min(2, most)]),
        steps=None if whole else random.choice(theme.steps),
        epochs=1 if whole else None,
        max_restarts=random.choice([1, 1000, 1000, 1000]),
    )


def _fault(random: Random, kind: Kind, workers: int, drawn: Some = Some((), ())) -> Fault:
    struck = 1 if kind in OF_ALL else min(workers, random.choice(drawn.crowds))
    return Fault(
        kind=kind,
        workers=tuple(random.sample(range(workers), k=struck)),
        at=random.uniform(drawn.since, drawn.until),
        border=random.choice(drawn.borders) if random.random() < drawn.waits else None,
        seconds=random.choice(drawn.seconds) if kind in LASTING else 0.0,
    )
