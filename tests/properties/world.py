"""A cluster in one process: the real `decide`, the real `session.handle`, and all around them a world that misbehaves.

Owns: the network (it delays, drops, doubles and reorders), the coordinator's crashes, the clock. The agents and the
trainers are the simulator's, and so are the rules, which are told of everything that happens here.
It does not model: sockets, processes, a network that doubles or reorders the first words of connections (ZeroMQ's own
does neither). Nothing in it chooses; whoever drives it does.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from regroup.core.cluster import Cluster, Conflict, JobEnded, Policy
from regroup.core.decide import decide
from regroup.core.jobs import Job
from regroup.core.messages.agent_reports import AgentLeft, AgentRegistered, Heartbeat
from regroup.core.messages.commands import Command, PauseJob, ResumeJob, StopJob
from regroup.core.messages.events import Disconnected, Event, Report, Reported, Tick
from regroup.core.messages.orders import Heard, Order
from regroup.core.spec import JobSpec
from regroup.core.workers import Worker
from regroup.lab.sim.model import decision_rules, limits
from regroup.lab.sim.model.linked_agents import LinkedAgent, LinkedAgents

POLICY = replace(limits.POLICY, detached_limit=20.0, detached_margin=2.0, absent_limit=6.0)
CROWD = 12  # messages under way on one link; beyond it the network loses the oldest heartbeat or its answer
BEATS = (Heartbeat, Heard)


@dataclass
class Connected(LinkedAgent):
    """An agent and what is under way between it and the coordinator."""

    reports: list[tuple[int, Report]] = field(default_factory=list)  # to the coordinator
    orders: list[Order] = field(default_factory=list)  # to the agent
    heard: int = 0  # the connection whose first words the coordinator heard; 0: none, or it noticed its end


class World(LinkedAgents[Connected]):
    def __init__(self, workers: int, policy: Policy = POLICY) -> None:
        super().__init__(map(Connected, limits.NAMES[:workers]))
        self.now = 1000.0
        self.policy = policy
        self.cluster: Cluster | None = None  # None: the coordinator is down
        self.jobs: dict[str, Job] = {}  # durable
        self.workers: dict[str, Worker] = {}  # durable
        self.doom: str | None = None  # the next decision dies "unsaved" or "unsent"
        self.start_coordinator()

    def clock(self, worker: str) -> float:
        return self.now

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

    def decide(self, event: Event) -> None:
        if self.cluster is None:
            return
        decision = decide(self.cluster, event, self.now, self.policy)
        doom, self.doom = self.doom, None
        if doom == "unsaved":
            self.crash_coordinator()
            return
        self.decided_at = self.now
        self.jobs, self.workers = dict(decision.cluster.jobs), dict(decision.cluster.workers)
        decision_rules.decided(self.ghosts, self, self.cluster, decision)
        self.cluster = decision.cluster
        if doom == "unsent":
            self.crash_coordinator()
            return
        for name, order in decision.orders:
            if self.agents[name].heard and self.agents[name].heard == self.agents[name].link:
                self.post(self.agents[name].orders, order)

    def command(self, command: Command) -> None:
        try:
            self.decide(command)
        except JobEnded:
            assert isinstance(command, StopJob | PauseJob | ResumeJob)
            assert self.jobs[command.job].ended
        except Conflict:
            assert isinstance(command, PauseJob | ResumeJob)

    def tick(self, seconds: float) -> None:
        self.now += seconds
        self.decide(Tick())

    # --- an agent that is asked to end

    def ask_to_end(self, agent: Connected) -> None:
        agent.leaving = True
        if agent.link:
            self.heartbeat(agent)

    def go(self, agent: Connected) -> None:
        """It says goodbye, which is under way when it is gone, or lost with its connection."""
        boot = agent.boot
        if agent.trainer is not None:
            self.end_trainer(agent, asked=True)
        if agent.link:
            self.send(agent, AgentLeft(boot=boot))
        self.kill_agent(agent)

    # --- the network

    def post(self, queue: list[Any], message: Any) -> None:
        queue.append(message)
        if len(queue) > CROWD:
            bare = [one[1] if isinstance(one, tuple) else one for one in queue]
            del queue[next((i for i, one in enumerate(bare) if isinstance(one, BEATS)), 1)]

    def send(self, agent: Connected, report: Report) -> None:
        if isinstance(report, AgentRegistered):
            agent.reports.insert(0, (agent.link, report))
        else:
            self.post(agent.reports, (agent.link, report))

    def deliver_report(self, agent: Connected, index: int, again: bool = False) -> None:
        """First words come first on their connection; nothing else keeps its place."""
        index %= len(agent.reports)
        link, report = agent.reports[index]
        if link > agent.heard and not isinstance(report, AgentRegistered):
            words = [i for i, (n, r) in enumerate(agent.reports) if n == link and isinstance(r, AgentRegistered)]
            index = words[0] if words else index
            report = agent.reports[index][1]
        registers = isinstance(report, AgentRegistered)
        if not again or registers:
            del agent.reports[index]
        stale = link < agent.heard if registers else link > agent.heard
        if stale:
            return
        if registers:
            agent.heard = link
        self.decide(Reported(agent.name, report))

    def notice_closed(self, agent: Connected) -> None:
        """The coordinator's end of a connection that is gone; what it had sent was read before, or is lost."""
        agent.reports = [(link, report) for link, report in agent.reports if link != agent.heard]
        agent.heard = 0
        self.decide(Disconnected(agent.name))

    def deliver_order(self, agent: Connected, index: int, again: bool = False) -> None:
        index %= len(agent.orders)
        order = agent.orders[index] if again else agent.orders.pop(index)
        if agent.alive:
            self.obey(agent, order)


def spec(**changes: Any) -> JobSpec:
    return replace(limits.SPEC, **{"steps": 4, "step_timeout": 5.0} | changes)
