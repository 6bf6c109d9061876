"""The step loops of a life in virtual time: when each makes its next move, and how users' code and machines fail them.

Owns: the pace of the trainers, and the pipes between them and their agents. A step loop that has no move to make waits
until something happens that it may have waited for, and looks again once in a while.
Refuses to know: what the moves are (`steps`), and why something fails (`faults`).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import nan
from random import Random
from typing import Any

from regroup.core.jobs import IN_REPORT, IN_STATE, OUTSIDE, Fingerprint, Job, Member, StepPoint, Version
from regroup.core.messages.orders import TrainerOrder
from regroup.core.messages.trainer_reports import TASK, WORKER, PeersUnreached, PrepareFailed, StepsCommitted
from regroup.lab.sim.lives.faults import Faults
from regroup.lab.sim.lives.justice import Justice
from regroup.lab.sim.lives.looks import Looks
from regroup.lab.sim.lives.plan import Kind, Plan
from regroup.lab.sim.lives.story import Story
from regroup.lab.sim.lives.virtual import VirtualLoop
from regroup.lab.sim.lives.waiting import Waiting
from regroup.lab.sim.model import trainer_rules
from regroup.lab.sim.model.agents import LinkedAgent, LinkedAgents
from regroup.lab.sim.model.groups import takes, where
from regroup.lab.sim.model.limits import NAMES
from regroup.lab.sim.model.trainer import AT_SAVE, PRINT, Happening, Trainer
from regroup.worker import happenings as h
from regroup.worker.tail import HALF

FLUSH = 0.4  # seconds between reports of progress
PROMPT = 0.02  # seconds until a step loop notices what it waited for
QUICK = 0.02  # seconds of a move at most, once no fault is left
IDLE = 1.0  # seconds until it looks again for something to do, whatever it was told
REPEAT = 3.0  # seconds between two reports of a trainer that cannot prepare
ODD_PRINTS = (
    replace(PRINT, code="other"),
    replace(PRINT, dataset="other"),
    replace(PRINT, code="other", dataset="other"),
)
OTHER_DATA_PRINTS = (replace(PRINT, dataset="other"), replace(PRINT, samples=PRINT.samples + 1))  # than a checkpoint's
WRITING = 1.0  # seconds at most to write a state beside the training
CHUNKS = 6  # of an evaluation
EVALUATING = ("measuring", "evaluating")
POISONED = 0  # the shard that segfaults
UNFIT_AT = ("loaded", "stepping", "applying")  # where a task may raise that one device is too small for


class Paced(LinkedAgents[LinkedAgent]):
    """Agents and trainers over virtual time."""

    faults: Faults
    justice: Justice
    waiting: Waiting
    jobs: Mapping[str, Job]  # durable
    over: "asyncio.Future[None]"  # done: nothing goes on

    def __init__(self, plan: Plan, story: Story, loop: VirtualLoop) -> None:
        self.plan, self.policy, self.story, self.loop = plan, plan.policy, story, loop
        self.dice = Random(~plan.seed)
        super().__init__(map(LinkedAgent, NAMES[: plan.workers]))
        clocks = zip(plan.drifts, plan.skews, strict=True)
        self.chunks = CHUNKS if plan.chunk else 0
        self._clocks = {name: (1 + drift, skew) for name, (drift, skew) in zip((*self.agents, ""), clocks, strict=True)}
        self._to_be_read: set[Member] = set()  # whose pipe is about to be read
        self._flushed: dict[Member, float] = {}  # when a trainer last told its progress
        self._looks: dict[Member, float] = {}  # when a step loop looks for its next move
        self._waiting: set[Member] = set()  # those whose step loops had no move to make
        self._writes = Random(f"{plan.seed} writes")  # of its own, so that the other dice fall as they would without
        odd = Random(f"{plan.seed} odd")  # likewise
        self._odd = (odd.choice(ODD_PRINTS), odd.choice(OTHER_DATA_PRINTS))  # fingerprints of mismatched code and data
        self._unfit_at = Random(f"{plan.seed} unfit at").choice(UNFIT_AT)
        self._lacking = Random(f"{plan.seed} lacking").choice((WORKER, TASK))  # what who cannot prepare says is wrong
        self.looks = Looks(self)
        self._flipped: dict[Member, int] = {}  # digests of replicas that are not as they should be

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
        """What a trainer says is read by its agent a moment later, in its order."""
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
        if trainer.loop.at == "loaded" and trainer.loop.formation is not None:
            leader = trainer.loop.formation.members[trainer.loop.formation.leader]
            read = trainer.loop.formation.checkpoint is not None
            self._flipped[member] = 0 if read else self._flipped.get(leader, 0)
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
        at = trainer.loop.at
        if at == "preparing" and (field := self._unprepared(agent)):
            return [partial(self._cannot_prepare, trainer, field)]
        if at == "stepping" and self.faults.lasts(Kind.POISON) and POISONED in trainer.shards:
            return [partial(self._segfault, agent, trainer)]
        if at == self._unfit_at and self.faults.lasts(Kind.UNFIT, agent.name):
            return [partial(self.raise_in_loop, trainer, self.dice.choice(trainer.shards) if trainer.shards else 0)]
        if at in AT_SAVE and (wrong := self._wrong_at_save(agent, trainer)):
            return [wrong]
        if at == "writing" and self.faults.lasts(Kind.UNWRITABLE, agent.name):
            return [partial(self.fail_to_write, trainer)]
        if at == "reading" and self.faults.lasts(Kind.UNREADABLE, agent.name):
            return [partial(self.fail_to_read, trainer)]
        if at == "reading" and self.faults.lasts(Kind.MISREAD, agent.name):
            return [partial(self.fail_to_read, trainer, damaged=True)]
        moves = self.moves(trainer)
        if at in ("connecting", "connected", "contributed") and (apart := self._unreached(trainer)):
            if at == "connecting":
                return [partial(self._miss, trainer, apart)]
            return [partial(self.leave, trainer)] if self.may_leave(trainer) else []
        if at == "stepping" and self.faults.lasts(Kind.STARVE, agent.name):
            return moves[-1:] if self.may_leave(trainer) else []
        if not moves and self.waits_in_vain(trainer):
            return [partial(self.forsake, trainer)]
        return moves

    # --- what fails

    def _unreached(self, trainer: Trainer) -> list[Member]:
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
        if self.faults.lasts(Kind.POISON) and POISONED in trainer.shards:
            return step, POISONED
        at = self.dice.random()
        if at < 0.7:
            return step, self.dice.choice(trainer.shards)
        return (step, OUTSIDE) if at < 0.85 else (None, None)  # it waits for data; or for others
