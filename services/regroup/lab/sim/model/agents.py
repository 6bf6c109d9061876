"""Agents, as the protocol sees them: who registers, beats, spawns, passes on and kills, and the death of each.

Owns: an agent's own state, and what it does about each order; it follows worker/agent.py and worker/guardian.py event
by event.
Refuses to know: how a report travels. It does not model: sockets, processes, pipes that are full.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from regroup.core.cluster import Cluster, Policy
from regroup.core.jobs import Member
from regroup.core.messages.agent_reports import AgentRegistered, Discarded, Heartbeat, TrainerExited
from regroup.core.messages.events import Report
from regroup.core.messages.orders import (
    Discard,
    Form,
    Go,
    Halt,
    Heard,
    Kill,
    Order,
    Prepare,
    Release,
    Save,
    TrainerOrder,
)
from regroup.core.messages.trainer_reports import StepsCommitted
from regroup.core.workers import Hang, TrainerStatus, Worker
from regroup.lab.sim.model import saving_rules
from regroup.lab.sim.model.steps import StepLoops
from regroup.lab.sim.model.trainer import Trainer
from regroup.worker import session as s
from regroup.worker.lease_ledger import LeaseLedger
from regroup.worker.untold import Untold, answered, left_by

LATEST = 8  # reports of measurements that an agent sends again on a new connection


@dataclass(slots=True)
class Agent:
    name: str
    host: str = "h"  # the machine that it runs on
    boot: str = ""
    link: int = 0  # the number of its connection; 0: none
    trainer: Trainer | None = None
    status: TrainerStatus | None = None  # what the trainer told last
    untold: Untold = ()  # what its earlier trainers left
    leaving: bool = False  # it was asked to end, and waits until it may
    hang: Hang | None = None  # its word of this trainer

    @property
    def alive(self) -> bool:
        return bool(self.boot)


AnAgent = TypeVar("AnAgent", bound=Agent)


class Agents(StepLoops, Generic[AnAgent]):
    """The workers' side of a simulation: agents over their trainers."""

    policy: Policy
    workers: Mapping[str, Worker]  # durable
    decided_at: float  # the coordinator's clock at its last decision

    def __init__(self, agents: Iterable[AnAgent]) -> None:
        super().__init__()
        self.agents = {agent.name: agent for agent in agents}

    @abstractmethod
    def report(self, agent: AnAgent, report: Report) -> None:
        """Say this to the coordinator, now or when there is a connection."""

    @abstractmethod
    def heartbeat(self, agent: AnAgent) -> None:
        """Say what the agent knows of its trainer."""

    @abstractmethod
    def number(self, agent: AnAgent) -> int:
        """One that nothing else of this agent has."""

    @abstractmethod
    def go(self, agent: AnAgent) -> None:
        """It was asked to end, and ends."""

    def born(self, trainer: Trainer) -> None:
        """A trainer begins to prepare."""

    def spoke(self, agent: AnAgent) -> None:
        """Its trainer ends, and told what it will ever tell."""

    def position(self, trainer: Trainer) -> tuple[int | None, int | None]:
        """The step and the shard in whose passes it is; None, None: in none."""
        return None, None

    def trainers(self) -> Iterator[Trainer]:
        return (agent.trainer for agent in self.agents.values() if agent.trainer is not None)

    def living(self, member: Member) -> Trainer | None:
        trainer = self.agents[member.worker].trainer
        return trainer if trainer is not None and trainer.member == member else None

    def start_agent(self, agent: AnAgent) -> None:
        agent.boot = f"boot{self.number(agent)}"

    def kill_agent(self, agent: AnAgent) -> None:
        """Its trainer dies with it."""
        agent.boot, agent.link, agent.trainer, agent.status = "", 0, None, None
        agent.leaving, agent.hang, agent.untold = False, None, ()

    def obey(self, agent: AnAgent, order: Order) -> None:
        trainer = agent.trainer
        match order:
            case Go(boot=boot) if agent.leaving and boot == agent.boot:
                self.go(agent)
            case Prepare(job=job) if trainer is None and not agent.leaving:
                assert job in self.jobs, f"{agent.name} is to prepare for {job}, which is not durable"
                member = Member(agent.name, f"i{self.number(agent)}")
                agent.trainer = Trainer(job, s.Session(job=job, member=member, address=f"{agent.name}:1"))
                agent.status = agent.trainer.session.status
                self.heartbeat(agent)
                self.born(agent.trainer)
            case Halt(job=job) | Form(job=job) | Save(job=job) if agent.status and agent.status.job == job:
                self.tell(agent, order)
            case Release(job=job) if agent.status and agent.status.job == job:
                self.end_trainer(agent, asked=True)
            case Discard(job=job, paths=paths):
                self.ghosts.deleted.update(paths, self.ghosts.let_go_by(order))
                self.report(agent, Discarded(job=job, paths=paths))
            case Kill(incarnation=incarnation) if trainer and trainer.member.incarnation == incarnation:
                self.end_trainer(agent, asked=True)

    def tell(self, agent: AnAgent, order: TrainerOrder) -> None:
        if agent.trainer is not None:
            agent.trainer.inbox.append(order)
            self.read_orders(agent)

    def read_orders(self, agent: AnAgent) -> None:
        while agent.trainer and not agent.trainer.hung and agent.trainer.inbox:
            self.take(agent.trainer, agent.trainer.inbox.popleft())

    def hear(self, agent: AnAgent) -> None:
        """One message of the trainer's pipe."""
        assert agent.trainer is not None
        message = agent.trainer.outbox.popleft()
        if isinstance(message, TrainerStatus):
            before, agent.status = agent.status, message
            if before is None or message.news != before.news:
                self.heartbeat(agent)
        else:
            self.report(agent, message)

    def forget(self, agent: AnAgent, answer: Heard) -> None:
        """A coordinator knows these files."""
        for one in agent.untold:
            known = [file.path for file in one.written if file.path in answer.settled]
            saving_rules.forgotten(self.ghosts, self.jobs.get(one.job), known)
        agent.untold = answered(agent.untold, answer.settled)

    def end_trainer(
        self, agent: AnAgent, asked: bool = False, last_words: bool = True, cause: str = "killed by SIGKILL"
    ) -> None:
        trainer = agent.trainer
        assert trainer is not None
        while last_words and trainer.outbox:
            self.hear(agent)
        self.spoke(agent)
        agent.untold = left_by(agent.untold, agent.status)
        agent.trainer, agent.status, agent.hang = None, None, None
        step, shard = self.position(trainer)
        self.report(agent, TrainerExited(**trainer.who, cause=cause, asked=asked, step=step, shard=shard))
        self.heartbeat(agent)


@dataclass(slots=True)
class LinkedAgent(Agent):
    """An agent, and what it keeps for its connection to the coordinator."""

    sequence: int = 0  # of its last heartbeat
    leases: LeaseLedger = field(default_factory=LeaseLedger)  # by its own clock
    ended: list[tuple[int, TrainerStatus]] = field(default_factory=list)  # the last heartbeat before each end
    beats: dict[int, float] = field(default_factory=dict)  # when each heartbeat left, which no agent remembers
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

    def obey(self, agent: ALinkedAgent, order: Order) -> None:
        if not isinstance(order, Heard):
            super().obey(agent, order)
            return
        self.forget(agent, order)
        if (renewed := agent.leases.renewed_by(order)) is not None:
            left = agent.beats[order.sequence]
            assert renewed.sent == left, f"a lease counts from {renewed.sent}, and its heartbeat left at {left}"
            self.tell(agent, renewed)


def said_by(agent: Agent, sequence: int, trainer: TrainerStatus | None, pace: float | None = None) -> Heartbeat:
    return Heartbeat(
        boot=agent.boot,
        sequence=sequence,
        trainer=trainer,
        leaving=agent.leaving,
        hang=agent.hang,
        pace=pace,
        left=agent.untold,
    )


def first_words(agent: Agent) -> AgentRegistered:
    return AgentRegistered(boot=agent.boot, device="cpu", host=agent.host, pid=1, version="1")
