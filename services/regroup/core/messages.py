"""Everything that is said: Commands users give, Reports workers make, Orders we give back.

Owns: the vocabulary. Commands and orders are imperative, reports are past tense. Every order can be derived from
state and repeated; every report about a generation names it, so that a late one is recognised.
Refuses to know: how they are encoded (`wire`), and what is decided about them (`decide`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regroup.core.jobs import Checkpoint, Fingerprint, Formation, JobSpec, StepPoint, Version
from regroup.core.workers import Hang, LoopPhase, Telemetry, TrainerStatus

# --- Commands: what users ask


@dataclass(frozen=True, slots=True)
class SubmitJob:
    """Queue a job under an id that the caller made."""

    job: str
    spec: JobSpec
    at: float  # seconds since the epoch, for people to read


@dataclass(frozen=True, slots=True)
class StopJob:
    """End a job at its next step, with a checkpoint of its state if it has one."""

    job: str


@dataclass(frozen=True, slots=True)
class PauseJob:
    """Rest at the next step until ResumeJob: save the state and free the workers, or `hold` it in their memory."""

    job: str
    hold: bool = False


@dataclass(frozen=True, slots=True)
class ResumeJob:
    """Go on where a pause left off."""

    job: str


@dataclass(frozen=True, slots=True)
class ClearWorker:
    """Forgive a worker's errors and lift its quarantine."""

    worker: str


@dataclass(frozen=True, slots=True)
class DrainWorker:
    """Let others take over what a worker has, and lend it to nobody until AdmitWorker."""

    worker: str


@dataclass(frozen=True, slots=True)
class AdmitWorker:
    """Lend a drained worker again."""

    worker: str


# --- Reports: what workers say. The link adds the worker's name.


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRegistered:
    """The first words on every connection. A new `boot` proves that everything of the old one is dead."""

    boot: str
    device: str
    host: str
    pid: int
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Sent each interval and when the trainer's phase changes. Its answer renews the lease from when it was sent."""

    boot: str
    sequence: int
    trainer: TrainerStatus | None = None  # None: no trainer runs
    telemetry: Telemetry = field(default_factory=Telemetry)
    leaving: bool = False  # the agent was asked to end, and waits for Go
    hang: Hang | None = None  # where its trainer hangs, for as long as it does
    pace: float | None = None  # seconds of its own that its trainer takes for a sample; None: not known yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The trainer could join now."""

    job: str
    incarnation: str
    fingerprint: Fingerprint
    store: str


WORKER = "worker"  # as the field of a failure to prepare: the fault is this worker's, such as a disk that is full


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerExited:
    """The agent saw its trainer end. `step` and `shard` are where it was, if it was in a pass."""

    job: str
    incarnation: str
    cause: str  # "killed by SIGKILL", "exit status 1"
    asked: bool  # True: the coordinator or the agent ended it on purpose
    step: int | None = None
    shard: int | None = None


MAX_STACKS = 16_000  # characters; what is longer is cut


@dataclass(frozen=True, slots=True, kw_only=True)
class StacksTaken:
    """Where the threads of a trainer that hangs are, for people; or, in one line, why that cannot be known."""

    job: str
    incarnation: str
    phase: LoopPhase
    stacks: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLeft:
    """An agent's last words: it was asked to go, and its trainer is dead."""

    boot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """These files of checkpoints are gone, or cannot be deleted; `error` says why not. Answers Discard."""

    job: str
    paths: tuple[str, ...]
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsListed:
    """The files of the trainers' own records of a job on this machine, whoever wrote them. Answers ListRecords."""

    request: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsRead:
    """A piece of a file, in answer to ReadRecords: whole lines, but of one that is longer than a piece a part."""

    request: str
    text: str
    end: int  # bytes; the next piece begins there
    more: bool  # False: this was all that the file had


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsFailed:
    """ListRecords or ReadRecords could not be answered."""

    request: str
    error: str


# --- Orders: what we give


@dataclass(frozen=True, slots=True)
class Welcome:
    """How this cluster lives. Seconds."""

    heartbeat_interval: float
    hang_floor: float = 4.0  # no limit that an agent learned is below it


@dataclass(frozen=True, slots=True)
class Heard:
    """The answer to a heartbeat. Renews the lease of a worker that is in `generation`, the last issued of its job."""

    sequence: int
    generation: int


@dataclass(frozen=True, slots=True)
class Prepare:
    """Start a trainer for this job, beside whatever runs elsewhere."""

    job: str
    spec: JobSpec


@dataclass(frozen=True, slots=True)
class Halt:
    """Promise `generation`: now, or at the first step on which all flags agree."""

    job: str
    generation: int
    boundary: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """Connect with the others of this formation, hold its base, and train."""

    job: str
    formation: Formation
    steps: int  # until completion


@dataclass(frozen=True, slots=True)
class Save:
    """Halted for `generation`: write your state, which is `version`, and report it."""

    job: str
    generation: int
    version: Version
    final: bool = True  # the job ends with it: what its task says of the result is due


@dataclass(frozen=True, slots=True)
class RenewLease:
    """From the agent: the heartbeat that it sent at `sent`, by its machine's clock, was answered with `generation`."""

    generation: int
    sent: float


@dataclass(frozen=True, slots=True)
class Release:
    """End the trainer of this job; the worker is free."""

    job: str


@dataclass(frozen=True, slots=True)
class Kill:
    """End this trainer at once: it was evicted."""

    job: str
    incarnation: str
    reason: str


@dataclass(frozen=True, slots=True)
class Go:
    """Nothing rests on this worker any more: the agent of this boot, which was asked to end, may."""

    boot: str


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete these files of a job's checkpoints, and say so."""

    job: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListRecords:
    """Name the files of the trainers' own records of a job, as RecordsListed."""

    request: str
    job: str


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """Send one piece of one of these files, from byte `offset` on, as RecordsRead."""

    request: str
    job: str
    file: str
    offset: int


# --- What the shell itself notices


@dataclass(frozen=True, slots=True)
class Reported:
    """A report, with the name of the worker that the link knows it came from."""

    worker: str
    report: "Report"


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The link to a worker's agent closed. Alone this is no death."""

    worker: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed."""


@dataclass(frozen=True, slots=True)
class KeepSteps:
    """Take into the record of each job the steps that it is known to have committed."""


Command = SubmitJob | StopJob | PauseJob | ResumeJob | ClearWorker | DrainWorker | AdmitWorker
TrainerReport = (
    Prepared
    | PrepareFailed
    | Halted
    | Formed
    | GroupBroke
    | StepsCommitted
    | StepFailed
    | ReplicasDiffered
    | StateSaved
    | SaveFailed
    | CheckpointFailed
    | CheckpointUnreadable
)
RecordsAnswer = RecordsListed | RecordsRead | RecordsFailed
Report = (
    AgentRegistered | AgentLeft | Heartbeat | TrainerExited | StacksTaken | Discarded | RecordsAnswer | TrainerReport
)
TrainerOrder = Halt | Form | Save | RenewLease
RecordsOrder = ListRecords | ReadRecords
Order = Welcome | Heard | Prepare | Release | Kill | Go | Discard | RecordsOrder | TrainerOrder
Event = Command | Reported | Disconnected | Tick | KeepSteps
