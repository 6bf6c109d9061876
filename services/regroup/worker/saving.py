"""What becomes of an order to save, and of a checkpoint that was written beside the training: who is told what.

Owns: that the state is durable, and that is told, before the task is asked what it reports of it; that a failure is
told in one line; and where the task's own code is while it tells its state and its report.
Refuses to know: how a state is written (`state`), when a checkpoint beside the training is due (`beside`), and which
one counts.
Does not guarantee: that the task's report returns, or leaves its process alive; its agent knows the file by then.
"""

from typing import Any

from regroup.core.jobs import IN_REPORT, IN_STATE, Checkpoint
from regroup.core.messages.trainer_reports import CheckpointFailed, SaveFailed, StateSaved
from regroup.core.workers import LoopPhase
from regroup.worker.control import Control
from regroup.worker.happenings import CameBack, EntersTask, SaveEnded, Write, WroteBeside
from regroup.worker.log import log
from regroup.worker.prepare import USERS, Bench
from regroup.worker.pulse import Pulse
from regroup.worker.result import result_of
from regroup.worker.state import State
from regroup.worker.storage import StorageFailed
from regroup.worker.trouble import Trouble
from regroup.worker.words import said, text_of, trace


class Saving:
    def __init__(
        self,
        job: str,
        incarnation: str,
        control: Control,
        bench: Bench,
        state: State,
        pulse: Pulse,
        trouble: Trouble,
    ) -> None:
        self._who = {"job": job, "incarnation": incarnation}
        self._control, self._bench, self._state = control, bench, state
        self._pulse, self._trouble = pulse, trouble

    def tree(self) -> Any:
        """The state, as the task tells it. Raises whatever its state() does."""
        with self._trouble.outside(IN_STATE):
            return self._state.tree()

    def save(self, task: Write) -> None:
        """As the coordinator ordered, while nobody trains."""
        try:
            self._pulse.enter(LoopPhase.STATE)
            self._control.happened(EntersTask())
            tree = self.tree()
            self._pulse.enter(LoopPhase.SAVING)
            self._control.happened(CameBack())
            checkpoint = self._state.write(task.version, tree)
        except USERS as error:
            log(traceback := trace())
            told = {"error": _words(error), "traceback": "" if isinstance(error, StorageFailed) else traceback}
            self._control.happened(SaveEnded(SaveFailed(**self._who, generation=task.generation, **told)))
            return
        result, remark = self._report(checkpoint) if task.final else (None, None)
        saved = StateSaved(**self._who, generation=task.generation, checkpoint=checkpoint, result=result, remark=remark)
        self._control.happened(SaveEnded(saved))

    def _report(self, checkpoint: Checkpoint) -> tuple[dict[str, Any] | None, str | None]:
        """What the task reports, and why there is nothing. From here on the state counts, whatever becomes of it."""
        self._control.happened(EntersTask(checkpoint))
        self._control.heard()
        remarks: list[str] = []
        self._pulse.enter(LoopPhase.REPORT)
        with self._trouble.outside(IN_REPORT):
            result = result_of(self._bench.task, self._bench.replica.model, remarks.append)
        return result, "; ".join(remarks) or None

    def wrote_beside(self, checkpoint: Checkpoint) -> None:
        self._control.happened(WroteBeside(checkpoint))

    def failed_beside(self, step: int, error: BaseException) -> None:
        self._control.say(CheckpointFailed(**self._who, step=step, error=_words(error)))


def _words(error: BaseException) -> str:
    return text_of(error) if isinstance(error, StorageFailed) else said(error)
