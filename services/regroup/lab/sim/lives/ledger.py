"""Which seeds were lived through on which code: a file that grows by ranges, over nights and machines.

Owns: what of the source is under test, and what lives it; the union of ranges, what none of all those lives met, and
what a range was lived with. `ledger_file` reads and writes it.
Refuses to know: how a life is lived, and what becomes of a file whose lives were lived on other code.
Does not guarantee: that lives which were lived before a rule was added, or more was drawn, kept it. It says which
simulator lived them, and of which commit.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import regroup

ROOT = Path(regroup.__file__).parent
CORE = "core/**/*.py"
UNDER_TEST = (
    CORE,
    *(f"coordinator/{part}.py" for part in ("shell", "leadership", "persistence", "points")),
    *(f"worker/{part}.py" for part in ("session", "happenings", "tail", "watching", "lease_ledger", "untold")),
)
SIMULATOR = ("lab/sim/lives/**/*.py", "lab/sim/model/**/*.py")  # what draws lives, lives them, and judges them
KEPT = 5  # seeds that broke a rule whose plans are kept: a bug that breaks thousands needs no more

Range = tuple[int, int]  # of seeds, from and below


@dataclass(frozen=True, slots=True)
class Span:
    """A range that was lived by one simulator."""

    first: int
    end: int
    simulator: str  # its digest
    commit: str | None = None  # of the tree that it was run from, "+" behind it: with changes; None: from none


@dataclass(frozen=True, slots=True)
class Broken:
    """How a seed broke a rule, and what it drew then: that may change."""

    error: str
    plan: str  # as code
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class Unmet:
    """Of one sort of what there is to be met: what no life met."""

    there_are: int
    names: tuple[str, ...]  # of what can be
    cannot: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # why -> what cannot be


@dataclass(frozen=True, slots=True)
class Batch:
    """Lives of the seeds of one range, as they are added."""

    span: Span
    broken: Iterable[int] = ()
    plans: Mapping[int, Broken] = field(default_factory=dict)  # of the first of those
    never: Mapping[str, Unmet] = field(default_factory=dict)  # by sort


@dataclass(frozen=True, slots=True)
class Ledger:
    code: str  # the digest of the code under test
    ranges: tuple[Range, ...] = ()  # ascending, and none touches the next
    broken: tuple[int, ...] = ()  # seeds
    plans: Mapping[int, Broken] = field(default_factory=dict)  # of the first few of them
    lived: tuple[Span, ...] = ()  # ascending; of what they leave out nobody knows which simulator lived it
    never: Mapping[str, Unmet] = field(default_factory=dict)  # by sort

    @property
    def lives(self) -> int:
        return sum(end - first for first, end in self.ranges)

    @property
    def next(self) -> int:
        """The lowest seed that is not in it."""
        return self.ranges[0][1] if self.ranges and self.ranges[0][0] == 0 else 0

    @property
    def simulators(self) -> dict[tuple[str, str | None], int]:
        """How many lives each simulator lived, in the order of their seeds; "": nobody knows which."""
        found: dict[tuple[str, str | None], int] = {}
        for one in self.lived:
            which = one.simulator, one.commit
            found[which] = found.get(which, 0) + one.end - one.first
        unknown = self.lives - sum(found.values())
        return found | ({("", None): unknown} if unknown else {})

    def add(self, batch: Batch) -> "Ledger":
        first, end = batch.span.first, batch.span.end
        elsewhere = [seed for seed in self.broken if not first <= seed < end]  # the others were lived anew
        broken = tuple(sorted({*elsewhere, *batch.broken}))
        plans = {**{seed: one for seed, one in self.plans.items() if seed in elsewhere}, **batch.plans}
        return Ledger(
            self.code,
            _united([*self.ranges, (first, end)]),
            broken,
            {seed: plans[seed] for seed in broken if seed in plans},
            _laid_over(self.lived, batch.span),
            {sort: self._still(sort, unmet) for sort, unmet in batch.never.items()},
        )

    def _still(self, sort: str, now: Unmet) -> Unmet:
        """What neither these lives met nor those before them. Where those could meet other things, or were not counted
        so, nobody knows what they would have met: it begins anew."""
        before = self.never.get(sort)
        if not self.ranges or before is None or before.there_are not in (0, now.there_are):
            return now
        return Unmet(now.there_are, tuple(name for name in now.names if name in before.names), now.cannot)


def code_under_test() -> str:
    """The same for the same text of all that decides: core, session and shell."""
    return _digest(UNDER_TEST)


def simulator() -> str:
    """The same for the same text of what draws lives, lives them, and knows the rules that they must keep."""
    return _digest(SIMULATOR)


def _digest(patterns: Iterable[str]) -> str:
    digest = sha256()
    for path in sorted(path for pattern in patterns for path in ROOT.glob(pattern)):
        digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _united(ranges: Iterable[Range]) -> tuple[Range, ...]:
    united: list[Range] = []
    for start, end in sorted(ranges):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((start, end))
    return tuple(united)


def _laid_over(spans: tuple[Span, ...], new: Span) -> tuple[Span, ...]:
    """What was lived again is the last simulator's. Spans that touch are one, if they are of the same."""
    left = [Span(one.first, min(one.end, new.first), one.simulator, one.commit) for one in spans]
    right = [Span(max(one.first, new.end), one.end, one.simulator, one.commit) for one in spans]
    found: list[Span] = []
    for one in sorted((*left, new, *right), key=lambda one: one.first):
        if one.first >= one.end:
            continue
        last = found[-1] if found else None
        if last is not None and last.end == one.first and (last.simulator, last.commit) == (one.simulator, one.commit):
            found[-1] = Span(last.first, one.end, one.simulator, one.commit)
        else:
            found.append(one)
    return tuple(found)
