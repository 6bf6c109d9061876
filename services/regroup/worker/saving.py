"""What becomes of an order to save, and of a checkpoint that was written beside the training: who is told what.

Owns: that the state is durable before the task is asked what it reports of it, and that a failure is told in one line.
Refuses to know: how a state is written (`state`), when a checkpoint beside the training is due (`beside`), and which
one counts.
Does not guarantee: that the task's report returns, or leaves its process alive; the state is on the disk by then.
"""

from regroup.core.jobs import Checkpoint
from regroup.core.messages.trainer_reports import CheckpointFailed, SaveFailed, StateSaved
from regroup.worker.control import Control
from regroup.worker.log import log
from regroup.worker.prepare import USERS, Bench
from regroup.worker.result import result_of
from regroup.worker.session import SaveEnded, Write, WroteBeside
from regroup.worker.state import State
from regroup.worker.storage import StorageFailed
from regroup.worker.words import said, text_of, trace


class Saving:
    def __init__(self, job: str, incarnation: str, control: Control, bench: Bench, state: State) -> None:
        self._who = {"job": job, "incarnation": incarnation}
        self._control, self._bench, self._state = control, bench, state

    def save(self, task: Write) -> None:
        """As the coordinator ordered, while nobody trains."""
        try:
            checkpoint = self._state.write(task.version, self._state.tree())
        except USERS as error:
            log(trace())
            failed = SaveFailed(**self._who, generation=task.generation, error=_words(error))
            self._control.happened(SaveEnded(failed))
            return
        # from here on the state is durable, whatever the report does to this process
        remarks: list[str] = []
        result = result_of(self._bench.task, self._bench.replica.model, remarks.append) if task.final else None
        remark = "; ".join(remarks) or None
        saved = StateSaved(**self._who, generation=task.generation, checkpoint=checkpoint, result=result, remark=remark)
        self._control.happened(SaveEnded(saved))

    def wrote_beside(self, checkpoint: Checkpoint) -> None:
        self._control.happened(WroteBeside(checkpoint))

    def failed_beside(self, step: int, error: BaseException) -> None:
        self._control.say(CheckpointFailed(**self._who, step=step, error=_words(error)))


def _words(error: BaseException) -> str:
    return text_of(error) if isinstance(error, StorageFailed) else said(error)
