"""A coordinator's process in a life: the real shell, over a store that fails and a link that is not there.

Owns: its start (it waits for the leadership as the real one does), its freezing, and its death between any two awaits;
and the rules for what it knows when it begins to lead, and for whom it leads no more.
Refuses to know: when it fails (`faults` says so), what stands for its link and store (`twins`), and what the shell
decides.
"""

import asyncio
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any

from regroup.coordinator.leadership import AnotherLeads, lead
from regroup.coordinator.persistence import Saved, StoreUnavailable, Unconfirmed
from regroup.coordinator.shell import Leadership, LeadershipLost, Shell
from regroup.core.cluster import Cluster
from regroup.core.decide import Decision
from regroup.core.messages.events import KeepSteps, Tick
from regroup.lab.sim.lives.excuses import STORE
from regroup.lab.sim.lives.plan import Kind
from regroup.lab.sim.lives.twins import SimHub, SimStore

if TYPE_CHECKING:
    from regroup.lab.sim.lives.life import Life

ENDS = (AnotherLeads, LeadershipLost, StoreUnavailable)  # how a coordinator ends by itself
BEHIND = 1.5  # seconds: what was shown for longer is shown by the next coordinator, too
KEEPS_FROM_SAVING = (*STORE, Kind.STORE_SLOW, Kind.FREEZE)


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
        self.event: Any = None  # that it decides about
        self.came = 0.0  # when the event came that it decides about, by its clock
        self.shown: dict[str, list[tuple[float, int]]] = {}  # by job: since when so many steps are, in the last row
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
        self._goes_on(saved)
        self.shell = Watched(self, Leadership(self.name, fence, lease), saved)
        life.story.tell(life.now, self.name, f"leads, fence {fence}")
        await self.shell.run()

    def shows(self, cluster: Cluster) -> None:
        """What users see of it now, who are told of steps before they are saved."""
        for id, job in cluster.jobs.items():
            row = self.shown.setdefault(id, [])
            if not row or job.step > row[-1][1]:
                row.append((self.life.now, job.step))
            elif job.step < row[-1][1]:  # it went back, as it may, and is durable
                self.shown[id] = [(self.life.now, job.step)]

    def _goes_on(self, saved: Saved) -> None:
        """Rule 8: what is shown goes back by the steps of a moment, unless the store could not be asked in it."""
        before = next((one for one in reversed(self.life.processes) if one.shell is not None), None)
        if before is None:
            return
        until = min(before.gone, self.life.now)
        if self.life.faults.last(KEEPS_FROM_SAVING) > until - 2 * BEHIND:
            return
        for id, row in before.shown.items():
            known = max((steps for since, steps in row if since < until - BEHIND), default=0)
            job = saved.jobs[id]
            assert job.step >= known, f"{job.id} shows {job.step} steps, and showed {known} for long"

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
        self._process.event, self._process.came, _ = found
        return found
