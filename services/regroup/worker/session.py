"""What a trainer may do and must answer: the worker's half of the protocol, pure.

Owns: the promise of Halt, the acceptance of Form, the right to commit (rules 1, 2, 4, 5 and 7 of docs/protocol.md, as a
worker keeps them).
Refuses to know: torch, threads, pipes, clocks (`now` is passed in). One `handle` for each order from outside and each
event of the step loop gives the next session and the actions that follow; the caller serialises the calls.
Does not guarantee: that the step loop has noticed a promise yet; `may_apply` is what keeps it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from regroup.core.jobs import Checkpoint, Fingerprint, Formation, Member, Version
from regroup.core.messages.orders import Form, Halt, RenewLease, Save
from regroup.core.messages.trainer_reports import (
    CheckpointUnreadable,
    Formed,
    GroupBroke,
    Halted,
    Prepared,
    StateSaved,
    StepFailed,
    TrainerReport,
)
from regroup.core.phases import check_arrow
from regroup.core.workers import TrainerPhase, TrainerStatus
from regroup.worker.happenings import (
    Action,
    BreakGroup,
    CameBack,
    ChunkEvaluated,
    CollectiveBroke,
    EntersTask,
    Join,
    LastStepDone,
    LoopEvent,
    LoopFailed,
    SaveEnded,
    Say,
    StateDiscarded,
    StateHeld,
    StepApplied,
    TaskPrepared,
    Write,
    WroteBeside,
)

WAITING = 8  # checkpoints beside the training that were written in a generation, and not answered yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Where this incarnation stands. `address` is its rendezvous, host:port."""

    job: str
    member: Member
    address: str
    pid: int = 0
    phase: TrainerPhase = TrainerPhase.PREPARING
    promised: int = 0
    generation: int = 0  # of the formation accepted last
    version: Version | None = None
    evaluated: int = 0  # chunks of this state's evaluation
    fingerprint: Fingerprint | None = None
    formation: Formation | None = None
    steps: int = 0
    boundary: int | None = None  # the Halt held until a boundary
    applying: bool = False  # the state is being changed: by the optimizer step, or by the leader's that is swapped in
    owed: int | None = None  # a Halt that came while applying
    at_work: bool = False  # the step loop is in its last formation, or in the task's code at a save
    waited_for: bool = False  # the step loop was given something to do, and has not taken it yet
    written: tuple[Checkpoint, ...] = ()  # and told until the coordinator answered
    saved: StateSaved | None = None  # what the last order to save led to
    heard: float = -inf  # when the last heartbeat was sent that was answered, on this machine's clock, seconds

    @property
    def lease(self) -> float:
        """Commit before this, on the same clock. It lasts as its own formation says, which others count by."""
        return self.heard + self.formation.detached_limit if self.formation is not None else -inf

    def lease_words(self, now: float) -> str:
        """Why the lease does not run."""
        if self.heard == -inf:
            return "no heartbeat of this agent was answered yet"
        return f"no heartbeat that this agent sent in the last {now - self.heard:.0f} s was answered"

    @property
    def store(self) -> str:
        """The rendezvous of the next generation; its prefix is used by no other, so stale peers cannot meet."""
        return f"{self.address}/{self.member.incarnation}.{self.promised}"

    @property
    def status(self) -> TrainerStatus:
        return TrainerStatus(
            job=self.job,
            incarnation=self.member.incarnation,
            phase=self.phase,
            promised=self.promised,
            generation=self.generation,
            version=self.version,
            evaluated=self.evaluated,
            store=self.store,
            pid=self.pid,
            fingerprint=self.fingerprint,
            at_work=self.at_work,
            written=self.written,
        )

    @property
    def news(self) -> tuple[object, ...]:
        """What of it is told as soon as it changes."""
        return self.phase, self.promised, self.at_work, self.written

    def trains_in(self, generation: int) -> bool:
        return self.phase is TrainerPhase.TRAINING and self.generation == generation and self.owed is None

    def may_apply(self, now: float) -> bool:
        """Whether the optimizer step may begin: nothing higher is promised, and the lease runs."""
        return self.phase is TrainerPhase.TRAINING and self.owed is None and now < self.lease

    def may_write(self, generation: int) -> bool:
        """Whether another checkpoint beside the training may be written: while nobody answers, they are not to fill
        the disk. Those of an earlier generation may never count."""
        return sum(one.version.generation == generation for one in self.written) < WAITING

    def may_load(self, generation: int) -> bool:
        """Whether the leader's state of `generation` may take the place of this one's."""
        return self.phase is TrainerPhase.FORMING and self.generation == generation


Handled = tuple[Session, tuple[Action, ...]]
_LIVE = frozenset({TrainerPhase.FORMING, TrainerPhase.TRAINING, TrainerPhase.FINISHED})  # in a group


def handle(session: Session, happening: Halt | Form | Save | RenewLease | LoopEvent) -> Handled:
    """Take in one order or one event of the step loop."""
    match happening:
        case Halt():
            return _halt(session, happening)
        case Form(formation=formation, steps=steps):
            return _form(session, formation, steps)
        case Save():
            return _save(session, happening)
        case RenewLease():
            return _renew(session, happening), ()
        case TaskPrepared(fingerprint=fingerprint):
            session = _enter(session, TrainerPhase.PREPARED, fingerprint=fingerprint)
            return session, (_say(session, Prepared, fingerprint=fingerprint, store=session.store),)
        case StateHeld(generation=generation):
            return _hold(session, generation)
        case StepApplied():
            return _applied(session, happening)
        case ChunkEvaluated(chunks=chunks):
            return replace(session, evaluated=chunks), ()
        case LastStepDone(generation=generation):
            return _finish(session, generation)
        case CollectiveBroke(generation=generation, reason=reason):
            return _broke(session, generation, reason)
        case LoopFailed(report=report, torn=torn):
            return _raised(session, report, torn)
        case StateDiscarded(generation=generation, reason=reason):
            if session.phase not in _LIVE or session.generation != generation:
                return session, ()  # its answer said otherwise; the next generation's first step compares again
            return _broke(replace(session, version=None), generation, reason)
        case SaveEnded(report=report):
            if session.phase is TrainerPhase.SAVING and session.promised == report.generation:
                told = report if isinstance(report, StateSaved) else None
                session = _enter(session, TrainerPhase.HALTED, saved=told, at_work=False)
            if isinstance(report, StateSaved):
                session = replace(session, written=_and(session.written, report.checkpoint))
            return session, (Say(report),)
        case WroteBeside(checkpoint=checkpoint):
            return replace(session, written=_and(session.written, checkpoint)), ()
        case EntersTask(saved=saved):
            written = session.written if saved is None else _and(session.written, saved)
            return replace(session, written=written, at_work=True), ()
        case CameBack():
            if session.waited_for:
                return session, ()  # it is at work again in the same breath
            session = replace(session, at_work=False)
            return session, _answer(session) if session.phase is TrainerPhase.HALTED else ()


def begin_apply(session: Session) -> Session:
    """The caller has asked `may_apply` in the same breath."""
    return replace(session, applying=True)


def begin_load(session: Session) -> Session:
    """The leader's state is here complete and swapped in now. The caller has asked `may_load` in the same breath.

    Until StateHeld no Halt is answered, because what would be answered is neither the old state nor surely the new.
    """
    return replace(session, applying=True)


def take_task(session: Session) -> Session:
    """The step loop takes what it was given last; it forgets what it was given before."""
    return replace(session, waited_for=False)


def _and(written: tuple[Checkpoint, ...], checkpoint: Checkpoint) -> tuple[Checkpoint, ...]:
    others = (one for one in written if one.path != checkpoint.path)
    return (*others, checkpoint)


def _enter(session: Session, phase: TrainerPhase, **changes: object) -> Session:
    check_arrow(session.phase, phase)
    return replace(session, phase=phase, **changes)  # type: ignore[arg-type]


def _say(session: Session, report: Callable[..., TrainerReport], **facts: object) -> Say:
    return Say(report(job=session.job, incarnation=session.member.incarnation, **facts))


def _halt(session: Session, order: Halt) -> Handled:
    n = order.generation
    if session.phase is TrainerPhase.PREPARING or n < session.promised:
        return session, ()
    if n == session.promised:
        # Answered again until the formation of n is accepted, never after.
        return session, _answer(session) if session.phase is TrainerPhase.HALTED else ()
    if order.boundary and session.phase in (TrainerPhase.FORMING, TrainerPhase.TRAINING):
        return replace(session, boundary=max(n, session.boundary or 0)), ()
    if session.applying:
        return replace(session, owed=max(n, session.owed or 0)), ()
    return _promise(session, n, at_boundary=order.boundary)


def _promise(session: Session, n: int, at_boundary: bool = False) -> Handled:
    """`at_boundary`: others may still be reading the last sums, so the group is left alone until they have answered."""
    session = _enter(session, TrainerPhase.HALTED, promised=n, boundary=None, owed=None)
    return session, (*(() if at_boundary else (BreakGroup(),)), *_answer(session))


def _answer(session: Session) -> tuple[Say, ...]:
    """The promise holds at once. It is told when the step loop is back: nothing can be begun with one that hangs."""
    if session.at_work:
        return ()
    return (_say(session, Halted, generation=session.promised, version=session.version, store=session.store),)


def _form(session: Session, formation: Formation, steps: int) -> Handled:
    halted = session.phase is TrainerPhase.HALTED and session.promised == formation.generation
    if not halted or session.at_work or session.member not in formation.members:
        return session, ()
    begun = {"generation": formation.generation, "formation": formation, "steps": steps}
    session = _enter(session, TrainerPhase.FORMING, at_work=True, waited_for=True, **begun, boundary=None, evaluated=0)
    return session, (Join(formation, steps),)


def _save(session: Session, order: Save) -> Handled:
    asked = session.phase is TrainerPhase.HALTED and session.promised == order.generation
    if not asked or session.at_work or session.version != order.version:
        return session, ()
    if session.saved is not None and session.saved.generation == order.generation:
        return session, (Say(session.saved),)  # it was asked again before this was heard
    session = _enter(session, TrainerPhase.SAVING, at_work=True, waited_for=True)
    return session, (Write(order.generation, order.version, order.final),)


def _hold(session: Session, generation: int) -> Handled:
    formation = session.formation
    if session.phase is not TrainerPhase.FORMING or session.generation != generation or formation is None:
        return session, ()
    version = Version(generation, formation.base.step)
    owed = session.owed
    session = _enter(session, TrainerPhase.TRAINING, version=version, applying=False)
    formed = _say(session, Formed, generation=generation)
    if owed is None:
        return session, (formed,)
    session, promised = _promise(session, owed)
    return session, (formed, *promised)


def _renew(session: Session, answered: RenewLease) -> Session:
    if answered.settled:
        told = (one for one in session.written if one.path not in answered.settled)
        session = replace(session, written=tuple(told))
    if session.formation is None or session.generation != answered.generation:
        return session
    return replace(session, heard=max(session.heard, answered.sent))


def _applied(session: Session, event: StepApplied) -> Handled:
    session = replace(session, applying=False, version=Version(session.generation, event.step), evaluated=0)
    if session.owed is not None:
        return _promise(session, session.owed)
    if event.agreed is not None and event.agreed > session.promised:
        return _promise(session, event.agreed, at_boundary=True)
    return session, ()


def _finish(session: Session, generation: int) -> Handled:
    if session.phase is not TrainerPhase.TRAINING or session.generation != generation:
        return session, ()
    session = _enter(session, TrainerPhase.FINISHED)
    return _promise(session, session.boundary, at_boundary=True) if session.boundary is not None else (session, ())


def _broke(session: Session, generation: int, reason: str) -> Handled:
    if session.phase not in _LIVE or session.generation != generation:
        return session, ()
    session = _enter(session, TrainerPhase.BROKEN)
    actions: tuple[Action, ...] = (BreakGroup(), _say(session, GroupBroke, generation=generation, reason=reason))
    if session.boundary is not None:
        # The boundary will never be reached. To promise now instead is always safe.
        session, promised = _promise(session, session.boundary)
        actions += promised
    return session, actions


def _raised(session: Session, report: StepFailed | CheckpointUnreadable, torn: bool) -> Handled:
    owed = session.owed
    session = replace(session, applying=False, version=None if torn else session.version)
    actions: tuple[Action, ...] = (Say(report),)
    if session.phase in (TrainerPhase.FORMING, TrainerPhase.TRAINING) and session.generation == report.generation:
        session = _enter(session, TrainerPhase.BROKEN)
        actions = (BreakGroup(), *actions)
    if owed is not None:
        session, promised = _promise(session, owed)
        actions += promised
    return session, actions
