"""The file that lives are added to as they are lived, maybe by several at once.

Owns: that nothing which was lived is lost, and that lives of other code are not replaced unless that is asked for.
Refuses to know: what a record says (`ledger`), and who is told what went wrong.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from regroup.lab.audit.wording import plural
from regroup.lab.sim.lives.code import as_code
from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.ledger import KEPT, Batch, Broken, Ledger, Span, Unmet, code_under_test, simulator
from regroup.lab.sim.lives.ledger_file import alone, read, write
from regroup.lab.sim.lives.tally import Reach, Tally


class NoRecord(Exception):
    """These lives cannot be added to the file: why, and what to do."""


class Unwritable(NoRecord):
    """It, or its folder, cannot be written."""


@dataclass(frozen=True, slots=True)
class Record:
    path: Path
    code: str  # of these lives: the source may change while they are lived
    next: int  # the first seed that is not in it yet
    simulator: str  # of these lives, likewise

    def add(self, first: int, tally: Tally, commit: str | None = None) -> Ledger:
        """All that was lived from this seed on, again if some of it was added before. Raises NoRecord."""
        batch = Batch(
            Span(first, first + tally.lives, self.simulator, commit),
            [one.seed for one in tally.broken],
            {one.seed: Broken(one.error or "", as_code(draw(one.seed)), commit) for one in tally.broken[:KEPT]},
            {sort: _unmet(one) for sort, one in tally.reach.items()},
        )
        with _told(self.path), alone(self.path):
            kept = read(self.path) or Ledger(self.code)
            if kept.code != self.code:
                raise NoRecord(f"{self.path} was begun anew meanwhile, on other code: nothing is added to it any more")
            now = kept.add(batch)
            write(self.path, now)
        return now


def begin(path: Path, anew: bool) -> Record:
    """`anew`: a record of other code is replaced. Raises NoRecord, also if it cannot be written: that is better known
    before a night than after it."""
    code = code_under_test()
    with _told(path), alone(path):
        kept = read(path)
        if kept is not None and kept.code != code and not anew:
            lived = f"{path} records {plural(kept.lives, 'life', 'lives')} on other code ({kept.code}; this is {code})"
            raise NoRecord(f"{lived}, which say nothing of this one: --anew replaces it, or name another file")
        if kept is None or kept.code != code:
            kept = Ledger(code)
        write(path, kept)
    return Record(path, code, kept.next, simulator())


def _unmet(reach: Reach) -> Unmet:
    return Unmet(reach.every, reach.unmet, {why: tuple(names) for why, names in reach.cannot.items()})


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise NoRecord(f"{path} is no record of lives: {error}; name another file with --record") from None
    except FileNotFoundError:
        raise Unwritable(f"cannot write {path}: there is no folder {path.parent}") from None
    except OSError as error:
        raise Unwritable(f"cannot write {path}: {error.strerror}") from None
