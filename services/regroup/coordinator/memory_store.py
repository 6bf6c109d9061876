"""The store's twin in memory, for simulations and tests: the same contract, and its clock is given.

Owns: what the store would hold. Several coordinators may share one, and it outlives them, as Redis does.
Refuses to know: bytes. Values are kept as they are, since they are frozen.
Does not guarantee durability: it is gone with its process.
"""

import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from typing import Any

from regroup.coordinator.persistence import (
    ALL_POINTS_KEPT,
    EVENTS_KEPT,
    FEWEST_POINTS,
    POINTS_KEPT,
    CameLate,
    Fenced,
    Lease,
    Saved,
    Standby,
    event_order,
    in_order,
)
from regroup.core.jobs import Job, StepPoint
from regroup.core.notes import Event, Note
from regroup.core.workers import Worker


class MemoryStore:
    """A SharedStore. `clock` counts seconds; leases run out by it."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        events_kept: int = EVENTS_KEPT,
        points_kept: int = POINTS_KEPT,
        all_points_kept: int = ALL_POINTS_KEPT,
    ) -> None:
        self._clock = clock
        self._points_kept, self._all_points_kept = points_kept, all_points_kept
        self._fence = 0
        self._lease = Lease("", -1, 0, 0.0)  # `remaining` holds the instant at which it runs out
        self._standbys: dict[Standby, float] = {}  # until when they are counted
        self._jobs: dict[str, Job] = {}
        self._workers: dict[str, Worker] = {}
        self._events: deque[Event] = deque(maxlen=events_kept)
        self._counted = 0
        self._points: dict[str, dict[int, StepPoint]] = {}  # what was lengthened last comes last
        self._numbers = count(1)  # of saves and measurements, as they were sent
        self._voided: dict[str, int] = {}  # the number of the last save that made points of the job void

    async def acquire(self, holder: str, lease: float) -> int | None:
        if await self.lease() is not None:
            return None
        self._fence += 1
        self._lease = Lease(holder, self._fence, 0, self._clock() + lease)
        return self._fence

    async def lease(self) -> Lease | None:
        held, now = self._lease, self._clock()
        if held.fence != self._fence or held.remaining <= now:
            return None
        return Lease(held.holder, held.fence, held.renewals, held.remaining - now)

    async def renew(self, holder: str, fence: int, lease: float) -> bool:
        held = self._lease
        if held.fence != self._fence or (held.holder, held.fence) != (holder, fence):
            return False
        self._lease = Lease(holder, fence, held.renewals + 1, self._clock() + lease)
        return True

    async def release(self, holder: str, fence: int) -> None:
        if self._lease.fence == self._fence and (self._lease.holder, self._lease.fence) == (holder, fence):
            self._fence += 1

    async def stand_by(self, standby: Standby, lease: float) -> None:
        self._standbys[standby] = self._clock() + lease

    async def standbys(self) -> list[Standby]:
        now = self._clock()
        self._standbys = {standby: until for standby, until in self._standbys.items() if until > now}
        return sorted(self._standbys, key=lambda standby: standby.url)

    async def examine(self) -> None:
        pass

    async def weakness(self) -> str | None:
        return "the store is in this process's memory and gone with it"

    async def load(self) -> Saved:
        return Saved(in_order(self._jobs.values()), dict(self._workers))

    @property
    def holds(self) -> Saved:
        """As `load`, at once."""
        return Saved(self._jobs, self._workers)

    def measured(self, job: str) -> list[StepPoint]:
        """As `points`, at once and all."""
        kept = self._points.get(job, {})
        return [kept[step] for step in sorted(kept)]

    async def save(
        self,
        fence: int,
        jobs: Sequence[Job] = (),
        workers: Sequence[Worker] = (),
        gone_workers: Sequence[str] = (),
        notes: Sequence[Note] = (),
        at: float = 0.0,
        void_points: Sequence[tuple[str, int]] = (),
    ) -> tuple[Event, ...]:
        self._check(fence)
        number = next(self._numbers)
        self._jobs |= {job.id: job for job in jobs}
        self._workers |= {worker.name: worker for worker in workers}
        for name in gone_workers:
            self._workers.pop(name, None)
        for job, first in void_points:
            self._voided[job] = number
            self._keep(job, [step for step in self._points.get(job, ()) if step < first])
        events = tuple(Event(f"0-{self._counted + place}", at, note) for place, note in enumerate(notes, 1))
        self._counted += len(events)
        self._events.extend(events)
        return events

    async def events(self, after: str = "", job: str | None = None, limit: int = 1000) -> list[Event]:
        since = event_order(after)
        later = (event for event in self._events if event_order(event.id) > since)
        return [event for event in later if job is None or event.note.job == job][:limit]

    def append_points(self, fence: int, job: str, points: Sequence[StepPoint]) -> Coroutine[Any, Any, None]:
        return self._append(fence, next(self._numbers), job, points)

    async def _append(self, fence: int, number: int, job: str, points: Sequence[StepPoint]) -> None:
        self._check(fence)
        if points and number < self._voided.get(job, 0):
            raise CameLate(f"a save made measurements of job {job} void meanwhile: send the others again")
        if points:
            self._points[job] = self._points.pop(job, {}) | {point.step: point for point in points}
            self._keep(job, sorted(self._points[job])[-self._points_kept :])
        while sum(map(len, self._points.values())) > self._all_points_kept:
            oldest = next(iter(self._points))
            thinned = sorted(self._points[oldest])[::-2]  # its last stays
            self._keep(oldest, thinned if len(thinned) >= FEWEST_POINTS else [])

    async def points(self, job: str, after_step: int = -1, limit: int = 10_000) -> list[StepPoint]:
        return [point for point in self.measured(job) if point.step > after_step][:limit]

    async def close(self) -> None:
        return

    def _keep(self, job: str, steps: Sequence[int]) -> None:
        """Of its history, which is forgotten once nothing of it is left."""
        if kept := {step: self._points[job][step] for step in steps}:
            self._points[job] = kept
        else:
            self._points.pop(job, None)

    def _check(self, fence: int) -> None:
        if fence != self._fence:
            raise Fenced(f"fence {fence} is not the last one given out, which is {self._fence}")
