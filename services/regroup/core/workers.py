"""The nouns of a worker: one device with its agent, and what its trainer last said of itself.

Owns: the durable record of a worker and the volatile sighting of it.
Refuses to know: how a process is started or watched.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from regroup.core.jobs import Checkpoint, Fingerprint, Version

LEFT = ""  # the boot of a worker whose agent said goodbye: that it comes back is no sign of an error


class TrainerPhase(StrEnum):
    """Where a trainer stands. The legal arrows are in `phases`."""

    PREPARING = "preparing"  # imports, builds the model, compares fingerprints, warms up
    PREPARED = "prepared"  # ready to be taken in
    HALTED = "halted"  # promised never to commit, form or answer below `promised` again
    FORMING = "forming"  # accepted a formation; connects and takes the leader's state
    TRAINING = "training"  # holds the state of its generation; commits steps
    FINISHED = "finished"  # committed and evaluated its last step; waits for a Halt
    BROKEN = "broken"  # its group broke; waits for a Halt
    SAVING = "saving"  # halted, and writes its state


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerStatus:
    """What a trainer says of itself; sent with each heartbeat, so that nothing depends on one message arriving."""

    job: str
    incarnation: str
    phase: TrainerPhase
    promised: int = 0  # the highest Halt it promised
    generation: int = 0  # the last formation it accepted
    version: Version | None = None  # of the state that it holds complete
    evaluated: int = 0  # chunks of this state's evaluation, as far as that came in this generation
    store: str = ""  # its rendezvous, host:port/prefix; the prefix is new with each Halt
    pid: int = 0  # for people
    fingerprint: Fingerprint | None = None  # None until it is prepared
    at_work: bool = False  # its step loop is in its last formation, or in the task's code: so long no promise is told
    written: tuple[Checkpoint, ...] = ()  # that it wrote, and was not answered yet, as they came

    @property
    def is_stuck(self) -> bool:
        """Whether its promise holds, and its step loop has yet to come back and tell it: it is in a pass, or hangs."""
        return self.phase is TrainerPhase.HALTED and self.at_work

    @property
    def news(self) -> tuple[object, ...]:
        """What is not left to the next heartbeat: before that, its process may end, or be taken for one that hangs."""
        return self.phase, self.at_work, self.written, self.evaluated


class LoopPhase(StrEnum):
    """Where a trainer's step loop sits, as its agent sees it. In some of these it waits for others."""

    PREPARING = "preparing"  # its limit is the coordinator's own
    IDLE = "idle"  # until there is something to do
    FORMING = "forming"  # until all members are there
    EXCHANGE = "exchange"  # until the others gave their part
    LEASE = "lease"  # until it may commit: for moments, unless no heartbeat of its agent was answered for too long
    LOADING = "loading"  # a state is given, or takes the place of this one's, or a checkpoint is read; or nothing
    FIRST_BATCH = "first batch"  # of a generation: nothing of it was fetched ahead
    DATA = "data"
    COMPUTE = "compute"  # one pass, forward and backward
    OPTIMIZER = "optimizer"
    EVALUATION = "evaluation"  # of its own part of one chunk
    LONE_EVALUATION = "lone evaluation"  # of a whole chunk, by whoever saves: the others are gone, or wait
    COPY = "copy"  # of the state, for a checkpoint beside the training
    SAVING = "saving"  # a state is on its way to where it is kept, which has a limit of its own
    STATE = "state"  # the task tells its state, to be saved
    REPORT = "report"  # the task tells what it reports of the final state


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """The word of an agent that its trainer hangs. Seconds."""

    phase: LoopPhase
    lasts: float
    limit: float
    stands: bool = False  # its interpreter runs no thread: it was stopped, or native code keeps it
    fetch: int = 0  # which fetch of its data does not end; 0: that is not what it hangs in


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """What the agent read of its device and process. Bytes; fractions of 1; None where it cannot be known."""

    memory_used: int | None = None
    memory_total: int | None = None
    utilization: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """The durable truth about one worker."""

    name: str
    boot: str  # changes whenever its agent starts
    device: str
    host: str
    pid: int
    version: str
    job: str | None = None  # the job it is lent to
    errors: int = 0  # trainers that died unasked, less those forgiven; more than the policy's limit quarantine it
    charged: str | None = None  # the incarnation of its newest trainer that was counted: it is one error, once
    quarantined: bool = False
    drained: bool = False  # by its operator, until it is admitted again
    leaving: bool = False  # the agent of this boot was asked to end
    meant: bool = False  # its trainer ended by a goodbye, and no formation was issued with it since
    barren: bool = False  # the agent of this boot can start no trainer, and so it ends: that was counted
    reason: str = "registered"

    @property
    def departs(self) -> bool:
        """Whether its shards go to others, and it gets no new ones."""
        return self.drained or self.leaving


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """The volatile side of a worker: lost with the coordinator, and told anew by the next heartbeat."""

    seen: float  # the coordinator's monotonic clock, seconds
    connected: bool = True
    since: float = 0.0  # since when it is heard on this connection, without a gap; on the same clock
    told: bool = False  # whether a heartbeat came since then
    moved: float = 0.0  # when its trainer last said anything new, or it was lent or freed, on the same clock
    renewed: float = -inf  # when its trainer's lease was last renewed, on the same clock
    to_end: float = -inf  # when its trainer was last given up, on the same clock
    blamed: float = 0.0  # when its last error was counted or forgiven, or it registered, on the same clock
    sequence: int = 0  # of the newest heartbeat under this boot; one that it overtook says nothing any more
    trainer: TrainerStatus | None = None
    ended: tuple[str, ...] = ()  # the newest incarnations of its trainers whose end it told under this boot
    telemetry: Telemetry = field(default_factory=Telemetry)
    hang: Hang | None = None  # of this trainer, as its agent says
    hung: float = -inf  # since when it says so, on the same clock
    pace: float | None = None  # seconds that its own passes take per sample, the median of its last steps

    @property
    def hangs_since(self) -> float:
        """Since when it hangs, by its agent's word; what it said of itself meanwhile counts as a sign of life."""
        return max(self.moved, self.hung)
