"""The judge of a trainer that may hang: its agent, which looks at its marks again and again. Pure.

Owns: the limits that are learned from a trainer's past, and when one is over. A phase that waits for others accuses
nobody; there only a process that stands still hangs. A phase of which little is known has the job's `step_timeout`.
Refuses to know: clocks (`now` is passed in), files, what becomes of it.
Does not guarantee: notice while the agent itself does not look. The time in which it was away counts for nobody: it
may have been stopped, or the machine slept.
"""

from dataclasses import dataclass, replace

from regroup.core.workers import Hang, LoopPhase
from regroup.worker.pulse import WAITS, Mark

LOOK = 0.25  # seconds between two looks
AWAY = 1.0  # seconds between two looks, beyond which the agent was away
BLUR = 2 * LOOK  # seconds of a silence that may not have been seen: where its last beat is noticed a look later
TIMES = 5.0  # so many times the longest of the last passes is a hang
_DATA = frozenset({LoopPhase.DATA, LoopPhase.FIRST_BATCH})


def limit_of(longest: float | None, floor: float, most: float) -> float:
    """Seconds that a phase may last whose last passes took `longest` at most; None: too few are known."""
    return most if longest is None else min(most, max(floor, TIMES * longest))


@dataclass(frozen=True, slots=True)
class Watching:
    """What is known of one trainer, as of the last look. Durations count only what the agent was there for."""

    floor: float
    most: float  # the job's step_timeout
    looked: float | None = None
    mark: Mark | None = None
    lasts: float = 0.0  # the pass under way
    silent: float = 0.0  # the pulse
    hang: Hang | None = None
    lacks: Hang | None = None  # what was said of data that has not come since

    def look(self, mark: Mark | None, now: float) -> "Watching":
        """With the newest mark; None: there is none to be had."""
        gone = 0.0 if self.looked is None else now - self.looked
        gone = gone if gone <= AWAY else 0.0
        if mark is None:
            return replace(self, looked=now, lasts=self.lasts + gone, silent=self.silent + gone)
        same = self.mark is not None and mark.number == self.mark.number
        lasts = self.lasts + gone if same else max(0.0, min(now - mark.entered, gone))
        silent = self.silent + gone if self.mark is not None and mark.beat == self.mark.beat else 0.0
        # To wait for it no longer, as a Halt says, does not bring the data.
        lacks = self.lacks if self.lacks is not None and self.lacks.fetch == mark.fetch else None
        after = replace(self, looked=now, mark=mark, lasts=lasts, silent=silent, lacks=lacks)
        hang = after._judged(mark)
        return replace(after, hang=hang, lacks=hang if hang is not None and hang.fetch else lacks)

    def _judged(self, mark: Mark) -> Hang | None:
        """A hang of its own, or a process that stands still, is said rather than that data has not come."""
        if mark.phase is LoopPhase.PREPARING:
            return None
        still = limit_of(0.0, self.floor, self.most)
        if mark.phase in WAITS:
            over = self.silent > still
            return Hang(phase=mark.phase, lasts=self.silent, limit=still, stands=True) if over else self.lacks
        limit, stands = limit_of(mark.longest, self.floor, self.most), self.silent > still - BLUR
        for_data = mark.phase in _DATA and not stands
        if self.lasts <= limit or (for_data and self.lacks is not None):
            return self.lacks
        fetch = mark.fetch if for_data and mark.fetch % 2 else 0
        return Hang(phase=mark.phase, lasts=self.lasts, limit=limit, stands=stands, fetch=fetch)


def is_news(before: Hang | None, now: Hang | None) -> bool:
    """Whether it is another word: what merely lasts longer is none."""
    return (before and (before.phase, before.stands)) != (now and (now.phase, now.stands))
