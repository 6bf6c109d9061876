"""Which rules of a life its own faults excuse it from for a while, since what they ask cannot be seen, or not in time.

Owns: which faults excuse from what. Refuses to know: the rules, and for how long each is excused after such a fault.
"""

from math import inf
from typing import TYPE_CHECKING

from regroup.lab.sim.lives.plan import Kind

if TYPE_CHECKING:
    from regroup.lab.sim.lives.life import Life

STORE = (Kind.STORE_AWAY, Kind.STORE_MUTE, Kind.STORE_CUT, Kind.STORE_CRASH)  # it does not answer
AWAY = (*STORE, Kind.FREEZE, Kind.SILENCE)
UNHEARD = (*AWAY, Kind.CUT, Kind.ISOLATE, Kind.LOSSY, Kind.JUMBLED, Kind.CRASH, Kind.CRASH_UNSAVED, Kind.CRASH_UNSENT)
LATE = (Kind.SLOW, Kind.LOSSY, Kind.DEAFEN, Kind.JUMBLED)
_STOPS = (Kind.HANG, Kind.STALL, Kind.UNKILLABLE)


class Excuses:
    """`seconds`: for how long after it was over such a fault excuses."""

    def __init__(self, life: "Life") -> None:
        self._life = life

    def away(self, seconds: float = inf) -> bool:
        """The coordinator was away for long."""
        return self._lately(AWAY, seconds)

    def unheard(self, seconds: float = inf) -> bool:
        """Last words may be lost, or arrive after what followed them."""
        return self._lately(UNHEARD, seconds)

    def late(self, seconds: float = inf) -> bool:
        """Orders may be, as nobody can know."""
        return self._lately(LATE, seconds)

    def starved(self) -> bool:
        """Of data: who waits for them breaks steps off."""
        return self._lately((Kind.STARVE,), inf)

    def holds_up(self, worker: str, seconds: float = inf) -> bool:
        """Something held up its step loop, or all of them."""
        return self._lately(_STOPS, seconds, worker) or self._lately((Kind.FREEZE,), seconds)

    def _lately(self, kinds: tuple[Kind, ...], seconds: float, worker: str | None = None) -> bool:
        last = self._life.faults.last(kinds, worker)
        return last > -inf and self._life.now - last < seconds
