"""Why some of what is counted never meets, and what of a fault lasts that is counted elsewhere.

Owns: these reasons. Each says whether it holds for every life, or only for those whose plan lacks something.
Refuses to know: how anything is counted (`tally`), and how it is put (`showing`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from regroup.core.jobs import JobPhase
from regroup.lab.sim.lives.plan import GOING, Kind, Plan
from regroup.lab.sim.lives.underway import Activity


@dataclass(frozen=True, slots=True)
class Why:
    """Why some things never meet: in no life, or in none whose plan has not what it `takes`."""

    words: str
    takes: Callable[[Plan], bool] | None = None


def several_jobs(plan: Plan) -> bool:
    return len(plan.jobs) > 1


def a_rest(plan: Plan) -> bool:
    """A job that is paused: its user asked for it, it makes room for another, or all that hold it leave."""
    return several_jobs(plan) or any(fault.kind in (Kind.PAUSE, Kind.HOLD, *GOING) for fault in plan.faults)


# Kinds that strike nothing where there is no trainer, no leader, no save.
OF_TRAINERS = (
    *(Kind.KILL_TRAINER, Kind.CRASH_TRAINER, Kind.HANG, Kind.DEADLOCK, Kind.WEDGE, Kind.STALL),
    *(Kind.RAISE, Kind.BREAK, Kind.FLIP, Kind.DIVERGE, Kind.UNFIT),
)
OF_LEADERS = (Kind.CRASH, Kind.FREEZE, Kind.STORE_CUT)
DOOMED_SAVES = (Kind.CRASH_UNSAVED, Kind.CRASH_UNSENT, Kind.STORE_CRASH)
STAGES = (Activity.START, Activity.REGROUP, Activity.BOUNDARY, Activity.SAVE, Activity.WAIT)  # of which a job has one


def in_order(one: Kind, other: Kind) -> tuple[Kind, Kind]:
    """As faults are counted: in the order of their names."""
    first, second = sorted((one, other))
    return first, second


def _at_once(one: Activity, other: Activity) -> tuple[Activity, Activity]:
    first, second = sorted((one, other), key=list(Activity).index)
    return first, second


_NO_TRAINER = Why("a job has no trainer before it was lent workers: it takes another job, or one that rested", a_rest)
_NO_REST = Why("a job is paused only if its user asks for it, it makes room, or all that hold it leave", a_rest)
NEVER_IN_PHASE: Mapping[tuple[Kind, JobPhase], Why] = {
    **{(kind, JobPhase.QUEUED): _NO_TRAINER for kind in OF_TRAINERS},
    **{(kind, JobPhase.PAUSED): _NO_REST for kind in Kind},
}

_NO_LEADER = Why("there is no coordinator that it could strike")
_NO_SAVE = Why("it strikes at a save, which a leader makes")
NEVER_DURING: Mapping[tuple[Kind, Activity], Why] = {
    **{(kind, Activity.RESTART): _NO_LEADER for kind in OF_LEADERS},
    **{(kind, Activity.RESTART): _NO_SAVE for kind in DOOMED_SAVES},
}

_ONE_STAGE = Why("a job is at one of these at a time: it takes two jobs", several_jobs)
_GOES_BACK = Why("what goes back is a formation that is being made: it takes another job", several_jobs)
_ONE_WISH = Why("one thing is wanted of a job at a time: it takes two jobs", several_jobs)
NEVER_AT_ONCE: Mapping[tuple[Activity, ...], Why] = {
    **{_at_once(one, other): _ONE_STAGE for one, other in combinations(STAGES, 2)},
    **{_at_once(one, Activity.ROLLBACK): _GOES_BACK for one in STAGES if one is not Activity.REGROUP},
    _at_once(Activity.STOP, Activity.PAUSE): _ONE_WISH,
}

NEVER_PAIRED: Mapping[tuple[Kind, Kind], Why] = {
    in_order(Kind.CRASH_UNSENT, Kind.STORE_AWAY): Why("it strikes once the store has answered"),
}

_RECOVERS = (Activity.REGROUP, Activity.ROLLBACK, Activity.WAIT, Activity.START)
# Of a fault that is done at once nobody can say when it is over. What it leaves is counted as what was under way.
LEAVES: Mapping[Kind, tuple[Activity, ...]] = {
    **dict.fromkeys((Kind.KILL_TRAINER, Kind.CRASH_TRAINER, Kind.BREAK, Kind.RAISE), _RECOVERS),
    **dict.fromkeys((Kind.DEADLOCK, Kind.WEDGE), (Activity.STUCK,)),
    Kind.KILL_AGENT: (Activity.DOWN,),
    Kind.GONE: (Activity.OFF, Activity.DOWN),
    Kind.LEAVE: (Activity.AWAY,),
    **dict.fromkeys(GOING, (Activity.GOING,)),
    **dict.fromkeys((Kind.CUT, Kind.STRANGER), (Activity.UNLINKED,)),
    **dict.fromkeys((Kind.CRASH, Kind.CRASH_UNSAVED, Kind.CRASH_UNSENT), (Activity.RESTART,)),
    Kind.STOP: (Activity.STOP,),
    **dict.fromkeys((Kind.PAUSE, Kind.HOLD), (Activity.PAUSE,)),
    Kind.DAMAGE: (Activity.SPOILT,),
    Kind.FLIP: (Activity.FLIPPED,),
    **dict.fromkeys((Kind.DIVERGE, Kind.MISTAKE, Kind.STOP_NOW), ()),  # it is told, or its job is over
}


def left_by(kinds: Iterable[Kind]) -> dict[tuple[Activity, ...], list[Kind]]:
    """What lasts of which of these."""
    found: dict[tuple[Activity, ...], list[Kind]] = {}
    for kind in kinds:
        found.setdefault(LEAVES[kind], []).append(kind)
    return found
