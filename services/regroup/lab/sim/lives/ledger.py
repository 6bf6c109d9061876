"""Which seeds were lived through on which code: a file that grows by ranges, over nights and machines.

Owns: what of the source is under test, the union of ranges, what none of all those lives met, and the file (JSON, small
enough to be kept with the code).
Refuses to know: how a life is lived. What was lived through on other code counts for nothing and is left out.
Does not guarantee: that what lives could not meet before, because the lives themselves changed, is named as never met.
"""

import json
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
        """The first seed that is not in it."""
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


def read(path: Path) -> Ledger:
    """What the file says of the code as it is; nothing, if there is no file. Raises ValueError if it is none."""
    code = code_under_test()
    if not path.exists():
        return Ledger(code)
    try:
        told = json.loads(path.read_text())
        ranges = tuple((int(first), int(end)) for first, end in told["ranges"])
        never = {str(sort): tuple(map(str, names)) for sort, names in told["never"].items()}
        kept = Ledger(str(told["code"]), ranges, tuple(map(int, told["broken"])), never)
    except (json.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no record of lives: {error}") from error
    return kept if kept.code == code else Ledger(code)


def write(path: Path, ledger: Ledger) -> None:
    told = {
        "code": ledger.code,
        "lives": ledger.lives,
        "ranges": ledger.ranges,
        "broken": ledger.broken,
        "never": ledger.never,
    }
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(json.dumps(told, indent=1) + "\n")
    draft.replace(path)
