"""The plan of a life, drawn from its seed: a theme, and from that the cluster, its jobs and what goes wrong.

Owns: the order of the dice, which is what makes a seed a life: after the theme maybe `sequences`, and more `besides`.
Refuses to know: why these themes (`themes`).
"""

from bisect import bisect
from dataclasses import replace
from itertools import accumulate, chain
from random import Random

from regroup.core.cluster import Policy
from regroup.core.spec import JobSpec
from regroup.lab.sim.lives.besides import with_more
from regroup.lab.sim.lives.plan import Fault, Plan, in_time
from regroup.lab.sim.lives.sequences import SEQUENCES, drawn
from regroup.lab.sim.lives.themes import BY_HALVES, RARE, THEMES
from regroup.lab.sim.lives.themes.theme import Theme
from regroup.lab.sim.model.limits import POLICY, SPEC

BESIDE = (None, None, 1, 3, 8)  # steps between checkpoints
WEIGHED_TO = list(accumulate(theme.weight for theme in THEMES))  # the sum of the weights up to each theme
GOLDEN = (5**0.5 - 1) / 2  # its multiples, modulo 1, lie evenly: even a few seeds in a row meet all themes
ALONE = 0.75  # of the lives are of their theme, and perhaps of a sequence
PATIENT = (20.0, 40.0)  # seconds, of rule 7, in some lives: more than everything else takes, as in a real cluster
MANY = 0.02  # of the lives have more workers than any theme
QUEUES = 0.02  # have a job that wants more than is free, between two that do not
EVALUATIONS = 0.2  # have evaluations
HALVES = 0.04  # are of a machine that fails by halves, whatever the theme would be
RARELY = 0.015  # are of a rare theme, likewise


def draw(seed: int) -> Plan:
    plan = _with_sequences(_themed(seed, rare_theme(seed) or _theme(seed)))
    return plan if Random(f"{seed} alone").random() < ALONE else with_more(plan)


def rare_theme(seed: int) -> Theme | None:
    """By dice of their own: the other lives are what they would be without."""
    random = Random(f"{seed} rare theme")
    return random.choice(RARE) if random.random() < RARELY else None


def _theme(seed: int) -> Theme:
    halves = Random(f"{seed} by halves")
    if halves.random() < HALVES:
        return halves.choice(BY_HALVES)
    return THEMES[bisect(WEIGHED_TO, seed * GOLDEN % 1.0 * WEIGHED_TO[-1])]


def _themed(seed: int, theme: Theme) -> Plan:
    """A cluster, its jobs, and what its theme says goes wrong."""
    random, beside, best = Random(seed), Random(f"{seed} checkpoints"), Random(f"{seed} best")
    choice = random.choice
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
    chunk = evaluating.choice((0.3, 1.0)) if evaluating.random() < EVALUATIONS else 0.0
    if chunk:  # by the saver alone, or also together before
        jobs = tuple(replace(spec, evaluate_every=evaluating.choice((None, None, 5))) for spec in jobs)
    faults: list[Fault] = []
    for some in theme.faults:
        faults += some.drawn(random, workers, faults[0] if faults else None)
    drift = Random(f"{seed} drifting").choice((1.0, 1.0, 4.0))
    return Plan(
        seed=seed,
        workers=workers,
        jobs=jobs,
        policy=_limits(random, seed, drift),
        faults=in_time(faults),
        skews=tuple(random.uniform(0.0, 1e6) for _ in range(workers + 1)),
        drifts=tuple(drift * random.uniform(-0.01, 0.01) for _ in range(workers + 1)),
        pace=pace,
        learned=Random(f"{seed} watching").random() < 0.6,
        chunk=chunk,
        heals=theme.heals,
    )


def _limits(random: Random, seed: int, drift: float) -> Policy:
    margins = (POLICY.detached_margin, POLICY.detached_margin, 0.3) if drift == 1.0 else (POLICY.detached_margin,)
    patient = Random(f"{seed} patient")
    return replace(
        POLICY,
        detached_limit=patient.choice(PATIENT) if patient.random() < 0.05 else POLICY.detached_limit,
        error_limit=random.choice([0, 2, 1000, 1000, 1000, 1000]),
        detached_margin=Random(f"{seed} margin").choice(margins),
        forget_limit=random.choice([1.5, POLICY.forget_limit, POLICY.forget_limit]),
        absent_limit=Random(f"{seed} absent").choice((2.0, POLICY.absent_limit)),
        error_forget=Random(f"{seed} forgiving").choice((1.0, 3.0, POLICY.error_forget, POLICY.error_forget)),
    )


def _with_sequences(plan: Plan) -> Plan:
    """Also sequences of faults, in some lives."""
    ordered = {name: faults for name in SEQUENCES if (faults := drawn(name, plan.seed, plan.workers))}
    if not ordered:
        return plan
    jobs = plan.jobs
    for name in ordered:
        jobs = SEQUENCES[name].asks(jobs[0], plan.workers) or jobs
    more = in_time([*plan.faults, *chain.from_iterable(ordered.values())])
    begins = any(SEQUENCES[name].begins for name in ordered)
    chunk = max(plan.chunk, *(SEQUENCES[name].chunk for name in ordered))
    heals = max(plan.heals, *(SEQUENCES[name].heals for name in ordered))
    plan = replace(plan, **{key: value for name in ordered for key, value in SEQUENCES[name].changes.items()})
    return replace(plan, jobs=jobs, faults=more, chunk=chunk, begins=begins, heals=heals)


def _queue(spec: JobSpec, workers: int) -> tuple[JobSpec, ...]:
    """The first trains for long on all workers but one, the next wants all of them, and the last one could start."""
    first = replace(spec, min_workers=1, max_workers=workers - 1, steps=24, epochs=None)
    return first, replace(spec, min_workers=workers, max_workers=workers), replace(spec, min_workers=1, max_workers=1)


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
