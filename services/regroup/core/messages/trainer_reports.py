"""What trainers say of a job: what they promised, formed, committed and saved, and what failed. Past tense.

Owns: these reports. Every one names who says it, and those about a generation name it, so that a late one is
recognised. The link adds the worker's name.
Refuses to know: what agents say of their own (`agent_reports`), and what follows (`core.trainer_reports`).
Does not guarantee: that a report arrives, or arrives once: a Halt asks again for what matters.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regroup.core.jobs import Checkpoint, Fingerprint, Member, StepPoint, Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The trainer could join now."""

    job: str
    incarnation: str
    fingerprint: Fingerprint
    store: str


# Fields of a failure to prepare that are none of the job's spec alone:
WORKER = "worker"  # the fault is this worker's, such as a disk that is full
TASK = "task"  # the task's code is wrong, or what it reads on this worker


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareFailed:
    """The task could not be built here. `field` names the job spec's field to mend, such as options.lr; or `WORKER`."""

    job: str
    incarnation: str
    field: str
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Halted:
    """The promise: this incarnation never commits, forms or answers below `generation` again."""

    job: str
    incarnation: str
    generation: int
    version: Version | None
    store: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Formed:
    """It connected in `generation` and holds the leader's state complete."""

    job: str
    incarnation: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBroke:
    """A collective of `generation` failed, or a neighbour's socket closed."""

    job: str
    incarnation: str
    generation: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeersUnreached:
    """It tried to form `generation`, and no connection to these members came about. Said apart from what follows for
    it, and perhaps later, for an attempt may last until somebody else's failure is long decided about."""

    job: str
    incarnation: str
    generation: int
    peers: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsCommitted:
    """The trainer's state is now (generation, step). Only the leader sends points, and its last ones again."""

    job: str
    incarnation: str
    generation: int
    step: int
    points: tuple[StepPoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailed:
    """User code raised in the passes of a shard. The trainer lives and waits for a Halt."""

    job: str
    incarnation: str
    generation: int
    step: int
    shard: int
    error: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasDiffered:
    """Members' states had different digests; those that hold another one than most answer the next Halt with none."""

    job: str
    incarnation: str
    generation: int
    step: int
    digests: tuple[str, ...]  # by rank


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSaved:
    """The state is durable. `generation` is the Halt under which it was ordered; `result` is the task's report, and
    `remark` why there is none although there should be."""

    job: str
    incarnation: str
    generation: int
    checkpoint: Checkpoint
    result: Mapping[str, Any] | None = None
    remark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveFailed:
    """The state could not be written; it is still in memory."""

    job: str
    incarnation: str
    generation: int
    error: str
    traceback: str = ""  # of the task, whose state() raised or is none that can be kept; "": the storage failed


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFailed:
    """A state could not be written beside the training, which goes on. The next one is tried when it is due."""

    job: str
    incarnation: str
    step: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointUnreadable:
    """The leader of `generation` was to begin from a checkpoint and could not read it. What it held, it holds."""

    job: str
    incarnation: str
    generation: int
    error: str
    damaged: bool = False  # the storage answered, and the file is not the one that was written; else it may return
    missing: bool = False  # likewise: here is none of that name
    unfit: bool = False  # it is whole, and another job's, which this one cannot begin from


TrainerReport = (
    Prepared
    | PrepareFailed
    | Halted
    | Formed
    | GroupBroke
    | PeersUnreached
    | StepsCommitted
    | StepFailed
    | ReplicasDiffered
    | StateSaved
    | SaveFailed
    | CheckpointFailed
    | CheckpointUnreadable
)
