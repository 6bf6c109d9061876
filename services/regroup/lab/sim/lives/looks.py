"""Agents that watch their trainers in a life: the real judgement, of marks that follow from where a step loop stands.

Owns: the marks, the looks at their times, and the rules for what is said: a witness is accused only if it stands still,
and then it is.
Refuses to know: what a coordinator makes of an agent's word (`justice` judges that).
It does not model: an agent that is stopped; a life has no place where that one would differ from one that is cut off.
"""

from typing import TYPE_CHECKING

from regroup.core.jobs import Member
from regroup.core.messages.agent_reports import StacksTaken
from regroup.core.workers import Hang, LoopPhase
from regroup.lab.sim.lives.plan import Kind
from regroup.lab.sim.model.trainer import Place, Trainer
from regroup.worker.pulse import ENOUGH, UNLIKE, Mark
from regroup.worker.watching import LOOK, Watching, is_news

if TYPE_CHECKING:
    from regroup.lab.sim.lives.pace import Paced

_PHASES: dict[Place, LoopPhase] = {
    "preparing": LoopPhase.PREPARING,
    "unprepared": LoopPhase.PREPARING,
    "idle": LoopPhase.IDLE,
    "connecting": LoopPhase.FORMING,
    "connected": LoopPhase.EXCHANGE,
    "reading": LoopPhase.LOADING,
    "loaded": LoopPhase.LOADING,
    "measuring": LoopPhase.EVALUATION,
    "stepping": LoopPhase.COMPUTE,
    "contributed": LoopPhase.EXCHANGE,
    "applying": LoopPhase.OPTIMIZER,
    "evaluating": LoopPhase.LONE_EVALUATION,
    "telling": LoopPhase.STATE,
    "writing": LoopPhase.SAVING,
    "reporting": LoopPhase.REPORT,
}
BEATS = 10  # a second
FETCH = 1.2  # times step_timeout: what a loader takes that gets its data too late
_OTHERS = frozenset({LoopPhase.IDLE, LoopPhase.FORMING, LoopPhase.EXCHANGE})  # in these it waits for others


class Looks:
    def __init__(self, life: "Paced") -> None:
        self._life = life
        self._moves: dict[Member, tuple[int, float]] = {}  # how many a step loop made, and when the last
        self._seen: dict[Member, int] = {}  # the beat of a trainer that hangs stays as it was
        self._starves: dict[Member, float] = {}  # since when a loader gets no data
        self._lacks: dict[Member, int] = {}  # the fetch that is said not to come
        self.accused: set[Member] = set()  # of which an agent said that it hangs

    def begin(self, trainer: Trainer) -> None:
        self._moves[trainer.member] = (0, self._life.now)
        if self._life.plan.learned:
            spec = self._life.jobs[trainer.job].spec
            self._look(trainer, Watching(self._life.policy.hang_floor, spec.step_timeout))

    def moved(self, trainer: Trainer) -> None:
        self._moves[trainer.member] = (self._moves[trainer.member][0] + 1, self._life.now)

    def _look(self, trainer: Trainer, watching: Watching) -> None:
        life, agent = self._life, self._life.agents[trainer.member.worker]
        if agent.trainer is not trainer or life.over.done():
            return
        mark = self._mark(trainer)
        watching = watching.look(mark, life.now)
        before, agent.hang = agent.hang, watching.hang
        self._goes_on(trainer, mark, agent.hang)
        self._stands(trainer, mark, agent.hang)
        if watching.hang is not None:
            self._is_true(trainer, watching.hang)
            self.accused.add(trainer.member)
            if watching.hang.fetch:
                which = trainer.job, trainer.member.worker, len(trainer.history or ())
                late = life.ghosts.fetches.setdefault(which, set())
                late.add((trainer.member.incarnation, watching.hang.fetch))
        if is_news(before, watching.hang):
            life.story.tell(life.now, agent.name, f"says {watching.hang}")
            life.heartbeat(agent)
        if before is None and watching.hang is not None:
            said = StacksTaken(
                job=trainer.job, incarnation=trainer.member.incarnation, phase=watching.hang.phase, stacks="its stacks"
            )
            life.report(agent, said)
        life.later(LOOK, self._look, trainer, watching)

    def _mark(self, trainer: Trainer) -> Mark:
        life, member = self._life, trainer.member
        number, entered = self._moves[member]
        if not trainer.hung:
            self._seen[member] = int(life.now * BEATS)
        fetch = self._fetch(trainer)
        phase = _PHASES[trainer.loop.at]
        phase = LoopPhase.DATA if fetch and phase is LoopPhase.COMPUTE else phase
        known = number > ENOUGH and phase not in (*UNLIKE, LoopPhase.EVALUATION, LoopPhase.LONE_EVALUATION)
        longest = 1.5 * life.plan.pace if known else None
        return Mark(number, phase, entered, longest, beat=self._seen.get(member, 0), fetch=fetch)

    def _fetch(self, trainer: Trainer) -> int:
        """The number of the fetch that is under way, odd, by when it began; 0: there is none. Each takes longer than
        may be, and what it brings is of an ownership that is over."""
        life, member = self._life, trainer.member
        if not life.faults.lasts(Kind.STARVE, member.worker):
            self._starves.pop(member, None)
            return 0
        since = self._starves.setdefault(member, life.now)
        takes = FETCH * life.jobs[trainer.job].spec.step_timeout
        return 2 * int(10 * (since + takes * ((life.now - since) // takes))) + 1

    def _goes_on(self, trainer: Trainer, mark: Mark, hang: Hang | None) -> None:
        """Wherever its step loop is meanwhile, its data has not come."""
        if hang is not None and hang.fetch:
            self._lacks[trainer.member] = hang.fetch
        lacks = mark.fetch and self._lacks.get(trainer.member) == mark.fetch
        prepares = mark.phase is LoopPhase.PREPARING
        assert hang or prepares or not lacks, f"{trainer.member} is said to hang no more, and its data has not come"

    def _stands(self, trainer: Trainer, mark: Mark, hang: Hang | None) -> None:
        """A witness that stands still is no witness, whatever else is said of it."""
        stood = self._life.now - mark.beat / BEATS
        limit = min(self._life.policy.hang_floor, self._life.jobs[trainer.job].spec.step_timeout) + 3 * LOOK
        said = hang is not None and hang.stands
        still = mark.phase in _OTHERS and stood > limit
        assert said or not still, f"{trainer.member} stands still for {stood:.1f} s, and is said to be: {hang}"

    def _is_true(self, trainer: Trainer, hang: Hang) -> None:
        """Who waits for others is a witness: it hangs only if it stands still, or lacks its data."""
        own = _PHASES[trainer.loop.at] not in _OTHERS
        floor = min(self._life.policy.hang_floor, self._life.jobs[trainer.job].spec.step_timeout)
        assert hang.limit >= floor, f"{trainer.member} is accused after {hang.limit} s, and no limit is below {floor}"
        assert own or trainer.hung or hang.fetch, f"{trainer.member} waits for others, and is accused: {hang}"
