"""Living one plan, and what came of it, as a value that travels between processes.

Owns: turning every way in which a life can go wrong into one line, and cutting a plan down to the faults that matter.
Refuses to know: how many plans there are, and how the outcome is shown.
"""

import logging
from collections import Counter
from dataclasses import dataclass, field
from traceback import walk_tb

from regroup.lab.sim.lives.life import Life
from regroup.lab.sim.lives.plan import Fault, Kind, Plan
from regroup.lab.sim.lives.story import Story
from regroup.lab.sim.lives.underway import Activity

CUTS = 60  # lives spent on making a failing plan smaller


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    events: int
    seconds: float  # of virtual time
    digest: str  # of the story: equal digests are equal lives
    error: str | None  # None: every rule held, and every job ended
    where: str | None = None  # the function that said so: the rule that was broken, or what raised
    met: Counter[tuple[Kind, str]] = field(default_factory=Counter)  # faults, by the phase of a job that they met
    during: Counter[tuple[Kind, frozenset[Activity]]] = field(default_factory=Counter)  # and by what was under way
    pairs: Counter[tuple[Kind, Kind]] = field(default_factory=Counter)  # faults that overlapped
    reasons: frozenset[str] = frozenset()  # why something was decided
    lines: tuple[str, ...] = ()  # the story, if it was kept


def live(plan: Plan, keep: bool = False) -> Outcome:
    """One life, from its first event to its last."""
    story = Story()
    life = Life(plan, story)
    error, where = None, None
    logging.disable(logging.CRITICAL)  # a record would ask the machine for the time
    try:
        life.run()
    except Exception as wrong:
        error, where = f"{type(wrong).__name__}: {wrong}", _where(wrong)
    finally:
        logging.disable(logging.NOTSET)
    return Outcome(
        seed=plan.seed,
        events=story.events,
        seconds=life.seconds,
        digest=story.digest,
        error=error,
        where=where,
        met=life.faults.met,
        during=life.faults.during,
        pairs=life.faults.pairs,
        reasons=frozenset(life.reasons),
        lines=tuple(story.lines) if keep else (),
    )


def _where(wrong: Exception) -> str | None:
    """The innermost function of ours in which it was raised. What the watch of a life found, none raised."""
    frames = [frame for frame, _ in walk_tb(wrong.__traceback__)]
    ours = [one for one in frames if one.f_globals["__name__"].startswith("regroup.")]
    ours = [one for one in ours if one.f_code not in (live.__code__, Life.run.__code__)]
    return f"{ours[-1].f_globals['__name__']}.{ours[-1].f_code.co_qualname}" if ours else None


def cut(plan: Plan) -> Plan:
    """The same failure, as its first words tell, from as few faults as a limited search finds (ddmin, simplified)."""
    wanted = _gist(live(plan).error)
    tries, size = 0, max(1, len(plan.faults) // 2)
    while tries < CUTS:
        for part in _parts(plan.faults, size):
            tries += 1
            smaller = plan.without(*part)
            if _gist(live(smaller).error) == wanted:
                plan = smaller
                break
        else:
            if size == 1:
                break
            size = max(1, size // 2)
    return plan


def _parts(faults: tuple[Fault, ...], size: int) -> list[tuple[Fault, ...]]:
    return [faults[start : start + size] for start in range(0, len(faults), size)]


def _gist(error: str | None) -> str | None:
    """What of an error stays when names and numbers change."""
    return None if error is None else "".join(char for char in error[:60] if not char.isdigit())
