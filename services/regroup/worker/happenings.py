"""What passes between a step loop and its session: what the loop tells, and what the session asks for in return.

Owns: the words. Refuses to know: what a session makes of them (`session`), and how they travel (`control`).
"""

from dataclasses import dataclass

from regroup.core.jobs import Checkpoint, Fingerprint, Formation, Version
from regroup.core.messages.trainer_reports import (
    CheckpointUnreadable,
    SaveFailed,
    StateSaved,
    StepFailed,
    TrainerReport,
)

# --- Events of the step loop


@dataclass(frozen=True, slots=True)
class TaskPrepared:
    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True)
class StateHeld:
    """Connected in `generation`, and the leader's state is held complete."""

    generation: int


@dataclass(frozen=True, slots=True)
class StepApplied:
    """The optimizer step is over. `agreed`: the boundary Halt that every member held when it contributed, or None."""

    step: int
    agreed: int | None = None


@dataclass(frozen=True, slots=True)
class ChunkEvaluated:
    """So many chunks of the evaluation of the state that it holds are done."""

    chunks: int


@dataclass(frozen=True, slots=True)
class LastStepDone:
    """All steps of `generation`'s job are committed, and what is due at the last one is done."""

    generation: int


@dataclass(frozen=True, slots=True)
class CollectiveBroke:
    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class LoopFailed:
    """User code raised, or a checkpoint cannot be read. `torn`: the state was being changed, so it is lost."""

    report: StepFailed | CheckpointUnreadable
    torn: bool = False


@dataclass(frozen=True, slots=True)
class StateDiscarded:
    """The replica's digest is not the sound one: it is nobody's state."""

    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class SaveEnded:
    report: StateSaved | SaveFailed


@dataclass(frozen=True, slots=True)
class WroteBeside:
    """A state that this trainer held is durable; the step loop went on meanwhile."""

    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class EntersTask:
    """The step loop asks the task for its state, which is to be saved; or for what it reports of `saved`, which is."""

    saved: Checkpoint | None = None


@dataclass(frozen=True, slots=True)
class CameBack:
    """The step loop is out of its last formation, and looks for what to do next; or out of the task's `state()`, and
    writes what that told."""


LoopEvent = (
    TaskPrepared
    | StateHeld
    | StepApplied
    | ChunkEvaluated
    | LastStepDone
    | CollectiveBroke
    | LoopFailed
    | StateDiscarded
    | SaveEnded
    | WroteBeside
    | EntersTask
    | CameBack
)

# --- Actions


@dataclass(frozen=True, slots=True)
class Say:
    report: TrainerReport


@dataclass(frozen=True, slots=True)
class BreakGroup:
    """Unblock the step loop: whatever collective it is in must fail now."""


@dataclass(frozen=True, slots=True)
class Join:
    """For the step loop: connect in this formation."""

    formation: Formation
    steps: int


@dataclass(frozen=True, slots=True)
class Write:
    """For the step loop: write the state, which is `version`, as ordered under the Halt of `generation`."""

    generation: int
    version: Version
    final: bool = True  # the task's report of the result is due


Action = Say | BreakGroup | Join | Write
