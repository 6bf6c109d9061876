"""One state of a small cluster: it can be copied, and everything that can happen to it can be done to the copy.

Owns: one rule that holds here alone: a job is completed, unless its user stops it. Nothing that can happen here is the
task's fault; elsewhere it may be, and `ending_rules` only forbid to fail for too little. And the abstraction that makes
states few, and still shows the real `decide` and the real session every order of events that matters:
- A connection keeps its order and doubles nothing, as ZeroMQ's do; it may be as slow as it likes, and be cut.
- A heartbeat arrives at once, after whatever was said before it, with what its agent knows then. Of its answer, what it
  says of files does, too.
- Time passes in two ways: all short limits are over at once, or the long one of the leases is. Nothing else is counted.
Refuses to know: what can happen next (`moves`), what nobody can see (`tidying`), which states are one (`identity`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import inf

from regroup.core.cluster import Cluster, Policy
from regroup.core.decide import decide
from regroup.core.jobs import Job, JobPhase
from regroup.core.messages.agent_reports import AgentLeft
from regroup.core.messages.commands import AdmitWorker, DrainWorker, PauseJob, ResumeJob, StopJob, SubmitJob
from regroup.core.messages.events import Disconnected, Event, Report, Reported, Tick
from regroup.core.messages.orders import Heard, RenewLease, Welcome
from regroup.core.spec import JobSpec
from regroup.core.workers import TrainerStatus, Worker
from regroup.lab.sim.model import decision_rules
from regroup.lab.sim.model.agents import Agents, first_words, said_by
from regroup.lab.sim.model.limits import NAMES
from regroup.lab.sim.model.trainer import Trainer
from regroup.lab.sim.search.bounds import FAULTS, Bounds
from regroup.lab.sim.search.near import Near

SHORT, LONG = 1.0, 100.0  # seconds: over every limit but the lease's, and over that too
POLICY = Policy(
    heartbeat_interval=1.0,
    detached_limit=50.0,
    detached_margin=10.0,
    leader_lease=0.1,
    halt_limit=0.5,
    form_limit=0.5,
    absent_limit=0.5,
    save_retry=0.5,
    read_retry=0.5,
    error_limit=1000,
    forget_limit=1e9,
)
MAPS = ("jobs", "workers", "sightings", "watches")


class Small(Agents[Near]):
    decided_at = 0.0

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(map(Near, NAMES[: bounds.workers]))
        self.bounds, self.policy = bounds, POLICY
        self.left = {name: getattr(bounds, name) for name in FAULTS}  # how much may still go wrong
        self.cluster: Cluster | None = Cluster(started=0.0)  # None: the coordinator is down
        self.jobs: Mapping[str, Job] = {}  # durable
        self.workers: Mapping[str, Worker] = {}  # durable
        spec = JobSpec(
            task="digits",
            steps=bounds.steps,
            global_batch=2,
            shards=2,
            max_workers=bounds.workers,
            step_timeout=0.5,
            max_restarts=1000,
            checkpoint_every=bounds.beside or None,
        )
        self.decide(SubmitJob("j", spec, 0.0))
        for number, agent in enumerate(self.agents.values()):
            if number < bounds.workers - bounds.newcomers:
                self.start_agent(agent)
                self.connect(agent)
                self.beat(agent)

    def copy(self) -> "Small":
        twin: Small = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.left = dict(self.left)
        twin.contributions = {step: dict(slots) for step, slots in self.contributions.items()}
        twin.gifts = dict(self.gifts)
        twin.arrived = {group: set(members) for group, members in self.arrived.items()}
        twin.agents = {name: agent.copy() for name, agent in self.agents.items()}
        twin.ghosts = self.ghosts.copy()
        return twin

    def share(self, other: "Small") -> None:
        """Keep once what is equal in both: nothing in a state that was copied changes any more."""
        for name, agent in other.agents.items():
            if self.agents[name] == agent:
                self.agents[name] = agent
        for part in ("ghosts", "contributions", "gifts", "arrived", "left"):
            if getattr(self, part) == getattr(other, part):
                setattr(self, part, getattr(other, part))
        mine, theirs = self.cluster, other.cluster
        if mine is not None and theirs is not None and mine is not theirs:
            maps = {name: getattr(theirs, name) for name in MAPS if getattr(mine, name) == getattr(theirs, name)}
            self.cluster = mine = replace(mine, **maps)
            self.jobs, self.workers = mine.jobs, mine.workers

    @property
    def over(self) -> bool:
        return all(job.ended for job in self.jobs.values())

    @property
    def beyond(self) -> bool:
        deep = any(job.generation > self.bounds.generations for job in self.jobs.values())
        return deep or any(agent.numbers > self.bounds.starts for agent in self.agents.values())

    @property
    def all_drained(self) -> bool:
        """Whether nobody is left whom a job could be given, nor can come: it waits until its operator admits one."""
        return all(name in self.workers and self.workers[name].drained for name in self.agents)

    # --- what the workers' side asks of whoever simulates it

    def number(self, agent: Near) -> int:
        agent.numbers += 1
        return agent.numbers

    def clock(self, worker: str) -> float:
        return 0.0

    def born(self, trainer: Trainer) -> None:
        if not self.bounds.leaps:
            trainer.session = replace(trainer.session, heard=LONG)

    def report(self, agent: Near, report: Report) -> None:
        agent.reports = (*agent.reports, report)

    def heartbeat(self, agent: Near) -> None:
        """None is under way: see `beat`."""

    def told_left(self, cluster: Cluster) -> Iterator[tuple[str, TrainerStatus]]:
        for name, agent in self.agents.items():
            yield from ((name, one) for one in agent.untold if one.incarnation in agent.told)

    # --- the coordinator

    def decide(self, event: Event, now: float = 0.0) -> None:
        assert self.cluster is not None
        self.decided_at = now
        decision = decide(self.cluster, event, now, self.policy)
        self.jobs, self.workers = decision.cluster.jobs, decision.cluster.workers
        decision_rules.decided(self.ghosts, self, self.cluster, decision)
        self._ends_as_asked()
        self.cluster = decision.cluster
        for name, order in decision.orders:
            agent = self.agents[name]
            if isinstance(order, Heard):
                agent.answered |= {order.generation} if order.generation and self.bounds.leaps else set()
                self.forget(agent, order)
                if order.settled:  # no lease is renewed by that
                    self.tell(agent, RenewLease(0, 0.0, order.settled))
            elif not isinstance(order, Welcome) and agent.link and order not in agent.orders:
                agent.orders = (*agent.orders, order)

    def _ends_as_asked(self) -> None:
        stopped = self.left["stops"] < self.bounds.stops
        for job in self.jobs.values():
            asked = job.phase is JobPhase.COMPLETED or (stopped and job.phase is JobPhase.STOPPED)
            assert asked or not job.ended, f"{job.id} is {job.phase}, and nobody asked for that: {job.reason}"

    def start_coordinator(self) -> None:
        self.cluster = Cluster(started=0.0, jobs=dict(self.jobs), workers=dict(self.workers))

    def crash_coordinator(self) -> None:
        """Before a save, where an event is lost; between save and send, where orders are; or at rest."""
        self.cluster = None
        for agent in self.agents.values():
            agent.heard = False
            self.disconnect(agent)

    def stop_job(self) -> None:
        self.decide(StopJob("j"))

    def pause_job(self) -> None:
        self.decide(PauseJob("j"))

    def hold_job(self) -> None:
        self.decide(PauseJob("j", hold=True))

    def resume_job(self) -> None:
        self.decide(ResumeJob("j"))

    def drain(self, agent: Near) -> None:
        self.decide(DrainWorker(agent.name))

    def admit(self, agent: Near) -> None:
        self.decide(AdmitWorker(agent.name))

    def pass_time(self) -> None:
        """All short limits are over, and whoever is connected has just been heard."""
        assert self.cluster is not None
        seen = self.cluster.sightings
        heard = {name: replace(one, seen=SHORT) if one.connected else one for name, one in seen.items()}
        self.cluster = replace(self.cluster, sightings=heard)
        self.decide(Tick(), SHORT)
        self._set_clocks(lambda at: min(at, 0.0))

    def leap(self) -> None:
        """The leases are over, and what was answered before renews none any more."""
        self._set_clocks(lambda at: -LONG)
        for agent in self.agents.values():
            agent.answered = frozenset()
            if agent.trainer is not None:
                agent.trainer.session = replace(agent.trainer.session, heard=-LONG)

    def _set_clocks(self, changed: Callable[[float], float]) -> None:
        assert self.cluster is not None
        watches = {}
        for job, watch in self.cluster.watches.items():
            disturbed = None if watch.disturbed is None else changed(watch.disturbed)
            since, asked = changed(watch.since), {one: changed(at) for one, at in watch.asked.items()}
            watches[job] = replace(watch, since=since, asked=asked, progressed=0.0, disturbed=disturbed, first=None)
        sightings = {
            name: replace(one, seen=changed(one.seen), moved=changed(one.moved), renewed=_after(one.renewed, changed))
            for name, one in self.cluster.sightings.items()
        }
        started = changed(self.cluster.started)
        self.cluster = replace(self.cluster, started=started, sightings=sightings, watches=watches)

    # --- between the coordinator and an agent

    def connect(self, agent: Near) -> None:
        agent.link, agent.heard, agent.greets, agent.told = 1, True, True, frozenset()
        self.decide(Reported(agent.name, first_words(agent)))

    def disconnect(self, agent: Near) -> None:
        """What was under way is lost; that it arrived before is another schedule."""
        agent.link, agent.reports, agent.orders, agent.answered, agent.greets = 0, (), (), frozenset(), False
        agent.told = frozenset()

    def notice_closed(self, agent: Near) -> None:
        agent.heard = False
        if not agent.alive:
            agent.reports = ()
        self.decide(Disconnected(agent.name))

    def beat(self, agent: Near) -> None:
        assert self.cluster is not None
        status = agent.trainer.session.status if agent.trainer is not None else None
        agent.greets, agent.told = False, frozenset(one.incarnation for one in agent.untold)
        self.decide(Reported(agent.name, said_by(agent, 2, status)))
        newest = replace(self.cluster.sightings[agent.name], sequence=1)  # the next one is newer again
        self.cluster = replace(self.cluster, sightings={**self.cluster.sightings, agent.name: newest})

    def hear_report(self, agent: Near) -> None:
        report, *rest = agent.reports
        agent.reports = tuple(rest)
        self.decide(Reported(agent.name, report))

    def hear_order(self, agent: Near) -> None:
        order, *rest = agent.orders
        agent.orders = tuple(rest)
        self.obey(agent, order)

    def hear_answer(self, agent: Near) -> None:
        """The newest: an older one renews nothing that this one would not."""
        generation = max(agent.answered)
        agent.answered -= {generation}
        self.tell(agent, RenewLease(generation, 0.0))

    # --- agents and trainers

    def ask_to_leave(self, agent: Near) -> None:
        """Its next heartbeat says so."""
        agent.leaving = True

    def go(self, agent: Near) -> None:
        boot = agent.boot
        if agent.trainer is not None:
            self.end_trainer(agent, asked=True)
        self.report(agent, AgentLeft(boot=boot))
        said = agent.reports
        self.lose(agent)
        agent.reports = said

    def lose(self, agent: Near) -> None:
        self.disconnect(agent)
        self.kill_agent(agent)

    def kill_trainer(self, agent: Near) -> None:
        self.end_trainer(agent, last_words=False)

    def break_group(self, agent: Near) -> None:
        assert agent.trainer is not None
        self.forsake(agent.trainer)

    def write_in_vain(self, agent: Near) -> None:
        assert agent.trainer is not None
        self.fail_to_write(agent.trainer)

    def write_copy(self, agent: Near) -> None:
        assert agent.trainer is not None
        self.write_beside(agent.trainer)

    def read_in_vain(self, agent: Near) -> None:
        assert agent.trainer is not None
        self.fail_to_read(agent.trainer)

    def is_alone(self, trainer: Trainer) -> bool:
        """Whether somebody of its group is gone, or will never come."""
        formation = trainer.loop.formation
        if trainer.loop.at != "connecting" or formation is None:
            return self.forsaken(trainer)
        others = [self.living(member) for member in formation.members]
        return any(other is None or other.session.promised > formation.generation for other in others)

    def goes_on(self, trainer: Trainer) -> bool:
        """Whether its step loop has a move that others can see."""
        loop, found = trainer.loop, self.moves(trainer)
        if loop.at != "connecting" or not found or loop.formation is None:
            return bool(found)
        return not _receives(trainer) or (trainer.job, loop.formation.generation) in self.gifts

    def go_on(self, agent: Near) -> None:
        """One move; from connecting on, all until the state is held, or the leader's is swapped in."""
        trainer = agent.trainer
        assert trainer is not None
        connects = trainer.loop.at == "connecting"
        self.moves(trainer)[0]()
        while connects and trainer.loop.at == "connected":
            self.moves(trainer)[0]()


def _after(at: float, changed: Callable[[float], float]) -> float:
    return at if at == -inf else changed(at)


def _receives(trainer: Trainer) -> bool:
    formation = trainer.loop.formation
    return formation is not None and trainer.rank in formation.receivers
