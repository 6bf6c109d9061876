"""The trainers' side of a simulation: a step loop reduced to its borders, around the real session.

Owns: what a step loop could do next, and how a step is made together; the moves follow worker/trainer.py event by
event. The reduction's tail is the real one. What must hold is in `trainer_rules`, told of everything that happens.
Refuses to know: how a group comes together (`groups`), what is written (`writing`), and what a session's answers become
(`sessions`). It does not model: bits of tensors, threads, user code. Nothing in it chooses.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from regroup.core.jobs import Fingerprint, Formation, StepPoint, Version
from regroup.core.messages.trainer_reports import ReplicasDiffered, StepFailed
from regroup.core.replicas import sound
from regroup.lab.sim.model import trainer_rules
from regroup.lab.sim.model.groups import Groups, where
from regroup.lab.sim.model.trainer import CHANGING, PRINT, Contribution, Trainer, consumed
from regroup.worker import happenings as h
from regroup.worker import session as s
from regroup.worker.tail import Tail

REPEATED = 8  # measurements that whoever tells next says again


class StepLoops(Groups, ABC):
    """All trainers of a simulated cluster, and what passes between them."""

    measures = False  # whether leaders tell what they measured; it decides nothing

    def __init__(self) -> None:
        super().__init__()
        self.contributions: dict[tuple[str, int, int], dict[int, Contribution]] = {}  # job, generation, step -> by rank

    @abstractmethod
    def clock(self, worker: str) -> float:
        """A worker's monotonic clock, seconds."""

    def fingerprint(self, trainer: Trainer) -> Fingerprint:
        """Of the code and the data that it found."""
        return PRINT

    def digest(self, trainer: Trainer) -> int:
        """Of its replica, as it is compared in each step; 0 is what it should be."""
        return 0

    # --- its step loop, as worker/trainer.py goes

    def moves(self, trainer: Trainer) -> list[Callable[[], None]]:
        """What its step loop could do next: to go on, if it can, and then to leave its group, if it may."""
        if trainer.stuck:
            return []
        go_on = self._way_on(trainer)
        found: list[Callable[[], None]] = [] if go_on is None else [partial(go_on, trainer)]
        if self.may_leave(trainer):
            found.append(partial(self.leave, trainer))
        return found

    def _way_on(self, trainer: Trainer) -> Callable[[Trainer], None] | None:
        """None: it has to wait."""
        loop = trainer.loop
        match loop.at:
            case "preparing":
                return self._prepared
            case "idle" if loop.task is not None:
                return self.begin
            case "measuring" if self._trains(trainer):
                return self._measured
            case "stepping" if self._trains(trainer):
                return self._contribute
            case "contributed" if (
                self._is_reduced(trainer)
                and self._trains(trainer, lost=True)  # a neighbour that is gone did its part
                and self.may_apply(trainer)
            ):
                return self._begin_apply
            case "applying":
                return self._applied
            case "evaluating":
                return self.evaluated
            case "telling":
                return self.told
            case "writing":
                return self.written
            case "reporting":
                return self.reported
        return self.way_into_group(trainer)

    def may_apply(self, trainer: Trainer) -> bool:
        return trainer.session.may_apply(self.clock(trainer.member.worker))

    def _trains(self, trainer: Trainer, lost: bool = False) -> bool:
        formation, goes_on = trainer.loop.formation, lost or not trainer.loop.lost
        return formation is not None and trainer.session.trains_in(formation.generation) and goes_on

    def _prepared(self, trainer: Trainer) -> None:
        self.come_back(trainer, h.TaskPrepared(self.fingerprint(trainer)))

    def at_boundary(self, trainer: Trainer) -> None:
        """Once in a while a state is evaluated before the next step."""
        step, every = len(trainer.state), self.jobs[trainer.job].spec.evaluate_every
        due = every is not None and step and (step % every == 0 or step >= trainer.loop.steps)
        trainer.loop.at = "measuring" if due and self.chunks_left(trainer) else "stepping"

    def _measured(self, trainer: Trainer) -> None:
        self.end_chunk(trainer)
        if self.measures and not self.chunks_left(trainer):
            self._note_metrics(trainer, len(trainer.state) - 1)
        self.at_boundary(trainer)

    def _note_metrics(self, trainer: Trainer, step: int) -> None:
        """Beside what it measured of that step; whoever went on from a checkpoint there measured nothing of it."""
        known = next((one for one in trainer.measured if one.step == step), StepPoint(step, None, 0.0, 0, 0.0, 0.0))
        point = replace(known, metrics={"accuracy": 0.5})
        trainer.measured = (*(one for one in trainer.measured if one.step != step), point)
        if trainer.rank == trainer.group.leader:
            trainer.points = (*(one for one in trainer.points if one.step != step), point)
            trainer.unsaid = True

    def _contribute(self, trainer: Trainer) -> None:
        loop, session, group, step = trainer.loop, trainer.session, trainer.group, len(trainer.state)
        if step >= loop.steps:
            self.come_back(trainer, h.LastStepDone(group.generation))
            return
        flag = 0 if session.boundary is None else session.boundary - session.generation
        spec, digest = self.jobs[trainer.job].spec, self.digest(trainer)
        samples = consumed(spec, step, trainer.shards)
        tail = Tail.of(trainer.rank, spec.max_workers, weight=float(len(samples)), loss=0.0, flag=flag, digest=digest)
        self._slots(trainer)[trainer.rank] = Contribution(trainer.state, tail, samples)
        loop.at = "contributed"

    def _slots(self, trainer: Trainer) -> dict[int, Contribution]:
        """What the group contributed to its next step so far, by rank."""
        return self.contributions.setdefault((trainer.job, trainer.group.generation, len(trainer.state)), {})

    def _is_reduced(self, trainer: Trainer) -> bool:
        return len(self._slots(trainer)) == len(trainer.group.seats)

    def _begin_apply(self, trainer: Trainer) -> None:
        loop, group, slots = trainer.loop, trainer.group, self._slots(trainer)
        trainer_rules.reduced(trainer, slots, self.jobs[trainer.job].spec)
        summed = [sum(column) for column in zip(*(one.tail.slots() for one in slots.values()), strict=True)]
        total = Tail.read(summed, self.jobs[trainer.job].spec.max_workers)
        if total.differing(len(slots)):
            self._differ(trainer, group, total.digests[: len(slots)])
            return
        agreed = total.agreed(len(slots))
        trainer_rules.applies(slots, agreed)
        trainer_rules.begins_to_apply(trainer, self.clock(trainer.member.worker))
        last = len(trainer.state) + 1 >= loop.steps
        loop.agreed = None if agreed is None or last else group.generation + agreed
        loop.at = "applying"
        trainer.session = s.begin_apply(trainer.session)

    def _differ(self, trainer: Trainer, group: Formation, digests: tuple[int, ...]) -> None:
        """Whoever differs from the sound one gives its state up; the leader tells."""
        rank, generation, step = trainer.rank, group.generation, len(trainer.state)
        if rank == group.leader:
            told = tuple(f"{digest:012x}" for digest in digests)
            trainer.outbox.append(ReplicasDiffered(**trainer.who, generation=generation, step=step, digests=told))
        if digests[rank] == sound(digests, group, step):
            self.come_back(trainer, h.CollectiveBroke(generation, "replicas differed"))
            return
        trainer_rules.discards(trainer, group, step, digests)
        self.come_back(trainer, h.StateDiscarded(generation, "its digest is not the sound one"))
        if trainer.session.version is None:
            trainer.history = None

    def _applied(self, trainer: Trainer) -> None:
        group = trainer.group
        if self.measures:
            point = StepPoint(len(trainer.state), float(group.generation), 1.0, 1, 0.1, 0.1)
            trainer.measured = (*trainer.measured, point)[-REPEATED:]
            trainer.points += (point,) if trainer.rank == group.leader else ()
        trainer.history = (*trainer.state, group.generation)
        trainer.unsaid = True
        self.at_boundary(trainer)
        self.take(trainer, h.StepApplied(len(trainer.history), trainer.loop.agreed))
        trainer_rules.committed(self.ghosts, trainer, group)
        self.copy_if_due(trainer, Version(group.generation, len(trainer.history)))

    def raise_in_loop(self, trainer: Trainer, shard: int) -> None:
        """User code raises: while computing, or while the state is being changed, which tears it.

        The state is changed by the optimizer's step, and when the leader's is swapped in.
        """
        torn = trainer.loop.at in CHANGING
        step, outside = where(trainer)
        report = StepFailed(
            **trainer.who,
            generation=trainer.group.generation,
            step=step,
            shard=shard if trainer.loop.at == "stepping" else outside,
            error="E: no",
            traceback="T\nE: no",
        )
        if torn:
            trainer.history = None
        self.come_back(trainer, h.LoopFailed(report, torn))
