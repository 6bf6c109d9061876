"""What many lives came to: the sum of their outcomes, and what none of them met.

Owns: the counting. A life that meets what is said to be impossible (`impossible`) contradicts that, and is told.
Refuses to know: how it is shown, and how lives are lived.
Does not guarantee: that what met, met in one job: faults are counted with whatever all jobs of a life are busy with.
That faults which are counted as a pair are all that overlap: of one that is done at once nobody can say when it is
over, so a pair has one that is switched on for a while (LASTING); what the others leave is counted by itself.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

from regroup.core.jobs import JobPhase
from regroup.lab.sim.lives.impossible import NEVER_AT_ONCE, NEVER_DURING, NEVER_IN_PHASE, NEVER_PAIRED, Why
from regroup.lab.sim.lives.outcome import Outcome
from regroup.lab.sim.lives.plan import LASTING, Kind, Plan
from regroup.lab.sim.lives.reasons import explanation, sentences, unreached
from regroup.lab.sim.lives.underway import GOES_ON, HEALTHY, LEFT, Activity


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
        return {self.spell(which): self.whys[which].words if which in self.whys else None for which in self._missing}

    @property
    def reach(self) -> "Reach":
        """Why something is not met for want of another plan says nothing of many lives: that can be."""
        never = {which: self.whys[which].words if self.impossible(which) else None for which in self._missing}
        return Reach(len(self.every), {self.spell(which): why for which, why in never.items()})

    @property
    def _missing(self) -> list[Any]:
        return [which for which in self.every if not self.met.get(which)]

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
    """How much there is, and what of it never was met: why it cannot be, or None, where it can, and was not yet."""

    every: int
    never: Mapping[str, str | None]

    @property
    def unmet(self) -> tuple[str, ...]:
        return tuple(name for name, why in self.never.items() if why is None)

    @property
    def cannot(self) -> dict[str, list[str]]:
        """Why -> what cannot be for that reason."""
        found: dict[str, list[str]] = {}
        for name, why in self.never.items():
            if why is not None:
                found.setdefault(why, []).append(name)
        return found

    def within(self, names: Container[str]) -> "Reach":
        """Where of all that can be only these were never met."""
        return Reach(self.every, {name: why for name, why in self.never.items() if why is not None or name in names})


@dataclass
class Tally:
    lives: int = 0
    events: int = 0
    seconds: float = 0.0  # of virtual time
    broken: list[Outcome] = field(default_factory=list)
    met: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    during: Counter[tuple[Kind, frozenset[Activity]]] = field(default_factory=Counter)  # of what goes on
    left: Counter[tuple[Kind, Activity]] = field(default_factory=Counter)  # of what earlier faults left
    pairs: Counter[tuple[Kind, Kind]] = field(default_factory=Counter)
    reasons: set[str] = field(default_factory=set)

    def add(self, outcome: Outcome) -> None:
        self.lives += 1
        self.events += outcome.events
        self.seconds += outcome.seconds
        self.met.update(outcome.met)
        for (kind, activities), times in outcome.during.items():
            self.during[kind, activities.difference(LEFT)] += times
            self.left.update({(kind, one): times for one in activities.intersection(LEFT)})
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
        """Each kind, and each activity of a cluster that it struck amid."""
        found: Counter[tuple[Kind, Activity]] = Counter()
        for (kind, activities), times in self.during.items():
            for activity in activities:
                found[kind, activity] += times
        return Meetings(tuple(product(Kind, GOES_ON)), found, NEVER_DURING, spell)

    @property
    def by_left(self) -> Meetings:
        """Each kind, and what an earlier fault had left when it struck."""
        return Meetings(tuple(product(Kind, LEFT)), self.left, {}, spell)

    @property
    def together(self) -> Counter[tuple[Activity, ...]]:
        """How often a fault struck while these two, or three, were under way at once."""
        found: Counter[tuple[Activity, ...]] = Counter()
        for (_, activities), times in self.during.items():
            ordered = [one for one in GOES_ON if one in activities - HEALTHY]
            for size in (2, 3):
                for some in combinations(ordered, size):
                    found[some] += times
        return found

    @property
    def at_once(self) -> Meetings:
        """Each two activities, under way at once when something struck."""
        every = combinations([one for one in GOES_ON if one not in HEALTHY], 2)
        return Meetings(tuple(every), self.together, NEVER_AT_ONCE, spell)

    @property
    def paired(self) -> Meetings:
        """Each two kinds, one of which struck while the other was switched on."""
        every = (pair for pair in combinations(sorted(Kind), 2) if not LASTING.isdisjoint(pair))
        return Meetings(tuple(every), self.pairs, NEVER_PAIRED, spell)

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
            "faults, by what others left": self.by_left,
            "two things under way at once": self.at_once,
            "two faults at once": self.paired,
        }
        return {
            "kinds of fault": Reach(len(Kind), dict.fromkeys(kind for kind in Kind if kind not in struck)),
            **{what: meetings.reach for what, meetings in sorts.items()},
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
        during, left = self.by_activity, self.by_left
        return {
            "lives": self.lives,
            "events_per_life": self.events / max(self.lives, 1),
            "virtual_hours": self.seconds / 3600,
            "broken": [{"seed": one.seed, "error": one.error} for one in self.broken],
            "faults": {f"{kind}, {phase}": times for (kind, phase), times in sorted(self.met.items())},
            "faults_never_in_phase": self.in_phases.never,
            "faults_during": {during.spell(some): times for some, times in sorted(during.met.items())},
            "faults_never_during": during.never,
            "faults_left": {left.spell(some): times for some, times in sorted(left.met.items())},
            "faults_left_never": left.never,
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
