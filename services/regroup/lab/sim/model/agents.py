"""Agents, as the protocol sees them: who registers, beats, spawns, passes on and kills, and the death of each.

Owns: an agent's own state, and what it does about each order; it follows worker/agent.py event by event.
Refuses to know: how a report travels (`send`). It does not model: sockets, processes, pipes that are full.
"""

from dataclasses import dataclass, field
from typing import Any

from regroup.core import messages as m
from regroup.core.jobs import Member
from regroup.core.workers import TrainerStatus
from regroup.lab.sim.model.steps import StepLoops, Trainer
from regroup.worker import session as s


@dataclass(slots=True)
class Agent:
    name: str
    boot: str = ""
    link: int = 0  # the number of its connection; 0: none
    sequence: int = 0
    sent: dict[int, float] = field(default_factory=dict)
    unsent: list[m.Report] = field(default_factory=list)
    trainer: Trainer | None = None
    status: TrainerStatus | None = None

    @property
    def alive(self) -> bool:
        return bool(self.boot)


class Agents(StepLoops):
    """The workers' side of a world: agents over their trainers."""

    def __init__(self, names: str, rules: Any = None) -> None:
        super().__init__(rules)
        self.agents = {name: self.agent(name) for name in names}
        self.numbers = 0

    def agent(self, name: str) -> Any:
        return Agent(name)

    def send(self, agent: Any, report: m.Report) -> None:
        """Put a report on the agent's connection, which it has."""
        raise NotImplementedError

    def born(self, trainer: Trainer) -> None:
        """A trainer begins to prepare."""

    def position(self, trainer: Trainer) -> tuple[int | None, int | None]:
        """The step and the shard in whose passes it is; None, None: in none."""
        return None, None

    def lives(self, member: Member) -> Trainer | None:
        trainer = self.agents[member.worker].trainer
        return trainer if trainer is not None and trainer.member == member else None

    def number(self, agent: Any) -> int:
        """A number that nothing else of this agent has."""
        self.numbers += 1
        return self.numbers

    def start_agent(self, agent: Any) -> None:
        agent.boot = f"boot{self.number(agent)}"
        agent.sequence, agent.sent, agent.unsent = 0, {}, []

    def kill_agent(self, agent: Any) -> None:
        """Its trainer dies with it."""
        agent.boot, agent.link, agent.trainer, agent.status = "", 0, None, None

    def connect(self, agent: Any) -> None:
        """The first words, a heartbeat, and all that waited for a connection."""
        agent.link = self.number(agent)
        self.send(agent, m.AgentRegistered(boot=agent.boot, device="cpu", host="h", pid=1, version="1"))
        self.heartbeat(agent)
        waiting, agent.unsent = agent.unsent, []
        for report in waiting:
            self.report(agent, report)

    def report(self, agent: Any, report: m.Report) -> None:
        if agent.link:
            self.send(agent, report)
        elif not isinstance(report, m.StepsCommitted | m.Heartbeat):
            agent.unsent.append(report)

    def heartbeat(self, agent: Any) -> None:
        agent.sequence += 1
        agent.sent[agent.sequence] = self.clock(agent.name)
        self.report(agent, m.Heartbeat(boot=agent.boot, sequence=agent.sequence, trainer=agent.status))

    def obey(self, agent: Any, order: m.Order) -> None:
        trainer = agent.trainer
        match order:
            case m.Heard(sequence=sequence, generation=generation):
                sent = agent.sent.pop(sequence, None)
                if sent is not None and generation:
                    self.tell(agent, m.RenewLease(generation, sent))
            case m.Prepare(job=job) if trainer is None:
                member = Member(agent.name, f"i{self.number(agent)}")
                agent.trainer = Trainer(job, s.Session(job=job, member=member, address=f"{agent.name}:1"))
                agent.status = agent.trainer.session.status
                self.heartbeat(agent)
                self.born(agent.trainer)
            case m.Halt(job=job) | m.Form(job=job) | m.Save(job=job) if agent.status and agent.status.job == job:
                self.tell(agent, order)
            case m.Release(job=job) if agent.status and agent.status.job == job:
                self.end_trainer(agent, asked=True)
            case m.Kill(incarnation=incarnation) if trainer and trainer.member.incarnation == incarnation:
                self.end_trainer(agent, asked=True)

    def tell(self, agent: Any, order: Any) -> None:
        if agent.trainer is not None:
            agent.trainer.inbox.append(order)
            self.read_orders(agent)

    def read_orders(self, agent: Any) -> None:
        while agent.trainer and not agent.trainer.hung and agent.trainer.inbox:
            self.take(agent.trainer, agent.trainer.inbox.popleft())

    def hear(self, agent: Any) -> None:
        """One message of the trainer's pipe."""
        assert agent.trainer is not None
        message = agent.trainer.outbox.popleft()
        if isinstance(message, TrainerStatus):
            before, agent.status = agent.status, message
            if before is None or message.phase is not before.phase:
                self.heartbeat(agent)
        else:
            self.report(agent, message)

    def end_trainer(
        self, agent: Any, asked: bool = False, last_words: bool = True, cause: str = "killed by SIGKILL"
    ) -> None:
        trainer = agent.trainer
        assert trainer is not None
        while last_words and trainer.outbox:
            self.hear(agent)
        agent.trainer, agent.status = None, None
        step, shard = self.position(trainer)
        who: dict[str, Any] = {"job": trainer.job, "incarnation": trainer.member.incarnation}
        self.report(agent, m.TrainerExited(**who, cause=cause, asked=asked, step=step, shard=shard))
        self.heartbeat(agent)
