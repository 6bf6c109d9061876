"""What many lives came to: the sum of their outcomes, and what none of them met.

Owns: the counting, and why some things cannot meet. Such a reason says whether it holds for every life, or only for
those whose plan lacks something; a life that meets it all the same contradicts it, and is told.
Refuses to know: how it is shown, and how lives are lived.
Does not guarantee: that what met, met in one job. Faults are counted with whatever all jobs of a life are busy with.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

from regroup.core.jobs import JobPhase
from regroup.lab.sim.lives.outcome import Outcome
from regroup.lab.sim.lives.plan import GOING, LASTING, Kind, Plan
from regroup.lab.sim.lives.reasons import explanation, sentences, unreached
from regroup.lab.sim.lives.underway import HEALTHY, Activity


@dataclass(frozen=True, slots=True)
class Why:
    """Why some things never meet: in no life, or in none whose plan has not what it `takes`."""

    words: str
    takes: Callable[[Plan], bool] | None = None


def several_jobs(plan: Plan) -> bool:
    return len(plan.jobs) > 1


def a_rest(plan: Plan) -> bool:
    """A job that is paused: its user asked for it, it makes room for another, or all that hold it leave."""
    return several_jobs(plan) or any(fault.kind in (Kind.PAUSE, Kind.HOLD, *GOING) for fault in plan.faults)


# Kinds that strike nothing where there is no trainer, no leader, no save.
OF_TRAINERS = (
    *(Kind.KILL_TRAINER, Kind.CRASH_TRAINER, Kind.HANG, Kind.DEADLOCK, Kind.WEDGE, Kind.STALL),
    *(Kind.RAISE, Kind.BREAK, Kind.FLIP, Kind.DIVERGE, Kind.UNFIT),
)
OF_LEADERS = (Kind.CRASH, Kind.FREEZE, Kind.STORE_CUT)
DOOMED_SAVES = (Kind.CRASH_UNSAVED, Kind.CRASH_UNSENT, Kind.STORE_CRASH)
STAGES = (Activity.START, Activity.REGROUP, Activity.BOUNDARY, Activity.SAVE, Activity.WAIT)  # of which a job has one


def _pair(one: Kind, other: Kind) -> tuple[Kind, Kind]:
    """As faults are counted: in the order of their names."""
    first, second = sorted((one, other))
    return first, second


def _at_once(one: Activity, other: Activity) -> tuple[Activity, Activity]:
    first, second = sorted((one, other), key=list(Activity).index)
    return first, second


_NO_TRAINER = Why("a job has no trainer before it was lent workers: it takes another job, or one that rested", a_rest)
_NO_REST = Why("a job is paused only if its user asks for it, it makes room, or all that hold it leave", a_rest)
NEVER_IN_PHASE: Mapping[tuple[Kind, JobPhase], Why] = {
    **{(kind, JobPhase.QUEUED): _NO_TRAINER for kind in OF_TRAINERS},
    **{(kind, JobPhase.PAUSED): _NO_REST for kind in Kind},
}

_NO_LEADER = Why("there is no coordinator that it could strike")
_NO_SAVE = Why("it strikes at a save, which a leader makes")
NEVER_DURING: Mapping[tuple[Kind, Activity], Why] = {
    **{(kind, Activity.RESTART): _NO_LEADER for kind in OF_LEADERS},
    **{(kind, Activity.RESTART): _NO_SAVE for kind in DOOMED_SAVES},
}

_ONE_STAGE = Why("a job is at one of these at a time: it takes two jobs", several_jobs)
_GOES_BACK = Why("what goes back is a formation that is being made: it takes another job", several_jobs)
_ONE_WISH = Why("one thing is wanted of a job at a time: it takes two jobs", several_jobs)
NEVER_AT_ONCE: Mapping[tuple[Activity, ...], Why] = {
    **{_at_once(one, other): _ONE_STAGE for one, other in combinations(STAGES, 2)},
    **{_at_once(one, Activity.ROLLBACK): _GOES_BACK for one in STAGES if one is not Activity.REGROUP},
    _at_once(Activity.STOP, Activity.PAUSE): _ONE_WISH,
}

_NO_TIME = Why("neither of the two lasts")
NEVER_PAIRED: Mapping[tuple[Kind, Kind], Why] = {
    **{_pair(one, other): _NO_TIME for one, other in combinations(set(Kind) - LASTING, 2)},
    _pair(Kind.CRASH_UNSENT, Kind.STORE_AWAY): Why("it strikes once the store has answered"),
}


@dataclass(frozen=True, slots=True)
class Meetings:
    """What could meet, how often it did, and why some of it does not."""

    every: tuple[Any, ...]
    met: Mapping[Any, int]
    whys: Mapping[Any, Why]
    spell: Callable[[Any], str]

    @property
    def never(self) -> dict[str, str | None]:
        """What never met, and why; None: it is not explained."""
        missing = [which for which in self.every if not self.met.get(which)]
        return {self.spell(which): self.whys[which].words if which in self.whys else None for which in missing}

    def impossible(self, which: Any) -> bool:
        return which in self.whys and self.whys[which].takes is None

    def contradictions(self, plan: Plan | None = None) -> dict[str, str]:
        """What met although it is said that it cannot: in no life, or in none of this plan."""
        found = {}
        for which, why in self.whys.items():
            if self.met.get(which) and (why.takes is None or (plan is not None and not why.takes(plan))):
                found[self.spell(which)] = why.words
        return found


@dataclass(frozen=True, slots=True)
class Reach:
    """How much could be met, and what of it never was, with the reason; None: it is not explained."""

    every: int
    never: Mapping[str, str | None]

    def within(self, names: Container[str]) -> "Reach":
        """Where only these were never met."""
        return Reach(self.every, {name: why for name, why in self.never.items() if name in names})


@dataclass
class Tally:
    lives: int = 0
    events: int = 0
    seconds: float = 0.0  # of virtual time
    broken: list[Outcome] = field(default_factory=list)
    met: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    during: Counter[tuple[Kind, frozenset[Activity]]] = field(default_factory=Counter)
    pairs: Counter[tuple[Kind, Kind]] = field(default_factory=Counter)
    reasons: set[str] = field(default_factory=set)

    def add(self, outcome: Outcome) -> None:
        self.lives += 1
        self.events += outcome.events
        self.seconds += outcome.seconds
        self.met.update(outcome.met)
        self.during.update(outcome.during)
        self.pairs.update(outcome.pairs)
        self.reasons |= outcome.reasons
        if outcome.error is not None:
            self.broken.append(outcome)

    @property
    def in_phases(self) -> Meetings:
        """Each kind, and each phase of a job."""
        return Meetings(tuple(product(Kind, JobPhase)), self.met, NEVER_IN_PHASE, ", ".join)

    @property
    def by_activity(self) -> Meetings:
        """Each kind, and each activity that it struck amid."""
        found: Counter[tuple[Kind, Activity]] = Counter()
        for (kind, activities), times in self.during.items():
            for activity in activities:
                found[kind, activity] += times
        return Meetings(tuple(product(Kind, Activity)), found, NEVER_DURING, spell)

    @property
    def together(self) -> Counter[tuple[Activity, ...]]:
        """How often a fault struck while these two, or three, were under way at once."""
        found: Counter[tuple[Activity, ...]] = Counter()
        for (_, activities), times in self.during.items():
            ordered = [one for one in Activity if one in activities - HEALTHY]
            for size in (2, 3):
                for some in combinations(ordered, size):
                    found[some] += times
        return found

    @property
    def at_once(self) -> Meetings:
        """Each two activities, under way at once when something struck."""
        every = combinations([one for one in Activity if one not in HEALTHY], 2)
        return Meetings(tuple(every), self.together, NEVER_AT_ONCE, spell)

    @property
    def paired(self) -> Meetings:
        """Each two kinds, one of which struck while the other lasted."""
        return Meetings(tuple(combinations(sorted(Kind), 2)), self.pairs, NEVER_PAIRED, spell)

    @property
    def never_decided(self) -> dict[str, str | None]:
        """The reasons of decisions that no life reached, and why none can."""
        return {name: explanation(name) for name in unreached(self.reasons)}

    @property
    def reach(self) -> dict[str, Reach]:
        """Of all that there is to be met, in the order of its telling."""
        struck = {kind for kind, _ in self.met}
        sorts = {
            "faults, by the phase of a job": self.in_phases,
            "faults, by what was under way": self.by_activity,
            "two things under way at once": self.at_once,
            "two faults at once": self.paired,
        }
        return {
            "kinds of fault": Reach(len(Kind), dict.fromkeys(kind for kind in Kind if kind not in struck)),
            **{what: Reach(len(meetings.every), meetings.never) for what, meetings in sorts.items()},
            "reasons of decisions": Reach(len(sentences()), self.never_decided),
        }

    @property
    def contradictions(self) -> dict[str, str]:
        """What was met, or reached, although it is said that it cannot be."""
        found = {}
        for meetings in (self.in_phases, self.by_activity, self.at_once, self.paired):
            found.update(meetings.contradictions())
        missing = self.never_decided
        explained = {name: explanation(name) for name in sentences() if name not in missing}
        return found | {name: why for name, why in explained.items() if why is not None}

    def facts(self) -> dict[str, Any]:
        """All of it, as JSON values."""
        during = self.by_activity
        return {
            "lives": self.lives,
            "events_per_life": self.events / max(self.lives, 1),
            "virtual_hours": self.seconds / 3600,
            "broken": [{"seed": one.seed, "error": one.error} for one in self.broken],
            "faults": {f"{kind}, {phase}": times for (kind, phase), times in sorted(self.met.items())},
            "faults_never_in_phase": self.in_phases.never,
            "faults_during": {during.spell(some): times for some, times in sorted(during.met.items())},
            "faults_never_during": during.never,
            "activities": {spell(some): times for some, times in self.together.most_common()},
            "activities_never": self.at_once.never,
            "pairs": {spell(some): times for some, times in self.pairs.most_common()},
            "pairs_never": self.paired.never,
            "reasons": len(sentences()),
            "reasons_never": self.never_decided,
            "contradictions": self.contradictions,
        }


def spell(some: Iterable[str]) -> str:
    return " during ".join(some)
