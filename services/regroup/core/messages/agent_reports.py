"""What agents say: that they live, how their trainers began to hang or ended, and what is on their disks. Past tense.

Owns: these reports. The link adds the worker's name.
Refuses to know: what trainers say (`trainer_reports`), which agents pass on as it is, and what follows from a report
(`core.agent_reports`).
Does not guarantee: that a report arrives once, or in time. What a heartbeat tells is told again by the next one.
"""

from dataclasses import dataclass, field

from regroup.core.messages.protocol import FIRST
from regroup.core.workers import Hang, LoopPhase, Telemetry, TrainerStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRegistered:
    """The first words on every connection. A new `boot` proves that everything of the old one is dead."""

    boot: str
    device: str
    host: str
    pid: int
    version: str
    protocol: int = FIRST
    wall: float | None = None  # its wall clock, in seconds since the epoch, to be compared by people; None: not told


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
    left: tuple[TrainerStatus, ...] = ()  # last words of trainers that ended, whose files were not answered yet


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTooLarge:
    """In place of a report that is too large for the link, and lost."""

    job: str  # "": that report was of none
    report: str  # its type
    size: int  # bytes


RecordsAnswer = RecordsListed | RecordsRead | RecordsFailed
AgentReport = (
    AgentRegistered | AgentLeft | Heartbeat | TrainerExited | StacksTaken | Discarded | ReportTooLarge | RecordsAnswer
)
