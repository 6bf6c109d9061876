"""The trainers' side of a simulation: a step loop reduced to its borders, around the real session.

Owns: what a step loop could do next; the moves follow worker/trainer.py event by event. The reduction's tail is the
real one. What must hold is in `trainer_rules`, told of everything that happens.
Refuses to know: what is written (`writing`), and what a session's answers become (`sessions`). It does not model: bits
of tensors, threads, user code. Nothing in it chooses.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from regroup.core.jobs import IN_LOAD, OUTSIDE, Fingerprint, Formation, Member, StepPoint, Version
from regroup.core.messages.trainer_reports import (
    CheckpointUnreadable,
    GroupBroke,
    ReplicasDiffered,
    StepFailed,
)
from regroup.core.replicas import sound
from regroup.core.workers import TrainerPhase
from regroup.lab.sim.model import trainer_rules
from regroup.lab.sim.model.trainer import CHANGING, PRINT, Contribution, History, Place, Trainer, consumed
from regroup.lab.sim.model.writing import Writers
from regroup.worker import happenings as h
from regroup.worker import session as s
from regroup.worker.tail import Tail

COMPUTING: tuple[Place, ...] = ("measuring", "stepping")  # alone, and looks whether it is still in its group
TOGETHER: tuple[Place, ...] = ("connecting", "connected", *COMPUTING, "contributed")  # with others, and able to leave
REPEATED = 8  # measurements that whoever tells next says again
NEIGHBOUR_GONE = "a neighbour is gone"


def takes(trainer: Trainer) -> bool:
    """Whether the state is read, or arrives from the leader, or is swapped in."""
    at = trainer.loop.at
    return at in ("reading", "loaded") or (at == "connected" and trainer.rank in trainer.group.receivers)


def where(trainer: Trainer) -> tuple[int, int]:
    """The step of a failure that comes now, and its place, if that is in no pass."""
    if takes(trainer):
        return trainer.group.base.step, IN_LOAD
    return len(trainer.history or ()), OUTSIDE


class StepLoops(Writers, ABC):
    """All trainers of a simulated cluster, and what passes between them."""

    measures = False  # whether leaders tell what they measured; it decides nothing

    def __init__(self) -> None:
        super().__init__()
        self.contributions: dict[tuple[str, int, int], dict[int, Contribution]] = {}  # job, generation, step -> by rank
        self.gifts: dict[tuple[str, int], History] = {}  # what a leader gave in a generation
        self.arrived: dict[tuple[str, int], set[Member]] = {}  # who waits in a generation for the others

    @abstractmethod
    def clock(self, worker: str) -> float:
        """A worker's monotonic clock, seconds."""

    @abstractmethod
    def living(self, member: Member) -> Trainer | None:
        """The trainer of this incarnation, unless it is gone."""

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
                return self._begin
            case "connecting" if not loop.broken and self._all_arrived(trainer):
                return self._connected
            case "connected":
                return self._way_on_connected(trainer)
            case "reading":
                return self._load if self._has_given(trainer) else self._give
            case "loaded":
                return self._held
            case "measuring" if self._trains(trainer):
                return self._measured
            case "stepping" if self._trains(trainer):
                return self._contribute
            case "contributed" if (
                self._is_reduced(trainer)
                and self._trains(trainer, lost=True)  # a neighbour that is gone did its part
                and trainer.session.may_apply(self.clock(trainer.member.worker))
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
        return None

    def _way_on_connected(self, trainer: Trainer) -> Callable[[Trainer], None] | None:
        """Where a state is needed, the leader gives its own before it goes on, and who needs it waits for it.

        Whoever gives notices that its group was broken; who has all that it needs may go on without a look at it.
        """
        group, rank = trainer.group, trainer.rank
        if rank == group.leader and group.checkpoint is not None:
            return self._read
        if rank == group.leader and not self._has_given(trainer):
            return self._give if not trainer.loop.broken else None
        if rank not in group.receivers:
            return self._held
        return self._load if (trainer.job, group.generation) in self.gifts else None

    def _has_given(self, trainer: Trainer) -> bool:
        return not trainer.group.receivers or (trainer.job, trainer.group.generation) in self.gifts

    def may_leave(self, trainer: Trainer) -> bool:
        """Whether its step loop can find its group broken; while it computes, it looks whether it is still in it."""
        loop = trainer.loop
        left = loop.at in COMPUTING and not self._is_current(trainer)
        return loop.at in TOGETHER and (loop.broken or loop.lost or left)

    def waits_in_vain(self, trainer: Trainer) -> bool:
        """Whether it waits for a neighbour that will never do its part."""
        return trainer.loop.at in ("connected", "contributed") and self.forsaken(trainer)

    def forsaken(self, trainer: Trainer) -> bool:
        """Whether a neighbour's socket is closed: it died, or went on to another generation."""
        formation = trainer.loop.formation
        if formation is None or trainer.loop.at not in TOGETHER[1:]:
            return False
        for member in formation.members:
            other = self.living(member)
            if other is None or other.loop.formation != formation or other.loop.broken:
                return True
        return False

    def _all_arrived(self, trainer: Trainer) -> bool:
        formation = trainer.loop.formation
        present = self.arrived.get((trainer.job, trainer.session.generation), set())
        return formation is not None and present >= set(formation.members)

    def _is_current(self, trainer: Trainer) -> bool:
        """Whether its session is still in the group that its step loop is in."""
        session, formation = trainer.session, trainer.loop.formation
        phases = (TrainerPhase.FORMING, TrainerPhase.TRAINING)
        return formation is not None and session.generation == formation.generation and session.phase in phases

    def _trains(self, trainer: Trainer, lost: bool = False) -> bool:
        formation, goes_on = trainer.loop.formation, lost or not trainer.loop.lost
        return formation is not None and trainer.session.trains_in(formation.generation) and goes_on

    def _prepared(self, trainer: Trainer) -> None:
        self.come_back(trainer, h.TaskPrepared(self.fingerprint(trainer)))

    def _begin(self, trainer: Trainer) -> None:
        loop = trainer.loop
        task, loop.task = loop.task, None
        loop.formation, loop.broken, loop.lost = None, False, False
        trainer.session = s.take_task(trainer.session)
        if isinstance(task, h.Write):
            self.begin_save(trainer, task)
            return
        assert task is not None
        loop.at, loop.formation, loop.steps = "connecting", task.formation, task.steps
        if self._is_current(trainer):
            self.arrived.setdefault((trainer.job, task.formation.generation), set()).add(trainer.member)
        else:
            loop.broken = True

    def _connected(self, trainer: Trainer) -> None:
        trainer.loop.at = "connected"

    def leave(self, trainer: Trainer, reason: str = "the group broke") -> None:
        """The step loop sees its group broken, and waits for the next task."""
        self.come_back(trainer, h.CollectiveBroke(trainer.group.generation, reason))

    def lose_neighbour(self, trainer: Trainer) -> None:
        """The group's own watch tells it at once; a reduction that is complete may still be applied."""
        if not self._is_current(trainer) or trainer.session.phase is not TrainerPhase.TRAINING:
            return
        trainer.loop.lost = True
        trainer.outbox.append(GroupBroke(**trainer.who, generation=trainer.group.generation, reason=NEIGHBOUR_GONE))

    def forsake(self, trainer: Trainer) -> None:
        """The group's own watch tells it, and the step loop does not wait any longer."""
        self.lose_neighbour(trainer)
        self.leave(trainer, NEIGHBOUR_GONE)

    def _read(self, trainer: Trainer) -> None:
        trainer.loop.at = "reading"
        trainer_rules.read(self.ghosts, trainer, trainer.group)
        if trainer.group.checkpoint is None:
            return
        path = trainer.group.checkpoint.path
        if self.folder(trainer.member.worker) not in self.ghosts.places.get(path, ()):
            self.fail_to_read(trainer, damaged=True, missing=True)
        elif path in self.ghosts.damaged | self.ghosts.deleted:
            self.fail_to_read(trainer, damaged=True)

    def fail_to_read(self, trainer: Trainer, damaged: bool = False, missing: bool = False) -> None:
        """The storage does not answer; or it does, and the file is not what was written, or not there."""
        generation, error = trainer.group.generation, "not those bytes" if damaged else "no answer"
        told = CheckpointUnreadable(**trainer.who, generation=generation, error=error, damaged=damaged, missing=missing)
        trainer_rules.read_in_vain(self.ghosts, trainer, trainer.group, damaged and not missing)
        self.come_back(trainer, h.LoopFailed(told))

    def _give(self, trainer: Trainer) -> None:
        group = trainer.group
        if trainer.loop.broken:
            self.leave(trainer)
            return
        if group.base.generation == 0 and group.checkpoint is None:
            trainer.history = ()
        self.gifts[trainer.job, group.generation] = self._state_for(trainer, group)

    def _state_for(self, trainer: Trainer, group: Formation) -> History:
        """What its leader gives: its own, or what it read."""
        if group.checkpoint is None:
            return trainer.state
        if group.base.generation == 0:
            return (0,) * group.base.step
        return self.ghosts.states[trainer.job, group.base]

    def _load(self, trainer: Trainer) -> None:
        group = trainer.group
        if not trainer.session.may_load(group.generation):
            self.leave(trainer)
            return
        trainer.session = s.begin_load(trainer.session)
        trainer_rules.replaced(self.ghosts, trainer, group)
        leads = trainer.rank == group.leader
        trainer.history = self._state_for(trainer, group) if leads else self.gifts[trainer.job, group.generation]
        trainer.loop.at = "loaded"

    def _held(self, trainer: Trainer) -> None:
        group = trainer.group
        if group.base.generation == 0 and group.checkpoint is None and trainer.rank == group.leader:
            trainer.history = ()
        if trainer.rank in group.receivers or group.checkpoint is not None:
            trainer.evaluated = (0, 0)
        self._at_boundary(trainer)
        self.take(trainer, h.StateHeld(group.generation))
        trainer.unsaid = True
        own = trainer.rank not in group.receivers and group.checkpoint is None
        trainer.measured = tuple(point for point in trainer.measured if own and point.step < len(trainer.state))
        trainer.points = trainer.measured if trainer.rank == group.leader else ()
        if group.base_in_memory:
            self.copy_if_due(trainer, group.base)
        trainer_rules.begins(self.ghosts, trainer, self.jobs[trainer.job].spec.checkpoint_every)

    def _at_boundary(self, trainer: Trainer) -> None:
        """Once in a while a state is evaluated before the next step."""
        step, every = len(trainer.state), self.jobs[trainer.job].spec.evaluate_every
        due = every is not None and step and (step % every == 0 or step >= trainer.loop.steps)
        trainer.loop.at = "measuring" if due and self.chunks_left(trainer) else "stepping"

    def _measured(self, trainer: Trainer) -> None:
        self.end_chunk(trainer)
        if self.measures and not self.chunks_left(trainer):
            self._note_metrics(trainer, len(trainer.state) - 1)
        self._at_boundary(trainer)

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
        self._at_boundary(trainer)
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
