"""One life of a cluster in virtual time: agents and trainers over a network, coordinators over a store, and faults.

Owns: the network between agents and coordinators, the pace of the step loops, and the users who submit and stop jobs.
Refuses to know: which faults there will be (`plan`), how they strike (`faults`), what must hold (`rules`).
It does not model: what travels between trainers, bit by bit; user code; files.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from regroup.coordinator.memory_store import MemoryStore
from regroup.coordinator.persistence import StoreUnavailable
from regroup.core import messages as m
from regroup.core.cluster import Refusal
from regroup.core.decide import Decision
from regroup.core.jobs import Job
from regroup.core.workers import Worker
from regroup.lab.sim.agents import Agent, Agents
from regroup.lab.sim.faults import Faults
from regroup.lab.sim.plan import NAMES, SECONDS, Kind, Plan
from regroup.lab.sim.process import Process
from regroup.lab.sim.rules import Rules
from regroup.lab.sim.steps import Trainer
from regroup.lab.sim.story import Story
from regroup.lab.sim.virtual import VirtualLoop, sealed

START = 1000.0  # of the virtual clock
HEALING = 150.0  # seconds in which every job must end once all is well
FLUSH = 0.25  # seconds between reports of progress
RESTART = (0.3, 2.0)  # seconds until a supervisor starts again what ended


class Stuck(AssertionError):
    """All is well again, and yet a job does not end."""


@dataclass(frozen=True, slots=True)
class Line:
    """A connection of an agent to a coordinator's process."""

    number: int
    worker: str
    process: Process


class Life(Agents):
    def __init__(self, plan: Plan, story: Story) -> None:
        self.plan, self.policy, self.story = plan, plan.policy, story
        self.loop = VirtualLoop(START)
        self.dice = Random(~plan.seed)
        super().__init__(NAMES[: plan.workers], Rules())
        self.store = MemoryStore(clock=self.loop.time)
        self.jobs: dict[str, Job] = {}  # durable
        self.workers: dict[str, Worker] = {}  # durable
        self.faults = Faults(self)
        self.processes: list[Process] = []
        self.lines: dict[int, Line] = {}
        self.arrivals: dict[tuple[int, bool], float] = {}  # of the last message, by line and direction
        self.draining: set[str] = set()  # incarnations whose pipe is about to be read
        self.flushed: dict[str, float] = {}  # when an incarnation last told its progress
        self.reasons: set[str] = set()
        self.decided_at = 0.0
        self.over: asyncio.Future[None] = self.loop.create_future()

    # --- clocks

    @property
    def now(self) -> float:
        return self.loop.time()

    @property
    def seconds(self) -> float:
        """Of virtual time, so far."""
        return self.now - START

    def clock(self, worker: str) -> float:
        """The clock of a worker's machine; "": of the coordinators'."""
        index = NAMES.index(worker) if worker else -1
        return self.now * (1 + self.plan.drifts[index]) + self.plan.skews[index]

    # --- one life

    def run(self) -> None:
        """Raises AssertionError for a broken rule, Stuck, and whatever the code under test raises."""
        with sealed():
            self.loop.set_exception_handler(lambda loop, context: self.fail(_error_of(context)))
            try:
                self.loop.run_until_complete(self._live())
            finally:
                self._end()

    async def _live(self) -> None:
        self.start_coordinator()
        for number, agent in enumerate(self.agents.values()):
            self._later(self.dice.uniform(0.0, 0.3) if number else 0.0, self.begin_agent, agent)
        users = [self.loop.create_task(self._submit(f"j{number}", spec)) for number, spec in enumerate(self.plan.jobs)]
        self.faults.begin()
        self._later(SECONDS + 1.0, self._heal)
        self._watch(START + SECONDS + HEALING)
        await self.over
        for user in users:
            user.cancel()

    def fail(self, error: BaseException) -> None:
        if not self.over.done():
            self.over.set_exception(error)

    def _end(self) -> None:
        """Nothing may be left that asks the machine when it is collected."""
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.set_exception_handler(lambda loop, context: None)
        self.loop.run_until_complete(asyncio.sleep(0.1))
        self.loop.close()

    def _heal(self) -> None:
        """No more faults; each job must end."""
        self.story.tell(self.now, "world", "heals")
        self.faults.end()

    def _watch(self, deadline: float) -> None:
        if self.over.done():
            return
        if self.leader is not None:
            for name, worker in self.workers.items():
                if worker.quarantined:
                    self.loop.create_task(self._command(self.leader, m.ClearWorker(name)))
        submitted = len(self.jobs) == len(self.plan.jobs)
        if submitted and all(job.ended for job in self.jobs.values()):
            self.rules.over(self)
            self.over.set_result(None)
        elif self.now > deadline:
            stuck = [(job.id, str(job.phase), job.reason) for job in self.jobs.values() if not job.ended]
            self.fail(Stuck(f"{HEALING:g} s after all is well: {stuck or 'a submission is not there'}"))
        else:
            self._later(0.25, self._watch, deadline)

    def _later(self, seconds: float, what: Callable[..., object], *given: Any) -> None:
        self.loop.call_later(seconds, what, *given)

    # --- users

    async def _submit(self, job: str, spec: Any) -> None:
        while job not in self.jobs:
            if self.leader is not None:
                await self._command(self.leader, m.SubmitJob(job, spec, self.now))
            await asyncio.sleep(0.5)

    def stop_job(self, job: str) -> None:
        if self.leader is not None and job in self.jobs and not self.jobs[job].ended:
            self.loop.create_task(self._command(self.leader, m.StopJob(job)))

    async def _command(self, process: Process, command: m.Command) -> None:
        assert process.shell is not None
        try:
            async with asyncio.timeout(2.0):
                await process.shell.command(command)
        except (StoreUnavailable, Refusal, TimeoutError):
            return  # whoever asked may ask again

    # --- coordinators

    @property
    def leader(self) -> Process | None:
        return next((one for one in reversed(self.processes) if one.leads), None)

    def start_coordinator(self, most: int = 1) -> None:
        """One more, unless `most` live: 2 where the first is only thought dead."""
        if sum(one.alive for one in self.processes) < most:
            self.processes.append(Process(self, len(self.processes) + 1))

    def died(self, process: Process) -> None:
        """Its connections close, as both sides notice in their time; its supervisor starts it again."""
        for number in [line.number for line in self.lines.values() if line.process is process]:
            self._later(self.dice.uniform(0.0, 0.3), self.drop_line, number)
        if not self.over.done():
            self._later(self.dice.uniform(*RESTART), self.start_coordinator)

    def durable(self, process: Process, saved: bool) -> None:
        """What it decided is in the store, or need not be: the rules look at it, once."""
        if process.pending is None:
            return
        (before, decision), process.pending = process.pending, None
        self.decided_at = process.clock()
        if saved:
            self.jobs, self.workers = dict(decision.cluster.jobs), dict(decision.cluster.workers)
        self.rules.decided(self, before, decision)

    def adopted(self, decision: Decision) -> None:
        for note in decision.notes:
            self.reasons.add(note.reason)
            self.story.tell(self.now, note.job or note.worker or "cluster", f"{note.kind}: {note.reason}")
            self.faults.border(note.kind, note.worker)

    # --- the network

    def send(self, agent: Agent, report: m.Report) -> None:
        self.carry(agent.name, agent.link, report, up=True)

    def carry(self, worker: str, number: int, message: Any, up: bool = False) -> None:
        """One message on its way. First words come first on their connection; nothing else keeps its place."""
        first = isinstance(message, m.AgentRegistered)
        if self.faults.loses(worker, up) and not first:
            return
        arrival = self.now + self.faults.delay(self.dice)
        if not self.faults.lasts(Kind.JUMBLED):
            arrival = max(arrival, self.arrivals.get((number, up), 0.0))
            self.arrivals[number, up] = arrival
        arrive = self._arrive_up if up else self._arrive_down
        self.loop.call_at(arrival, arrive, number, message)
        if not first and self.faults.doubles(self.dice):
            self.loop.call_at(arrival + self.faults.delay(self.dice), arrive, number, message)

    def _arrive_up(self, number: int, report: m.Report) -> None:
        line = self.lines.get(number)
        if line is None or not line.process.leads:
            return
        process = line.process
        if not process.thawed.is_set():
            process.late.append(lambda: self._arrive_up(number, report))
            return
        links, worker = process.hub.links, line.worker
        if isinstance(report, m.AgentRegistered):
            if links.get(worker, 0) > number:
                return  # a newer connection took its place
            links[worker] = number
        elif links.get(worker) != number:
            if links.get(worker, 0) < number:
                self._later(0.01, self._arrive_up, number, report)  # its first words are under way
            return
        self.story.tell(self.now, f"{worker} says", _brief(report))
        assert process.hub.on_report is not None
        process.hub.on_report(worker, report)

    def _arrive_down(self, number: int, order: m.Order) -> None:
        line = self.lines.get(number)
        agent = self.agents[line.worker] if line is not None else None
        if agent is None or not agent.alive or agent.link != number:
            return
        self.story.tell(self.now, f"{agent.name} hears", _brief(order))
        self.obey(agent, order)

    def drop_line(self, number: int) -> None:
        """The agent's end is gone; the coordinator's is noticed later."""
        line = self.lines.get(number)
        if line is None:
            return
        agent = self.agents[line.worker]
        if agent.link == number:
            agent.link = 0
        self._later(self.dice.uniform(0.0, 1.0), self._notice_closed, number)

    def _notice_closed(self, number: int) -> None:
        line = self.lines.pop(number, None)
        if line is None or not line.process.leads:
            return
        if not line.process.thawed.is_set():
            self.lines[number] = line
            line.process.late.append(lambda: self._notice_closed(number))
            return
        hub = line.process.hub
        if hub.links.get(line.worker) == number:
            del hub.links[line.worker]
            assert hub.on_closed is not None
            hub.on_closed(line.worker)

    # --- agents and trainers

    def begin_agent(self, agent: Agent) -> None:
        if not agent.alive and not self.over.done():
            self.start_agent(agent)
            self._beat(agent, agent.boot)

    def lose_agent(self, agent: Agent, seconds: float) -> None:
        """It is gone with its trainer, and comes back."""
        number = agent.link
        self.kill_agent(agent)
        self.drop_line(number)
        self._later(seconds, self.begin_agent, agent)

    def _beat(self, agent: Agent, boot: str) -> None:
        if agent.boot != boot or self.over.done():
            return
        leader = self.leader
        if agent.link:
            self.heartbeat(agent)
        elif leader is not None and leader.thawed.is_set() and not self.faults.lasts(Kind.ISOLATE, agent.name):
            number = self.numbers + 1  # what `connect` will call it
            self.lines[number] = Line(number, agent.name, leader)
            self.connect(agent)
        self._later(self.policy.heartbeat_interval if agent.link else 0.2, self._beat, agent, boot)

    def born(self, trainer: Trainer) -> None:
        self._later(self.dice.uniform(0.5, 1.5) * self.plan.pace, self._turn, trainer)

    def tell(self, agent: Agent, order: Any) -> None:
        super().tell(agent, order)
        self._drain(agent)

    def _drain(self, agent: Agent) -> None:
        """What a trainer says is read by its agent a moment later, in its order."""
        trainer = agent.trainer
        if trainer is not None and trainer.outbox and trainer.member.incarnation not in self.draining:
            self.draining.add(trainer.member.incarnation)
            self._later(self.dice.uniform(0.0002, 0.003), self._hear_all, agent, trainer)

    def _hear_all(self, agent: Agent, trainer: Trainer) -> None:
        self.draining.discard(trainer.member.incarnation)
        while agent.trainer is trainer and trainer.outbox:
            self.hear(agent)

    def _turn(self, trainer: Trainer) -> None:
        """One move of a step loop, if it has one, and when it looks again."""
        agent = self.agents[trainer.member.worker]
        if agent.trainer is not trainer or self.over.done():
            return
        before, moved = trainer.loop.at, False
        if not self.faults.lasts(Kind.STALL, agent.name):
            moved = self._move(agent, trainer)
        self._later(self.dice.uniform(0.5, 1.5) * (self.plan.pace if moved else 0.05), self._turn, trainer)
        if not trainer.hung and self.now - self.flushed.get(trainer.member.incarnation, 0.0) > FLUSH:
            self.flushed[trainer.member.incarnation] = self.now
            self.post_progress(trainer)
        self._drain(agent)
        if trainer.loop.at != before:
            self.story.tell(self.now, agent.name, f"is {trainer.loop.at}")
            self.faults.border(trainer.loop.at, agent.name)

    def _move(self, agent: Agent, trainer: Trainer) -> bool:
        if trainer.loop.at == "writing" and self.faults.lasts(Kind.UNWRITABLE, agent.name):
            self.fail_to_write(trainer)
            return True
        moves = self.moves(trainer)
        if moves:
            moves[0 if self.dice.random() < 0.9 else -1]()
            return True
        if trainer.loop.at in ("connected", "contributed") and self.forsaken(trainer) and not trainer.hung:
            self.lose_neighbour(trainer)
            self.leave(trainer, "a neighbour is gone")
            return True
        return False


def _brief(message: Any) -> str:
    """The kind of a message and what tells it from others of its kind."""
    told = [getattr(message, name) for name in ("generation", "sequence", "step", "cause") if hasattr(message, name)]
    if isinstance(message, m.Form):
        told = [message.formation.generation]
    if isinstance(message, m.Heartbeat) and message.trainer is not None:
        told += [str(message.trainer.phase), message.trainer.promised, message.trainer.version]
    return " ".join([type(message).__name__, *map(str, told)])


def _error_of(context: dict[str, Any]) -> BaseException:
    return context.get("exception") or AssertionError(context["message"])
