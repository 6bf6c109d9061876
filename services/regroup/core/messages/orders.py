"""What the coordinator orders, and what of it agents pass on to their trainers. Imperative.

Owns: the orders. Every one can be derived from state and repeated, so that it does no harm when it comes twice.
Refuses to know: which are due (`core.orders`), and how they are obeyed.
Does not guarantee: that an order arrives; what its worker says next shows whether it is due again.
"""

from dataclasses import dataclass

from regroup.core.jobs import Formation, Version
from regroup.core.spec import JobSpec


@dataclass(frozen=True, slots=True)
class Welcome:
    """How this cluster lives. Seconds."""

    heartbeat_interval: float
    hang_floor: float = 4.0  # no limit that an agent learned is below it


@dataclass(frozen=True, slots=True)
class TurnAway:
    """Do not take part: the two of us could not understand each other. The other answer to AgentRegistered."""

    reason: str


@dataclass(frozen=True, slots=True)
class Heard:
    """The answer to a heartbeat. Renews the lease of a worker that is in `generation`, the last issued of its job."""

    sequence: int
    generation: int
    settled: tuple[str, ...] = ()  # files that its trainer told of, and need not again: they are kept, or to be deleted


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
    settled: tuple[str, ...] = ()  # as Heard says


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
    """Delete these files of a job's checkpoints, and say so; and those of states below that one which are not to be
    kept: whoever wrote one may have died before it was told."""

    job: str
    paths: tuple[str, ...]
    below: Version
    keep: tuple[str, ...]


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


TrainerOrder = Halt | Form | Save | RenewLease
RecordsOrder = ListRecords | ReadRecords
Order = Welcome | TurnAway | Heard | Prepare | Release | Kill | Go | Discard | RecordsOrder | TrainerOrder
