"""The step loops of a life in virtual time: when each makes its next move.

Owns: the pace of the trainers, and the pipes between them and their agents. A step loop that has no move to make waits
until something happens that it may have waited for, and looks again once in a while.
Refuses to know: what the moves are (`steps`), and what fails instead (`failing`).
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from regroup.core.jobs import Member, Version
from regroup.core.messages.orders import TrainerOrder
from regroup.lab.sim.lives.failing import EVALUATING, Failing
from regroup.lab.sim.lives.looks import Looks
from regroup.lab.sim.lives.plan import Kind, Plan
from regroup.lab.sim.lives.story import Story
from regroup.lab.sim.lives.virtual import VirtualLoop
from regroup.lab.sim.model.linked_agents import LinkedAgent
from regroup.lab.sim.model.trainer import Happening, Trainer
from regroup.worker import happenings as h

FLUSH = 0.4  # seconds between reports of progress
PROMPT = 0.02  # seconds until a step loop notices what it waited for
QUICK = 0.02  # seconds of a move at most, once no fault is left
IDLE = 1.0  # seconds until it looks again for something to do, whatever it was told
WRITING = 1.0  # seconds at most to write a state beside the training
CHUNKS = 6  # of an evaluation


class Paced(Failing):
    """Agents and trainers over virtual time."""

    def __init__(self, plan: Plan, story: Story, loop: VirtualLoop) -> None:
        super().__init__(plan)
        self.story, self.loop = story, loop
        clocks = zip(plan.drifts, plan.skews, strict=True)
        self.chunks = CHUNKS if plan.chunk else 0
        self._clocks = {name: (1 + drift, skew) for name, (drift, skew) in zip((*self.agents, ""), clocks, strict=True)}
        self._to_be_read: set[Member] = set()  # whose pipe is about to be read
        self._flushed: dict[Member, float] = {}  # when a trainer last told its progress
        self._looks: dict[Member, float] = {}  # when a step loop looks for its next move
        self._waiting: set[Member] = set()  # those whose step loops had no move to make
        self._writes = Random(f"{plan.seed} writes")  # of its own, so that the other dice fall as they would without
        self.looks = Looks(self)

    @property
    def now(self) -> float:
        return self.loop.now

    def clock(self, worker: str) -> float:
        """The clock of a worker's machine; "": of the coordinators'."""
        rate, skew = self._clocks[worker]
        return self.loop.now * rate + skew

    def later(self, seconds: float, what: Callable[..., object], *given: Any) -> None:
        self.loop.at(self.loop.now + seconds, what, *given)

    # --- sessions

    def take(self, trainer: Trainer, happening: Happening) -> None:
        before = trainer.session.phase
        super().take(trainer, happening)
        if trainer.session.phase is not before:
            self.faults.border(str(trainer.session.phase), trainer.member.worker)
        if isinstance(happening, h.StateHeld) and trainer.rank in trainer.group.receivers:
            self.waiting.took(trainer)

    # --- agents and their pipes

    def born(self, trainer: Trainer) -> None:
        self._look_in(self.plan.pace, trainer)
        self.looks.begin(trainer)
        self.faults.border("preparing", trainer.member.worker)

    def tell(self, agent: LinkedAgent, order: TrainerOrder) -> None:
        if agent.trainer is not None:
            self.justice.told(agent.trainer, order)
        super().tell(agent, order)
        self.read_soon(agent)
        self.stir()

    def end_trainer(self, agent: LinkedAgent, asked: bool = False, *given: Any, **more: Any) -> None:
        self.justice.ended(agent.name, asked)
        super().end_trainer(agent, asked, *given, **more)
        self.stir()

    def kill_agent(self, agent: LinkedAgent) -> None:
        self.justice.ended(agent.name, asked=False)
        super().kill_agent(agent)
        self.stir()

    def read_soon(self, agent: LinkedAgent) -> None:
        trainer = agent.trainer
        if trainer is not None and trainer.outbox and trainer.member not in self._to_be_read:
            self._to_be_read.add(trainer.member)
            self.later(self.dice.uniform(0.0002, 0.003), self._hear_all, agent, trainer)

    def _hear_all(self, agent: LinkedAgent, trainer: Trainer) -> None:
        self._to_be_read.discard(trainer.member)
        while agent.trainer is trainer and trainer.outbox:
            self.hear(agent)

    # --- step loops

    def stir(self) -> None:
        """Something happened that a step loop may have waited for."""
        for agent in self.agents.values():
            trainer = agent.trainer
            if trainer is not None and trainer.member in self._waiting and self._choices(agent, trainer):
                self._waiting.remove(trainer.member)
                self._look_in(PROMPT, trainer)

    def _look_in(self, seconds: float, trainer: Trainer) -> None:
        """When a step loop looks for a move to make."""
        when = self.now + self.dice.uniform(0.5, 1.5) * seconds
        self._looks[trainer.member] = when
        self.loop.at(when, self._turn, trainer, when)

    def _turn(self, trainer: Trainer, when: float) -> None:
        """One move of a step loop, if it has one."""
        agent, member = self.agents[trainer.member.worker], trainer.member
        if agent.trainer is not trainer or self._looks[member] != when or self.over.done():
            return
        before, beside, choices = trainer.loop.at, trainer.beside, self._choices(agent, trainer)
        if choices:
            self._waiting.discard(member)
            choices[0 if self.dice.random() < 0.9 else -1]()
            self.looks.moved(trainer)
            pace = self.plan.pace if self.faults.pending else min(self.plan.pace, QUICK)
            self._look_in(self.plan.chunk if trainer.loop.at in EVALUATING else pace, trainer)
        else:
            self._waiting.add(member)
            self._look_in(FLUSH if trainer.unsaid else IDLE, trainer)
        if not trainer.hung and self.now - self._flushed.get(member, 0.0) > FLUSH:
            self._flushed[member] = self.now
            self.post_progress(trainer)
        self.read_soon(agent)
        if trainer.loop.at == "loaded":
            self.loaded(trainer)
        if trainer.loop.at != before:
            self.story.tell(self.now, agent.name, f"is {trainer.loop.at}")
            self.faults.border(trainer.loop.at, agent.name)
        if trainer.beside is not None and trainer.beside != beside:
            self.later(self._writes.uniform(0.01, WRITING), self._end_copy, trainer, trainer.beside)
        if choices:
            self.stir()

    def _end_copy(self, trainer: Trainer, version: Version) -> None:
        """What is written beside the training is written, or not."""
        agent = self.agents[trainer.member.worker]
        if agent.trainer is not trainer or self.over.done():
            return
        if trainer.hung:
            self.later(WRITING, self._end_copy, trainer, version)
        elif self.faults.lasts(Kind.UNWRITABLE, agent.name):
            self.fail_beside(trainer)
        else:
            self.write_beside(trainer)
            self.story.tell(self.now, agent.name, f"has written {version.generation} {version.step}")
            self.faults.border("written", agent.name)
        self.read_soon(agent)

    def _choices(self, agent: LinkedAgent, trainer: Trainer) -> list[Callable[[], None]]:
        """What a step loop may do now."""
        if trainer.stuck or self.faults.lasts(Kind.STALL, agent.name):
            return []
        if failure := self.failure(agent, trainer):
            return [failure]
        at, moves = trainer.loop.at, self.moves(trainer)
        if at in ("connected", "contributed") and self.unreached(trainer):
            return [partial(self.leave, trainer)] if self.may_leave(trainer) else []
        if at == "stepping" and self.faults.lasts(Kind.STARVE, agent.name):
            return moves[-1:] if self.may_leave(trainer) else []
        if not moves and self.waits_in_vain(trainer):
            return [partial(self.forsake, trainer)]
        return moves
