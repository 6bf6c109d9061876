"""The network between agents and coordinators in a life: it delays, drops, doubles and reorders, and connections end.

Owns: the connections, and what is under way on them. First words come first on their connection, as with ZeroMQ.
Refuses to know: when it misbehaves (`faults`), and what the messages mean.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regroup.core.messages.agent_reports import AgentRegistered
from regroup.core.messages.events import Report
from regroup.core.messages.orders import Order
from regroup.lab.sim.lives.plan import Kind
from regroup.lab.sim.lives.story import brief
from regroup.lab.sim.model.linked_agents import LinkedAgent
from regroup.lab.sim.model.strangers import words

if TYPE_CHECKING:
    from regroup.lab.sim.lives.life import Life
    from regroup.lab.sim.lives.process import Process


@dataclass(frozen=True, slots=True)
class Line:
    """A connection of an agent to a coordinator's process."""

    number: int
    worker: str
    process: "Process"


class Network:
    def __init__(self, life: "Life") -> None:
        self._life = life
        self._lines: dict[int, Line] = {}
        self._arrivals: dict[tuple[int, bool], float] = {}  # of the last message, by line and direction

    def connect(self, agent: LinkedAgent, process: "Process") -> None:
        self._life.connect(agent)
        self._lines[agent.link] = Line(agent.link, agent.name, process)

    def carry(self, worker: str, number: int, message: Report | Order, up: bool = False) -> None:
        """One message on its way. First words come first on their connection; nothing else keeps its place."""
        life, faults = self._life, self._life.faults
        first = isinstance(message, AgentRegistered)
        if faults.loses(worker, up) and not first:
            return
        arrival = life.now + faults.delay()
        if not faults.lasts(Kind.JUMBLED):
            arrival = self._arrivals[number, up] = max(arrival, self._arrivals.get((number, up), 0.0))
        arrive = self._arrive_up if up else self._arrive_down
        life.loop.at(arrival, arrive, number, message)
        if not first and faults.doubles():
            life.loop.at(arrival + faults.delay(), arrive, number, message)

    def _arrive_up(self, number: int, report: Report) -> None:
        line = self._lines.get(number)
        if line is None or not line.process.leads:
            return
        process = line.process
        if not process.thawed.is_set():
            process.late.append(lambda: self._arrive_up(number, report))
            return
        links, worker = process.hub.links, line.worker
        if isinstance(report, AgentRegistered):
            if links.get(worker, 0) > number:
                return  # a newer connection took its place
            links[worker] = number
        elif links.get(worker) != number:
            if links.get(worker, 0) < number:
                self._life.later(0.01, self._arrive_up, number, report)  # its first words are under way
            return
        self._life.story.tell(self._life.now, f"{worker} says", brief(report))
        assert process.hub.on_report is not None
        process.hub.on_report(worker, report)

    def _arrive_down(self, number: int, order: Order) -> None:
        line = self._lines.get(number)
        agent = self._life.agents[line.worker] if line is not None else None
        if agent is None or not agent.alive or agent.link != number:
            return
        self._life.story.tell(self._life.now, f"{agent.name} hears", brief(order))
        self._life.obey(agent, order)

    def drop(self, number: int) -> None:
        """The agent's end is gone; the coordinator's is noticed later."""
        line = self._lines.get(number)
        if line is None:
            return
        agent = self._life.agents[line.worker]
        if agent.link == number:
            agent.link = 0
        self._life.later(self._life.dice.uniform(0.0, 1.0), self._notice, number)

    def intrude(self, worker: str, older: bool) -> None:
        """Another release's agent connects under this name, which its own agent's connection does not outlive."""
        leader = self._life.leader
        if leader is None or not leader.thawed.is_set() or leader.hub.on_report is None:
            return
        self.drop(self._life.agents[worker].link)
        for report in words(older):
            self._life.story.tell(self._life.now, f"{worker} says", brief(report))
            leader.hub.on_report(worker, report)

    def drop_all(self, process: "Process") -> None:
        """The coordinator's process is gone, as each agent notices in its time."""
        for number in [line.number for line in self._lines.values() if line.process is process]:
            self._life.later(self._life.dice.uniform(0.0, 0.3), self.drop, number)

    def _notice(self, number: int) -> None:
        line = self._lines.pop(number, None)
        if line is None or not line.process.leads:
            return
        if not line.process.thawed.is_set():
            self._lines[number] = line
            line.process.late.append(lambda: self._notice(number))
            return
        hub = line.process.hub
        if hub.links.get(line.worker) == number:
            del hub.links[line.worker]
            assert hub.on_closed is not None
            hub.on_closed(line.worker)
