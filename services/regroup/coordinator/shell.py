"""The shell around the decision: take an event, decide, persist, send. It moves bytes and decides nothing.

Owns: the order of those four, the leadership and its fence, and the clocks. Refuses to know: why anything is decided.
Does not guarantee: that an order arrives (it is due again at the next heartbeat), nor that measurements of steps
survive a crash (they are for pictures; what counts is in the workers' own records).
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from itertools import count, groupby
from math import inf
from operator import itemgetter

from regroup.coordinator.gathering import Gathering
from regroup.coordinator.namesakes import Namesakes
from regroup.coordinator.persistence import STORE_RETRY, Fenced, Saved, Store, StoreUnavailable, Unconfirmed
from regroup.coordinator.points import whole
from regroup.coordinator.skew import skew
from regroup.core.cluster import Cluster, Policy, Refusal
from regroup.core.decide import Decision, decide
from regroup.core.history import shared_steps
from regroup.core.jobs import Job, JobPhase, StepPoint, Version
from regroup.core.messages.agent_reports import AgentRegistered, Heartbeat, RecordsFailed, RecordsListed, RecordsRead
from regroup.core.messages.commands import Command
from regroup.core.messages.events import Disconnected, Event, KeepSteps, Report, Reported, Tick
from regroup.core.messages.orders import Go, Heard, Kill, Release
from regroup.wire.lease_clock import lease_clock
from regroup.wire.link import Hub

log = logging.getLogger("regroup.coordinator")

KEEP_STEPS = 1.0  # seconds between writes of the running jobs' steps, or more:
RARELY = 10.0  # times as long as the last such write took, so that a slow store has time for all else
SLOW_STORE = 0.1  # seconds of a write beyond which no limit counts it: orders wait for it, and what is heard
POINTS_INTERVAL = 0.25  # seconds between writes of measurements
STREAK = 64  # events taken at once before all other tasks have their turn
BACKLOG = 20_000  # events waiting beyond which heartbeats are dropped: they repeat

OVERTAKEN = "another coordinator leads this cluster; this one stops"


class LeadershipLost(Exception):
    """Another coordinator leads; this one must stop."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """Who we are to the store, and the fence that every write carries."""

    holder: str
    fence: int
    lease: float  # seconds


class Shell:
    def __init__(
        self,
        store: Store,
        hub: Hub,
        policy: Policy,
        leadership: Leadership,
        saved: Saved,
        clock: Callable[[], float] = lease_clock,
        wall: Callable[[], float] = time.time,
        release: str = "",
    ) -> None:
        self.store, self.policy = store, policy
        self._hub, self._leadership = hub, leadership
        self._clock, self._wall = clock, wall
        self.cluster = Cluster(started=clock(), release=release, jobs=dict(saved.jobs), workers=dict(saved.workers))
        self._events: asyncio.Queue[tuple[Event, float, asyncio.Future[None] | None]] = asyncio.Queue()
        self._heard = self.cluster.started  # when the last event came
        self._keeping = 0.0  # seconds of the last write of steps alone
        self._slept = 0.0  # seconds that were spent on slow writes, ever
        self._now = self.cluster.started  # of the last decision
        self._confirmed = -inf  # when the store was last asked about our leadership, and said yes
        self._withheld = False  # answers to heartbeats, and that was said
        self._trouble: str | None = None
        self._waiting: set[asyncio.Future[None]] = set()  # of commands that nothing was done about
        self._written: asyncio.Future[None] | None = None
        self._points: defaultdict[str, list[StepPoint]] = defaultdict(list)
        self._writing = asyncio.Lock()  # so that none is on its way when a job's end is told
        self._gathering = Gathering(hub.send)
        self._namesakes = Namesakes()

    async def run(self) -> None:
        """Lead until cancelled. Raises LeadershipLost."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._hub.run(self._reported, self._closed))
            tasks.create_task(self._tick())
            tasks.create_task(self._keep_leading())
            tasks.create_task(self._write_points())
            tasks.create_task(self._keep_steps())
            tasks.create_task(self._decide())

    # --- What the API asks (coordinator/desk.py)

    @property
    def ready(self) -> str | None:
        if self._trouble is not None:
            return self._trouble
        if self._clock() - self._confirmed > self._leadership.lease:
            return "the store has not confirmed this coordinator's leadership in time"
        return None

    async def command(self, command: Command) -> None:
        if self._trouble is not None:
            raise StoreUnavailable(self._trouble)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(done)
        self._events.put_nowait((command, self._clock(), done))
        try:
            await done
        finally:
            self._waiting.discard(done)

    def new_events(self) -> asyncio.Future[None]:
        if self._written is None:
            self._written = asyncio.get_running_loop().create_future()
        return self._written

    def records(self, job: str) -> AsyncIterator[tuple[str, str]]:
        present = [name for name, sighting in self.cluster.sightings.items() if sighting.connected]
        return self._gathering.records(job, present)

    # --- Events in

    def _reported(self, worker: str, report: Report) -> None:
        if isinstance(report, AgentRegistered):
            odd = (
                skew(worker, report.host, report.wall, self._wall()),
                self._namesakes.met(worker, report.boot, report.host),
            )
            for told in filter(None, odd):
                log.warning(told)
        if isinstance(report, RecordsListed | RecordsRead | RecordsFailed):
            self._gathering.answered(worker, report)
        elif not isinstance(report, Heartbeat) or self._events.qsize() < BACKLOG:
            self._events.put_nowait((Reported(worker, report), self._clock(), None))

    def _closed(self, worker: str) -> None:
        self._gathering.closed(worker)
        self._events.put_nowait((Disconnected(worker), self._clock(), None))

    async def _tick(self) -> None:
        while True:
            # At least twice in a lease: else a gap between two events looks as if this process had stood still.
            await asyncio.sleep(min(self.policy.tick, self._leadership.lease / 2))
            if self._events.empty():
                self._events.put_nowait((Tick(), self._clock(), None))

    async def _keep_steps(self) -> None:
        """So that what is shown goes back by no more than this when another coordinator takes over."""
        while True:
            await asyncio.sleep(max(KEEP_STEPS, RARELY * self._keeping))
            if self._trouble is None:
                self._events.put_nowait((KeepSteps(), self._clock(), None))

    # --- Decide, persist, send

    async def _decide(self) -> None:
        for number in count(1):
            if number % STREAK == 0:
                await asyncio.sleep(0)  # a queue that holds something suspends nobody
            event, at, done = await self._events.get()
            if done is not None and done.done():
                continue  # it was refused while it waited, or whoever asked is gone
            self._notice_gap(at)
            self._now, refused = max(self._now, at - self._slept), None
            try:
                decision = decide(self.cluster, event, self._now, self.policy)
            except Refusal as refusal:
                if done is None:
                    raise
                decision, refused = Decision(self.cluster, (), (), ()), refusal
            if done is not None:
                self._waiting.discard(done)
            began = self._clock()
            try:
                await self._persist(decision, done, patient=refused is None and not isinstance(event, KeepSteps))
            except StoreUnavailable as trouble:
                if done is not None and not done.done():
                    done.set_exception(StoreUnavailable(str(trouble)))  # what is refused was not taken
                continue  # the steps alone may be ahead in the store; a later event keeps them
            finally:
                took = self._leave_out(began)
                self._keeping = took if isinstance(event, KeepSteps) else self._keeping
            self._send(decision, at)
            if done is not None and not done.done():
                _answer(done, refused)

    def time(self) -> float:
        """As decisions count it, in seconds: without the slow writes, in which nothing is heard and no order leaves.

        Were limits begun anew after each, a store that is slow for long would keep all of them from running out.
        """
        return self._clock() - self._slept

    def _leave_out(self, since: float) -> float:
        took = self._clock() - since
        if took > SLOW_STORE:
            self._slept += took
        return took

    def _notice_gap(self, at: float) -> None:
        """Between two events, of which there always are some: this process stood still, and heard nobody."""
        if at - self._heard > self._leadership.lease:
            self._awake()
        self._heard = at

    def _awake(self) -> None:
        """What was not heard, or not told, until now is nobody's silence."""
        self.cluster = replace(self.cluster, awake=max(self._now, self.time()))

    async def _persist(self, decision: Decision, done: asyncio.Future[None] | None, patient: bool) -> None:
        """Make the decision durable, and then ours.

        What the store did not confirm it may have kept all the same. So a decision stays, and is tried until it is
        confirmed, or this coordinator is overtaken; whoever waits for `done` is told so. Raises StoreUnavailable
        after one try unless `patient`, which is for what may be kept or not.
        """
        before, after = self.cluster, decision.cluster
        now = self._wall()
        for job, points in decision.points:
            self._points[job].extend(points)
        changed = [job for id, job in after.live.items() if job is not before.jobs.get(id)]
        for job in (each.id for each in changed if each.ended):
            await self._write_points_of(job)  # whoever sees that it ended finds all that was measured
        back = {note.job: note.data["base_step"] for note in decision.notes if note.kind == "rolled_back"}
        void = [(job.id, s) for job in changed for s in _void_from(job, before.jobs.get(job.id), back.get(job.id))]
        for id, step in void:
            await self._drop_points_of(id, step)
        jobs = [_stamped(job, before.jobs.get(job.id), now) for job in changed]
        workers = [worker for name, worker in after.workers.items() if worker is not before.workers.get(name)]
        gone = [name for name in before.workers if name not in after.workers]
        if jobs or workers or gone or decision.notes or done is not None:  # only who still leads answers, or refuses
            while True:
                try:
                    await self.store.save(self._leadership.fence, jobs, workers, gone, decision.notes, now, void)
                    self._answered()
                    break
                except Fenced as fenced:
                    raise LeadershipLost(OVERTAKEN) from fenced
                except StoreUnavailable as trouble:
                    self._meet(trouble)
                    if not patient:
                        raise
                    if done is not None and not done.done():
                        done.set_exception(Unconfirmed(f"it may have been taken: {trouble}"))
                    await asyncio.sleep(STORE_RETRY)
        self.cluster = after.having(jobs) if jobs else after
        for note in decision.notes:
            log.info("%s: %s", note.job or note.worker or "cluster", note.reason)
        if decision.notes and self._written is not None:
            self._written.set_result(None)
            self._written = None

    def _send(self, decision: Decision, at: float) -> None:
        """`at`: when the event came. If that is long ago, those on whose word somebody is to end may be gone by now, as
        what waits to be taken in may tell. So nobody is told to; who is to end all the same hears it with the answer to
        its next heartbeat."""
        late = self._clock() - at > self.policy.quiet_limit
        for order, told in groupby(decision.orders, key=itemgetter(1)):  # what goes to many is encoded once
            if isinstance(order, Kill | Release | Go) and late:
                continue
            if not isinstance(order, Heard) or self._answers():
                self._hub.send_many([worker for worker, _ in told], order)

    def _answers(self) -> bool:
        """Whether heartbeats are answered. An answer renews a lease: only a confirmed leader gives it."""
        leading = self._clock() - self._confirmed < self._leadership.lease
        if leading and self._withheld:
            log.info("heartbeats are answered again: the store confirmed this coordinator's leadership")
        elif not leading and not self._withheld:
            lease = self._leadership.lease
            log.warning(
                "no heartbeat is answered: the store did not confirm this coordinator's leadership within %g s", lease
            )
        self._withheld = not leading
        return leading

    async def _keep_leading(self) -> None:
        while True:
            await self.confirm()
            await asyncio.sleep(self._leadership.lease / 4)

    async def confirm(self) -> None:
        """Begin the lease anew, if the store can be reached. Raises LeadershipLost."""
        mine, asked = self._leadership, self._clock()
        try:
            if not await self.store.renew(mine.holder, mine.fence, mine.lease):
                raise LeadershipLost("another coordinator took over the lead of this cluster; this one stops")
            self._confirmed = asked
            self._answered()
        except StoreUnavailable as trouble:
            self._meet(trouble)

    def _meet(self, trouble: StoreUnavailable) -> None:
        """The store is away: commands that nothing was done about are refused now, and not carried out later."""
        if self._trouble is None:
            log.warning("nothing is decided until the store answers, and training goes on: %s", trouble)
        self._trouble = str(trouble)
        for done in self._waiting:
            if not done.done():
                done.set_exception(StoreUnavailable(self._trouble))
        self._waiting.clear()

    def _answered(self) -> None:
        if self._trouble is not None:
            log.info("the store answers again")
        self._trouble = None

    async def _write_points(self) -> None:
        while True:
            await asyncio.sleep(POINTS_INTERVAL)
            for job in list(self._points):
                await self._write_points_of(job)

    async def _write_points_of(self, job: str) -> None:
        async with self._writing:
            points = self._points.pop(job, [])
            try:
                measured = await whole(self.store, job, points)
                await self.store.append_points(self._leadership.fence, job, measured)
            except Fenced as fenced:
                raise LeadershipLost(OVERTAKEN) from fenced
            except StoreUnavailable:
                self._points[job] = (points + self._points[job])[-BACKLOG:]

    async def _drop_points_of(self, job: str, step: int) -> None:
        """Those of `step` and above are void; none of them is on its way to the store any more."""
        async with self._writing:
            self._points[job] = [point for point in self._points[job] if point.step < step]


def _answer(done: asyncio.Future[None], refused: Refusal | None) -> None:
    if refused is not None:
        done.set_exception(refused)
    else:
        done.set_result(None)


def _void_from(job: Job, before: Job | None, back: int | None = None) -> list[int]:
    """The step from which on measurements are void, if a formation, a save or a roll-back `back` to it made some so."""
    if before is None:
        return []
    void = [back] if back is not None else []
    if job.formation is not None and job.formation is not before.formation:
        void.append(_measured_to(job, job.formation.base, job.formation.generation))
    stopped = job.phase is JobPhase.STOPPED and job.checkpoint is not None
    ordered = before.saver is not None and job.saver is None and job.round is None  # else it was written beside
    saved = job.checkpoint is not before.checkpoint and ordered
    if saved or stopped or (job.formation is None and before.formation is not None):
        void.append(_measured_to(job, job.saved, job.generation + 1))  # all that is left of it
    return [min(void)] if void else []


def _measured_to(job: Job, state: Version, until: int) -> int:
    """Steps of which the measurements may be this state's: generations after it, below `until`, measured others from
    where their lines parted from its own."""
    later = [link for link in job.history if state.generation < link.generation < until]
    parted = (shared_steps(job.history, state, Version(link.parent, link.base_step)) for link in later)
    return min([state.step, *parted])


def _stamped(job: Job, before: Job | None, now: float) -> Job:
    """The job, with the times at which its phase changed and its newest state became durable."""
    if before is None or before.phase is not job.phase:
        job = replace(job, since=now)
    saved = job.checkpoint
    if saved is not None and not saved.at and (before is None or saved is not before.checkpoint):
        job = replace(job, checkpoint=replace(saved, at=now))
    return job
