"""The store on Redis: the only importer of redis. The key space stands in the header of `store.lua`.

Owns: the connection, and the translation between values and keys.
Refuses to know: when to try again (the shell's business: trouble is told at once), and what the values mean.
Does not guarantee that a failed call did nothing: an answer can be lost on its way. Saving the same again is safe,
except that its notes then stand in the timeline twice; a save that comes when a later one is done does nothing, nor do
measurements that come when a later save made some of their job void.
Durability is the server's (`weakness`).
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, cast

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError, RedisError, ResponseError

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
    StoreAway,
    StoreUnavailable,
    event_order,
    in_order,
)
from regroup.coordinator.redis_advice import in_short, may_pass, too_old, what_to_do
from regroup.core.jobs import Job, StepPoint
from regroup.core.notes import Event, Note
from regroup.core.workers import Worker
from regroup.wire.codec import T, Undecodable, decode_value, encode_value

ANSWER = 5.0  # seconds to wait for one
DURABLE = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}  # what must be configured
# In the order in which the script takes them.
KEYS = (
    "fence",
    "leader",
    "saves",
    "jobs",
    "workers",
    "events",
    "points:",
    "histories",
    "measured",
    "standbys",
    "voided",
)
SCAN = 1000  # events read at a time while looking for those of one job
TURN = 200  # jobs or workers read at a time
READERS = 32  # at once; of a client's 100 connections there are always some for whoever leads


class RedisStore:
    """A SharedStore on the Redis at `url` (redis://, rediss:// or unix://), under keys that begin with `prefix`."""

    def __init__(
        self,
        url: str,
        prefix: str = "regroup:",
        events_kept: int = EVENTS_KEPT,
        points_kept: int = POINTS_KEPT,
        all_points_kept: int = ALL_POINTS_KEPT,
        password: str | None = None,
    ) -> None:
        """Connects at the first call. `password`: unless `url` has one. Raises StoreUnavailable if `url` is none."""
        try:
            self._redis = redis.asyncio.Redis.from_url(
                url,
                password=password,
                retry=Retry(NoBackoff(), 0),
                socket_timeout=ANSWER,
                socket_connect_timeout=ANSWER,
            )
        except ValueError as error:
            message = "the address of Redis cannot be read: it looks like redis://host:6379/0 or unix:///path/to/socket"
            raise StoreUnavailable(message) from error
        self._prefix = prefix
        self._events_kept = events_kept
        self._bounds = points_kept, all_points_kept, FEWEST_POINTS  # of loss histories
        self._readers = asyncio.Semaphore(READERS)
        self._numbers = count(1)  # of saves and measurements, so that what comes late is known as such
        self._script = self._redis.register_script(Path(__file__).with_name("store.lua").read_text())

    async def examine(self) -> None:
        with self._trouble():
            try:
                found: Any = await self._redis.info("server")
            except NoPermissionError:
                found = {}  # its version is not for us to read
        if (old := too_old(found.get("redis_version"))) is not None:
            raise self._told("", old)
        await self._write("rehearse")

    async def acquire(self, holder: str, lease: float) -> int | None:
        return cast(int | None, await self._write("acquire", holder, _milliseconds(lease)))

    async def lease(self) -> Lease | None:
        with self._trouble():
            async with self._redis.pipeline(transaction=True) as together:
                together.hmget(self._prefix + "leader", ["holder", "fence", "renewals"])
                together.pttl(self._prefix + "leader")
                (holder, fence, renewals), remaining = await together.execute()
        return Lease(holder.decode(), int(fence), int(renewals), remaining / 1000) if holder is not None else None

    async def renew(self, holder: str, fence: int, lease: float) -> bool:
        return bool(await self._write("renew", holder, fence, _milliseconds(lease)))

    async def release(self, holder: str, fence: int) -> None:
        await self._write("release", holder, fence)

    async def stand_by(self, standby: Standby, lease: float) -> None:
        await self._write("stand_by", f"{standby.url} {standby.holder}", round(lease * 1000))

    async def standbys(self) -> list[Standby]:
        found = [entry.decode().partition(" ") for entry in await self._write("standbys")]
        return sorted((Standby(holder, url) for url, _, holder in found), key=lambda standby: standby.url)

    async def weakness(self) -> str | None:
        with self._trouble():
            try:
                found: Any = await self._redis.config_get(*DURABLE)
            except ResponseError:
                return None  # its configuration is not for us to read
        wrong = [name for name, value in DURABLE.items() if found.get(name, value) != value]
        has, should = (" and ".join(f"{name} {values[name]}" for name in wrong) for values in (found, DURABLE))
        where = f"Redis at {self._where}"
        return f"{where} may lose what it said it keeps ({has}): configure {should}" if wrong else None

    async def load(self) -> Saved:
        """In pieces, each with its own limit, and others have their turn in between: there may be very many. They are
        of one moment, since nobody writes but whoever leads, and that is who asks."""
        jobs = [job async for job in self._all(Job, "job")]
        workers = [worker async for worker in self._all(Worker, "worker")]
        return Saved(in_order(jobs), {worker.name: worker for worker in workers})

    async def _all(self, cls: type[T], noun: str) -> AsyncIterator[T]:
        seen, cursor = set[bytes](), 0  # a scan may show what it showed before
        while True:
            with self._trouble():
                told = await self._redis.hscan(f"{self._prefix}{noun}s", cursor, count=TURN)
            cursor, page = cast(tuple[int, dict[bytes, bytes]], told)
            for key in page.keys() - seen:
                yield _stored(cls, page[key], f"{noun} {key.decode()}")
            seen.update(page)
            if not cursor:
                return

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
        stored: list[str | bytes | int] = [len(jobs)]
        for job in jobs:
            stored += job.id, encode_value(job)
        stored.append(len(workers))
        for worker in workers:
            stored += worker.name, encode_value(worker)
        stored += len(gone_workers), *gone_workers
        stored.append(len(void_points))
        for job_id, step in void_points:
            stored += job_id, step
        stored += len(notes), *map(encode_value, notes)
        done, *answer = await self._write("save", fence, next(self._numbers), self._events_kept, repr(at), *stored)
        if not done:
            raise Fenced(f"fence {fence} is not the last one given out, which is {answer[0].decode()}")
        return tuple(Event(id.decode(), at, note) for id, note in zip(answer, notes, strict=True))

    async def events(self, after: str = "", job: str | None = None, limit: int = 1000) -> list[Event]:
        event_order(after)
        found: list[Event] = []
        while len(found) < limit:
            count = SCAN if job is not None else limit - len(found)
            async with self._reading():
                entries: Any = await self._redis.xrange(
                    self._prefix + "events", f"({after}" if after else "-", "+", count
                )
            for key, entry in entries:
                after = key.decode()
                note = _stored(Note, entry[b"note"], f"event {after}")
                if job is None or note.job == job:
                    found.append(Event(after, float(entry[b"at"]), note))
            if len(entries) < count:
                break
        return found[:limit]

    def append_points(self, fence: int, job: str, points: Sequence[StepPoint]) -> Coroutine[Any, Any, None]:
        return self._append(fence, next(self._numbers), job, points)

    async def _append(self, fence: int, number: int, job: str, points: Sequence[StepPoint]) -> None:
        stored = [part for point in points for part in (point.step, encode_value(point))]
        done = await self._write("append", fence, number, job, *self._bounds, *stored) if stored else 1
        if done == 0:
            raise Fenced(f"fence {fence} is not the last one given out")
        if done < 0:
            raise CameLate(f"a save made measurements of job {job} void meanwhile: send the others again")

    async def points(self, job: str, after_step: int = -1, limit: int = 10_000) -> list[StepPoint]:
        key = f"{self._prefix}points:{job}"
        async with self._reading():
            found: Any = await self._redis.zrange(key, f"({after_step}", "+inf", byscore=True, offset=0, num=limit)
        return [_stored(StepPoint, data, f"a point of job {job}") for data in found]

    async def close(self) -> None:
        await self._redis.aclose()

    @property
    def _where(self) -> str:
        options = self._redis.connection_pool.connection_kwargs
        return str(options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}")

    async def _write(self, what: str, *values: str | bytes | int) -> Any:
        with self._trouble():
            return await self._script([self._prefix + name for name in KEYS], [what, *values])

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[None]:
        """Of what may be long, for one of any number of clients: in its turn."""
        async with self._readers:
            with self._trouble():
                yield

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        """Whatever goes wrong between here and Redis, in one line, without the password.

        Whoever is cancelled meanwhile is cancelled: what the client sends by may return or fail as if nothing had been
        asked (`asyncio.wait_for` before Python 3.12, once what it waits for is done), and a loop would go on for ever.
        """
        asked = _times_cancelled()
        try:
            yield
            if _times_cancelled() > asked:
                raise asyncio.CancelledError
        except (RedisError, OSError) as error:
            if _times_cancelled() > asked:
                raise asyncio.CancelledError from error
            options = self._redis.connection_pool.connection_kwargs
            reason = " ".join(str(error).split()) or type(error).__name__
            for secret in filter(None, (options.get("password"), options.get("username"))):
                reason = reason.replace(secret, "***")
            raise self._told(type(error).__name__, reason) from error

    def _told(self, kind: str, reason: str) -> StoreUnavailable:
        tls = self._redis.connection_pool.connection_class is redis.asyncio.SSLConnection
        advice = what_to_do(kind, reason, tls)
        told = f"no use of Redis at {self._where} ({in_short(reason)}): {advice}"
        return StoreAway(told) if may_pass(advice) else StoreUnavailable(told)


def _times_cancelled() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _stored(cls: type[T], data: bytes, what: str) -> T:
    try:
        return decode_value(cls, data)
    except Undecodable as reason:
        advice = "start the version of Regroup that wrote it, or a later one"
        raise Undecodable(f"{what} in the store cannot be read: {reason}; {advice}") from reason


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
