"""What a user asks for: a job's spec, its bounds, and what contradicts in it.

Owns: the rules of a well-formed spec, in words that say what to do.
Refuses to know: what becomes of a job (`jobs`), and how a request is read.
Does not guarantee: that the task exists or that its options make sense; only a worker can tell, while it prepares.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from regroup.core.shards import default_shards


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a request: the field by name, and what to do about it."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class BeginFrom:
    """Another job's checkpoint, from whose state and step a new job goes on."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    job: str
    step: int | None = None  # None: the newest that it keeps


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What a user asks for. `global_batch`, `shards` and `seed` are fixed for the life of the job.

    Every quantity is a count unless its comment gives a unit. Exactly one of `steps` and `epochs` is given.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    task: str  # "gpt", "digits", or "module:Class" on the workers' path
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)  # the task's own, checked by its constructor
    steps: int | None = None
    epochs: int | None = None
    global_batch: int = 64  # samples per step, whoever computes them
    shards: int | None = None  # V; None: 4 x max_workers, or the largest divisor of global_batch below that
    micro_batch: int | None = None  # samples per pass; None: chosen for the job
    seed: int = 0
    min_workers: int = 1
    max_workers: int = 1
    evaluate_every: int | None = None  # steps; None: never
    checkpoint_every: int | None = None  # steps, beside the training; None: only when the job ends or rests
    keep_last: int = 3  # checkpoints, the newest; the files of older ones are deleted
    keep_best: int = 0  # besides those, so many with the lowest evaluation loss
    step_timeout: float = 60.0  # seconds without a committed step, or chunk of an evaluation, until one is suspected
    max_restarts: int = 3  # how often a total loss may restart the job
    begin_from: BeginFrom | None = None  # None: from the seed, at step 0

    def problems(self) -> tuple[Problem, ...]:
        """Everything that contradicts, in the order of the fields; empty when the spec is sound."""
        found: list[Problem] = []

        def expect(good: bool, name: str, message: str) -> None:
            if not good:
                found.append(Problem(name, message))

        builtin = self.task.isidentifier()
        module, _, cls = self.task.partition(":")
        dotted = all(part.isidentifier() for part in module.split(".")) and cls.isidentifier()
        advice = "must be a built-in task's name, or module:Class on the workers' path, such as lines:Line of lines.py"
        expect(builtin or dotted, "task", advice)
        expect(len(self.name) <= 200, "name", "must have at most 200 characters")
        given = (self.steps is not None) + (self.epochs is not None)
        expect(given == 1, "steps", "give exactly one of steps and epochs")
        for name in ("steps", "epochs", "shards", "micro_batch", "evaluate_every", "checkpoint_every", "keep_last"):
            value = getattr(self, name)
            expect(value is None or value >= 1, name, "must be at least 1")
        expect(self.keep_last <= MAX_KEPT, "keep_last", f"must be at most {MAX_KEPT}")
        expect(0 <= self.keep_best <= MAX_KEPT, "keep_best", f"must be between 0 and {MAX_KEPT}")
        measured = self.keep_best <= 0 or self.evaluate_every is not None
        expect(measured, "keep_best", "needs evaluate_every: the best are those with the lowest evaluation loss")
        expect(self.global_batch >= 1, "global_batch", "must be at least 1")
        expect((self.shards or 0) <= MAX_SHARDS, "shards", f"must be at most {MAX_SHARDS}")
        if self.shards is not None and self.shards >= 1 and self.global_batch >= 1:
            message = f"must divide global_batch: {self.global_batch} is no multiple of {self.shards}"
            expect(self.global_batch % self.shards == 0, "shards", message)
        expect(0 <= self.seed < 2**63, "seed", "must be between 0 and 2**63 - 1")
        expect(self.min_workers >= 1, "min_workers", "must be at least 1")
        message = f"must not be below min_workers ({self.min_workers})"
        expect(self.max_workers >= self.min_workers, "max_workers", message)
        expect(self.max_workers <= MAX_WORKERS, "max_workers", f"must be at most {MAX_WORKERS}")
        message = f"must be a number of seconds from {MIN_STEP_TIMEOUT:g} to {MAX_STEP_TIMEOUT:.0f} (30 days)"
        expect(MIN_STEP_TIMEOUT <= self.step_timeout <= MAX_STEP_TIMEOUT, "step_timeout", message)
        expect(self.max_restarts >= 0, "max_restarts", "must not be negative")
        return tuple(found)

    @property
    def shard_count(self) -> int:
        """V: the shards given, or the default for this batch and these workers."""
        return self.shards or default_shards(self.global_batch, self.max_workers)


MAX_WORKERS = 256  # every worker has slots on the reduction's tail; beyond this they would no longer be a few floats
MIN_STEP_TIMEOUT = 1.0  # less would suspect workers before a heartbeat could tell of their step
MAX_STEP_TIMEOUT = 30 * 86400.0  # a month; whoever wants no limit at all is better told when nothing moves any more
MAX_KEPT = 1000  # checkpoints; beyond this a job's record would no longer be a short one
MAX_SHARDS = 4096  # every formation says who owns each; beyond this they would no longer be a short message
