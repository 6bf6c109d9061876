"""What is planned and what is known: the values that the acts fill in and the ending shows.

Owns: the model and the numbers of the demo, and the shape of `--json`. Refuses to know: how any of it is found out.
"""

from dataclasses import dataclass, field
from typing import Any

from regroup.core.spec import JobSpec
from regroup.lab.audit import Audit

GLOBAL_BATCH = 36  # samples of 64 bytes: 12 shards of 3 for three workers
MEAN_OF = 20  # steps at the beginning and at the end whose mean loss is compared


@dataclass(frozen=True, slots=True)
class Plan:
    """When what shall happen. Small enough for two cores, long enough to read along."""

    workers: int = 3
    steps: int = 800

    @property
    def names(self) -> list[str]:
        return [f"w{number}" for number in range(self.workers)]

    @property
    def victim(self) -> str:
        return self.names[self.workers // 2]

    @property
    def newcomer(self) -> str:
        return f"w{self.workers}"

    @property
    def kill_at(self) -> int:
        """Steps that are committed before the kill."""
        return self.steps * 3 // 10

    @property
    def join_at(self) -> int:
        """Steps that are committed before the new worker's agent is started."""
        return self.steps * 35 // 100

    @property
    def spec(self) -> JobSpec:
        warmup = 20
        options = {
            "hidden": 128,
            "heads": 4,
            "layers": 3,
            "sequence": 64,
            "learning_rate": 2e-3,
            "warmup": warmup,
            "decay": self.steps - warmup,
            "holdout": 0.005,
        }
        return JobSpec(
            task="gpt",
            name="demo",
            options=options,
            steps=self.steps,
            global_batch=GLOBAL_BATCH,
            min_workers=self.workers - 1,
            max_workers=self.workers,
            evaluate_every=max(1, self.steps // 4),
        )


@dataclass(slots=True)
class Killed:
    """Times are milliseconds since the SIGKILL."""

    worker: str
    in_step: int  # counted from 0
    stood: bool  # its sum was complete already; else the survivors did it again
    halted: float
    regrouped: float
    committed: float  # the first step in the new generation, by a survivor's own record
    step_time: float  # the usual one before the kill
    timeline: list[tuple[float, str, str]]  # (when, kind, reason)


@dataclass(slots=True)
class Joined:
    worker: str
    from_step: int  # the first that it took part in, counted from 0
    after: float  # seconds from the start of its agent until it was a member
    pause: float  # seconds from the decision to take it in until all trained on; a step that ran meanwhile is in it
    steps: int  # that it committed itself
    timeline: list[tuple[float, str, str]]  # (seconds since the start of its agent, kind, reason)


@dataclass(slots=True)
class Facts:
    """Filled as it goes; None: it did not come to that."""

    plan: Plan
    data: str
    job: str | None = None
    killed: Killed | None = None
    joined: Joined | None = None
    losses: list[float | None] = field(default_factory=list)  # by step
    loss_before: float | None = None  # mean of the first steps, nats a byte
    loss_after: float | None = None
    held_out: dict[int, float] = field(default_factory=dict)  # steps committed -> loss on text it never trained on
    sample: str | None = None
    parameters: int | None = None
    generations: int | None = None
    checkpoint: dict[str, Any] | None = None
    audit: Audit | None = None
    seconds: float | None = None
