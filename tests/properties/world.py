"""A cluster in one process: the real `decide`, the real `session.handle`, and all around them a world that misbehaves.

Owns: the network (it delays, drops, doubles and reorders), the agents, a step loop reduced to what the protocol sees of
it, the clock, and crashes of each of them. A state is the tuple of the generations in which its steps were reduced:
equal tuples stand for equal bits. What must hold is in `rules`, which is told of everything that happens here.
It does not model: bits of tensors, sockets, processes. Nothing in it chooses; whoever drives it does.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from regroup.core import messages as m
from regroup.core.cluster import Cluster, JobEnded, Policy
from regroup.core.decide import decide
from regroup.core.jobs import Checkpoint, Fingerprint, Formation, Job, JobSpec, Member, Version
from regroup.core.workers import TrainerPhase, TrainerStatus, Worker
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
PRINT = Fingerprint("code", "data", 100)
CROWD = 12  # messages under way on one link; beyond it the network loses the oldest

History = tuple[int, ...]


@dataclass
class Loop:
    """Where the step loop stands, between two events of it."""

    at: str = "preparing"
    formation: Formation | None = None
    steps: int = 0
    task: s.Join | s.Write | None = None  # the newest, not yet begun
    write: s.Write | None = None
    broken: bool = False  # its group was broken from its own side
    lost: bool = False  # it noticed that a neighbour is gone
    taken: History | None = None  # the leader's state, beside its own
    agreed: int | None = None


@dataclass
class Trainer:
    job: str
    session: s.Session
    loop: Loop = field(default_factory=Loop)
    history: History | None = None  # None: no state
    hung: bool = False
    inbox: deque[m.TrainerOrder] = field(default_factory=deque)
    outbox: deque[TrainerStatus | m.Report] = field(default_factory=deque)
    unsaid: bool = False

    @property
    def member(self) -> Member:
        return self.session.member


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


class Silent:
    """Rules that check nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args: None


class World:
    def __init__(self, workers: int, rules: Any = None, policy: Policy = POLICY) -> None:
        self.rules, self.policy = rules or Silent(), policy
        self.now = 1000.0
        self.cluster: Cluster | None = None  # None: the coordinator is down
        self.jobs: dict[str, Job] = {}  # durable
        self.workers: dict[str, Worker] = {}  # durable
        self.doom: str | None = None  # the next decision dies "unsaved" or "unsent"
        self.agents = {name: Agent(name) for name in "abcdefgh"[:workers]}
        self.numbers = 0
        self.contributions: dict[tuple[str, int, int], dict[int, tuple[History, int]]] = {}
        self.gifts: dict[tuple[str, int], History] = {}  # what a leader gave in a generation
        self.arrived: dict[tuple[str, int], set[Member]] = {}
        self.start_coordinator()

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
            assert isinstance(command, m.StopJob) and self.jobs[command.job].ended

    def tick(self, seconds: float) -> None:
        self.now += seconds
        self.decide(m.Tick())

    # --- the network

    def post(self, queue: list[Any], message: Any) -> None:
        queue.append(message)
        if len(queue) > CROWD:
            del queue[1 if len(queue) > 1 else 0]

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
        if link < agent.heard and registers or link > agent.heard and not registers:
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
                    self.tell(agent, m.RenewLease(generation, sent + self.policy.detached_limit))
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

    def end_trainer(self, agent: Agent, asked: bool = False, last_words: bool = True) -> None:
        trainer = agent.trainer
        assert trainer is not None
        while last_words and trainer.outbox:
            self.hear(agent)
        agent.trainer, agent.status = None, None
        exited = m.TrainerExited(
            job=trainer.job, incarnation=trainer.member.incarnation, cause="killed by SIGKILL", asked=asked
        )
        self.report(agent, exited)
        self.heartbeat(agent)

    # --- a trainer's session, as worker/control.py keeps it

    def take(self, trainer: Trainer, happening: Any) -> None:
        before = trainer.session
        trainer.session, actions = s.handle(before, happening)
        if trainer.session.phase is not before.phase or trainer.session.promised != before.promised:
            trainer.outbox.append(trainer.session.status)
        self.rules.handled(self, trainer, before, happening)
        for action in actions:
            match action:
                case s.Say(report=report):
                    self.post_progress(trainer)
                    trainer.outbox.append(report)
                case s.BreakGroup():
                    trainer.loop.broken = True
                case s.Join() | s.Write():
                    trainer.loop.task = action

    def post_progress(self, trainer: Trainer) -> None:
        version = trainer.session.version
        if trainer.unsaid and version is not None:
            trainer.unsaid = False
            trainer.outbox.append(trainer.session.status)
            who = {"job": trainer.job, "incarnation": trainer.member.incarnation}
            trainer.outbox.append(m.StepsCommitted(**who, generation=version.generation, step=version.step))

    # --- its step loop, as worker/trainer.py goes

    def moves(self, trainer: Trainer) -> list[Callable[[], None]]:
        """What its step loop could do next."""
        loop, session = trainer.loop, trainer.session
        found: list[Callable[[], None]] = []
        if trainer.hung:
            return found
        match loop.at:
            case "preparing":
                found = [lambda: self._prepared(trainer)]
            case "idle" if loop.task is not None:
                found = [lambda: self._begin(trainer)]
            case "connecting":
                present = self.arrived.get((trainer.job, session.generation), set())
                if loop.formation and present >= set(loop.formation.members) and not loop.broken:
                    found = [lambda: self._at(trainer, "connected")]
            case "connected" if not loop.broken:
                assert loop.formation is not None
                rank = loop.formation.members.index(trainer.member)
                gift = self.gifts.get((trainer.job, loop.formation.generation))
                if rank == loop.formation.leader and loop.formation.receivers and gift is None:
                    found = [lambda: self._give(trainer)]
                elif rank not in loop.formation.receivers or rank == loop.formation.leader:
                    found = [lambda: self._held(trainer)]
                elif gift is not None:
                    found = [lambda: self._load(trainer)]
            case "loaded":
                found = [lambda: self._held(trainer)]
            case "stepping" if self._trains(trainer):
                found = [lambda: self._contribute(trainer)]
            case "contributed" if self._reduced(trainer) and self._trains(trainer) and session.may_apply(self.now):
                found = [lambda: self._begin_apply(trainer)]
            case "applying":
                found = [lambda: self._applied(trainer)]
            case "writing":
                found = [lambda: self._write(trainer, True)]
        if loop.at in ("connecting", "connected", "stepping", "contributed") and (
            loop.broken or loop.lost or not self._current(trainer)
        ):
            found.append(lambda: self.leave(trainer))
        return found

    def _current(self, trainer: Trainer) -> bool:
        session, formation = trainer.session, trainer.loop.formation
        phases = (TrainerPhase.FORMING, TrainerPhase.TRAINING)
        return formation is not None and session.generation == formation.generation and session.phase in phases

    def _trains(self, trainer: Trainer) -> bool:
        formation = trainer.loop.formation
        return formation is not None and trainer.session.trains_in(formation.generation) and not trainer.loop.lost

    def forsaken(self, trainer: Trainer) -> bool:
        """Whether a neighbour's socket is closed: it died, or went on to another generation."""
        formation = trainer.loop.formation
        if formation is None or trainer.loop.at not in ("connected", "stepping", "contributed"):
            return False
        for member in formation.members:
            other = self.agents[member.worker].trainer
            if other is None or other.member != member:
                return True
            if other.loop.formation is not formation and other.loop.formation != formation:
                return True
            if other.loop.broken:
                return True
        return False

    def _at(self, trainer: Trainer, at: str) -> None:
        trainer.loop.at = at

    def _prepared(self, trainer: Trainer) -> None:
        trainer.loop.at = "idle"
        self.take(trainer, s.TaskPrepared(PRINT))

    def _begin(self, trainer: Trainer) -> None:
        loop = trainer.loop
        task, loop.task = loop.task, None
        loop.formation, loop.broken, loop.lost, loop.taken = None, False, False, None
        if isinstance(task, s.Write):
            loop.at, loop.write = "writing", task
            return
        assert task is not None
        loop.at, loop.formation, loop.steps = "connecting", task.formation, task.steps
        if self._current(trainer):
            self.arrived.setdefault((trainer.job, task.formation.generation), set()).add(trainer.member)
        else:
            loop.broken = True

    def leave(self, trainer: Trainer, reason: str = "the group broke") -> None:
        """The step loop sees its group broken, and waits for the next task."""
        loop = trainer.loop
        assert loop.formation is not None
        loop.at = "idle"
        self.take(trainer, s.CollectiveBroke(loop.formation.generation, reason))

    def lose_neighbour(self, trainer: Trainer) -> None:
        """The group's own watch tells it at once; a reduction that is complete may still be applied."""
        formation = trainer.loop.formation
        if formation is None or not self._current(trainer) or trainer.session.phase is not TrainerPhase.TRAINING:
            return
        trainer.loop.lost = True
        who = {"job": trainer.job, "incarnation": trainer.member.incarnation}
        trainer.outbox.append(m.GroupBroke(**who, generation=formation.generation, reason="a neighbour is gone"))

    def _give(self, trainer: Trainer) -> None:
        formation = trainer.loop.formation
        assert formation is not None
        if formation.base.generation == 0:
            trainer.history = ()
        assert trainer.history is not None, "a leader without state"
        self.gifts[trainer.job, formation.generation] = trainer.history

    def _load(self, trainer: Trainer) -> None:
        formation = trainer.loop.formation
        assert formation is not None
        gift = self.gifts[trainer.job, formation.generation]
        if not trainer.session.may_load(formation.generation):
            self.leave(trainer)
            return
        trainer.session = s.begin_load(trainer.session)
        self.rules.replaced(self, trainer, formation)
        trainer.history = gift
        trainer.loop.at = "loaded"

    def _held(self, trainer: Trainer) -> None:
        formation = trainer.loop.formation
        assert formation is not None
        if formation.base.generation == 0 and formation.members.index(trainer.member) == formation.leader:
            trainer.history = ()
        trainer.loop.at = "stepping"
        self.take(trainer, s.StateHeld(formation.generation))
        trainer.unsaid = True

    def _contribute(self, trainer: Trainer) -> None:
        loop, session, formation = trainer.loop, trainer.session, trainer.loop.formation
        assert formation is not None and trainer.history is not None, "trains without state"
        step = len(trainer.history)
        if step >= loop.steps:
            loop.at = "idle"
            self.take(trainer, s.LastStepDone(formation.generation))
            return
        flag = 0 if session.boundary is None else session.boundary - session.generation
        slots = self.contributions.setdefault((trainer.job, formation.generation, step), {})
        slots[formation.members.index(trainer.member)] = (trainer.history, flag)
        loop.at = "contributed"

    def _reduced(self, trainer: Trainer) -> bool:
        formation = trainer.loop.formation
        assert formation is not None and trainer.history is not None
        slots = self.contributions[trainer.job, formation.generation, len(trainer.history)]
        return len(slots) == len(formation.seats)

    def _begin_apply(self, trainer: Trainer) -> None:
        formation = trainer.loop.formation
        assert formation is not None and trainer.history is not None
        slots = self.contributions[trainer.job, formation.generation, len(trainer.history)]
        self.rules.reduced(self, trainer, slots)
        flags = {flag for _, flag in slots.values()}
        agreed = flags.pop() if len(flags) == 1 and 0 not in flags else None
        last = len(trainer.history) + 1 >= trainer.loop.steps
        trainer.loop.agreed = None if agreed is None or last else formation.generation + agreed
        trainer.loop.at = "applying"
        trainer.session = s.begin_apply(trainer.session)

    def _applied(self, trainer: Trainer) -> None:
        formation = trainer.loop.formation
        assert formation is not None and trainer.history is not None
        trainer.history = (*trainer.history, formation.generation)
        trainer.loop.at, trainer.unsaid = "stepping", True
        self.take(trainer, s.StepApplied(len(trainer.history), trainer.loop.agreed))
        self.rules.committed(self, trainer, formation)

    def raise_in_step(self, trainer: Trainer, shard: int) -> None:
        """User code raises: while computing, or in the middle of the optimizer step, which tears the state."""
        torn = trainer.loop.at == "applying"
        formation = trainer.loop.formation
        assert formation is not None and trainer.history is not None
        who = {"job": trainer.job, "incarnation": trainer.member.incarnation}
        step = len(trainer.history)
        report = m.StepFailed(
            **who, generation=formation.generation, step=step, shard=shard, error="E: no", traceback="T\nE: no"
        )
        trainer.loop.at = "idle"
        if torn:
            trainer.history = None
        self.take(trainer, s.UserCodeRaised(report, torn))

    def _write(self, trainer: Trainer, good: bool) -> None:
        task = trainer.loop.write
        assert task is not None
        trainer.loop.at = "idle"
        who = {"job": trainer.job, "incarnation": trainer.member.incarnation, "generation": task.generation}
        if not good:
            self.take(trainer, s.SaveEnded(m.SaveFailed(**who, error="OSError: disk full")))
            return
        self.rules.wrote(self, trainer, task.version)
        self.take(trainer, s.SaveEnded(m.StateSaved(**who, checkpoint=Checkpoint(task.version, "p", "c", 1))))

    def fail_to_write(self, trainer: Trainer) -> None:
        self._write(trainer, False)


def spec(**changes: Any) -> JobSpec:
    return replace(SPEC, **changes)


__all__ = ["POLICY", "Agent", "Trainer", "Version", "World", "spec"]
