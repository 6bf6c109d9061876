"""A cluster in one process: the real `decide`, the real `session.handle`, and all around them a world that misbehaves.

Owns: the network (it delays, drops, doubles and reorders), the agents, the coordinator's crashes, the clock; the
trainers are in `steps`. What must hold is in `rules`, which is told of everything that happens here.
It does not model: sockets, processes, a network that doubles or reorders the first words of connections (ZeroMQ's own
does neither). Nothing in it chooses; whoever drives it does.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from steps import StepLoops, Trainer

from regroup.core import messages as m
from regroup.core.cluster import Cluster, JobEnded, Policy
from regroup.core.decide import decide
from regroup.core.jobs import Job, JobSpec, Member, Version
from regroup.core.workers import TrainerStatus, Worker
from regroup.worker import session as s

POLICY = Policy(
    heartbeat_interval=0.5,
    detached_limit=20.0,
    detached_margin=2.0,
    leader_lease=1.0,
    halt_limit=2.0,
    form_limit=3.0,
    absent_limit=6.0,
    save_retry=0.5,
    error_limit=1000,
)
SPEC = JobSpec(task="digits", steps=4, global_batch=8, shards=4, max_workers=3, step_timeout=5.0, max_restarts=1000)
CROWD = 12  # messages under way on one link; beyond it the network loses the oldest heartbeat or its answer
BEATS = (m.Heartbeat, m.Heard)


@dataclass
class Agent:
    name: str
    boot: str = ""
    link: int = 0  # the number of its connection; 0: none
    sequence: int = 0
    sent: dict[int, float] = field(default_factory=dict)
    unsent: list[m.Report] = field(default_factory=list)
    trainer: Trainer | None = None
    status: TrainerStatus | None = None
    reports: list[tuple[int, m.Report]] = field(default_factory=list)  # under way to the coordinator
    orders: list[m.Order] = field(default_factory=list)  # under way to the agent
    heard: int = 0  # the connection whose first words the coordinator heard; 0: none, or it noticed its end

    @property
    def alive(self) -> bool:
        return bool(self.boot)


class World(StepLoops):
    def __init__(self, workers: int, rules: Any = None, policy: Policy = POLICY) -> None:
        super().__init__(rules)
        self.policy = policy
        self.cluster: Cluster | None = None  # None: the coordinator is down
        self.jobs: dict[str, Job] = {}  # durable
        self.workers: dict[str, Worker] = {}  # durable
        self.doom: str | None = None  # the next decision dies "unsaved" or "unsent"
        self.agents = {name: Agent(name) for name in "abcdefgh"[:workers]}
        self.numbers = 0
        self.start_coordinator()

    def lives(self, member: Member) -> Trainer | None:
        trainer = self.agents[member.worker].trainer
        return trainer if trainer is not None and trainer.member == member else None

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    # --- the coordinator

    def start_coordinator(self) -> None:
        self.cluster = Cluster(started=self.now, jobs=dict(self.jobs), workers=dict(self.workers))
        for agent in self.agents.values():
            agent.heard = 0

    def crash_coordinator(self) -> None:
        self.cluster, self.doom = None, None
        for agent in self.agents.values():
            agent.link = 0
            agent.reports.clear()

    def decide(self, event: m.Event) -> None:
        if self.cluster is None:
            return
        decision = decide(self.cluster, event, self.now, self.policy)
        doom, self.doom = self.doom, None
        if doom == "unsaved":
            self.crash_coordinator()
            return
        self.rules.decided(self, self.cluster, decision)
        self.cluster = decision.cluster
        self.jobs, self.workers = dict(decision.cluster.jobs), dict(decision.cluster.workers)
        if doom == "unsent":
            self.crash_coordinator()
            return
        for name, order in decision.orders:
            if self.agents[name].heard and self.agents[name].heard == self.agents[name].link:
                self.post(self.agents[name].orders, order)

    def command(self, command: m.Command) -> None:
        try:
            self.decide(command)
        except JobEnded:
            assert isinstance(command, m.StopJob)
            assert self.jobs[command.job].ended

    def tick(self, seconds: float) -> None:
        self.now += seconds
        self.decide(m.Tick())

    # --- the network

    def post(self, queue: list[Any], message: Any) -> None:
        queue.append(message)
        if len(queue) > CROWD:
            bare = [one[1] if isinstance(one, tuple) else one for one in queue]
            del queue[next((i for i, one in enumerate(bare) if isinstance(one, BEATS)), 1)]

    def connect(self, agent: Agent) -> None:
        """The first words, a heartbeat, and all that waited for a connection."""
        agent.link = self.number()
        register = m.AgentRegistered(boot=agent.boot, device="cpu", host="h", pid=1, version="1")
        agent.reports.insert(0, (agent.link, register))
        self.heartbeat(agent)
        waiting, agent.unsent = agent.unsent, []
        for report in waiting:
            self.report(agent, report)

    def report(self, agent: Agent, report: m.Report) -> None:
        if agent.link:
            self.post(agent.reports, (agent.link, report))
        elif not isinstance(report, m.StepsCommitted | m.Heartbeat):
            agent.unsent.append(report)

    def deliver_report(self, agent: Agent, index: int, again: bool = False) -> None:
        """First words come first on their connection; nothing else keeps its place."""
        index %= len(agent.reports)
        link, report = agent.reports[index]
        if link > agent.heard and not isinstance(report, m.AgentRegistered):
            words = [i for i, (n, r) in enumerate(agent.reports) if n == link and isinstance(r, m.AgentRegistered)]
            index = words[0] if words else index
            report = agent.reports[index][1]
        registers = isinstance(report, m.AgentRegistered)
        if not again or registers:
            del agent.reports[index]
        stale = link < agent.heard if registers else link > agent.heard
        if stale:
            return
        if registers:
            agent.heard = link
        self.decide(m.Reported(agent.name, report))

    def notice_closed(self, agent: Agent) -> None:
        """The coordinator's end of a connection that is gone; what it had sent was read before, or is lost."""
        agent.reports = [(link, report) for link, report in agent.reports if link != agent.heard]
        agent.heard = 0
        self.decide(m.Disconnected(agent.name))

    def deliver_order(self, agent: Agent, index: int, again: bool = False) -> None:
        index %= len(agent.orders)
        order = agent.orders[index] if again else agent.orders.pop(index)
        if agent.alive:
            self.obey(agent, order)

    # --- an agent, as in worker/agent.py

    def start_agent(self, agent: Agent) -> None:
        agent.boot = f"boot{self.number()}"
        agent.sequence, agent.sent, agent.unsent = 0, {}, []

    def kill_agent(self, agent: Agent) -> None:
        """Its trainer dies with it."""
        agent.boot, agent.link, agent.trainer, agent.status = "", 0, None, None

    def heartbeat(self, agent: Agent) -> None:
        agent.sequence += 1
        agent.sent[agent.sequence] = self.now
        self.report(agent, m.Heartbeat(boot=agent.boot, sequence=agent.sequence, trainer=agent.status))

    def obey(self, agent: Agent, order: m.Order) -> None:
        trainer = agent.trainer
        match order:
            case m.Heard(sequence=sequence, generation=generation):
                sent = agent.sent.pop(sequence, None)
                if sent is not None and generation:
                    self.tell(agent, m.RenewLease(generation, sent))
            case m.Prepare(job=job) if trainer is None:
                member = Member(agent.name, f"i{self.number()}")
                agent.trainer = Trainer(job, s.Session(job=job, member=member, address=f"{agent.name}:1"))
                agent.status = agent.trainer.session.status
                self.heartbeat(agent)
            case m.Halt(job=job) | m.Form(job=job) | m.Save(job=job) if agent.status and agent.status.job == job:
                self.tell(agent, order)
            case m.Release(job=job) if agent.status and agent.status.job == job:
                self.end_trainer(agent, asked=True)
            case m.Kill(incarnation=incarnation) if trainer and trainer.member.incarnation == incarnation:
                self.end_trainer(agent, asked=True)

    def tell(self, agent: Agent, order: Any) -> None:
        if agent.trainer is not None:
            agent.trainer.inbox.append(order)
            self.read_orders(agent)

    def read_orders(self, agent: Agent) -> None:
        while agent.trainer and not agent.trainer.hung and agent.trainer.inbox:
            self.take(agent.trainer, agent.trainer.inbox.popleft())

    def hear(self, agent: Agent) -> None:
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
        self, agent: Agent, asked: bool = False, last_words: bool = True, cause: str = "killed by SIGKILL"
    ) -> None:
        trainer = agent.trainer
        assert trainer is not None
        while last_words and trainer.outbox:
            self.hear(agent)
        agent.trainer, agent.status = None, None
        exited = m.TrainerExited(job=trainer.job, incarnation=trainer.member.incarnation, cause=cause, asked=asked)
        self.report(agent, exited)
        self.heartbeat(agent)


def spec(**changes: Any) -> JobSpec:
    return replace(SPEC, **changes)


__all__ = ["POLICY", "Agent", "Trainer", "Version", "World", "spec"]
