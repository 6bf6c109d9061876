"""What will go wrong in one life, known before it begins: a value that can be read, cut and kept.

Owns: the kinds of fault, when each may strike, and how long there are any.
Refuses to know: which faults a seed draws (`drawing`), how one is done (`faults`), and what it leads to.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from regroup.core.cluster import Policy
from regroup.core.spec import JobSpec
from regroup.lab.sim.model.limits import NAMES

BEGUN = 5.0  # seconds by which faults have begun


class Kind(StrEnum):
    """A fault. Those with a duration end by themselves; the others are done at once."""

    KILL_TRAINER = "kill the trainer"
    CRASH_TRAINER = "segfault in the trainer"
    KILL_AGENT = "kill the agent"
    LEAVE = "agent leaves in good order"
    HAND_OVER = "agent is asked to end"
    DRAIN = "worker is drained"
    GONE = "machine is gone for good"
    HANG = "trainer hangs"
    DEADLOCK = "trainer hangs for ever"
    WEDGE = "task's code hangs for ever"
    STALL = "step loop stalls"
    RAISE = "user code raises"
    UNWRITABLE = "disk refuses the state"
    UNREADABLE = "checkpoint cannot be read"
    DAMAGE = "file of a checkpoint is damaged"
    MISREAD = "worker reads other bytes than there are"
    AWAY = "machine is off for long"
    MOVE = "worker's name moves to another machine"
    BREAK = "collective breaks"
    CRASH = "coordinator crashes"
    CRASH_UNSAVED = "coordinator crashes before its save"
    CRASH_UNSENT = "coordinator crashes between save and send"
    FREEZE = "coordinator freezes"
    STORE_AWAY = "store does not answer"
    STORE_MUTE = "store saves and its answer is lost"
    STORE_CUT = "coordinator is cut off from its store"
    STORE_SLOW = "store is slow"
    CUT = "connection is cut"
    SEVER = "trainers cannot reach each other"
    ISOLATE = "network partition"
    DEAFEN = "orders are lost"
    SILENCE = "reports are lost"
    LOSSY = "messages are dropped"
    DOUBLING = "messages are doubled"
    JUMBLED = "messages are reordered"
    SLOW = "messages are slow"
    STORE_CRASH = "store crashes"
    STOP = "user stops the job"
    PAUSE = "user pauses the job"
    HOLD = "user holds the job"
    MISMATCH = "code differs from the others'"
    UNPREPARED = "worker cannot prepare"
    BAD_SPEC = "task cannot be built"
    POISON = "a shard's pass segfaults"
    FLIP = "bits of a replica flip"
    DIVERGE = "loss is no number"
    STARVE = "data does not come"
    STRANGER = "agent of another release comes"
    STATE_DIES = "task's state() segfaults at a save"
    STATE_HANGS = "task's state() hangs at a save"
    STATE_RAISES = "task's state() raises at a save"
    REPORT_DIES = "task's report() segfaults"
    REPORT_HANGS = "task's report() hangs"
    STOP_NOW = "user stops the job at once"
    MISTAKE = "user asks for what cannot be"
    LAG = "worker's passes take long"
    UNDELETABLE = "files cannot be deleted"
    UNKILLABLE = "trainer is stuck in the kernel"
    UNFIT = "task raises on some devices"

    def __repr__(self) -> str:
        """As code, so that a plan can be printed and pasted."""
        return f"Kind.{self.name}"


LASTING = frozenset(
    {
        Kind.HANG,
        Kind.STALL,
        Kind.FREEZE,
        Kind.STORE_AWAY,
        Kind.STORE_MUTE,
        Kind.STORE_CUT,
        Kind.STORE_SLOW,
        Kind.ISOLATE,
        Kind.SEVER,
        Kind.DEAFEN,
        Kind.SILENCE,
        Kind.LOSSY,
        Kind.DOUBLING,
        Kind.JUMBLED,
        Kind.SLOW,
        Kind.UNWRITABLE,
        Kind.UNREADABLE,
        Kind.MISREAD,
        Kind.AWAY,
        Kind.MOVE,
        Kind.STORE_CRASH,
        Kind.MISMATCH,
        Kind.UNPREPARED,
        Kind.BAD_SPEC,
        Kind.POISON,
        Kind.STARVE,
        Kind.STATE_DIES,
        Kind.STATE_HANGS,
        Kind.STATE_RAISES,
        Kind.REPORT_DIES,
        Kind.REPORT_HANGS,
        Kind.LAG,
        Kind.UNDELETABLE,
        Kind.UNKILLABLE,
        Kind.UNFIT,
    }
)
GOING = (Kind.HAND_OVER, Kind.DRAIN)  # drawn apart from all others, as are the next two
STATE_FAULTS = (Kind.STATE_DIES, Kind.STATE_HANGS, Kind.STATE_RAISES)
REPORT_FAULTS = (Kind.REPORT_DIES, Kind.REPORT_HANGS)
OF_ALL = frozenset(  # these strike the cluster, not workers
    {
        Kind.CRASH,
        Kind.CRASH_UNSAVED,
        Kind.CRASH_UNSENT,
        Kind.FREEZE,
        Kind.STORE_AWAY,
        Kind.STORE_MUTE,
        Kind.STORE_CUT,
        Kind.STORE_SLOW,
        Kind.LOSSY,
        Kind.DOUBLING,
        Kind.JUMBLED,
        Kind.SLOW,
        Kind.STORE_CRASH,
        Kind.STOP,
        Kind.STOP_NOW,
        Kind.MISTAKE,
        Kind.PAUSE,
        Kind.HOLD,
        Kind.BAD_SPEC,
        Kind.POISON,
        Kind.DAMAGE,
    }
)
# Where the protocol's holes would be: decisions, where a session stands, and a step loop between two of its moves.
BORDERS = (
    *("halt", "form", "started", "regrouped", "saving", "waiting", "rolled_back", "pausing", "paused", "resumed"),
    *("prepared", "halted", "finished", "broken"),
    *("preparing", "connecting", "connected", "reading", "loaded", "stepping", "contributed", "applying", "writing"),
    "idle",
)


@dataclass(frozen=True, slots=True)
class Fault:
    kind: Kind
    workers: tuple[int, ...]  # indexes; whom it strikes, where it does not strike the whole cluster
    at: float  # seconds after the start; with a border, from then on
    border: str | None = None  # strikes at the next of these
    seconds: float = 0.0  # how long it lasts
    arrival: int = 0  # strikes when the first of its workers is there for so many times; 0: whoever comes there

    def __str__(self) -> str:
        which = f"arrival {self.arrival} at" if self.arrival else "the next"
        where = f"at {which} '{self.border}' after {self.at:.2f} s" if self.border else f"at {self.at:.2f} s"
        lasts = f", for {self.seconds:.2f} s" if self.seconds else ""
        if self.kind in OF_ALL:
            return f"{self.kind} {where}{lasts}"
        first, *others = [NAMES[number] for number in self.workers]
        first += " (or whoever is there then)" if self.border and not self.arrival else ""
        return f"{self.kind} {where}{lasts}: {', '.join([first, *others])}"


@dataclass(frozen=True, slots=True)
class Plan:
    """One life, up to what its own dice decide: delays, paces, and which of several moves comes first."""

    seed: int
    workers: int
    jobs: tuple[JobSpec, ...]
    policy: Policy
    faults: tuple[Fault, ...]
    skews: tuple[float, ...]  # of the workers' monotonic clocks, seconds; the last is the coordinator's
    drifts: tuple[float, ...]  # seconds per second
    pace: float  # seconds of a move of a step loop, in the mean
    learned: bool = False  # agents watch their trainers' step loops, by limits that they learned
    chunk: float = 0.0  # seconds of one of the CHUNKS of an evaluation; 0: there is none
    begins: bool = False  # later jobs begin from a checkpoint of the first one, where it has any then
    folders: bool = False  # each machine has a folder for checkpoints of its own; else all share one
    heals: float = 14.0  # seconds after the start, at the latest: from then on nothing goes wrong
    detached: tuple[float, ...] = ()  # the detached limits of the first coordinators; the policy's for later ones

    def limits(self, coordinator: int) -> Policy:
        """Of each coordinator, from 1 on: its operator may have set another one."""
        known = dict(enumerate(self.detached, start=1))
        return replace(self.policy, detached_limit=known.get(coordinator, self.policy.detached_limit))

    def without(self, *faults: Fault) -> "Plan":
        return replace(self, faults=tuple(one for one in self.faults if one not in faults))


def in_time(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    return tuple(sorted(faults, key=lambda fault: fault.at))
