"""What a coordinator in a life has in place of sockets: the link's twin, and its own connection to the store of all.

Owns: orders on their way out, what the store is asked and when it answers, and the rules for both: who may answer, whom
nobody tells to end, and that measurements grow.
Refuses to know: what the shell decides, and when a process or the store fails (`faults` says so).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from regroup.coordinator.persistence import Lease, Saved, StoreUnavailable
from regroup.core.jobs import StepPoint
from regroup.core.messages.events import Report
from regroup.core.messages.orders import Go, Heard, Kill, Order, Release
from regroup.core.notes import Event
from regroup.lab.sim.lives.plan import Kind
from regroup.lab.sim.model import measuring_rules

if TYPE_CHECKING:
    from regroup.lab.sim.lives.process import Process

T = TypeVar("T")
SLOW_SAVE = (0.5, 2.5)  # seconds; beyond SLOW_STORE no limit counts them


class SimHub:
    """The link's twin: `send` puts an order on whatever connection the worker registered last."""

    def __init__(self, process: "Process") -> None:
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

    def __init__(self, process: "Process") -> None:
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
