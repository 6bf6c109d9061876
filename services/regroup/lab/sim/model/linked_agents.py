"""Agents whose every word travels: over connections that come and go, heartbeats and the answers to them too.

Owns: what an agent keeps for its connection, what it says again on a new one, and when its lease is renewed; it follows
worker/agent.py event by event.
Refuses to know: how a report travels, and what an agent does about an order (`agents`).
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from regroup.core.cluster import Cluster
from regroup.core.jobs import Member
from regroup.core.messages.agent_reports import Heartbeat
from regroup.core.messages.events import Report
from regroup.core.messages.orders import Heard, Order
from regroup.core.messages.trainer_reports import StepsCommitted
from regroup.core.workers import TrainerStatus
from regroup.lab.sim.model import trainer_rules
from regroup.lab.sim.model.agents import Agent, Agents, first_words, said_by
from regroup.lab.sim.model.trainer import Trainer
from regroup.worker.lease_ledger import KEPT, LeaseLedger

LATEST = 8  # reports of measurements that an agent sends again on a new connection


@dataclass(slots=True)
class LinkedAgent(Agent):
    """An agent, and what it keeps for its connection to the coordinator."""

    sequence: int = 0  # of its last heartbeat
    leases: LeaseLedger = field(default_factory=LeaseLedger)  # by its own clock
    ended: list[tuple[int, TrainerStatus]] = field(default_factory=list)  # the last heartbeat before each end
    beats: dict[int, float] = field(default_factory=dict)  # when each heartbeat left, which no agent remembers
    answered: set[int] = field(default_factory=set)  # heartbeats; nor this
    # Nor this: whose lease, in which generation, began when which of them left.
    leased: tuple[Member | None, int, float] = (None, 0, 0.0)
    unsent: list[Report] = field(default_factory=list)  # waits for a connection
    measured: deque[Report] = field(default_factory=lambda: deque(maxlen=LATEST))  # the last that were sent


ALinkedAgent = TypeVar("ALinkedAgent", bound=LinkedAgent)


class LinkedAgents(Agents[ALinkedAgent]):
    """Agents whose every word travels, heartbeats and the answers to them too."""

    def __init__(self, agents: Iterable[ALinkedAgent]) -> None:
        super().__init__(agents)
        self._numbers = 0

    def pace(self, agent: ALinkedAgent) -> float | None:
        """Seconds that its trainer's passes take for a sample; None: nobody knows."""
        return None

    @abstractmethod
    def send(self, agent: ALinkedAgent, report: Report) -> None:
        """Put a report on the agent's connection, which it has."""

    def number(self, agent: ALinkedAgent) -> int:
        self._numbers += 1
        return self._numbers

    def start_agent(self, agent: ALinkedAgent) -> None:
        super().start_agent(agent)
        agent.sequence, agent.leases, agent.unsent = 0, LeaseLedger(), []
        agent.measured.clear()
        agent.ended.clear()
        agent.beats.clear()
        agent.answered.clear()

    def spoke(self, agent: ALinkedAgent) -> None:
        if agent.status is not None and agent.status.written:
            agent.ended.append((agent.sequence, agent.status))

    def told_left(self, cluster: Cluster) -> Iterator[tuple[str, TrainerStatus]]:
        for name, agent in self.agents.items():
            seen, known = cluster.sightings.get(name), cluster.workers.get(name)
            if agent.ended and seen is not None and known is not None and known.boot == agent.boot:
                yield from ((name, status) for sequence, status in agent.ended if seen.sequence > sequence)

    def connect(self, agent: ALinkedAgent) -> None:
        """The first words, a heartbeat, and all that waited for a connection."""
        agent.link = self.number(agent)
        self.send(agent, first_words(agent))
        self.heartbeat(agent)
        waiting, agent.unsent = [*agent.measured, *agent.unsent], []
        agent.measured.clear()
        for report in waiting:
            self.report(agent, report)

    def report(self, agent: ALinkedAgent, report: Report) -> None:
        bare = isinstance(report, StepsCommitted) and not report.points
        if not agent.link:
            agent.unsent += [] if bare or isinstance(report, Heartbeat) else [report]
            return
        self.send(agent, report)
        if isinstance(report, StepsCommitted) and not bare:
            agent.measured.append(report)

    def heartbeat(self, agent: ALinkedAgent) -> None:
        agent.sequence += 1
        agent.beats[agent.sequence] = self.clock(agent.name)
        agent.leases.sent(agent.sequence, agent.beats[agent.sequence])
        self.report(agent, said_by(agent, agent.sequence, agent.status, self.pace(agent)))

    def _lease(self, agent: ALinkedAgent, answer: Heard) -> None:
        """Whose lease the first answer to a heartbeat renews, and from when on, whatever the agent and the session make
        of it: once the formation is there."""
        trainer, left = agent.trainer, agent.beats[answer.sequence]
        agent.answered.add(answer.sequence)
        if trainer is None or trainer.hung or trainer.session.generation != answer.generation:
            return
        mine = trainer.member, answer.generation
        last = agent.leased[2] if agent.leased[:2] == mine else left
        agent.leased = *mine, max(last, left)

    def may_apply(self, trainer: Trainer) -> bool:
        may, agent = super().may_apply(trainer), self.agents[trainer.member.worker]
        member, generation, left = agent.leased
        if not may and (member, generation) == (trainer.member, trainer.session.generation):
            trainer_rules.waits(trainer, self.clock(agent.name) - left)
        return may

    def obey(self, agent: ALinkedAgent, order: Order) -> None:
        if not isinstance(order, Heard):
            super().obey(agent, order)
            return
        self.forget(agent, order)
        first = order.sequence in agent.beats and order.sequence not in agent.answered
        if first:
            self._lease(agent, order)
        if (renewed := agent.leases.renewed_by(order)) is not None:
            left = agent.beats[order.sequence]
            assert renewed.sent == left, f"a lease counts from {renewed.sent}, and its heartbeat left at {left}"
            self.tell(agent, renewed)
        else:
            late = order.sequence <= agent.sequence - KEPT
            assert late or not (first and order.settled), f"{agent.name} hears of {order.settled}, and tells nobody"
