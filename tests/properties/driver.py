"""Chooses what happens next in a world: at random from a seed, with a temper of its own; and then heals it.

Owns: which faults there are and how often, and what "in the end all is well" means. Calm stretches, in which the
cluster gets somewhere, alternate with faults that last (a worker is cut off, a step loop stalls) and single events.
"""

from collections.abc import Callable, Set
from dataclasses import replace
from random import Random

from world import POLICY, Connected, World, spec

from regroup.core.jobs import Wanted
from regroup.core.messages.agent_reports import AgentRegistered
from regroup.core.messages.commands import (
    AdmitWorker,
    ClearWorker,
    DrainWorker,
    PauseJob,
    ResumeJob,
    StopJob,
    SubmitJob,
)
from regroup.core.workers import TrainerPhase
from regroup.lab.sim.model import lending_rules
from regroup.lab.sim.model.trainer import Trainer


class Stuck(AssertionError):
    """All is well again, and yet the job does not end."""


def live_through(seed: int) -> World:
    """One whole life of a cluster, from the seed. Raises AssertionError when a rule is broken, Stuck at the end."""
    random = Random(seed)
    world = start(random)
    Driver(world, random).run(random.choice([40, 100, 200]))
    heal(world)
    return world


def start(random: Random) -> World:
    """A cluster with a job under way, or two; most of it connected, and often some way into the training."""
    choice = random.choice
    workers = choice([1, 2, 3, 3, 3, 4])
    policy = replace(POLICY, error_limit=choice([2, 1000, 1000, 1000]))
    world = World(workers, policy)
    for job in ["j", "k"][: choice([1, 1, 1, 2])]:
        most = choice([workers, workers, workers, random.randint(1, workers)])
        asked = spec(
            max_workers=most,
            min_workers=choice([1, 1, 1, min(2, most)]),
            steps=choice([1, 6, 40, 40]),
            max_restarts=choice([1, 1000, 1000, 1000]),
        )
        world.command(SubmitJob(job, asked, 0.0))
    for agent in world.agents.values():
        if random.random() < 0.9:
            world.start_agent(agent)
            world.connect(agent)
    calm(world, random.randrange(8))
    return world


class Driver:
    """One schedule. `isolated` workers are cut off from the coordinator, `deaf` ones from its orders alone.

    The step loop of `stalled` ones rests.
    """

    def __init__(self, world: World, random: Random) -> None:
        self.world, self.random = world, random
        self.isolated: set[str] = set()
        self.deaf: set[str] = set()
        self.stalled: set[str] = set()
        self.in_order = random.random() < 0.5
        choice = random.choice
        self.temper = {
            "calm": choice([5, 10, 20]),
            "beat": choice([1, 5]),
            "step": choice([5, 20, 40]),
            "deliver": choice([5, 20]),
            "time": choice([1, 4]),
            "lose": choice([0, 0, 2, 5]),
            "double": choice([0, 1, 3]),
            "cut": choice([0, 1, 3]),
            "isolate": choice([0, 2, 5]),
            "deafen": choice([0, 2, 5]),
            "stall": choice([0, 2, 5]),
            "kill": choice([0, 0.5, 2]),
            "agent": choice([0, 0, 0.5]),
            "hang": choice([0, 0, 0.5]),
            "crash": choice([0, 0, 0.5, 2]),
            "break": choice([1, 3, 6]),
            "raise": choice([0, 0, 0, 0.3]),
            "leap": choice([0, 0.5, 2]),
            "stop": choice([0, 0, 0, 0.1]),
            "rest": choice([0, 0, 0.5, 2]),
            "unreadable": choice([0, 0, 1]),
            "leave": choice([0, 0, 0.5]),
            "drain": choice([0, 0, 0.5, 2]),
        }

    def run(self, events: int) -> None:
        kinds = [kind for kind, weight in self.temper.items() if weight]
        weights = [self.temper[kind] for kind in kinds]
        for kind in self.random.choices(kinds, weights, k=events):
            self.happen(kind)

    def happen(self, kind: str) -> None:
        world, random = self.world, self.random
        agent = random.choice(list(world.agents.values()))
        trainer, name = agent.trainer, agent.name
        index = 0 if self.in_order else random.randrange(99)
        match kind:
            case "calm":
                for _ in range(random.choice([1, 1, 2, 4])):
                    self.beat_all()
                    quiet(world, self.isolated, self.stalled, self.deaf, rounds=random.choice([1, 2, 4]))
                    world.tick(0.2)
            case "beat":
                self.beat(agent)
            case "step":
                options = [move for one in world.agents.values() for move in self.moves(one)]
                if options:
                    random.choice(options)()
            case "deliver" | "double" if name not in self.isolated:
                deliver(world, random, agent, index, again=kind == "double")
            case "lose":
                queue = random.choice([agent.reports, agent.orders])
                if queue and not (queue is agent.reports and isinstance(queue[0][1], AgentRegistered)):
                    queue.pop(0 if self.in_order else random.randrange(len(queue)))
            case "time":
                world.tick(random.choice([0.1, 0.3, 0.6]))
            case "leap":
                self.leap(random.choice([2.5, 3.5, 7.0, 25.0]))
            case "cut":
                self.cut(agent)
            case "isolate":
                self.isolated ^= {name}
                if name in self.isolated and random.random() < 0.7:
                    self.cut(agent)
                    self.cut(agent)
            case "deafen":
                self.deaf ^= {name}
                if name not in self.deaf and not self.in_order:  # what waited comes all at once, in any order
                    random.shuffle(agent.orders)
            case "stall":
                self.stalled ^= {name}
            case "kill" if trainer:
                cause = random.choice(["killed by SIGKILL", "killed by SIGKILL", "killed by SIGSEGV"])
                world.end_trainer(agent, last_words=random.random() < 0.5, cause=cause)
            case "agent" if agent.alive:
                world.kill_agent(agent)
            case "hang" if trainer:
                trainer.hung = not trainer.hung
                world.read_orders(agent)
            case "crash" if world.cluster is None:
                world.start_coordinator()
            case "crash":
                if random.random() < 0.4:
                    world.crash_coordinator()
                else:
                    world.doom = random.choice(["unsaved", "unsent"])
            case "break" if trainer and not trainer.hung:
                hurt(world, random, trainer)
            case "raise" if trainer and not trainer.hung and trainer.loop.at in ("stepping", "applying"):
                if trainer.session.phase is TrainerPhase.TRAINING:
                    world.raise_in_loop(trainer, random.randrange(4))
            case "unreadable" if trainer and not trainer.hung and trainer.loop.at == "reading":
                world.fail_to_read(trainer, damaged=random.random() < 0.5)
            case "leave" if agent.alive and not agent.leaving:
                world.ask_to_end(agent)
            case "leave" if agent.alive:
                world.go(agent)  # it waits no longer
            case "drain" if name in world.workers:
                world.command(random.choice([DrainWorker(name), AdmitWorker(name)]))
            case "rest" if world.jobs:
                job = random.choice(list(world.jobs))
                asked = [PauseJob(job), PauseJob(job, hold=True), ResumeJob(job), ResumeJob(job)]
                world.command(random.choice(asked))
            case "stop" if world.jobs:
                job = random.choice(list(world.jobs))
                if not world.jobs[job].ended:
                    world.command(StopJob(job))

    def moves(self, agent: Connected) -> list[Callable[[], None]]:
        trainer = agent.trainer
        if trainer is None:
            return []
        hear = [lambda: self.world.hear(agent)] if trainer.outbox else []
        return hear + ([] if agent.name in self.stalled else self.world.moves(trainer))

    def beat(self, agent: Connected) -> None:
        if not agent.alive:
            self.world.start_agent(agent)
        elif agent.link:
            self.world.heartbeat(agent)
        elif self.world.cluster is not None and agent.name not in self.isolated:
            self.world.connect(agent)

    def beat_all(self) -> None:
        for agent in self.world.agents.values():
            if agent.alive:
                self.beat(agent)

    def cut(self, agent: Connected) -> None:
        """The agent's end of the connection is gone; another time, the coordinator notices."""
        if agent.link:
            agent.link = 0
            if self.random.random() < 0.5:
                agent.reports.clear()
        elif agent.heard:
            self.world.notice_closed(agent)

    def leap(self, seconds: float) -> None:
        """Time for time-outs, through which those that are not cut off are heard, or nobody is."""
        if self.random.random() < 0.2:
            self.world.tick(seconds)
            return
        end = self.world.now + seconds
        while self.world.now < end:
            self.beat_all()
            quiet(self.world, self.isolated, self.stalled, self.deaf, rounds=3)
            self.world.tick(0.5)


def calm(world: World, stretches: int) -> None:
    """Nothing goes wrong for a while."""
    for _ in range(stretches):
        for agent in world.agents.values():
            if agent.link:
                world.heartbeat(agent)
        quiet(world, rounds=3)
        world.tick(0.2)


def hurt(world: World, random: Random, trainer: Trainer) -> None:
    """What can go wrong between trainers, and on a disk."""
    if trainer.loop.at == "writing":
        world.fail_to_write(trainer)
    elif random.random() < 0.4:
        world.lose_neighbour(trainer)
    elif trainer.loop.at in ("connecting", "connected", "contributed"):
        world.leave(trainer)


def deliver(world: World, random: Random, agent: Connected, index: int, again: bool = False) -> None:
    queues: list[Callable[[], None]] = []
    if agent.reports and world.cluster is not None:
        queues.append(lambda: world.deliver_report(agent, index, again))
    if agent.orders:
        queues.append(lambda: world.deliver_order(agent, index, again))
    if queues:
        random.choice(queues)()


def heal(world: World, seconds: float = 150.0) -> None:
    """No more faults: everything arrives, all agents live and are connected. Each job must end. Raises Stuck."""
    world.doom = None
    if world.cluster is None:
        world.start_coordinator()
    for agent in world.agents.values():
        if agent.heard and agent.heard != agent.link:
            world.notice_closed(agent)
    end = world.now + seconds
    while world.now < end:
        for agent in world.agents.values():
            if not agent.alive:
                world.start_agent(agent)
            if agent.link:
                world.heartbeat(agent)
            else:
                world.connect(agent)
        quiet(world)
        for name in [name for name, worker in world.workers.items() if worker.quarantined]:
            world.command(ClearWorker(name))
        for name in [name for name, worker in world.workers.items() if worker.drained]:
            world.command(AdmitWorker(name))
        for job in [job.id for job in world.jobs.values() if job.wanted in (Wanted.HOLD, Wanted.PAUSE)]:
            world.command(ResumeJob(job))
        if all(job.ended for job in world.jobs.values()):
            lending_rules.over(world)
            return
        world.tick(0.25)
    raise Stuck([(job.phase, job.reason) for job in world.jobs.values()])


def quiet(
    world: World,
    isolated: Set[str] = frozenset(),
    stalled: Set[str] = frozenset(),
    deaf: Set[str] = frozenset(),
    rounds: int = 40,
) -> None:
    """Let everything happen that can, until nothing is left to do or the rounds are over."""
    for _ in range(rounds):
        busy = False
        for name, agent in world.agents.items():
            busy |= exchange(world, agent, name not in isolated, name not in isolated and name not in deaf)
            busy |= name not in stalled and move(world, agent)
        if not busy:
            return


def exchange(world: World, agent: Connected, speaks: bool, hears: bool) -> bool:
    """All messages between a worker and the coordinator, and all that the trainer says to its agent."""
    busy = False
    while speaks and agent.reports and world.cluster is not None:
        world.deliver_report(agent, 0)
        busy = True
    while hears and agent.orders:
        world.deliver_order(agent, 0)
        busy = True
    while agent.trainer and agent.trainer.outbox:
        world.hear(agent)
        busy = True
    return busy


def move(world: World, agent: Connected) -> bool:
    """One move of a step loop, or the notice that it waits in vain."""
    trainer = agent.trainer
    if trainer is None or trainer.hung:
        return False
    moves = world.moves(trainer)
    if moves:
        moves[0]()
        return True
    if world.waits_in_vain(trainer):
        world.forsake(trainer)
        return True
    return False
