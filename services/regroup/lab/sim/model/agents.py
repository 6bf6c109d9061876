"""Agents, as the protocol sees them: who registers, beats, spawns, passes on and kills, and the death of each.

Owns: an agent's own state, and what it does about each order; it follows worker/agent.py and worker/guardian.py event
by event.
Refuses to know: how a report travels. It does not model: sockets, processes, pipes that are full.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from regroup.core.cluster import Policy
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
from regroup.core.workers import Hang, TrainerStatus, Worker
from regroup.lab.sim.model import saving_rules
from regroup.lab.sim.model.steps import StepLoops
from regroup.lab.sim.model.trainer import Trainer
from regroup.worker import session as s
from regroup.worker.untold import Untold, answered, left_by


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
