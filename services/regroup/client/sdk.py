"""The REST API as Python: `Client`.

Owns: one method per thing that a user can ask, typed answers, following and waiting.
Refuses to know: terminals. Does not guarantee: that an answer is still true when you read it.

    with Client() as cluster:
        job = cluster.submit(task="digits", steps=200)
        print(cluster.wait(job.id).phase)
"""

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from pydantic import TypeAdapter

from regroup.client.address import find
from regroup.client.errors import NotFound, Unavailable, Unreachable, WaitedTooLong
from regroup.client.transport import Transport, did_nothing, understood
from regroup.core.jobs import JobPhase
from regroup.core.spec import JobSpec
from regroup.wire.rest import (
    ClusterView,
    EventList,
    EventView,
    JobList,
    JobView,
    PointList,
    PointView,
    ProblemView,
    RecordPiece,
    WorkerList,
    WorkerView,
)

_JOB = TypeAdapter(JobView)
_JOBS = TypeAdapter(JobList)
_WORKER = TypeAdapter(WorkerView)
_WORKERS = TypeAdapter(WorkerList)
_CLUSTER = TypeAdapter(ClusterView)
_EVENT = TypeAdapter(EventView)
_EVENTS = TypeAdapter(EventList)
_POINTS = TypeAdapter(PointList)
_PIECE = TypeAdapter(RecordPiece)

_PAGE = 1000
_RETRY = 0.5  # seconds between two tries to go on with a stream


class _Patience:
    """How long one question bears a coordinator that does not answer."""

    def __init__(self, seconds: float, on_away: Callable[[bool], None]) -> None:
        self._seconds, self._on_away = seconds, on_away
        self._since: float | None = None  # when it stopped answering

    @property
    def tried(self) -> bool:
        return self._since is not None

    def told_of(self, phase: JobPhase) -> str:
        """How sure it is that a job is in this phase, of which was heard last."""
        if self._since is None:
            return f"is still {phase}"
        silence = time.monotonic() - self._since
        return f"was {phase} when the coordinator last answered, and nobody has answered for {silence:.0f} s,"

    def answered(self) -> None:
        if self._since is not None:
            self._since = None
            self._on_away(False)

    def bear(self, error: Unreachable | Unavailable) -> None:
        """Raises `error` if nothing was answered for too long."""
        if self._since is None:
            self._since = time.monotonic()
            self._on_away(True)
        if time.monotonic() - self._since > self._seconds:
            raise error


class Client:
    """A coordinator's users' side. Without arguments it finds the coordinator that runs on this machine.

    `url` may name several, with commas between them: whichever leads is asked. `timeout` is the seconds that an answer
    may take, and for which a question waits while the lead passes from one to another; `patience` the seconds for which
    `wait`, a followed timeline and a `submit` whose answer was lost bear a coordinator that does not answer (the job
    goes on meanwhile); `on_away` is called with True when that begins, and with False when it answers again.
    Every method raises Unreachable or an ApiError; see `regroup.client.errors`.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        token_file: Path | None = None,
        timeout: float = 10.0,
        patience: float = 60.0,
        on_away: Callable[[bool], None] = lambda away: None,
    ) -> None:
        self._transport = Transport(partial(find, os.environ, url=url, token=token, token_file=token_file), timeout)
        self._patience = partial(_Patience, patience, on_away)

    @property
    def url(self) -> str:
        """Of the coordinator that is asked."""
        return self._transport.url

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def submit(self, spec: JobSpec | Mapping[str, Any] | None = None, **fields: Any) -> JobView:
        """Queue a job: a JobSpec, or its fields by name or in a mapping. Raises Invalid, which names what is wrong, and
        TypeError for a value that JSON has no word for.

        Where the answer is lost on its way, it is asked for again, under the same key: one call makes one job at most.
        """
        given = asdict(spec) if isinstance(spec, JobSpec) else spec or {}
        if not isinstance(given, Mapping):
            raise TypeError(f"submit() takes the fields of a job by name, such as task={given!r}, or in a mapping")
        body = {**given, **fields}
        key = {"Idempotency-Key": secrets.token_urlsafe(16)}
        patience = self._patience()
        while True:
            try:
                job = self._transport.post(_JOB, "/v1/jobs", body, key)
                patience.answered()
                return job
            except (Unreachable, Unavailable) as error:
                if not patience.tried and did_nothing(error):
                    raise
                patience.bear(error)
            time.sleep(_RETRY)

    def jobs(self) -> tuple[JobView, ...]:
        """All jobs, in the order of their submission; `loss` is left out."""
        return self._transport.get(_JOBS, "/v1/jobs").jobs

    def job(self, id: str) -> JobView:
        return self._transport.get(_JOB, f"/v1/jobs/{_part(id)}")

    def stop(self, id: str, now: bool = False) -> JobView:
        """Ask a job to end at its next step. Raises Conflict if it has ended.

        `now`: at once, with what is durable already; what its workers hold beyond that is given up.
        """
        return self._transport.post(_JOB, f"/v1/jobs/{_part(id)}/stop" + ("?now=true" if now else ""))

    def pause(self, id: str, hold: bool = False) -> JobView:
        """Ask a job to rest at its next step: its state is saved and its workers freed.

        `hold`: its workers stay, with the state in their memory. Raises Conflict if it has ended or is being stopped,
        or if there is nobody to hold.
        """
        return self._transport.post(_JOB, f"/v1/jobs/{_part(id)}/pause" + ("?hold=true" if hold else ""))

    def resume(self, id: str) -> JobView:
        """Let a paused job go on where it rested. Raises Conflict if it has ended or is being stopped."""
        return self._transport.post(_JOB, f"/v1/jobs/{_part(id)}/resume")

    def wait(
        self,
        id: str,
        timeout: float | None = None,
        on_change: Callable[[JobView], None] | None = None,
        interval: float = 0.5,
        paused: bool = False,
    ) -> JobView:
        """The job once it has ended, asked for every `interval` seconds. `paused`: also once it rests.

        `on_change` is called with the first answer and with each that differs from the one before.
        Raises WaitedTooLong after `timeout` seconds; the job goes on.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        last: JobView | None = None
        patience = self._patience()
        while True:
            try:
                job = self.job(id)
                patience.answered()
            except (Unreachable, Unavailable) as error:
                if last is None:
                    raise
                patience.bear(error)
                job = last
            if job != last and on_change:
                on_change(job)
            last = job
            if job.ended or (paused and job.phase is JobPhase.PAUSED):
                return job
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitedTooLong(f"job {job.id} {patience.told_of(job.phase)} after {timeout:g} s; it goes on")
            time.sleep(interval if deadline is None else min(interval, max(0.0, deadline - time.monotonic())))

    def points(self, id: str, after: int = -1) -> Iterator[PointView]:
        """The measured steps of a job above step `after`, in order."""
        path = f"/v1/jobs/{_part(id)}/points"
        while found := self._transport.get(_POINTS, path, {"after": after, "limit": _PAGE}).points:
            yield from found
            after = found[-1].step

    def events(self, job: str | None = None, *, after: str | None = None, follow: bool = False) -> Iterator[EventView]:
        """The timeline of the cluster, or of a job, oldest first.

        Followed, it goes on with what comes, through restarts of the coordinator; that of a job ends with the job.
        """
        path = "/v1/events" if job is None else f"/v1/jobs/{_part(job)}/events"
        if follow:
            yield from self._follow(path, after)
            return
        while found := self._transport.get(_EVENTS, path, {"after": after, "limit": _PAGE}).events:
            yield from found
            if len(found) < _PAGE:
                return  # what is written while this is read has no end
            after = found[-1].id

    def _follow(self, path: str, after: str | None) -> Iterator[EventView]:
        heard = False
        patience = self._patience()
        while True:
            headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": after} if after else {})
            try:
                with self._transport.stream(path, headers) as lines:
                    heard = True
                    patience.answered()
                    for kind, data in server_sent(lines):
                        if kind == "end":
                            return
                        event = understood(_EVENT, data)
                        after = event.id
                        yield event
            except (Unreachable, Unavailable) as error:
                if not heard:
                    raise
                patience.bear(error)
            time.sleep(_RETRY)

    def records(self, id: str) -> Iterator[RecordPiece]:
        """The workers' own records of a job, in pieces of files.

        Raises Unreachable where they break off: an agent that was read from, or the coordinator, is gone.
        """
        begun = False
        try:
            with self._transport.stream(f"/v1/jobs/{_part(id)}/records", {}) as lines:
                begun = True
                for line in lines:
                    yield understood(_PIECE, line)
        except Unreachable as broke:
            if not begun:
                raise
            raise Unreachable(f"the records of job {id} broke off before their end: ask again") from broke

    def workers(self) -> tuple[WorkerView, ...]:
        return self._transport.get(_WORKERS, "/v1/workers").workers

    def worker(self, name: str) -> WorkerView:
        return self._transport.get(_WORKER, f"/v1/workers/{_part(name)}")

    def clear(self, name: str) -> WorkerView:
        """Forgive a worker's errors and lift its quarantine."""
        return self._transport.post(_WORKER, f"/v1/workers/{_part(name)}/clear")

    def drain(self, name: str) -> WorkerView:
        """Let others take over what a worker has, and give it nothing to do until it is admitted."""
        return self._transport.post(_WORKER, f"/v1/workers/{_part(name)}/drain")

    def admit(self, name: str) -> WorkerView:
        """Give a drained worker something to do again."""
        return self._transport.post(_WORKER, f"/v1/workers/{_part(name)}/admit")

    def cluster(self) -> ClusterView:
        """The whole in a few numbers."""
        return self._transport.get(_CLUSTER, "/v1/cluster")


def server_sent(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """(event, data) of each server-sent event in the lines of a stream; comments and other fields are passed over."""
    kind, data = "message", list[str]()
    for line in lines:
        name, _, value = line.rstrip("\r").partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif not line.strip():
            if data:
                yield kind, "\n".join(data)
            kind, data = "message", []


def _part(given: str) -> str:
    """As a part of a path. Raises NotFound for what nothing is called: the path would be that of something else."""
    if given in ("", ".", "..") or "/" in given:
        detail = f"{given or 'an empty id or name'} names no job and no worker"
        raise NotFound(ProblemView(type="/problems/not-found", title="Nothing is named", status=404, detail=detail))
    return quote(given, safe="")
