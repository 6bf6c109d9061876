"""Which seeds were lived through on which code: a file that grows by ranges, over nights and machines.

Owns: what of the source is under test, the union of ranges, what none of all those lives met, and the file (JSON, small
enough to be kept with the code).
Refuses to know: how a life is lived, and what becomes of a file whose lives were lived on other code.
Does not guarantee: that what lives could not meet before, because the lives themselves changed, is named as never met;
that lives which were lived before a rule was added, or more was drawn, kept it.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fcntl import LOCK_EX, flock
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


@dataclass(frozen=True, slots=True)
class Ledger:
    code: str  # the digest of the code under test
    ranges: tuple[tuple[int, int], ...] = ()  # of seeds, from and below; ascending, and none touches the next
    broken: tuple[int, ...] = ()  # seeds
    never: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # sort -> what no life met

    @property
    def lives(self) -> int:
        return sum(end - first for first, end in self.ranges)

    @property
    def next(self) -> int:
        """The lowest seed that is not in it."""
        return self.ranges[0][1] if self.ranges and self.ranges[0][0] == 0 else 0

    def add(self, first: int, count: int, broken: Iterable[int], never: Mapping[str, Iterable[str]]) -> "Ledger":
        united: list[tuple[int, int]] = []
        for start, end in sorted([*self.ranges, (first, first + count)]):
            if united and start <= united[-1][1]:
                united[-1] = (united[-1][0], max(end, united[-1][1]))
            else:
                united.append((start, end))
        elsewhere = [seed for seed in self.broken if not first <= seed < first + count]  # the others were lived anew
        known = self.never if self.ranges else never
        rest = {sort: tuple(name for name in names if name in known.get(sort, ())) for sort, names in never.items()}
        return Ledger(self.code, tuple(united), tuple(sorted({*elsewhere, *broken})), rest)


def code_under_test() -> str:
    """The same for the same text of all that decides: core, session and shell."""
    digest = sha256()
    for path in sorted(path for pattern in UNDER_TEST for path in ROOT.glob(pattern)):
        digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def read(path: Path) -> Ledger | None:
    """What the file says, of whatever code; None: there is no such file. Raises ValueError if it is no record."""
    try:
        return _parsed(path.read_bytes())
    except FileNotFoundError:
        return None


def write(path: Path, ledger: Ledger) -> None:
    """In one piece, or not at all. Raises OSError."""
    told = {
        "code": ledger.code,
        "lives": ledger.lives,
        "ranges": ledger.ranges,
        "broken": ledger.broken,
        "never": ledger.never,
    }
    draft = path.with_name(f"{path.name}.draft")
    try:
        draft.write_text(json.dumps(told, indent=1) + "\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """One process at a time: of two that read a record, add to it and write it, one would lose what it added."""
    folder = os.open(path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        flock(folder, LOCK_EX)
        yield
    finally:
        os.close(folder)


def _parsed(text: bytes) -> Ledger:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(told, dict) or not isinstance(told.get("code"), str):
        raise ValueError("it names no code")
    ranges, broken, never = told.get("ranges"), told.get("broken"), told.get("never")
    if not isinstance(ranges, list) or not all(isinstance(each, list) and len(each) == 2 for each in ranges):
        raise ValueError("it has no ranges of seeds")
    bounds = [bound for each in ranges for bound in each]
    if not all(type(bound) is int and bound >= 0 for bound in bounds) or bounds != sorted(set(bounds)):
        raise ValueError("its ranges of seeds are none: each begins above the end of the one before")
    if not isinstance(broken, list) or not all(type(seed) is int and _within(ranges, seed) for seed in broken):
        raise ValueError("its broken seeds are not of its ranges")
    if not isinstance(never, dict) or not all(map(_is_names, never.values())):
        raise ValueError("it does not say what was never met")
    missed = {sort: tuple(names) for sort, names in never.items()}
    return Ledger(told["code"], tuple((first, end) for first, end in ranges), tuple(broken), missed)


def _is_names(told: object) -> bool:
    return isinstance(told, list) and all(isinstance(name, str) for name in told)


def _within(ranges: Iterable[tuple[int, int]], seed: int) -> bool:
    return any(first <= seed < end for first, end in ranges)
