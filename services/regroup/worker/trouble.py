"""Trouble in the step loop: what the task raised, or the disk, as a report of what it was and where.

Owns: which errors are the task's or the disk's, what is told and logged of them, and where a death would be looked for.
Refuses to know: what follows (`session`), and whose fault it is in the end (the core's `blame`).
Does not guarantee: that whoever died did so by what it was at: the loader's thread fetches other steps at that time.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from regroup.core.jobs import OUTSIDE, Checkpoint
from regroup.core.messages.trainer_reports import CheckpointUnreadable, StepFailed
from regroup.worker.beginning import DoesNotFit
from regroup.worker.checkpoint import CheckpointDamaged
from regroup.worker.group import GroupBroken
from regroup.worker.log import log
from regroup.worker.position import Position
from regroup.worker.prepare import USERS
from regroup.worker.reduce import Interrupted
from regroup.worker.replica import Replica
from regroup.worker.words import said, text_of, trace


class Raised(Exception):
    """The task raised, or the disk; `report` says where. `torn`: in the middle of changing the state."""

    def __init__(self, report: StepFailed | CheckpointUnreadable, torn: bool = False) -> None:
        super().__init__(report.error)
        self.report, self.torn = report, torn


class Trouble:
    def __init__(self, job: str, incarnation: str, replica: Replica, position: Position) -> None:
        self._who = {"job": job, "incarnation": incarnation}
        self._replica, self._position = replica, position

    @contextmanager
    def told(
        self, generation: int, shard: int = OUTSIDE, torn: bool = False, step: int | None = None
    ) -> Iterator[None]:
        """What the task raises inside, or the disk, is told as an error, and where. `step`: if not the replica's."""
        try:
            yield
        except (GroupBroken, Interrupted):
            raise
        except USERS as error:
            raise self.raised(generation, shard, error, torn, step) from error

    @contextmanager
    def outside(self, where: int = OUTSIDE, step: int | None = None) -> Iterator[None]:
        """It dies inside by its own doing, though in no pass. `where`: as the shard of a failure says it.

        Afterwards it is where it was before."""
        before = self._position.now
        self._position.enter(self._replica.step if step is None else step, where)
        try:
            yield
        finally:
            self._position.enter(*before)

    def raised(
        self, generation: int, shard: int, error: BaseException, torn: bool = False, step: int | None = None
    ) -> Raised:
        traceback = trace()
        log(traceback)
        report = StepFailed(
            **self._who,
            generation=generation,
            step=self._replica.step if step is None else step,
            shard=shard,
            error=said(error),
            traceback=traceback,
        )
        return Raised(report, torn)

    def unreadable(self, generation: int, checkpoint: Checkpoint, error: BaseException) -> Raised:
        """It was to begin from this checkpoint."""
        why = text_of(error)
        log(why)
        damaged = error if isinstance(error, CheckpointDamaged) else None
        report = CheckpointUnreadable(
            **self._who,
            generation=generation,
            error=f"{checkpoint.path}: {why}" if isinstance(error, DoesNotFit) else why,
            damaged=damaged is not None,
            missing=damaged is not None and damaged.missing,
            unfit=isinstance(error, DoesNotFit),
        )
        return Raised(report)
