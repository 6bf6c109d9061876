"""What the protocol sees of a trainer: the real session, and around it a step loop reduced to its borders.

Owns: where a step loop can stand, and what it could do next; `take` and the moves follow worker/control.py and
worker/trainer.py event by event. A state is the tuple of the generations in which its steps were reduced, a gradient
is the samples that it was computed from. The reduction's tail is the real one.
It does not model: bits of tensors, threads, user code. Nothing in it chooses.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from regroup.core import messages as m
from regroup.core.jobs import Checkpoint, Fingerprint, Formation, Job, JobSpec, Member
from regroup.core.shards import owned, positions
from regroup.core.workers import TrainerPhase, TrainerStatus
from regroup.worker import session as s
from regroup.worker.tail import Tail

PRINT = Fingerprint("code", "data", 100)

History = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a rank puts into the reduction of a step."""

    history: History
    tail: Tail
    samples: tuple[tuple[int, int], ...]  # (epoch, position in its order) that its gradient was computed from


@dataclass(slots=True)
class Loop:
    """Where the step loop stands, between two events of it."""

    at: str = "preparing"
    formation: Formation | None = None
    steps: int = 0
    task: s.Join | s.Write | None = None  # the newest, not yet begun
    write: s.Write | None = None
    broken: bool = False  # its group was broken from its own side
    lost: bool = False  # it noticed that a neighbour is gone
    agreed: int | None = None


@dataclass(slots=True)
class Trainer:
    job: str
    session: s.Session
    loop: Loop = field(default_factory=Loop)
    history: History | None = None  # None: no state
    hung: bool = False
    inbox: deque[m.TrainerOrder] = field(default_factory=deque)
    outbox: deque[TrainerStatus | m.Report] = field(default_factory=deque)
    unsaid: bool = False

    @property
    def member(self) -> Member:
        return self.session.member


class Silent:
    """Rules that check nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args: None


class StepLoops:
    """The trainers' side of a world."""

    jobs: Mapping[str, Job]  # durable

    def __init__(self, rules: Any) -> None:
        self.rules = rules or Silent()
        self.contributions: dict[tuple[str, int, int], dict[int, Contribution]] = {}
        self.gifts: dict[tuple[str, int], History] = {}  # what a leader gave in a generation
        self.arrived: dict[tuple[str, int], set[Member]] = {}

    def clock(self, worker: str) -> float:
        """A worker's monotonic clock, seconds."""
        raise NotImplementedError

    def lives(self, member: Member) -> Trainer | None:
        """The trainer of this incarnation, unless it is gone."""
        raise NotImplementedError

    def fingerprint(self, trainer: Trainer) -> Fingerprint:
        """Of the code and the data that it found."""
        return PRINT

    def digest(self, trainer: Trainer) -> int:
        """Of its replica, as it is compared in each step; 0 is what it should be."""
        return 0

    # --- a trainer's session, as worker/control.py keeps it

    def take(self, trainer: Trainer, happening: Any) -> None:
        before = trainer.session
        trainer.session, actions = s.handle(before, happening)
        if trainer.session.phase is not before.phase or trainer.session.promised != before.promised:
            trainer.outbox.append(trainer.session.status)
        self.rules.handled(self, trainer, before, happening)
        for action in actions:
            match action:
                case s.Say(report=report):
                    self.post_progress(trainer)
                    trainer.outbox.append(report)
                case s.BreakGroup():
                    trainer.loop.broken = True
                case s.Join() | s.Write():
                    trainer.loop.task = action

    def post_progress(self, trainer: Trainer) -> None:
        version = trainer.session.version
        if trainer.unsaid and version is not None:
            trainer.unsaid = False
            trainer.outbox.append(trainer.session.status)
            report = m.StepsCommitted(
                job=trainer.job,
                incarnation=trainer.member.incarnation,
                generation=version.generation,
                step=version.step,
            )
            trainer.outbox.append(report)

    # --- its step loop, as worker/trainer.py goes

    def moves(self, trainer: Trainer) -> list[Callable[[], None]]:
        """What its step loop could do next."""
        loop, session = trainer.loop, trainer.session
        found: list[Callable[[], None]] = []
        if trainer.hung:
            return found
        match loop.at:
            case "preparing":
                found = [lambda: self._prepared(trainer)]
            case "idle" if loop.task is not None:
                found = [lambda: self._begin(trainer)]
            case "connecting":
                present = self.arrived.get((trainer.job, session.generation), set())
                if loop.formation and present >= set(loop.formation.members) and not loop.broken:
                    found = [lambda: self._at(trainer, "connected")]
            case "connected" if not loop.broken:
                assert loop.formation is not None
                rank = loop.formation.members.index(trainer.member)
                gift = self.gifts.get((trainer.job, loop.formation.generation))
                if rank == loop.formation.leader and loop.formation.receivers and gift is None:
                    found = [lambda: self._give(trainer)]
                elif rank not in loop.formation.receivers or rank == loop.formation.leader:
                    found = [lambda: self._held(trainer)]
                elif gift is not None:
                    found = [lambda: self._load(trainer)]
            case "loaded":
                found = [lambda: self._held(trainer)]
            case "stepping" if self._trains(trainer):
                found = [lambda: self._contribute(trainer)]
            case "contributed" if (
                self._reduced(trainer)
                and self._trains(trainer)
                and session.may_apply(self.clock(trainer.member.worker))
            ):
                found = [lambda: self._begin_apply(trainer)]
            case "applying":
                found = [lambda: self._applied(trainer)]
            case "writing":
                found = [lambda: self._write(trainer, True)]
        if loop.at in ("connecting", "connected", "stepping", "contributed") and (
            loop.broken or loop.lost or not self._current(trainer)
        ):
            found.append(lambda: self.leave(trainer))
        return found

    def _current(self, trainer: Trainer) -> bool:
        session, formation = trainer.session, trainer.loop.formation
        phases = (TrainerPhase.FORMING, TrainerPhase.TRAINING)
        return formation is not None and session.generation == formation.generation and session.phase in phases

    def _trains(self, trainer: Trainer) -> bool:
        formation = trainer.loop.formation
        return formation is not None and trainer.session.trains_in(formation.generation) and not trainer.loop.lost

    def forsaken(self, trainer: Trainer) -> bool:
        """Whether a neighbour's socket is closed: it died, or went on to another generation."""
        formation = trainer.loop.formation
        if formation is None or trainer.loop.at not in ("connected", "stepping", "contributed"):
            return False
        for member in formation.members:
            other = self.lives(member)
            if other is None or other.loop.formation != formation or other.loop.broken:
                return True
        return False

    def _at(self, trainer: Trainer, at: str) -> None:
        trainer.loop.at = at

    def _prepared(self, trainer: Trainer) -> None:
        trainer.loop.at = "idle"
        self.take(trainer, s.TaskPrepared(self.fingerprint(trainer)))

    def _begin(self, trainer: Trainer) -> None:
        loop = trainer.loop
        task, loop.task = loop.task, None
        loop.formation, loop.broken, loop.lost = None, False, False
        if isinstance(task, s.Write):
            loop.at, loop.write = "writing", task
            return
        assert task is not None
        loop.at, loop.formation, loop.steps = "connecting", task.formation, task.steps
        if self._current(trainer):
            self.arrived.setdefault((trainer.job, task.formation.generation), set()).add(trainer.member)
        else:
            loop.broken = True

    def leave(self, trainer: Trainer, reason: str = "the group broke") -> None:
        """The step loop sees its group broken, and waits for the next task."""
        loop = trainer.loop
        assert loop.formation is not None
        loop.at = "idle"
        self.take(trainer, s.CollectiveBroke(loop.formation.generation, reason))

    def lose_neighbour(self, trainer: Trainer) -> None:
        """The group's own watch tells it at once; a reduction that is complete may still be applied."""
        formation = trainer.loop.formation
        if formation is None or not self._current(trainer) or trainer.session.phase is not TrainerPhase.TRAINING:
            return
        trainer.loop.lost = True
        who = {"job": trainer.job, "incarnation": trainer.member.incarnation}
        trainer.outbox.append(m.GroupBroke(**who, generation=formation.generation, reason="a neighbour is gone"))

    def _give(self, trainer: Trainer) -> None:
        formation = trainer.loop.formation
        assert formation is not None
        if formation.base.generation == 0:
            trainer.history = ()
        assert trainer.history is not None, "a leader without state"
        self.gifts[trainer.job, formation.generation] = trainer.history

    def _load(self, trainer: Trainer) -> None:
        formation = trainer.loop.formation
        assert formation is not None
        gift = self.gifts[trainer.job, formation.generation]
        if not trainer.session.may_load(formation.generation):
            self.leave(trainer)
            return
        trainer.session = s.begin_load(trainer.session)
        self.rules.replaced(self, trainer, formation)
        trainer.history = gift
        trainer.loop.at = "loaded"

    def _held(self, trainer: Trainer) -> None:
        formation = trainer.loop.formation
        assert formation is not None
        if formation.base.generation == 0 and formation.members.index(trainer.member) == formation.leader:
            trainer.history = ()
        trainer.loop.at = "stepping"
        self.take(trainer, s.StateHeld(formation.generation))
        trainer.unsaid = True

    def _contribute(self, trainer: Trainer) -> None:
        loop, session, formation = trainer.loop, trainer.session, trainer.loop.formation
        assert formation is not None
        assert trainer.history is not None, "trains without state"
        step = len(trainer.history)
        if step >= loop.steps:
            loop.at = "idle"
            self.take(trainer, s.LastStepDone(formation.generation))
            return
        flag = 0 if session.boundary is None else session.boundary - session.generation
        slots = self.contributions.setdefault((trainer.job, formation.generation, step), {})
        rank, seats = formation.members.index(trainer.member), len(formation.seats)
        samples = consumed(self.jobs[trainer.job].spec, step, owned(formation.owners, rank))
        tail = Tail.of(rank, seats, weight=float(len(samples)), loss=0.0, flag=flag, digest=self.digest(trainer))
        slots[rank] = Contribution(trainer.history, tail, samples)
        loop.at = "contributed"

    def _reduced(self, trainer: Trainer) -> bool:
        formation = trainer.loop.formation
        assert formation is not None
        assert trainer.history is not None
        slots = self.contributions[trainer.job, formation.generation, len(trainer.history)]
        return len(slots) == len(formation.seats)

    def _begin_apply(self, trainer: Trainer) -> None:
        formation = trainer.loop.formation
        assert formation is not None
        assert trainer.history is not None
        slots = self.contributions[trainer.job, formation.generation, len(trainer.history)]
        self.rules.reduced(self, trainer, slots)
        summed = [sum(column) for column in zip(*(one.tail.slots() for one in slots.values()), strict=True)]
        total = Tail.read(summed, len(slots))
        if total.differing(len(slots), formation.leader):
            self._differ(trainer, formation, total.digests)
            return
        agreed = total.agreed(len(slots))
        last = len(trainer.history) + 1 >= trainer.loop.steps
        trainer.loop.agreed = None if agreed is None or last else formation.generation + agreed
        trainer.loop.at = "applying"
        trainer.session = s.begin_apply(trainer.session)

    def _differ(self, trainer: Trainer, formation: Formation, digests: tuple[int, ...]) -> None:
        """Whoever differs from the leader gives its state up; the leader tells."""
        rank, leader, generation = formation.members.index(trainer.member), formation.leader, formation.generation
        trainer.loop.at = "idle"
        if rank == leader:
            assert trainer.history is not None
            who: dict[str, Any] = {"job": trainer.job, "incarnation": trainer.member.incarnation}
            told = tuple(f"{digest:012x}" for digest in digests)
            step = len(trainer.history)
            trainer.outbox.append(m.ReplicasDiffered(**who, generation=generation, step=step, digests=told))
        if digests[rank] == digests[leader]:
            self.take(trainer, s.CollectiveBroke(generation, "replicas differed"))
            return
        self.take(trainer, s.StateDiscarded(generation, "its digest differs from the leader's"))
        if trainer.session.version is None:
            trainer.history = None

    def _applied(self, trainer: Trainer) -> None:
        formation = trainer.loop.formation
        assert formation is not None
        assert trainer.history is not None
        trainer.history = (*trainer.history, formation.generation)
        trainer.loop.at, trainer.unsaid = "stepping", True
        self.take(trainer, s.StepApplied(len(trainer.history), trainer.loop.agreed))
        self.rules.committed(self, trainer, formation)

    def raise_in_step(self, trainer: Trainer, shard: int) -> None:
        """User code raises: while computing, or in the middle of the optimizer step, which tears the state."""
        torn = trainer.loop.at == "applying"
        formation = trainer.loop.formation
        assert formation is not None
        assert trainer.history is not None
        who = {"job": trainer.job, "incarnation": trainer.member.incarnation}
        step = len(trainer.history)
        report = m.StepFailed(
            **who, generation=formation.generation, step=step, shard=shard, error="E: no", traceback="T\nE: no"
        )
        trainer.loop.at = "idle"
        if torn:
            trainer.history = None
        self.take(trainer, s.UserCodeRaised(report, torn))

    def _write(self, trainer: Trainer, good: bool) -> None:
        task = trainer.loop.write
        assert task is not None
        trainer.loop.at = "idle"
        who: dict[str, Any] = {"job": trainer.job, "incarnation": trainer.member.incarnation}
        who["generation"] = task.generation
        if not good:
            self.take(trainer, s.SaveEnded(m.SaveFailed(**who, error="OSError: disk full")))
            return
        self.rules.wrote(self, trainer, task.version)
        self.take(trainer, s.SaveEnded(m.StateSaved(**who, checkpoint=Checkpoint(task.version, "p", "c", 1))))

    def fail_to_write(self, trainer: Trainer) -> None:
        self._write(trainer, False)


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
