"""All that a trainer holds of its job, as one tree: what members give each other, and what a checkpoint is.

Owns: what belongs to the state besides the replica (how far an evaluation came), its way to a file and back, and the
score of what is written.
Refuses to know: when a state is given, taken, written or read, whose turn that is, and who is told when it fails.
Does not guarantee: that a state whose loading broke off is one; whoever loads says so.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

from regroup.core.jobs import Checkpoint, Version
from regroup.core.spec import JobSpec
from regroup.worker.beginning import begun, differing, facts
from regroup.worker.checkpoint import OtherFormat, read, write
from regroup.worker.evaluation import Evaluation, combine
from regroup.worker.replica import Replica
from regroup.worker.storage import Storage


class State:
    def __init__(
        self, job: str, spec: JobSpec, replica: Replica, evaluation: Evaluation | None, storage: Storage
    ) -> None:
        self._job, self._spec, self._storage = job, spec, storage
        self._replica, self._evaluation = replica, evaluation
        self.evaluated = 0  # the step whose evaluation is complete, or under way

    def reset(self) -> None:
        """As the job's seed builds it."""
        self._replica.reset()
        self.evaluated = 0

    def tree(self) -> dict[str, Any]:
        finished = self._evaluation.finished if self._evaluation else []
        return {**self._replica.tree(), "evaluation": {"step": self.evaluated, "finished": list(finished)}}

    def load(self, tree: Mapping[str, Any]) -> None:
        self._replica.load(tree)
        self.evaluated = tree["evaluation"]["step"]
        if self._evaluation is not None:
            self._evaluation.finished[:] = tree["evaluation"]["finished"]

    def write(self, version: Version, tree: Any) -> Checkpoint:
        """Returns when the tree is durable."""
        written = write(self._storage, self._job, version, tree, facts(self._spec))
        return replace(written, score=self._score(version, tree))

    def read(self, checkpoint: Checkpoint, first: bool) -> Any:
        """The tree of a checkpoint: this job's own or, as its `first` state, the one of the job that it begins from.

        Raises CheckpointDamaged, OtherFormat, StorageFailed, DoesNotFit.
        """
        source = self._spec.begin_from if first else None
        tree, meta = read(self._storage, source.job if source is not None else self._job, checkpoint)
        if source is not None:
            return begun(self._spec, self._replica, tree, meta)
        if wrong := differing(self._spec, meta):
            raise OtherFormat(f"{checkpoint.path}: {'; '.join(wrong)}: read it with the version that wrote it")
        return tree

    def _score(self, version: Version, tree: Any) -> float | None:
        """The evaluation's loss at this state, if it was evaluated."""
        told = tree["evaluation"]
        evaluated = self._evaluation is not None and len(told["finished"]) == self._evaluation.chunks
        if not evaluated or told["step"] != version.step:
            return None
        loss = combine(told["finished"]).get("loss")
        return loss if loss is not None and isfinite(loss) else None
