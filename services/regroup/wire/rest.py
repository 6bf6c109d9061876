"""What the REST API says: one set of shapes for the coordinator that answers and the client that reads.

Owns: the JSON of every answer, as frozen dataclasses; what a field means is in its description, which OpenAPI shows.
Refuses to know: how a view is computed (`coordinator.views`) and how it travels (FastAPI here, httpx there).
Times are seconds since the epoch. A number that is not finite is null, because JSON has no word for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from regroup.core.jobs import Checkpoint, JobPhase, Link, StepFailure, Struck, Wanted
from regroup.core.spec import JobSpec, Problem

Epoch = Annotated[float, Field(description="seconds since the epoch")]

GONE = "left"  # what a worker is doing that said goodbye

# What each field of a job spec means, in words: the API's reference and the command line's help say the same.
SPEC_WORDS: Mapping[str, str] = {
    "task": "a built-in task (gpt, digits), or module:Class on the workers' path",
    "name": "a name for people; at most 200 characters",
    "options": "the task's own options, checked when a worker prepares it",
    "steps": "steps to commit until completion; give this or epochs",
    "epochs": "passes over the dataset until completion; give this or steps",
    "global_batch": "samples per step, whoever computes them; fixed for the life of the job",
    "shards": "logical shards, must divide global_batch; default: 4 per worker, or the largest divisor below that",
    "micro_batch": "samples per pass through the model; default: chosen for the job",
    "seed": "decides the order of the data and every random draw",
    "min_workers": "the job starts when so many workers are prepared, and waits below that",
    "max_workers": "the job grows to so many workers",
    "evaluate_every": "steps between two evaluations; default: never",
    "checkpoint_every": "steps between two checkpoints beside the training; default: only when it ends or rests",
    "keep_last": "checkpoints that are kept, the newest; the files of older ones are deleted",
    "keep_best": "besides those, so many with the lowest evaluation loss; needs evaluate_every",
    "step_timeout": "seconds without a committed step, or chunk of an evaluation, until a worker is suspected",
    "max_restarts": "how often the job may start again after all its workers were lost",
    "begin_from": "another job's checkpoint from which to go on: its job, and its step; default: the newest kept",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """A trainer of the last formation."""

    worker: str
    incarnation: str
    rank: int
    step: Annotated[int | None, Field(description="the step it last reported committed in this generation")]
    shards: Annotated[tuple[int, ...], Field(description="the shards it owns; empty: a hot spare")]
    pace: Annotated[float | None, Field(description="seconds of its own passes for a sample; null: unknown")] = None
    straggler: Annotated[bool, Field(description="steadily slower than the others, which wait for it")] = False
    hang: Annotated[str | None, Field(description="the phase in which it hangs, as its agent says")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LentView:
    """A worker that is lent to the job, member or not."""

    worker: str
    doing: Annotated[str, Field(description="its trainer's phase, or why it has none")]


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginningView:
    """Where a job begins that was given another one's checkpoint."""

    job: Annotated[str, Field(description="whose checkpoint it is")]
    step: Annotated[int, Field(description="the first step of its own; those before are the other job's")]
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job as users see it."""

    id: str
    name: str
    task: str
    phase: JobPhase
    reason: Annotated[str, Field(description="why it is in this phase, in words")]
    wanted: Annotated[
        Wanted,
        Field(description="run, hold, pause, stop; yield: its workers to another job"),
    ]
    ended: Annotated[bool, Field(description="stopped, completed and failed are final")]
    submitted: Epoch
    since: Annotated[float, Field(description="when this phase began, seconds since the epoch")]
    generation: int
    step: Annotated[int, Field(description="the minimum committed step over the members")]
    steps: Annotated[int | None, Field(description="steps until completion; null until the dataset's length is known")]
    progress: Annotated[float | None, Field(description="step / steps, 0 to 1")]
    rate: Annotated[float | None, Field(description="steps per second in this formation; null when not running")]
    loss: Annotated[float | None, Field(description="of the last step measured; always null in lists")] = None
    diverged: Annotated[
        str | None, Field(description="nan, inf or -inf, where that loss is no number and so is null")
    ] = None
    samples: Annotated[int, Field(description="samples trained in the committed steps")]
    dataset: Annotated[int | None, Field(description="samples in the dataset; null until a worker has prepared it")]
    shards: int
    members: tuple[MemberView, ...]
    workers: tuple[LentView, ...]
    refused: Annotated[Mapping[str, str], Field(description="workers that may not take part, and why")]
    restarts: int
    failures: tuple[StepFailure, ...]
    history: Annotated[tuple[Link, ...], Field(description="steps of a parent beyond base_step are void")]
    checkpoint: Checkpoint | None
    older: Annotated[tuple[Checkpoint, ...], Field(description="kept checkpoints before that one, the newest first")]
    beginning: Annotated[
        BeginningView | None, Field(description="the other job's checkpoint that it begins from; null: its seed")
    ]
    struck: Annotated[tuple[Struck, ...], Field(description="damaged checkpoints, and what is wrong with each")]
    result: Annotated[Mapping[str, Any] | None, Field(description="what the task said of the final state")]
    error: Annotated[str | None, Field(description="the traceback of a failed job")]
    spec: JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryView:
    """What the agent last read of its device and process."""

    memory_used: Annotated[int | None, Field(description="bytes")]
    memory_total: Annotated[int | None, Field(description="bytes")]
    utilization: Annotated[float | None, Field(description="fraction of 1")]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """A worker: one device with its agent."""

    name: str
    device: str
    host: str
    pid: int
    version: str
    healthy: Annotated[bool, Field(description="connected, and heard within two heartbeat intervals")]
    heartbeat_age: Annotated[float | None, Field(description="seconds; null if not heard since the coordinator began")]
    job: Annotated[str | None, Field(description="the job it is lent to")]
    doing: Annotated[str, Field(description="its trainer's phase, or why it has none")]
    trainer: Annotated[int | None, Field(description="the process id of its trainer")]
    errors: Annotated[int, Field(description="trainers that died unasked since the last clear")]
    quarantined: bool
    drained: Annotated[bool, Field(description="by its operator: it gets nothing to do until it is admitted")]
    leaving: Annotated[bool, Field(description="its agent was asked to end, and hands over what it has")]
    reason: str
    telemetry: TelemetryView | None


@dataclass(frozen=True, slots=True)
class StandbyView:
    """A coordinator that waits for the lead."""

    holder: Annotated[str, Field(description="its host and process")]
    url: Annotated[str, Field(description="where it answers REST")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The whole in a few numbers."""

    version: str
    trouble: Annotated[str | None, Field(description="why it is not ready; null when it is")]
    uptime: Annotated[float, Field(description="seconds since this coordinator began to lead")]
    leader: Annotated[str | None, Field(description="who leads, as the store says; null when it is not ready")] = None
    standbys: Annotated[tuple[StandbyView, ...], Field(description="who waits to take over; empty if not ready")] = ()
    workers: int
    healthy: int
    failed: Annotated[int, Field(description="quarantined, or unhealthy and did not leave in good order")]
    gone: Annotated[int, Field(description="left in good order, and not quarantined")]
    quarantined: int
    idle: Annotated[int, Field(description="healthy, not quarantined, drained or leaving, and lent to no job")]
    jobs: Annotated[Mapping[JobPhase, int], Field(description="how many jobs are in each phase")]
    fallback: Annotated[tuple[str, ...], Field(description="jobs that could use several workers and run on one")]
    updates: Annotated[int, Field(description="steps committed, over all jobs")]
    samples: Annotated[int, Field(description="samples trained in them")]
    throughput: Annotated[float, Field(description="samples per second, over the running jobs")]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """One entry of the timeline: something happened or was decided, and why."""

    id: str
    at: Epoch
    kind: str
    reason: str
    job: str | None = None
    worker: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointView:
    """One committed step, measured."""

    step: int
    loss: Annotated[float | None, Field(description="mean over the step's weight; null without weight or not finite")]
    weight: float | None
    samples: int
    seconds: Annotated[float | None, Field(description="of the leader's own step")]
    exchange_seconds: float | None
    metrics: Annotated[Mapping[str, float | None], Field(description="of an evaluation at this step")]


@dataclass(frozen=True, slots=True)
class JobList:
    jobs: Annotated[tuple[JobView, ...], Field(description="in the order of their submission")]


@dataclass(frozen=True, slots=True)
class WorkerList:
    workers: tuple[WorkerView, ...]


@dataclass(frozen=True, slots=True)
class EventList:
    events: Annotated[tuple[EventView, ...], Field(description="oldest first; ask again with after=<the last id>")]


@dataclass(frozen=True, slots=True)
class PointList:
    points: Annotated[tuple[PointView, ...], Field(description="by step; ask again with after=<the last step>")]


@dataclass(frozen=True, slots=True)
class RecordPiece:
    """A piece of one file of a worker's own records. Pieces of a file come in order; a piece may end inside a line."""

    file: str
    text: str


@dataclass(frozen=True, slots=True)
class Greeting:
    service: str
    version: str
    docs: str
    openapi: str


@dataclass(frozen=True, slots=True)
class Health:
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemView:
    """An error, as RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
    errors: Annotated[tuple[Problem, ...], Field(description="what is wrong, field by field")] = ()
    phase: Annotated[JobPhase | None, Field(description="of a job that has ended already")] = None
