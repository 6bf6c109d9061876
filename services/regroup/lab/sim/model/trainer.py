"""A trainer as the simulations see it: the real session, where its step loop stands, and what state it holds.

Owns: the values. A state is the tuple of the generations in which its steps were reduced; a gradient is the samples
that it was computed from.
Refuses to know: what changes them (`steps`), and what must hold (`trainer_rules`).
"""

from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from regroup.core.jobs import Checkpoint, Fingerprint, Formation, Member, StepPoint, Version
from regroup.core.messages.events import Report
from regroup.core.messages.orders import TrainerOrder
from regroup.core.shards import owned, positions
from regroup.core.spec import JobSpec
from regroup.core.workers import TrainerStatus
from regroup.worker import happenings as h
from regroup.worker import session as s
from regroup.worker.tail import Tail

PRINT = Fingerprint("code", "data", 101)  # 12 batches of 8 and one of 5, which no 4 shards share evenly

History = tuple[int, ...]
Place = Literal[
    "preparing",
    "unprepared",  # it cannot prepare, and says so
    "idle",  # until there is a task
    "connecting",  # until all members are there
    "connected",  # until it holds the leader's state
    "reading",  # the leader has read the checkpoint that it begins from, and holds it beside its own state
    "loaded",  # the leader's state is swapped in, and nobody was told yet
    "stepping",  # it computes a gradient
    "measuring",  # its part of a chunk of an evaluation
    "contributed",  # until the step is reduced
    "applying",  # the state is being changed
    "evaluating",  # whoever saves the final state ends the last evaluation, alone
    "telling",  # the task is asked for its state, which is to be saved
    "writing",
    "reporting",  # the state is durable, and the task is asked for its report
]
CHANGING = ("applying", "loaded")  # where a step loop stands while its state is being changed
ELSEWHERE = ("preparing", "unprepared", "idle", "writing")  # where it is in no formation, and not in the task's code
AT_SAVE = ("telling", "reporting")  # where it is in the task's code, and nobody trains
Happening = TrainerOrder | h.LoopEvent


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a rank puts into the reduction of a step."""

    history: History
    tail: Tail
    samples: tuple[tuple[int, int], ...]  # (epoch, position in its order) that its gradient was computed from


@dataclass(slots=True)
class Loop:
    """Where the step loop stands, between two events of it."""

    at: Place = "preparing"
    formation: Formation | None = None  # the group's that it is in, or was in last
    steps: int = 0  # of the whole job
    task: h.Join | h.Write | None = None  # the newest, not yet begun
    write: h.Write | None = None
    file: Checkpoint | None = None  # what it wrote, until its report is told
    broken: bool = False  # its group was broken from its own side
    lost: bool = False  # it noticed that a neighbour is gone
    agreed: int | None = None  # the boundary on which the step being applied agreed


@dataclass(slots=True)
class Trainer:
    job: str
    session: s.Session
    loop: Loop = field(default_factory=Loop)
    history: History | None = None  # None: no state
    hung: bool = False
    wedged: bool = False  # its step loop hangs in the task's code, and its session goes on
    inbox: deque[TrainerOrder] = field(default_factory=deque)
    outbox: deque[TrainerStatus | Report] = field(default_factory=deque)
    evaluated: tuple[int, int] = (0, 0)  # the step of the last evaluation, and how many chunks of it are done
    unsaid: bool = False  # its progress, since it last told it
    beside: Version | None = None  # of the state that is being written while the step loop goes on
    wrote: Version | None = None  # the last that it wrote so
    measured: tuple[StepPoint, ...] = ()  # its last steps, for whoever tells next; the loss names their generation
    points: tuple[StepPoint, ...] = ()  # to be told, by the leader

    @property
    def stuck(self) -> bool:
        """Whether its step loop will not go on."""
        return self.hung or self.wedged

    @property
    def member(self) -> Member:
        return self.session.member

    @property
    def who(self) -> dict[str, Any]:
        """With what each of its reports begins."""
        return {"job": self.job, "incarnation": self.member.incarnation}

    @property
    def group(self) -> Formation:
        """Its step loop's formation, where it has one."""
        assert self.loop.formation is not None, f"the step loop of {self.member} has no group"
        return self.loop.formation

    @property
    def rank(self) -> int:
        return self.group.members.index(self.member)

    @property
    def shards(self) -> tuple[int, ...]:
        """Whose passes it computes in each step."""
        return owned(self.group.owners, self.rank)

    @property
    def state(self) -> History:
        """Its history, where it has one."""
        assert self.history is not None, f"{self.member} has no state"
        return self.history


def consumed(spec: JobSpec, step: int, shards: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """(epoch, position) of every sample that these shards consume in a step of a job over PRINT's dataset."""
    return _consumed(spec.global_batch, spec.shard_count, step, shards)


@lru_cache(maxsize=4096)
def _consumed(batch: int, count: int, step: int, shards: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for shard in shards:
        epoch, places = positions(step, shard, samples=PRINT.samples, global_batch=batch, shards=count)
        found += [(epoch, place) for place in places]
    return tuple(found)
