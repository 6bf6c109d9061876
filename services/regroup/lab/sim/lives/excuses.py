"""Which rules of a life its own faults excuse it from, since what they ask cannot be seen, or not in time.

Owns: that reading of a plan. Refuses to know: the rules.
"""

from regroup.lab.sim.lives.plan import Kind, Plan
from regroup.lab.sim.model.limits import NAMES

_AWAY = (Kind.STORE_AWAY, Kind.STORE_MUTE, Kind.STORE_CUT, Kind.STORE_CRASH, Kind.FREEZE, Kind.SILENCE)
_UNHEARD = (*_AWAY, Kind.CUT, Kind.ISOLATE, Kind.LOSSY, Kind.JUMBLED, Kind.CRASH, Kind.CRASH_UNSAVED, Kind.CRASH_UNSENT)


class Excuses:
    def __init__(self, plan: Plan) -> None:
        kinds = {fault.kind for fault in plan.faults}
        self._faults = plan.faults
        self.away = bool(kinds & set(_AWAY))  # the coordinator, for long
        self.unheard = bool(kinds & set(_UNHEARD))  # last words may be lost, or arrive after what followed them
        self.starved = Kind.STARVE in kinds  # of data: who waits for them breaks steps off
        self.late = bool(kinds & {Kind.SLOW, Kind.LOSSY, Kind.DEAFEN, Kind.JUMBLED})  # orders, as nobody can know

    def holds_up(self, worker: str) -> bool:
        """Whether something may hold up its step loop. At a border a fault strikes whoever comes there."""
        return any(
            one.kind is Kind.FREEZE
            or (
                one.kind in (Kind.HANG, Kind.STALL, Kind.UNKILLABLE)
                and (one.border or NAMES.index(worker) in one.workers)
            )
            for one in self._faults
        )
