"""What a store is: state behind load and save with a fence, a lease on leadership, a timeline, and loss histories.

Owns: the contract that every store keeps (the tests of it run on each), and its errors.
Refuses to know: Redis, and what is stored for which reason.
The fence is a number that grows with every change of leadership. Whoever saves shows the fence under which it leads;
once a newer one was given out, nothing of an older leader is written any more, whatever it believes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from regroup.core.jobs import Job, StepPoint
from regroup.core.notes import Event, Note
from regroup.core.workers import Worker

STORE_RETRY = 0.2  # seconds between tries while the store is down
EVENTS_KEPT = 10_000  # of the whole timeline; the oldest leave first
POINTS_KEPT = 50_000  # steps of one job's loss history; the oldest leave first
ALL_POINTS_KEPT = 500_000  # of all jobs (some 115 MB); the history that grew longest ago loses every other step
FEWEST_POINTS = 8  # a history that would keep fewer goes as a whole


class StoreError(Exception):
    """The root of what a store raises."""


class StoreUnavailable(StoreError):
    """The store did not answer, or refused to. What was asked may have been done. The message says what to do."""


class StoreAway(StoreUnavailable):
    """Nothing answers where it should be, or it still reads its files: that may pass by itself."""


class Unconfirmed(StoreUnavailable):
    """A command was decided, and the store has not said that it keeps it. It is carried out as soon as it does."""


class CameLate(StoreUnavailable):
    """Nothing was written: a save that was sent later came first, and made measurements void. Send the others again."""


class Fenced(StoreError):
    """Nothing was written: somebody else leads, or led since. Whoever gets this must stop."""


@dataclass(frozen=True, slots=True)
class Saved:
    """All durable state, as of one instant. The keys are the jobs' ids, oldest first, and the workers' names."""

    jobs: Mapping[str, Job]
    workers: Mapping[str, Worker]


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds the leadership. A holder that lives shows by growing `renewals`."""

    holder: str
    fence: int
    renewals: int
    remaining: float  # seconds until it runs out


@dataclass(frozen=True, slots=True)
class Standby:
    """A coordinator that waits for the leadership."""

    holder: str  # as it calls itself when it holds the lease
    url: str  # where it answers REST; no blanks


class Store(Protocol):
    """All methods raise StoreUnavailable. Leases are counted by the store's own clock, in seconds."""

    async def acquire(self, holder: str, lease: float) -> int | None:
        """Take the leadership if nobody holds it: a new fence, above all that there were. None: somebody does."""

    async def lease(self) -> Lease | None:
        """Who holds the leadership; None: nobody."""

    async def renew(self, holder: str, fence: int, lease: float) -> bool:
        """Begin the lease anew. False: another fence was given out since, or the leadership was released.

        A lease that ran out is taken up again as long as nobody else took it: the fence still protects every save.
        """

    async def release(self, holder: str, fence: int) -> None:
        """Give the leadership up before its lease runs out; the fence is used up. No effect if another leads."""

    async def weakness(self) -> str | None:
        """Why what is saved may be lost in a crash, and what to do about it; None: nothing is known against it."""

    async def load(self) -> Saved:
        """Everything saved. Raises Undecodable, naming the job or worker, for what this version cannot read."""

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
        """Write the changed jobs and workers, remove workers, and lengthen the timeline: all of it durably, or nothing.

        `void_points` are (job, step): of that job's loss history, this step and all above are removed.
        `at` is the time of the notes, seconds since the epoch. Returns the notes as events, in their order.
        Call it again only when the last call ended. Raises Fenced unless `fence` is the last one given out.
        """

    async def events(self, after: str = "", job: str | None = None, limit: int = 1000) -> list[Event]:
        """The oldest `limit` events later than the event `after`, of one job or of all.

        Raises ValueError if `after` is no event's id; the event itself may be gone.
        """

    async def append_points(self, fence: int, job: str, points: Sequence[StepPoint]) -> None:
        """Lengthen a job's loss history. A later point of the same step replaces the earlier one. Raises Fenced.

        Its place among the saves is that of the call, however late it comes, even if it was given up: once a later save
        made points of this job void, nothing is written any more. Raises CameLate to whoever still waits.
        Where all histories together became too long, that of the job which was lengthened longest ago is thinned.
        """

    async def points(self, job: str, after_step: int = -1, limit: int = 10_000) -> list[StepPoint]:
        """The first `limit` points of steps above `after_step`, ascending."""

    async def close(self) -> None:
        """Close the connections. Gives up no leadership."""


class SharedStore(Store, Protocol):
    """A store by which coordinators that wait know of each other, and whoever leads knows of them."""

    async def examine(self) -> None:
        """Find out, before anything rests on it, whether it can do what will be asked. Changes nothing."""

    async def stand_by(self, standby: Standby, lease: float) -> None:
        """Count it among those that wait, for so many seconds; 0: not any more."""

    async def standbys(self) -> list[Standby]:
        """All that wait, by their URLs."""


def in_order(jobs: Iterable[Job]) -> dict[str, Job]:
    """By id, in the order of their submission: first in, first out holds across restarts."""
    return {job.id: job for job in sorted(jobs, key=lambda job: (job.submitted, job.id))}


def event_order(event: str) -> tuple[int, int]:
    """An event's id as a value that compares. "" stands before all. Raises ValueError if it is none."""
    if not event:
        return (0, 0)
    first, dash, second = event.partition("-")
    if not (dash and first.isascii() and second.isascii() and first.isdigit() and second.isdigit()):
        raise ValueError(f"{event[:50]!r} is no event's id")
    order = int(first[:21]), int(second[:21])
    if max(order) >= 2**64:
        raise ValueError(f"{event[:50]!r} is no event's id")
    return order
