"""How users' code and machines fail the trainers of a life, for as long as a fault lasts.

Owns: what a trainer does instead of its next move, what it says then, and where it stood.
Refuses to know: when a move is made (`pace`), what the moves are (`steps`), and why something fails (`faults`).
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import nan
from random import Random
from typing import Any

from regroup.core.jobs import IN_REPORT, IN_STATE, OUTSIDE, Fingerprint, Job, Member, StepPoint
from regroup.core.messages.trainer_reports import TASK, WORKER, PeersUnreached, PrepareFailed, StepsCommitted
from regroup.lab.sim.lives.faults import Faults
from regroup.lab.sim.lives.justice import Justice
from regroup.lab.sim.lives.plan import Kind, Plan
from regroup.lab.sim.lives.waiting import Waiting
from regroup.lab.sim.model import trainer_rules
from regroup.lab.sim.model.groups import takes, where
from regroup.lab.sim.model.limits import NAMES
from regroup.lab.sim.model.linked_agents import LinkedAgent, LinkedAgents
from regroup.lab.sim.model.trainer import AT_SAVE, PRINT, Trainer
from regroup.worker.tail import HALF

REPEAT = 3.0  # seconds between two reports of a trainer that cannot prepare
ODD_PRINTS = (
    replace(PRINT, code="other"),
    replace(PRINT, dataset="other"),
    replace(PRINT, code="other", dataset="other"),
)
OTHER_DATA_PRINTS = (replace(PRINT, dataset="other"), replace(PRINT, samples=PRINT.samples + 1))  # than a checkpoint's
EVALUATING = ("measuring", "evaluating")
POISONED = 0  # the shard that segfaults
UNFIT_AT = ("loaded", "stepping", "applying")  # where a task may raise that one device is too small for


class Failing(LinkedAgents[LinkedAgent], ABC):
    """Agents and trainers that faults befall."""

    faults: Faults
    justice: Justice
    waiting: Waiting
    jobs: Mapping[str, Job]  # durable
    over: "asyncio.Future[None]"  # done: nothing goes on

    def __init__(self, plan: Plan) -> None:
        super().__init__(map(LinkedAgent, NAMES[: plan.workers]))
        self.plan, self.policy = plan, plan.policy
        self.dice = Random(~plan.seed)
        odd = Random(f"{plan.seed} odd")  # of its own, so that the other dice fall as they would without
        self._odd = (odd.choice(ODD_PRINTS), odd.choice(OTHER_DATA_PRINTS))  # fingerprints of mismatched code and data
        self._unfit_at = Random(f"{plan.seed} unfit at").choice(UNFIT_AT)
        self._lacking = Random(f"{plan.seed} lacking").choice((WORKER, TASK))  # what who cannot prepare says is wrong
        self._flipped: dict[Member, int] = {}  # digests of replicas that are not as they should be

    @abstractmethod
    def later(self, seconds: float, what: Callable[..., object], *given: Any) -> None:
        """Call it when so much virtual time has passed."""

    @abstractmethod
    def read_soon(self, agent: LinkedAgent) -> None:
        """What a trainer says is read by its agent a moment later, in its order."""

    def failure(self, agent: LinkedAgent, trainer: Trainer) -> Callable[[], None] | None:
        """What happens instead of its next move."""
        at, lasts = trainer.loop.at, partial(self.faults.lasts, worker=agent.name)
        if at == "preparing" and (field := self._unprepared(agent)):
            return partial(self._cannot_prepare, trainer, field)
        if at == "stepping" and self._poisoned(trainer):
            return partial(self._segfault, agent, trainer)
        if at == self._unfit_at and lasts(Kind.UNFIT):
            return partial(self.raise_in_loop, trainer, self.dice.choice(trainer.shards) if trainer.shards else 0)
        if at in AT_SAVE and (wrong := self._wrong_at_save(agent, trainer)):
            return wrong
        if at == "writing" and lasts(Kind.UNWRITABLE):
            return partial(self.fail_to_write, trainer)
        if at == "reading" and lasts(Kind.UNREADABLE):
            return partial(self.fail_to_read, trainer)
        if at == "reading" and lasts(Kind.MISREAD):
            return partial(self.fail_to_read, trainer, damaged=True)
        if at == "connecting" and (apart := self.unreached(trainer)):
            return partial(self._miss, trainer, apart)
        return None

    def loaded(self, trainer: Trainer) -> None:
        """Its replica is its leader's, or what its leader read."""
        formation = trainer.loop.formation
        if formation is not None:
            leader, read = formation.members[formation.leader], formation.checkpoint is not None
            self._flipped[trainer.member] = 0 if read else self._flipped.get(leader, 0)

    def unreached(self, trainer: Trainer) -> list[Member]:
        """The members of its group between whom and it there is no way."""
        here = trainer.member.worker
        return [one for one in trainer.group.members if self.faults.severs(here, one.worker)]

    def _miss(self, trainer: Trainer, apart: Sequence[Member]) -> None:
        """It cannot connect to all, says so, and gives its group up. Without the leader it does not learn where others
        are."""
        group = trainer.group
        leader = group.members[group.leader]
        peers = (leader,) if leader in apart else tuple(apart)
        trainer.outbox.append(PeersUnreached(**trainer.who, generation=group.generation, peers=peers))
        self.leave(trainer, f"could not reach {peers[0].worker}")

    def _wrong_at_save(self, agent: LinkedAgent, trainer: Trainer) -> Callable[[], None] | None:
        """What the task does to a save in its state(), or in its report()."""
        tells, lasts = trainer.loop.at == "telling", partial(self.faults.lasts, worker=agent.name)
        if lasts(Kind.STATE_DIES if tells else Kind.REPORT_DIES):
            return partial(self.end_trainer, agent, cause="killed by SIGSEGV")
        if lasts(Kind.STATE_HANGS if tells else Kind.REPORT_HANGS):
            return partial(self._wedge, trainer)
        return partial(self.fail_to_tell, trainer) if tells and lasts(Kind.STATE_RAISES) else None

    def _wedge(self, trainer: Trainer) -> None:
        trainer.wedged = True
        self.waiting.wedged(trainer)

    def _unprepared(self, agent: LinkedAgent) -> str | None:
        """What a trainer names as the reason that it cannot prepare."""
        if self.faults.lasts(Kind.UNPREPARED, agent.name):
            return self._lacking
        return "options.lr" if self.faults.lasts(Kind.BAD_SPEC) else None

    def _cannot_prepare(self, trainer: Trainer, field: str) -> None:
        """It says why, again and again, until it is ended."""
        trainer.loop.at = "unprepared"
        agent = self.agents[trainer.member.worker]
        if agent.trainer is trainer and not self.over.done():
            trainer.outbox.append(PrepareFailed(**trainer.who, field=field, message="it will not do"))
            trainer_rules.unprepared(self.ghosts, trainer, field)
            self.read_soon(agent)
            self.later(REPEAT, self._cannot_prepare, trainer, field)

    def fingerprint(self, trainer: Trainer) -> Fingerprint:
        begins, said = self.jobs[trainer.job].beginning, PRINT
        if self.faults.lasts(Kind.MISMATCH, trainer.member.worker):
            said = self._odd[begins is not None]
        known = begins.fingerprint if begins is not None else None
        if known is not None and (known.dataset, known.samples) != (said.dataset, said.samples):
            self.ghosts.unpreparable.add(trainer.job)
        return said

    def digest(self, trainer: Trainer) -> int:
        return self._flipped.get(trainer.member, 0)

    def flip(self, trainer: Trainer) -> None:
        """Its replica is no longer the others', and nobody knows it before the next comparison."""
        number = self.number(self.agents[trainer.member.worker])
        self._flipped[trainer.member] = number << HALF if number % 2 else number  # in either half of a digest

    def raise_in_loop(self, trainer: Trainer, shard: int) -> None:
        if trainer.loop.at == "stepping":
            self.justice.raised(trainer, shard)
        super().raise_in_loop(trainer, shard)

    def diverge(self, trainer: Trainer) -> None:
        """It tells the loss of its last step, which is no number."""
        version = trainer.session.version
        if version is not None and version.step:
            point = StepPoint(version.step - 1, nan, 1.0, 8, 0.1, 0.1)
            generation, step = version.generation, version.step
            trainer.outbox.append(StepsCommitted(**trainer.who, generation=generation, step=step, points=(point,)))

    def _poisoned(self, trainer: Trainer) -> bool:
        return self.faults.lasts(Kind.POISON) and POISONED in trainer.shards

    def _segfault(self, agent: LinkedAgent, trainer: Trainer) -> None:
        self.waiting.segfaults(trainer)
        self.end_trainer(agent, cause="killed by SIGSEGV")

    def position(self, trainer: Trainer) -> tuple[int | None, int | None]:
        if trainer.loop.at in EVALUATING or takes(trainer):
            return where(trainer)
        if trainer.loop.at in AT_SAVE:
            return len(trainer.state), IN_STATE if trainer.loop.at == "telling" else IN_REPORT
        if trainer.loop.at != "stepping" or not trainer.shards:
            return None, None
        step = len(trainer.state)
        if self._poisoned(trainer):
            return step, POISONED
        at = self.dice.random()
        if at < 0.7:
            return step, self.dice.choice(trainer.shards)
        return (step, OUTSIDE) if at < 0.85 else (None, None)  # it waits for data; or for others
