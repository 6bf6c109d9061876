"""How simulated trainers come together: they connect, and the leader gives its state to whoever differs.

Owns: the moves of a step loop from its task to the state that its formation begins from, and out of a group again. They
follow worker/trainer.py event by event.
Refuses to know: what is done in a group once all hold its base (`steps`), and what is written (`writing`). It does not
model: bits of tensors, sockets. What must hold is in `trainer_rules`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from regroup.core.jobs import IN_LOAD, OUTSIDE, Formation, Member
from regroup.core.messages.trainer_reports import CheckpointUnreadable, GroupBroke
from regroup.core.workers import TrainerPhase
from regroup.lab.sim.model import trainer_rules
from regroup.lab.sim.model.trainer import History, Place, Trainer
from regroup.lab.sim.model.writing import Writers
from regroup.worker import happenings as h
from regroup.worker import session as s

COMPUTING: tuple[Place, ...] = ("measuring", "stepping")  # alone, and looks whether it is still in its group
TOGETHER: tuple[Place, ...] = ("connecting", "connected", *COMPUTING, "contributed")  # with others, and able to leave
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


class Groups(Writers, ABC):
    """What passes between trainers before their first step together."""

    def __init__(self) -> None:
        super().__init__()
        self.gifts: dict[tuple[str, int], History] = {}  # what a leader gave in a generation
        self.arrived: dict[tuple[str, int], set[Member]] = {}  # who waits in a generation for the others

    @abstractmethod
    def living(self, member: Member) -> Trainer | None:
        """The trainer of this incarnation, unless it is gone."""

    @abstractmethod
    def at_boundary(self, trainer: Trainer) -> None:
        """It holds a state, and takes no step: what it does next."""

    # --- into a group

    def begin(self, trainer: Trainer) -> None:
        loop = trainer.loop
        task, loop.task = loop.task, None
        loop.formation, loop.broken, loop.lost = None, False, False
        trainer.session = s.take_task(trainer.session)
        if isinstance(task, h.Write):
            self.begin_save(trainer, task)
            return
        assert task is not None
        loop.at, loop.formation, loop.steps = "connecting", task.formation, task.steps
        if self.is_current(trainer):
            self.arrived.setdefault((trainer.job, task.formation.generation), set()).add(trainer.member)
        else:
            loop.broken = True

    def way_into_group(self, trainer: Trainer) -> Callable[[Trainer], None] | None:
        """What its step loop does next, until it holds what its formation begins from. None: it has to wait."""
        match trainer.loop.at:
            case "connecting" if not trainer.loop.broken and self._all_arrived(trainer):
                return self._connected
            case "connected":
                return self._way_on_connected(trainer)
            case "reading":
                return self._load if self._has_given(trainer) else self._give
            case "loaded":
                return self._held
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

    def _all_arrived(self, trainer: Trainer) -> bool:
        formation = trainer.loop.formation
        present = self.arrived.get((trainer.job, trainer.session.generation), set())
        return formation is not None and present >= set(formation.members)

    def _connected(self, trainer: Trainer) -> None:
        trainer.loop.at = "connected"

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
        self.at_boundary(trainer)
        self.take(trainer, h.StateHeld(group.generation))
        trainer.unsaid = True
        own = trainer.rank not in group.receivers and group.checkpoint is None
        trainer.measured = tuple(point for point in trainer.measured if own and point.step < len(trainer.state))
        trainer.points = trainer.measured if trainer.rank == group.leader else ()
        if group.base_in_memory:
            self.copy_if_due(trainer, group.base)
        trainer_rules.begins(self.ghosts, trainer, self.jobs[trainer.job].spec.checkpoint_every)

    # --- and out of it

    def is_current(self, trainer: Trainer) -> bool:
        """Whether its session is still in the group that its step loop is in."""
        session, formation = trainer.session, trainer.loop.formation
        phases = (TrainerPhase.FORMING, TrainerPhase.TRAINING)
        return formation is not None and session.generation == formation.generation and session.phase in phases

    def may_leave(self, trainer: Trainer) -> bool:
        """Whether its step loop can find its group broken; while it computes, it looks whether it is still in it."""
        loop = trainer.loop
        left = loop.at in COMPUTING and not self.is_current(trainer)
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

    def leave(self, trainer: Trainer, reason: str = "the group broke") -> None:
        """The step loop sees its group broken, and waits for the next task."""
        self.come_back(trainer, h.CollectiveBroke(trainer.group.generation, reason))

    def lose_neighbour(self, trainer: Trainer) -> None:
        """The group's own watch tells it at once; a reduction that is complete may still be applied."""
        if not self.is_current(trainer) or trainer.session.phase is not TrainerPhase.TRAINING:
            return
        trainer.loop.lost = True
        trainer.outbox.append(GroupBroke(**trainer.who, generation=trainer.group.generation, reason=NEIGHBOUR_GONE))

    def forsake(self, trainer: Trainer) -> None:
        """The group's own watch tells it, and the step loop does not wait any longer."""
        self.lose_neighbour(trainer)
        self.leave(trainer, NEIGHBOUR_GONE)
