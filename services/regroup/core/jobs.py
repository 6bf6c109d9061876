"""The nouns of a job: where it stands, who takes part, what was decided, and how its history descends.

Owns: the values that every process shares.
Refuses to know: what a user may ask for (`spec`), where they are stored, how they travel, when they change (`decide`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from regroup.core.spec import JobSpec


class JobPhase(StrEnum):
    """Where a job stands, as users see it. The legal arrows are in `phases`."""

    QUEUED = "queued"
    PREPARING = "preparing"
    RUNNING = "running"
    REGROUPING = "regrouping"
    WAITING = "waiting"  # fewer workers than it needs; the survivors keep the state in memory
    PAUSED = "paused"  # until its user resumes it; its state is in a checkpoint, or held in the workers' memory
    STOPPED = "stopped"
    COMPLETED = "completed"
    FAILED = "failed"


class Wanted(StrEnum):
    """What is wanted of a job, mostly by its user; what is done about it is decided from this at any later moment."""

    RUN = "run"
    HOLD = "hold"  # paused, its workers kept: the state stays in their memory
    PAUSE = "pause"  # paused, its workers freed: the state is in a checkpoint
    YIELD = "yield"  # make room for another job: paused, and in the queue again at once
    STOP = "stop"


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """A trainer: a worker's name and the incarnation of its process. A restarted trainer is another member."""

    worker: str
    incarnation: str

    def __hash__(self) -> int:
        return hash(self.incarnation)  # that alone tells most members apart


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """What a state is: the generation whose line it continues, and the steps committed in it. Ordered in that order."""

    generation: int
    step: int


ORIGIN = Version(0, 0)  # the state that the leader builds from the job's seed; see Job.origin


@dataclass(frozen=True, slots=True)
class Seat:
    """A member's place in a formation; its index among the seats is its rank."""

    member: Member
    version: Version | None  # what it answered to the Halt of this generation; None: no state


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A durable state, named by its version."""

    version: Version
    path: str
    checksum: str  # sha256 of the file of tensors
    bytes: int
    worker: str = ""  # who wrote it, as the coordinator knows it: on its machine the file can be deleted
    score: float | None = None  # the evaluation's loss at its step; None: there was no evaluation, or it had none
    at: float = field(default=0.0, compare=False)  # when it was known to be durable, since the epoch; 0: unknown
    host: str = ""  # the machine that it was written on, as the coordinator knows it: a folder may be that one's own


@dataclass(frozen=True, slots=True)
class Struck:
    """A checkpoint that nothing begins from any more. Its file is kept, for people to look at."""

    checkpoint: Checkpoint
    damage: str  # what is wrong with the file


@dataclass(frozen=True)  # without slots, for what is cached
class Formation:
    """Who trains in a generation, and from which state. Issued once persisted; built from answers to its own Halt."""

    generation: int
    seats: tuple[Seat, ...]
    leader: int  # the rank whose state all others hold or receive
    base: Version  # of the leader's state; its generation is this generation's parent
    owners: tuple[int, ...]  # owners[v] is the rank that owns shard v
    store: str  # the leader's rendezvous: host:port/prefix, fresh for this generation
    micro_batch: int | None = None  # samples per pass, the same for everybody; None: the task's natural pass
    checkpoint: Checkpoint | None = None  # the leader reads the base from it; None: the leader holds it
    detached_limit: float = 0.0  # seconds that a lease lasts in it: the policy's when it was issued

    @cached_property
    def members(self) -> tuple[Member, ...]:
        return tuple(seat.member for seat in self.seats)

    @property
    def base_in_memory(self) -> bool:
        """Whether its base was trained and came from no file: a checkpoint of it may be due and not be taken yet."""
        return self.base.generation > 0 and self.checkpoint is None

    @property
    def receivers(self) -> tuple[int, ...]:
        """The ranks whose state differs from the leader's, or who have none: they are replaced."""
        fresh = self.base.generation == 0
        return tuple(
            rank for rank, seat in enumerate(self.seats) if rank != self.leader and (fresh or seat.version != self.base)
        )


@dataclass(frozen=True, slots=True)
class Round:
    """A Halt round under way: `generation` was taken for it, and `participants` were asked."""

    generation: int
    boundary: bool  # True: at the first step on which all agree; False: now
    participants: tuple[Member, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Link:
    """One link of the chain of history: steps of `parent` beyond `base_step` are void."""

    generation: int
    parent: int
    base_step: int


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What two workers must agree on before they train together."""

    code: str  # digest of parameters' names, shapes and dtypes, the task's options, and how order and draws are made
    dataset: str  # digest of the dataset's length and of some of its samples
    samples: int  # N, the dataset's length


@dataclass(frozen=True, slots=True)
class Beginning:
    """The checkpoint of another job that a job begins from, as it was found when the job was submitted."""

    job: str  # whose it is; nothing of that job is asked any more
    checkpoint: Checkpoint
    fingerprint: Fingerprint | None  # of that job: the data is to be the same


OUTSIDE = -1  # as the shard of a failure: in no pass
IN_STATE, IN_REPORT = -2, -3  # likewise: in the task's `state()`, in its `report()`
IN_DATA = -4  # likewise: it waited for its data
IN_LOAD = -5  # likewise: it took the state that its generation starts from


@dataclass(frozen=True, slots=True)
class StepFailure:
    """User code that raised, or a process that died, in the passes of one shard of one step, or outside of them."""

    step: int
    shard: int
    worker: str
    error: str
    died: bool = False  # its process ended, which was counted against the worker
    generation: int = 0  # the last that was formed; 0: none was
    chance: bool = False  # it may be nobody's: it was killed by SIGKILL, or gone with its agent
    made: bool = field(default=False, compare=False)  # its step came off since, in a later generation


@dataclass(frozen=True, slots=True)
class StepPoint:
    """One committed step, measured. Loss is the mean over the step's weight; seconds are this trainer's own."""

    step: int
    loss: float | None
    weight: float
    samples: int
    seconds: float
    exchange_seconds: float
    metrics: Mapping[str, float] = field(default_factory=dict)  # of an evaluation at this step


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The durable truth about one job. Times are seconds since the epoch, for people only: no decision reads them."""

    id: str
    spec: JobSpec
    submitted: float
    phase: JobPhase = JobPhase.QUEUED
    reason: str = "waiting for its turn"
    since: float = 0.0
    generation: int = 0  # the highest number taken; never reused
    round: Round | None = None  # the Halt round under way
    formation: Formation | None = None  # the last issued; None: none yet, or a pause closed it
    saver: Member | None = None  # who was asked to write the state
    savers: tuple[Member, ...] = ()  # who was, since the last formation
    wanted: Wanted = Wanted.RUN
    history: tuple[Link, ...] = ()
    fingerprint: Fingerprint | None = None
    checkpoint: Checkpoint | None = None  # the newest durable state; where no formation is, the next begins from it
    older: tuple[Checkpoint, ...] = ()  # durable states before that one that are kept, the newest of them first
    beginning: Beginning | None = None  # None: the job begins from its seed
    doomed: tuple[Checkpoint, ...] = ()  # no longer kept; their files are to be deleted
    struck: tuple[Struck, ...] = ()  # found damaged, in that order
    result: Mapping[str, Any] | None = None  # what the task said of the final state
    step: int = 0  # the minimum committed step over the members when last persisted
    restarts: int = 0
    given_up: int = 0  # the generation of which all that is not durable was given up, as the job was to rest
    failures: tuple[StepFailure, ...] = ()  # the newest; of what came off since, none (`failures`)
    refused: Mapping[str, str] = field(default_factory=dict)  # worker -> why it may not take part
    error: str | None = None  # the traceback of a failed job

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    @property
    def origin(self) -> Version:
        """The state that the job begins with: of generation 0, as no generation of its own made it."""
        return ORIGIN if self.beginning is None else Version(0, self.beginning.checkpoint.version.step)

    @property
    def saved(self) -> Version:
        """The newest durable state; before there is a checkpoint, the one that the job begins with."""
        return self.checkpoint.version if self.checkpoint is not None else self.origin

    @property
    def kept(self) -> tuple[Checkpoint, ...]:
        """Its own checkpoints, the newest first."""
        return (self.checkpoint, *self.older) if self.checkpoint is not None else ()

    @property
    def latest(self) -> Checkpoint | None:
        """Where that state is to be read; None: anybody builds it from the seed."""
        return self.checkpoint or (self.beginning.checkpoint if self.beginning is not None else None)

    @property
    def steps(self) -> int | None:
        """Steps to commit until completion; None while the dataset's length is unknown."""
        if self.spec.steps is not None:
            return self.spec.steps
        if self.fingerprint is None or self.spec.epochs is None:
            return None
        return self.spec.epochs * -(-self.fingerprint.samples // self.spec.global_batch)

    @property
    def between(self) -> bool:
        """Whether its last generation is over, and nobody is asked for anything now."""
        last = self.formation
        return last is not None and last.generation != self.generation and self.round is None and self.saver is None

    @property
    def needs(self) -> int:
        """The fewest workers with which it goes on: one, once its final state is durable."""
        done = self.checkpoint is not None and self.complete_at(self.checkpoint.version.step)
        return 1 if done else self.spec.min_workers

    def complete_at(self, step: int) -> bool:
        return self.steps is not None and step >= self.steps


ENDED = frozenset({JobPhase.STOPPED, JobPhase.COMPLETED, JobPhase.FAILED})
