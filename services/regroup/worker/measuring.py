"""When a state is evaluated, and by whom: by all members together in training, or alone by whoever saves it.

Owns: which steps that is, that each chunk of it is marked, and that what was begun together is ended before the last
state is saved: a regroup at the last step forms only to save.
Refuses to know: how a chunk is measured and summed (`evaluation`), and what the metrics are for.
Does not guarantee: metrics of the last step where the task's own code fails to tell them: to lose these is better than
to lose the state.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from regroup.core.jobs import Formation
from regroup.core.shards import owned
from regroup.core.spec import JobSpec
from regroup.core.workers import LoopPhase
from regroup.worker.control import Control
from regroup.worker.evaluation import combine
from regroup.worker.group import Alone, Group
from regroup.worker.prepare import Bench
from regroup.worker.pulse import Pulse
from regroup.worker.state import State
from regroup.worker.trouble import Raised, Trouble


class Measuring:
    def __init__(
        self, spec: JobSpec, control: Control, bench: Bench, state: State, pulse: Pulse, trouble: Trouble
    ) -> None:
        self._spec, self._control, self._bench, self._state = spec, control, bench, state
        self._pulse, self._trouble = pulse, trouble
        self._steps, self._micro_batch = 0, spec.micro_batch  # of the last formation

    def begin(self, steps: int, micro_batch: int | None) -> None:
        """Another formation: the job's last step, and how many samples go into a pass."""
        self._steps, self._micro_batch = steps, micro_batch

    def together(self, formation: Formation, group: Group) -> None:
        """Evaluate this committed step, if it is one of those. A regroup repeats only the unfinished chunk.

        Raises GroupBroken, Interrupted and Raised.
        """
        shards, generation = owned(formation.owners, group.rank), formation.generation
        interrupted = partial(self._control.interrupted, generation)
        self._measure(generation, group, shards, interrupted, LoopPhase.EVALUATION)

    def alone(self, generation: int) -> None:
        """End the evaluation of the last step, before that is saved. Raises Interrupted if another one is to save."""
        if self._bench.replica.step < self._steps:
            return

        def given_up() -> bool:
            return not self._control.saves(generation)

        with suppress(Raised):
            shards = range(self._spec.shard_count)
            self._measure(generation, Alone(), shards, given_up, LoopPhase.LONE_EVALUATION)

    def _measure(
        self, generation: int, group: Group, shards: Sequence[int], interrupted: Callable[[], bool], phase: LoopPhase
    ) -> None:
        evaluation, every, step = self._bench.evaluation, self._spec.evaluate_every, self._bench.replica.step
        if evaluation is None or every is None or step == 0 or (step % every and step != self._steps):
            return
        if self._state.evaluated != step:
            evaluation.finished.clear()
            self._state.evaluated = step
        measuring = partial(self._pulse.within, phase)  # each chunk by itself: how many are left says nothing

        def told() -> bool:
            self._control.evaluated(len(evaluation.finished))
            return interrupted()

        with self._trouble.told(generation), self._trouble.outside(), self._pulse.within(LoopPhase.EXCHANGE):
            evaluation.finish(self._bench.replica.model, group, shards, self._micro_batch, told, measuring)
        self._control.evaluated(evaluation.chunks)
        self._control.measured(step - 1, combine(evaluation.finished))
