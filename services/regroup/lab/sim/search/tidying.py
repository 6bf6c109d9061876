"""What a small cluster does unseen is done at once, and what can have no effect any more is dropped.

Owns: why that changes nothing but the number of states. A step loop whose group is broken leaves it and waits, which
neither the coordinator nor its neighbours can tell from leaving later. A trainer whose step loop is idle does nothing
until it hears an order, so that to hear it at once and to answer late is as good as to hear it late, once nothing is
left that could end one or the other in between.
Refuses to know: what the coordinator makes of anything: that is real.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from regroup.core.jobs import Version
from regroup.core.messages.agent_reports import AgentLeft, Discarded, TrainerExited
from regroup.core.messages.orders import Form, Halt, Order, Save
from regroup.core.messages.trainer_reports import (
    Formed,
    GroupBroke,
    Halted,
    Prepared,
    SaveFailed,
    StateSaved,
    StepsCommitted,
)
from regroup.core.workers import TrainerPhase, TrainerStatus
from regroup.lab.sim.model.trainer import Trainer
from regroup.lab.sim.search.near import Near
from regroup.lab.sim.search.small import Small

EMPTY: deque[Any] = deque(maxlen=0)  # of all states at rest: millions of empty ones would be gigabytes
ENDS = ("deaths", "losses", "leaves", "departures", "crashes", "cuts")  # of whoever hears, or of what is under way


def followed(state: Small, do: Callable[[Small], None]) -> Small:
    """What a state becomes by this move; the state itself stays as it is."""
    after = state.copy()
    do(after)
    tidy(after)
    return after


def tidy(state: Small) -> None:
    at_once = not any(state.left[fault] for fault in ENDS)
    for agent in state.agents.values():
        settle(state, agent, at_once)
    trainers = list(state.trainers())
    used = {_group(trainer) for trainer in trainers if trainer.loop.at != "idle"}
    state.contributions = {step: slots for step, slots in state.contributions.items() if step[:2] in used}
    state.gifts = {group: gift for group, gift in state.gifts.items() if group in used}
    state.arrived = {group: members for group, members in state.arrived.items() if group in used}
    for trainer in trainers:
        trainer.inbox = trainer.outbox = EMPTY
        loop = trainer.loop
        if loop.at == "idle":
            loop.agreed, loop.lost = None, False
            if _group(trainer) not in used:
                loop.formation, loop.broken = None, False
    for agent in state.agents.values():
        seen = state.cluster.sightings.get(agent.name) if state.cluster is not None else None
        if agent.trainer is not None:
            agent.orders = tuple(order for order in agent.orders if not _is_late(order, agent.trainer))
        status = seen.trainer if seen is not None else None
        if status is not None:
            agent.reports = tuple(report for report in agent.reports if not _is_known(report, status))


def _group(trainer: Trainer) -> tuple[str, int]:
    return trainer.job, trainer.loop.formation.generation if trainer.loop.formation is not None else 0


def settle(state: Small, agent: Near, at_once: bool) -> None:
    """An agent and its trainer do what nobody sees. `at_once`: and hear the orders that they would obey alike later."""
    while True:
        trainer = agent.trainer
        if at_once and agent.orders and (trainer is None or trainer.loop.at == "idle"):
            state.hear_order(agent)
            continue
        if trainer is None:
            return
        state.post_progress(trainer)
        while trainer.outbox:
            state.hear(agent)
        if state.may_leave(trainer):
            state.leave(trainer)
        elif trainer.loop.at in ("preparing", "idle", "telling") and (moves := state.moves(trainer)):
            moves[0]()
        else:
            return


def _is_late(order: Order, trainer: Trainer) -> bool:
    """Whether this trainer will never do anything about it."""
    session = trainer.session
    match order:
        case Halt(generation=n):
            return n <= session.promised
        case Form(formation=formation):
            n = formation.generation
            accepted = n == session.promised and session.phase is not TrainerPhase.HALTED
            return n < session.promised or accepted or trainer.member not in formation.members
        case Save(generation=n):
            return n < session.promised
    return False


def _is_known(report: Any, status: TrainerStatus) -> bool:
    """Whether the coordinator, which knows this of the trainer, will take nothing from it."""
    if isinstance(report, TrainerExited | AgentLeft | Discarded | StateSaved | SaveFailed):
        return False
    if report.incarnation != status.incarnation:
        return int(report.incarnation[1:]) < int(status.incarnation[1:])
    match report:
        case Prepared():
            return status.fingerprint is not None
        case StepsCommitted(generation=n, step=step) if status.version is not None:
            return Version(n, step) <= status.version or n < max(status.promised, status.generation)
        case Halted(generation=n) | Formed(generation=n) | GroupBroke(generation=n):
            return bool(n < max(status.promised, status.generation))
    return False
