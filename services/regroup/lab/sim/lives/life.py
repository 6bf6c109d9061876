"""One life of a cluster in virtual time: agents and trainers over a network, coordinators over a store, and faults.

Owns: who is started and when, also again, and how long a life may last.
Refuses to know: what users ask for (`users`), which faults there will be (`plan`), when they strike (`faults`), what
must hold (`decision_rules`, `justice`, `preparing`, `sharing`, `waiting`), but that the store keeps what was decided
and every job ends.
It does not model: what travels between trainers, bit by bit; user code; what is in files.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from math import inf
from random import Random
from typing import Any

from regroup.coordinator.memory_store import MemoryStore
from regroup.core.cluster import Cluster
from regroup.core.decide import Decision
from regroup.core.jobs import Job, JobPhase, Member
from regroup.core.messages.agent_reports import AgentLeft, Discarded
from regroup.core.messages.events import Report
from regroup.core.messages.orders import Discard, Heard, Order
from regroup.core.workers import TrainerPhase, Worker
from regroup.lab.sim.lives.calm import Calm
from regroup.lab.sim.lives.faults import Faults
from regroup.lab.sim.lives.justice import Justice
from regroup.lab.sim.lives.network import Network
from regroup.lab.sim.lives.pace import Paced
from regroup.lab.sim.lives.plan import Kind, Plan
from regroup.lab.sim.lives.preparing import Preparing
from regroup.lab.sim.lives.process import Process
from regroup.lab.sim.lives.reasons import told
from regroup.lab.sim.lives.sharing import Sharing
from regroup.lab.sim.lives.story import Story, about, brief
from regroup.lab.sim.lives.strikes import home
from regroup.lab.sim.lives.users import Users
from regroup.lab.sim.lives.virtual import VirtualLoop, sealed
from regroup.lab.sim.lives.waiting import Waiting
from regroup.lab.sim.model import decision_rules, lending_rules, measuring_rules
from regroup.lab.sim.model.linked_agents import LinkedAgent

START = 1000.0  # of the virtual clock
IDLE = 14.0  # seconds for which a job neither trains nor is in the queue, once all is well, besides those of rule 7
READS = "no worker can read the checkpoint"  # each try takes twice as long as the one before
HEALING = 114.0  # seconds in which every job must end once all is well, besides those
WATCH = 0.25  # seconds between two looks of the users
UNHEARD = 2.0  # seconds without an answer after which an agent that is to end does
LAGGING = 3.0  # times the others' pace
RESTART = (0.3, 2.0)  # seconds until a supervisor starts again what ended


class Stuck(AssertionError):
    """All is well again, and yet a job does not end."""


class Life(Paced):
    measures = True

    def __init__(self, plan: Plan, story: Story) -> None:
        super().__init__(plan, story, VirtualLoop(START))
        story.begins = START
        self.store = MemoryStore(clock=self.loop.time)
        self.jobs: dict[str, Job] = {}  # durable
        self.workers: dict[str, Worker] = {}  # durable
        self.faults, self.network, self.users = Faults(self), Network(self), Users(self)
        self.justice, self.preparing = Justice(self), Preparing(self)
        self.sharing, self.waiting, self.calm = Sharing(self), Waiting(self), Calm(self)
        self.processes: list[Process] = []
        for agent in self.agents.values() if plan.folders else ():
            agent.host = home(agent.name)
        self.gone: set[str] = set()  # workers whose machines will not come back
        self._killed: dict[Member, bool] = {}  # trainers that are about to end -> whether that was asked for
        self.left_well: set[str] = set()  # agents that left in good order, and are not back
        # Of their own, so that the other dice fall as they would without.
        self.leaving_dice, self._paces = Random(f"{plan.seed} leaves"), Random(f"{plan.seed} paces")
        self.answered: dict[str, float] = {}  # when an agent's heartbeat was last answered
        self.reasons: set[str] = set()
        self.healed = False
        self._deadline = inf
        self._idle_since: dict[str, float] = {}
        self.decided_at = self.awake = 0.0
        self.took = 0.0  # seconds, from an event to what was decided about it
        self.over: asyncio.Future[None] = self.loop.create_future()
        self._broken: BaseException | None = None
        self._judged: tuple[Process, Decision] | None = None  # by the rules, at this moment
        self.seconds = 0.0  # of virtual time, once it is over

    # --- one life

    def run(self) -> None:
        """Raises AssertionError for a broken rule, Stuck, and whatever the code under test raises."""
        with sealed():
            self.loop.set_exception_handler(lambda loop, context: self.fail(_error_of(context)))
            try:
                self.loop.run_until_complete(self._live())
                if self._broken is not None:
                    raise self._broken
            finally:
                self.seconds = self.now - START
                self._end()

    async def _live(self) -> None:
        self.start_coordinator()
        for number, agent in enumerate(self.agents.values()):
            self.later(self.dice.uniform(0.0, 0.3) if number else 0.0, self.begin_agent, agent)
        users = self.users.begin()
        self.faults.begin()
        self.later(self.plan.heals, self._heal)
        self._watch()
        await self.over
        for user in users:
            user.cancel()

    def fail(self, error: BaseException) -> None:
        """The first that goes wrong, also in the last moment, when nobody waits for it any more."""
        if self._broken is None:
            self._broken = error
            if self._judged is not None:
                self._tell_judged(*self._judged)
        if not self.over.done():
            self.over.set_result(None)

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """What goes wrong in it is known at once: of a task that nobody awaits, asyncio tells when it is collected."""
        task = self.loop.create_task(work)
        task.add_done_callback(self._spawned)
        return task

    def _spawned(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def _end(self) -> None:
        """Nothing may be left that asks the machine when it is collected."""
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.set_exception_handler(lambda loop, context: None)
        self.loop.run_until_complete(asyncio.sleep(0.1))
        self.loop.close()

    def _heal(self) -> None:
        """No more faults; each job must end."""
        if not self.healed:
            self.story.tell(self.now, "world", "heals")
            self.healed, self._deadline = True, self.now + HEALING + 6 * self._patience
            self.faults.end()

    def _watch(self) -> None:
        if self.over.done():
            return
        if not self.faults.pending and not self.users.busy:
            self._heal()
        self.users.look()
        submitted = len(self.jobs) == len(self.plan.jobs)
        if submitted and all(job.ended for job in self.jobs.values()):
            lending_rules.over(self)
            for job in self.jobs.values():
                measuring_rules.measured(job, self.store.measured(job.id))
            self.over.set_result(None)
        elif idle := self._idle():
            self.fail(Stuck(f"{IDLE + self._patience:g} s after all is well: {idle}"))
        elif self.now > self._deadline:
            stuck = [(job.id, str(job.phase), job.reason) for job in self.jobs.values() if not job.ended]
            self.fail(Stuck(f"for long after all is well: {stuck or 'a submission is not there'}"))
        else:
            self.later(WATCH, self._watch)

    def _idle(self) -> list[tuple[str, str, str]]:
        """The last job that has yet to end, if it should train, and has not for long though all is well."""
        trains = (JobPhase.RUNNING, JobPhase.QUEUED, JobPhase.PAUSED)
        left = [job for job in self.jobs.values() if not job.ended]  # others may have whom one of them needs
        idle = {job.id for job in left if job.phase not in trains and self.healed and len(left) == 1}
        idle = {id for id in idle if not self.jobs[id].reason.startswith(READS)}
        self._idle_since = {id: self._idle_since.get(id, self.now) for id in idle}
        long = [self.jobs[id] for id, since in self._idle_since.items() if self.now - since > IDLE + self._patience]
        return [(job.id, str(job.phase), job.reason) for job in long]

    @property
    def _patience(self) -> float:
        """Seconds for which a state may be waited for."""
        return self.plan.policy.detached_limit + self.plan.policy.detached_margin

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
        self.network.drop_all(process)
        if not self.over.done():
            self.later(self.dice.uniform(*RESTART), self.start_coordinator)

    def durable(self, process: Process, saved: bool) -> None:
        """What it decided is in the store, or need not be: the rules look at it, once."""
        if process.pending is None:
            return
        (before, decision), process.pending = process.pending, None
        self.decided_at, self.policy, self.awake = process.decided_at, process.policy, process.awake
        self.took = process.clock() - process.came
        process.shows(decision.cluster)
        if saved:
            self._stored(decision.cluster)
            self.jobs, self.workers = dict(decision.cluster.jobs), dict(decision.cluster.workers)
            for note in decision.notes:
                if note.kind == "rolled_back" and note.job is not None and not self.jobs[note.job].ended:
                    points = self.store.measured(note.job)
                    measuring_rules.gone_back(self.jobs[note.job], note.data["base_step"], points)
        self.reasons.update(told(before, decision.cluster))
        self._judged = process, decision
        decision_rules.decided(self.ghosts, self, before, decision)
        self.justice.judge(before, decision)
        self.preparing.judge(before, decision)
        self.sharing.judge(before, decision)
        self.waiting.judge(before, decision)
        self.calm.judge(decision)
        self._judged = None

    def _stored(self, decided: Cluster) -> None:
        """The store keeps what was decided: all of it, and nothing else. Steps alone may be ahead in it."""
        kept = self.store.holds
        assert kept.jobs.keys() == decided.jobs.keys(), "the store keeps other jobs than were decided"
        for id, job in decided.jobs.items():
            one = kept.jobs[id]
            same = one is job or replace(one, since=job.since, step=job.step) == job
            assert same, f"{id} is not in the store as it was decided"
            assert one.step >= job.step, f"the steps of {id} are not in the store as they were decided"
            measuring_rules.shown(job, self.store.measured(id))
        assert kept.workers == decided.workers, "workers are not in the store as they were decided"

    def adopted(self, decision: Decision) -> None:
        self._tell_notes(decision)
        for note in decision.notes:
            self.reasons.add(note.reason)
            if note.kind != "preparing":  # its border is where a trainer begins to, in `born`
                self.faults.border(note.kind, note.worker)

    def _tell_judged(self, process: Process, decision: Decision) -> None:
        """What is wrong is mostly in there, and is not told yet."""
        self.story.tell(self.now, process.name, f"decided, about {about(process.event)}, and it is judged:")
        self._tell_notes(decision)
        for worker, order in decision.orders:
            if not isinstance(order, Heard):
                self.story.tell(self.now, process.name, f"orders {worker}: {brief(order)}")

    def _tell_notes(self, decision: Decision) -> None:
        for note in decision.notes:
            self.story.tell(self.now, note.job or note.worker or "cluster", f"{note.kind}: {note.reason}")

    # --- agents

    def send(self, agent: LinkedAgent, report: Report) -> None:
        self.network.carry(agent.name, agent.link, report, up=True)

    def pace(self, agent: LinkedAgent) -> float | None:
        """Measured anew for each heartbeat."""
        if agent.trainer is None or agent.trainer.session.phase is not TrainerPhase.TRAINING:
            return None
        usual = self.plan.pace * self._paces.uniform(0.95, 1.05)
        return LAGGING * usual if self.faults.lasts(Kind.LAG, agent.name) else usual

    def obey(self, agent: LinkedAgent, order: Order) -> None:
        if isinstance(order, Heard):
            self.answered[agent.name] = self.now
        if isinstance(order, Discard) and self.faults.lasts(Kind.UNDELETABLE, agent.name):
            self.ghosts.deleted.update(order.paths)  # or as good as that: nobody may count on them
            self.report(agent, Discarded(job=order.job, paths=order.paths, error="it is read-only"))
        else:
            super().obey(agent, order)

    def begin_agent(self, agent: LinkedAgent) -> None:
        if not agent.alive and not self.over.done():
            self.start_agent(agent)
            self.left_well.discard(agent.name)
            self._beat(agent, agent.boot)

    def end_trainer(self, agent: LinkedAgent, asked: bool = False, *given: Any, **more: Any) -> None:
        """Whoever is stuck in the kernel ends when it comes out of it."""
        if agent.trainer is not None and self.faults.lasts(Kind.UNKILLABLE, agent.name):
            self._killed[agent.trainer.member] = asked or self._killed.get(agent.trainer.member, False)
        else:
            super().end_trainer(agent, asked, *given, **more)

    def leave_kernel(self, agent: LinkedAgent) -> None:
        if agent.trainer is not None and agent.trainer.member in self._killed:
            self.end_trainer(agent, self._killed[agent.trainer.member])

    def lose_agent(self, agent: LinkedAgent, seconds: float | None) -> None:
        """It is gone with its trainer, and comes back; None: never."""
        number = agent.link
        self.kill_agent(agent)
        self.network.drop(number)
        if seconds is not None:
            self.later(seconds, self.begin_agent, agent)

    def move(self, agent: LinkedAgent, host: str) -> None:
        """An agent of its name starts on another machine, where the files of this one are not."""
        agent.host = host
        self.lose_agent(agent, self.leaving_dice.uniform(0.2, 1.0))

    def folder(self, worker: str) -> str:
        return self.agents[worker].host if self.plan.folders else ""

    def ask_to_leave(self, agent: LinkedAgent, patience: float) -> None:
        """It hands over first, if there is anything; but not for longer than it has patience."""
        agent.leaving = True
        self.heartbeat(agent)
        self._leave_in_time(agent, agent.boot, self.now + patience)

    def _leave_in_time(self, agent: LinkedAgent, boot: str, until: float) -> None:
        if agent.boot != boot or self.over.done():
            return
        unheard = self.now - self.answered.get(agent.name, 0.0) > UNHEARD
        if agent.trainer is None or self.now >= until or unheard:
            self.go(agent)
        else:
            self.later(WATCH, self._leave_in_time, agent, boot, until)

    def go(self, agent: LinkedAgent) -> None:
        self.say_goodbye(agent, self.leaving_dice)

    def say_goodbye(self, agent: LinkedAgent, dice: Random) -> None:
        boot = agent.boot
        if agent.trainer is not None:
            self.end_trainer(agent, asked=True)
        if agent.link and agent.trainer is None:
            self.send(agent, AgentLeft(boot=boot))
        self.left_well.add(agent.name)
        self.lose_agent(agent, dice.uniform(0.5, 4.0))

    def _beat(self, agent: LinkedAgent, boot: str) -> None:
        if agent.boot != boot or self.over.done():
            return
        leader = self.leader
        if agent.link:
            self.heartbeat(agent)
        elif leader is not None and leader.thawed.is_set() and not self.faults.lasts(Kind.ISOLATE, agent.name):
            self.network.connect(agent, leader)
        self.later(self.policy.heartbeat_interval if agent.link else 0.2, self._beat, agent, boot)


def _error_of(context: dict[str, Any]) -> BaseException:
    return context.get("exception") or AssertionError(context["message"])
