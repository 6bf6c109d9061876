"""Chooses what happens next in a world: at random from a seed, with a temper of its own; and then heals it.

Owns: which faults there are and how often, and what "in the end all is well" means.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from regroup.core import messages as m
from regroup.core.workers import TrainerPhase


class Stuck(AssertionError):
    """All is well again, and yet the job does not end."""


def drive(world: Any, random: Random, events: int) -> None:
    """Let things happen. Every schedule has its own temper, so that some are all crashes and some all lost messages."""
    temper = {
        "step": random.choice([2, 8, 20]),
        "deliver": random.choice([4, 10]),
        "lose": random.choice([0, 0, 1, 3]),
        "double": random.choice([0, 1]),
        "time": random.choice([1, 3]),
        "beat": random.choice([1, 3]),
        "cut": random.choice([0, 0.3, 1]),
        "kill": random.choice([0, 0.2, 0.6]),
        "agent": random.choice([0, 0.1, 0.4]),
        "hang": random.choice([0, 0, 0.2]),
        "crash": random.choice([0, 0, 0.2, 0.6]),
        "break": random.choice([0, 0.2, 1]),
        "raise": random.choice([0, 0, 0, 0.1]),
        "leap": random.choice([0, 0, 0.1, 0.5]),
        "stop": random.choice([0, 0, 0, 0.05]),
        "order": random.choice([True, False]),
    }
    kinds = [kind for kind, weight in temper.items() if kind != "order" and weight]
    weights = [temper[kind] for kind in kinds]
    for kind in random.choices(kinds, weights, k=events):
        happen(world, random, kind, in_order=bool(temper["order"]))


def happen(world: Any, random: Random, kind: str, in_order: bool) -> None:
    agent = random.choice(list(world.agents.values()))
    trainer = agent.trainer
    index = 0 if in_order else random.randrange(99)
    match kind:
        case "step":
            options = [
                option
                for one in world.agents.values()
                for option in ([lambda a=one: world.hear(a)] if one.trainer and one.trainer.outbox else [])
                + (world.moves(one.trainer) if one.trainer else [])
            ]
            if options:
                random.choice(options)()
        case "deliver" | "double":
            deliver(world, random, agent, index, again=kind == "double")
        case "lose":
            queue = random.choice([agent.reports, agent.orders])
            if queue and not (queue is agent.reports and isinstance(queue[0][1], m.AgentRegistered)):
                queue.pop(0 if in_order else random.randrange(len(queue)))
        case "time":
            world.tick(random.choice([0.1, 0.3, 0.6]))
        case "leap":
            world.tick(random.choice([2.5, 3.5, 7.0, 30.0]))
        case "beat" if agent.alive:
            if agent.link:
                world.heartbeat(agent)
            elif world.cluster is not None:
                world.connect(agent)
        case "beat":
            world.start_agent(agent)
        case "cut" if agent.link:
            agent.link = 0
            if random.random() < 0.5:
                agent.reports.clear()
        case "cut" if agent.heard and not agent.link:
            world.notice_closed(agent)
        case "kill" if trainer:
            world.end_trainer(agent, last_words=random.random() < 0.5)
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
            if trainer.session.phase.value == "training":
                world.raise_in_step(trainer, random.randrange(4))
        case "stop" if world.jobs:
            job = random.choice(list(world.jobs))
            if not world.jobs[job].ended:
                world.command(m.StopJob(job))


def hurt(world: Any, random: Random, trainer: Any) -> None:
    """What can go wrong between trainers, and on a disk."""
    if trainer.loop.at == "writing":
        world.fail_to_write(trainer)
    elif random.random() < 0.4:
        world.lose_neighbour(trainer)
    elif trainer.loop.at in ("connecting", "connected", "contributed"):
        world.leave(trainer)


def deliver(world: Any, random: Random, agent: Any, index: int, again: bool = False) -> None:
    queues: list[Callable[[], None]] = []
    if agent.reports and world.cluster is not None:
        queues.append(lambda: world.deliver_report(agent, index, again))
    if agent.orders:
        queues.append(lambda: world.deliver_order(agent, index, again))
    if queues:
        random.choice(queues)()


def heal(world: Any, seconds: float = 150.0) -> None:
    """No more faults: everything arrives, all agents live and are connected. Each job must end. Raises Stuck."""
    world.doom = None
    if world.cluster is None:
        world.start_coordinator()
    for agent in world.agents.values():
        if not agent.alive:
            world.start_agent(agent)
        if agent.heard and agent.heard != agent.link:
            world.notice_closed(agent)
        if agent.trainer and agent.trainer.session.phase is TrainerPhase.PREPARING:
            agent.trainer.hung = False  # nobody suspects a trainer while it prepares; whoever hangs later is evicted
            world.read_orders(agent)
    end = world.now + seconds
    while world.now < end:
        for agent in world.agents.values():
            if agent.link:
                world.heartbeat(agent)
            else:
                world.connect(agent)
        for _ in range(40):
            if not quiet(world):
                break
        if all(job.ended for job in world.jobs.values()):
            return
        world.tick(0.25)
    raise Stuck([(job.phase, job.reason) for job in world.jobs.values()])


def quiet(world: Any) -> bool:
    """Let everything happen that can. False when nothing was left to do."""
    busy = False
    for agent in world.agents.values():
        while agent.reports:
            world.deliver_report(agent, 0)
            busy = True
        while agent.orders:
            world.deliver_order(agent, 0)
            busy = True
        while agent.trainer and agent.trainer.outbox:
            world.hear(agent)
            busy = True
        trainer = agent.trainer
        if trainer is None or trainer.hung:
            continue
        moves = world.moves(trainer)
        if moves:
            moves[0]()
            busy = True
        elif trainer.loop.at in ("connected", "contributed") and world.forsaken(trainer):
            world.lose_neighbour(trainer)
            world.leave(trainer, "a neighbour is gone")
            busy = True
    return busy


__all__ = ["Stuck", "drive", "happen", "heal"]
