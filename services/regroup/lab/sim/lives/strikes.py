"""What each kind of fault does to whom it strikes, and what its end undoes.

Owns: that alone. Refuses to know: when one strikes, whom, and for how long (`faults`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from regroup.core.messages.commands import AdmitWorker, DrainWorker, PauseJob, ResumeJob, StopJob
from regroup.core.workers import TrainerPhase
from regroup.lab.sim.lives.plan import Kind
from regroup.lab.sim.model.linked_agents import LinkedAgent

if TYPE_CHECKING:
    from regroup.lab.sim.lives.life import Life
    from regroup.lab.sim.lives.process import Process

_STEPS = ("stepping", "applying")  # where a step loop runs user code while it trains
SILENCE = 1.5  # seconds without a word after which an agent closes its connection


def home(worker: str) -> str:
    """The machine that it runs on, unless its name moved."""
    return f"home of {worker}"


def can_strike(life: "Life", kind: Kind, worker: str) -> bool:
    """Whether there is anything to strike."""
    agent = life.agents[worker]
    trainer = agent.trainer
    match kind:
        case Kind.KILL_TRAINER | Kind.CRASH_TRAINER | Kind.HANG | Kind.DEADLOCK | Kind.STALL | Kind.UNKILLABLE:
            return trainer is not None
        case Kind.KILL_AGENT | Kind.LEAVE | Kind.AWAY | Kind.MOVE:
            return agent.alive
        case Kind.HAND_OVER:
            return agent.alive and not agent.leaving
        case Kind.GONE:
            return agent.alive and len(life.gone) + 1 < len(life.agents)
        case Kind.WEDGE:
            return trainer is not None and not trainer.stuck and trainer.loop.at in _STEPS
        case Kind.RAISE:
            if trainer is None or trainer.stuck:
                return False
            forming = trainer.session.phase is TrainerPhase.FORMING and trainer.loop.at in ("connected", "loaded")
            training = trainer.session.phase is TrainerPhase.TRAINING and trainer.loop.at in _STEPS
            return forming or training
        case Kind.BREAK:
            if trainer is None or trainer.stuck:
                return False
            return trainer.loop.at in ("connecting", "connected", "contributed")
        case Kind.FLIP | Kind.DIVERGE:
            return trainer is not None and trainer.session.phase is TrainerPhase.TRAINING and not trainer.stuck
        case Kind.CUT | Kind.DEAFEN | Kind.SILENCE:
            return bool(agent.link)
        case Kind.CRASH | Kind.FREEZE | Kind.STORE_CUT:
            return life.leader is not None
        case Kind.DAMAGE:
            return any(job.latest is not None for job in life.jobs.values())
    return True


def strike(life: "Life", kind: Kind, agent: LinkedAgent) -> None:
    """What has an effect beyond that it lasts."""
    dice, trainer = life.dice, agent.trainer
    match kind:
        case Kind.KILL_TRAINER:
            life.end_trainer(agent, last_words=dice.random() < 0.5)
        case Kind.CRASH_TRAINER:
            life.end_trainer(agent, cause="killed by SIGSEGV")
        case Kind.KILL_AGENT:
            life.lose_agent(agent, dice.uniform(0.2, 3.0))
        case Kind.LEAVE:
            life.say_goodbye(agent, dice)
        case Kind.HAND_OVER:
            life.ask_to_leave(agent, life.leaving_dice.choice((1.0, 6.0, 30.0)))
        case Kind.DRAIN:
            life.users.ask(DrainWorker(agent.name))
            life.users.ask_later(life.leaving_dice.choice((0.3, 2.0, 6.0)), AdmitWorker(agent.name))
        case Kind.AWAY:
            life.lose_agent(agent, None)
        case Kind.MOVE:
            life.move(agent, f"beside {agent.name}")
        case Kind.GONE:
            life.gone.add(agent.name)
            life.lose_agent(agent, None)
        case Kind.HANG | Kind.DEADLOCK | Kind.UNKILLABLE if trainer is not None:
            trainer.hung = True
        case Kind.WEDGE if trainer is not None:
            trainer.wedged = True
        case Kind.RAISE if trainer is not None:
            life.raise_in_loop(trainer, dice.choice(trainer.shards) if trainer.shards else 0)
        case Kind.BREAK if trainer is not None:
            if dice.random() < 0.5:
                life.lose_neighbour(trainer)
            else:
                life.leave(trainer)
        case Kind.CRASH if life.leader is not None:
            life.leader.crash()
        case Kind.FREEZE if life.leader is not None:
            life.leader.freeze()
            life.later(SILENCE, _find_silent, life, life.leader)
            if dice.random() < 0.7:
                life.start_coordinator(most=2)
        case Kind.STORE_CUT if life.leader is not None:
            life.leader.store.cut = True
            life.loop.call_later(dice.uniform(0.1, 3.0), life.start_coordinator, 2)
        case Kind.FLIP if trainer is not None:
            life.flip(trainer)
        case Kind.DIVERGE if trainer is not None:
            life.diverge(trainer)
        case Kind.CUT:
            life.network.drop(agent.link)
        case Kind.ISOLATE if agent.link and dice.random() < 0.5:
            life.network.drop(agent.link)
        case Kind.STRANGER:
            life.network.intrude(agent.name, older=dice.random() < 0.5)
        case Kind.DAMAGE:
            kept = [job.latest for job in life.jobs.values() if job.latest is not None]
            life.ghosts.damaged.update(one.path for one in kept)
        case Kind.MISTAKE:
            life.users.ask_wrongly()
        case Kind.STOP if life.jobs:
            life.users.ask(StopJob(dice.choice(sorted(life.jobs))))
        case Kind.STOP_NOW if life.jobs:
            cut = life.users.dice.choice(sorted(life.jobs))
            life.ghosts.cut_short.add(cut)
            life.users.ask(StopJob(cut, now=True))
        case Kind.PAUSE | Kind.HOLD if life.jobs:
            job = dice.choice(sorted(life.jobs))
            life.users.ask(PauseJob(job, kind is Kind.HOLD))
            life.users.ask_later(dice.choice((0.1, 0.5, 2.0, 5.0, 8.0)), ResumeJob(job))


def undo(life: "Life", kind: Kind, struck: Sequence[str]) -> None:
    """What its end takes, beyond that it lasts no longer."""
    if kind is Kind.FREEZE:
        for process in life.processes:
            if process.frozen:
                process.thaw()
    if kind is Kind.STORE_CUT:
        for process in life.processes:
            process.store.cut = False
    for worker in struck:
        agent, stuck = life.agents[worker], life.faults.lasts(Kind.UNKILLABLE, worker)
        if kind is Kind.HANG and not stuck:
            _wake(life, agent)
        if kind is Kind.UNKILLABLE and not stuck:
            life.leave_kernel(agent)
            _wake(life, agent)
        if kind is Kind.AWAY and worker not in life.gone:
            life.begin_agent(agent)
        if kind is Kind.MOVE and worker not in life.gone:
            life.move(agent, home(worker))


def _find_silent(life: "Life", process: "Process") -> None:
    """Agents close a connection on which nothing comes for so long."""
    if process.frozen:
        life.network.drop_all(process)


def _wake(life: "Life", agent: LinkedAgent) -> None:
    if agent.trainer is not None and agent.trainer.hung:
        agent.trainer.hung = False
        life.read_orders(agent)
