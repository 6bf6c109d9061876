"""A coordinator's process in a life: the real shell, over a store that fails and a link that is not there.

Owns: its start (it waits for the leadership as the real one does), its freezing, and its death between any two awaits;
and the rules that only whoever stands between the shell, its store and its link can see.
Refuses to know: when it fails (`faults` says so), and what the shell decides.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from regroup.coordinator.leadership import AnotherLeads, lead
from regroup.coordinator.persistence import Lease, Saved, StoreUnavailable, Unconfirmed
from regroup.coordinator.shell import Leadership, LeadershipLost, Shell
from regroup.core.cluster import Cluster
from regroup.core.decide import Decision
from regroup.core.jobs import StepPoint
from regroup.core.messages.events import KeepSteps, Report, Tick
from regroup.core.messages.orders import Go, Heard, Kill, Order, Release
from regroup.core.notes import Event
from regroup.lab.sim.lives.plan import Kind
from regroup.lab.sim.model import measuring_rules

if TYPE_CHECKING:
    from regroup.lab.sim.lives.life import Life

T = TypeVar("T")
SLOW_SAVE = (0.5, 2.5)  # seconds; beyond SLOW_STORE no limit counts them
ENDS = (AnotherLeads, LeadershipLost, StoreUnavailable)  # how a coordinator ends by itself


class Process:
    def __init__(self, life: "Life", number: int) -> None:
        self.life, self.name, self.policy = life, f"coordinator {number}", life.plan.limits(number)
        self.hub, self.store = SimHub(self), SimStore(self)
        self.shell: Watched | None = None
        self.thawed = asyncio.Event()
        self.thawed.set()
        self.late: list[Callable[[], None]] = []  # what arrived while it was frozen
        self.pending: tuple[Cluster, Decision] | None = None  # decided, and not yet known to be durable
        self.woke = life.now  # when it began, or went on after it stood still for longer than its lease
        self.began, self.gone = life.now, inf  # when it began, and when it was dead
        self._froze = 0.0
        self.decided_at = 0.0  # as that decision was told the time
        self.awake = 0.0  # seconds since it woke, when it decided so
        self.came = 0.0  # when the event came that it decides about, by its clock
        self.task = life.loop.create_task(self._run())
        self.task.add_done_callback(self._ended)

    @property
    def alive(self) -> bool:
        return not self.task.done() and not self.task.cancelling()

    @property
    def frozen(self) -> bool:
        return self.alive and not self.thawed.is_set()

    @property
    def leads(self) -> bool:
        return self.alive and self.hub.on_report is not None

    def clock(self) -> float:
        return self.life.clock("")

    def crash(self) -> None:
        self.task.cancel()
        self._is_over()

    def freeze(self) -> None:
        self.thawed.clear()
        self._froze = self.life.now

    def thaw(self) -> None:
        self.thawed.set()
        if self.life.now - self._froze > 1.1 * self.policy.leader_lease:
            self.woke = self.life.now
        late, self.late = self.late, []
        for arrive in late:
            arrive()

    async def _run(self) -> None:
        life, lease = self.life, self.life.policy.leader_lease
        fence = await lead(self.store, self.name, lease, asyncio.sleep)
        saved = await self.store.load()
        self.shell = Watched(self, Leadership(self.name, fence, lease), saved)
        life.story.tell(life.now, self.name, f"leads, fence {fence}")
        await self.shell.run()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled():
            return
        error: BaseException | None = task.exception()
        while isinstance(error, BaseExceptionGroup):
            error = next((one for one in error.exceptions if not isinstance(one, ENDS)), error.exceptions[0])
        if not isinstance(error, ENDS):
            self.life.fail(error or AssertionError(f"{self.name} ended"))
            return
        if isinstance(error, AnotherLeads):
            self._is_there(error.holder)
        self.life.story.tell(self.life.now, self.name, f"ends: {error}")
        self._is_over()

    def _is_over(self) -> None:
        self.gone = self.life.now
        self.life.died(self)

    def _is_there(self, holder: str) -> None:
        """Nobody leaves for a coordinator that was dead before it looked: its lease runs out."""
        other = next(one for one in self.life.processes if one.name == holder)
        assert other.gone > self.began, f"{self.name} leaves the lead to {holder}, which is dead"


class Watched(Shell):
    """The real shell, whose decisions are shown to the rules once they are durable."""

    def __init__(self, process: Process, leadership: Leadership, saved: Saved) -> None:
        life = process.life
        super().__init__(
            process.store,
            process.hub,  # type: ignore[arg-type]  # its twin
            process.policy,
            leadership,
            saved,
            clock=process.clock,
            wall=lambda: life.now,
        )
        self._process = process
        self._events = _Freezing(process)

    async def _persist(self, decision: Decision, done: asyncio.Future[None] | None, patient: bool) -> None:
        assert done is None or not done.done(), "a command that was refused, or that nobody waits for, is carried out"
        self._process.pending, self._process.decided_at = (self.cluster, decision), self._now
        self._process.awake = self._process.life.now - self._process.woke
        await super()._persist(decision, done, patient)
        said = done.exception() if done is not None and done.done() and not done.cancelled() else None
        assert said is None or isinstance(said, Unconfirmed), (
            "a command is carried out, and its user was told it is not"
        )
        self._process.life.durable(self._process, saved=False)
        self._process.life.adopted(decision)

    def _awake(self) -> None:
        super()._awake()
        assert self.cluster.awake >= self.time(), "what was not heard for so long is counted as silence"


class _Freezing(asyncio.Queue[tuple[Any, float, Any]]):
    """A queue of events, and when each came, into which a frozen process puts nothing, and from which it takes nothing.

    What would have come meanwhile comes when it thaws, and then is when it came; of a timer that is overdue, once.
    """

    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process
        self._overdue: set[type] = set()

    def put_nowait(self, item: tuple[Any, float, Any]) -> None:
        event, _, done = item
        if self._process.thawed.is_set():
            self._overdue.clear()
            super().put_nowait(item)
            return
        if isinstance(event, Tick | KeepSteps):
            if type(event) in self._overdue:
                return
            self._overdue.add(type(event))
        self._process.late.append(lambda: self.put_nowait((event, self._process.clock(), done)))

    async def get(self) -> tuple[Any, float, Any]:
        found = await super().get()
        if not self._process.thawed.is_set():
            await self._process.thawed.wait()
        _, self._process.came, _ = found
        return found


class SimHub:
    """The link's twin: `send` puts an order on whatever connection the worker registered last."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.links: dict[str, int] = {}
        self.on_report: Callable[[str, Report], None] | None = None
        self.on_closed: Callable[[str], None] | None = None

    async def run(self, on_report: Callable[[str, Report], None], on_closed: Callable[[str], None]) -> None:
        self.on_report, self.on_closed = on_report, on_closed
        await asyncio.Event().wait()

    def send(self, worker: str, order: Order) -> bool:
        if isinstance(order, Heard):
            since = self._process.clock() - self._process.store.confirmed
            leads = since < self._process.life.policy.leader_lease
            assert leads, "an answer of a leader that its store did not confirm"
        if isinstance(order, Kill | Release | Go):  # others, that held as much, may be gone by now
            old = self._process.clock() - self._process.came
            assert old <= self._process.policy.quiet_limit, f"{worker} is told to end on words of {old:.1f} s ago"
        link = self.links.get(worker)
        if link is not None and self._process.alive:
            self._process.life.network.carry(worker, link, order)
        return link is not None

    def send_many(self, workers: Iterable[str], order: Order) -> int:
        return sum(self.send(worker, order) for worker in workers)


class SimStore:
    """One process's connection to the store that all share: slow, sometimes away, and sometimes silent afterwards."""

    def __init__(self, process: Process) -> None:
        self._process, self._life = process, process.life
        self.cut = False
        self.kept = 0.0  # when it last kept a decision
        self.confirmed = 0.0  # when the store was last asked about the leadership, and said yes

    async def _ask(self, question: Callable[[], Awaitable[T]], saves: bool = False) -> T:
        life, process = self._life, self._process
        await self._travel()
        if saves and life.faults.dooms(Kind.CRASH_UNSAVED):
            process.crash()
            await asyncio.sleep(0)  # where it ends
        # What the store did not confirm when it died, it may have kept or not; what it confirmed, it kept.
        away = self._away
        dies = saves and life.faults.dooms(Kind.STORE_CRASH)
        if away or (dies and life.dice.random() < 0.5):
            raise StoreUnavailable("the store does not answer")
        slow = saves and life.faults.lasts(Kind.STORE_SLOW)
        late = slow and life.dice.random() < 0.5  # it may be done late, or told late
        if late:
            await life.loop.sleep(life.dice.uniform(*SLOW_SAVE))
        answer = await question()
        if saves:
            self.kept = life.now
            life.durable(process, saved=True)
            if life.faults.dooms(Kind.CRASH_UNSENT):
                process.crash()
        if slow and not late:
            await life.loop.sleep(life.dice.uniform(*SLOW_SAVE))
        await self._travel()
        if dies or life.faults.lasts(Kind.STORE_MUTE):
            raise StoreUnavailable("the store's answer was lost")
        return answer

    @property
    def _away(self) -> bool:
        faults = self._life.faults
        return self.cut or faults.lasts(Kind.STORE_AWAY) or faults.lasts(Kind.STORE_CRASH)

    async def _travel(self) -> None:
        await self._life.loop.sleep(self._life.dice.uniform(0.0005, 0.004))
        if not self._process.thawed.is_set():
            await self._process.thawed.wait()

    async def acquire(self, holder: str, lease: float) -> int | None:
        asked = self._process.clock()
        fence = await self._ask(lambda: self._life.store.acquire(holder, lease))
        self.confirmed = asked if fence is not None else self.confirmed
        return fence

    async def lease(self) -> Lease | None:
        return await self._ask(self._life.store.lease)

    async def renew(self, holder: str, fence: int, lease: float) -> bool:
        asked = self._process.clock()
        renewed = await self._ask(lambda: self._life.store.renew(holder, fence, lease))
        self.confirmed = asked if renewed else self.confirmed
        return renewed

    async def release(self, holder: str, fence: int) -> None:
        await self._ask(lambda: self._life.store.release(holder, fence))

    async def weakness(self) -> str | None:
        return None

    async def load(self) -> Saved:
        return await self._ask(self._life.store.load)

    async def save(self, *given: Any, **more: Any) -> tuple[Event, ...]:
        return await self._ask(lambda: self._life.store.save(*given, **more), saves=True)

    async def events(self, after: str = "", job: str | None = None, limit: int = 1000) -> list[Event]:
        return await self._ask(lambda: self._life.store.events(after, job, limit))

    async def append_points(self, fence: int, job: str, points: Sequence[StepPoint]) -> None:
        await self._ask(lambda: self._append(fence, job, points))

    async def _append(self, fence: int, job: str, points: Sequence[StepPoint]) -> None:
        before = self._life.store.measured(job)
        await self._life.store.append_points(fence, job, points)
        measuring_rules.lengthened(before, self._life.store.measured(job))

    async def points(self, job: str, after_step: int = -1, limit: int = 10_000) -> list[StepPoint]:
        return await self._ask(lambda: self._life.store.points(job, after_step, limit))

    async def close(self) -> None:
        return
