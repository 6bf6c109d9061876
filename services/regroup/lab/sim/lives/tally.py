"""What many lives came to: the sum of their outcomes, and what none of them met.

Owns: the counting, and why some things cannot meet. Refuses to know: how it is shown, and how lives are lived.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from regroup.core.jobs import JobPhase
from regroup.lab.sim.lives.outcome import Outcome
from regroup.lab.sim.lives.plan import Kind
from regroup.lab.sim.lives.reasons import EXPLAINED, sentences, unreached
from regroup.lab.sim.lives.underway import ALONE, Activity

_GONE = "there is no coordinator that it could strike"
_UNSAVED = "it strikes at a save, which a leader makes"
CANNOT_MEET: dict[tuple[Kind, Activity], str] = {
    (Kind.CRASH, Activity.RESTART): _GONE,
    (Kind.FREEZE, Activity.RESTART): _GONE,
    (Kind.STORE_CUT, Activity.RESTART): _GONE,
    (Kind.CRASH_UNSAVED, Activity.RESTART): _UNSAVED,
    (Kind.CRASH_UNSENT, Activity.RESTART): _UNSAVED,
    (Kind.STORE_CRASH, Activity.RESTART): _UNSAVED,
}


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
    def by_activity(self) -> Counter[tuple[Kind, Activity]]:
        """How often each kind struck while each activity was under way."""
        found: Counter[tuple[Kind, Activity]] = Counter()
        for (kind, activities), times in self.during.items():
            for activity in activities:
                found[kind, activity] += times
        return found

    @property
    def together(self) -> Counter[tuple[Activity, ...]]:
        """How often a fault struck while these two, or three, were under way at once."""
        found: Counter[tuple[Activity, ...]] = Counter()
        for (_, activities), times in self.during.items():
            ordered = [one for one in Activity if one in activities - ALONE]
            for size in (2, 3):
                for some in combinations(ordered, size):
                    found[some] += times
        return found

    @property
    def phases(self) -> list[str]:
        return [str(phase) for phase in JobPhase]

    @property
    def never_in_phase(self) -> list[str]:
        return [f"{kind}, {phase}" for kind in Kind for phase in self.phases if not self.met[kind, phase]]

    @property
    def never_during(self) -> dict[str, str | None]:
        """The kinds and activities that never met, and why they cannot."""
        met = self.by_activity
        never = [(kind, activity) for kind in Kind for activity in Activity if not met[kind, activity]]
        return {f"{kind} during {activity}": CANNOT_MEET.get((kind, activity)) for kind, activity in never}

    @property
    def never_together(self) -> list[str]:
        met = self.together
        return [spell(some) for some in combinations([a for a in Activity if a not in ALONE], 2) if not met[some]]

    @property
    def never_paired(self) -> list[str]:
        every = combinations(sorted(Kind), 2)
        return [f"{one} during {other}" for one, other in every if not self.pairs[one, other]]

    @property
    def never_decided(self) -> dict[str, str | None]:
        """The reasons of decisions that no life reached, and why none can."""
        return {name: explanation(name) for name in unreached(self.reasons)}

    def facts(self) -> dict[str, Any]:
        """All of it, as JSON values."""
        return {
            "lives": self.lives,
            "events_per_life": self.events / max(self.lives, 1),
            "virtual_hours": self.seconds / 3600,
            "broken": [{"seed": one.seed, "error": one.error} for one in self.broken],
            "faults": {f"{kind}, {phase}": times for (kind, phase), times in sorted(self.met.items())},
            "faults_never_in_phase": self.never_in_phase,
            "faults_during": {f"{kind}, {what}": times for (kind, what), times in sorted(self.by_activity.items())},
            "faults_never_during": self.never_during,
            "activities": {spell(some): times for some, times in self.together.most_common()},
            "activities_never": self.never_together,
            "pairs": {f"{one} during {other}": times for (one, other), times in self.pairs.most_common()},
            "pairs_never": self.never_paired,
            "reasons": len(sentences()),
            "reasons_never": self.never_decided,
        }


def spell(activities: Iterable[Activity]) -> str:
    return " during ".join(activities)


def explanation(sentence: str) -> str | None:
    """Why no life reaches a reason, which is named as `unreached` does."""
    return next((why for text, why in EXPLAINED.items() if sentence.endswith(f"  {text}")), None)
