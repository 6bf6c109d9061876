"""The timeline over REST: as a list, or followed as server-sent events.

Owns: resuming after Last-Event-ID, comments on a silent stream, and that no stream outlives the server's closing.
Refuses to know: what the events mean. Does not guarantee: events that the store's cap has dropped already.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import AfterValidator

from regroup.coordinator import views
from regroup.coordinator.desk import ApiContext, InContext
from regroup.coordinator.job_routes import JobId, job_at
from regroup.coordinator.persistence import event_order
from regroup.coordinator.problems import NO_SUCH_JOB, documented
from regroup.core.notes import Event
from regroup.wire.rest import EventList

router = APIRouter(prefix="/v1", tags=["events"])

_PATTERN = "^[0-9]{1,20}-[0-9]{1,20}$"
_SSE = "text/event-stream"
_PAGE = 500
_LISTED: dict[int | str, dict[str, Any]] = {
    200: {"description": "the events; as server-sent events when followed", "content": {_SSE: {}}}
}


def _event_id(given: str) -> str:
    event_order(given)
    return given


EventId = Annotated[str, AfterValidator(_event_id)]
After = Annotated[EventId, Query(pattern=_PATTERN, description="only events after the one with this id")]
Limit = Annotated[int, Query(ge=1, le=1000, description="how many to list; a followed stream has no limit")]
Follow = Annotated[bool, Query(description="go on as server-sent events, like Accept: text/event-stream")]
LastEventId = Annotated[EventId, Header(pattern=_PATTERN, description="where to resume a followed stream")]


@router.get(
    "/events", summary="The timeline of the cluster", response_model=EventList, responses=documented() | _LISTED
)
async def events(
    context: InContext,
    request: Request,
    after: After = "",
    limit: Limit = 100,
    follow: Follow = False,
    last_event_id: LastEventId = "",
) -> EventList | StreamingResponse:
    if follow or _wants_stream(request):
        return await _follow(context, last_event_id or after, None)
    return await _list(context, after, None, limit)


@router.get(
    "/jobs/{job}/events",
    summary="The timeline of a job; followed, it ends with the job",
    response_model=EventList,
    responses=documented(NO_SUCH_JOB) | _LISTED,
)
async def job_events(
    context: InContext,
    request: Request,
    job: JobId,
    after: After = "",
    limit: Limit = 100,
    follow: Follow = False,
    last_event_id: LastEventId = "",
) -> EventList | StreamingResponse:
    job_at(context.desk, job)
    if follow or _wants_stream(request):
        return await _follow(context, last_event_id or after, job)
    return await _list(context, after, job, limit)


def _wants_stream(request: Request) -> bool:
    return _SSE in request.headers.get("accept", "")


async def _list(context: ApiContext, after: str, job: str | None, limit: int) -> EventList:
    found = await context.desk.store.events(after, job, limit)
    return EventList(tuple(views.event_view(event) for event in found))


async def _follow(context: ApiContext, after: str, job: str | None) -> StreamingResponse:
    coming = context.desk.new_events()
    ended = _ended(context, job)
    first = await context.desk.store.events(after, job, _PAGE)  # before the answer begins, so that it can be an error
    stream = _stream(context, after, job, coming, ended, first)
    return StreamingResponse(stream, media_type=_SSE, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


async def _stream(
    context: ApiContext,
    after: str,
    job: str | None,
    coming: asyncio.Future[None],
    ended: bool,
    found: Sequence[Event],
) -> AsyncIterator[bytes]:
    """What was found, then what comes. `coming` and `ended` were taken before `found` was read: nothing is missed."""
    yield b"retry: 1000\n\n"
    closing = asyncio.ensure_future(context.closing.wait())
    try:
        while not closing.done():
            for event in found:
                after = event.id
                yield _encode(event)
            if not found and ended:
                yield b"event: end\ndata: {}\n\n"
                return
            if not found:
                either: set[asyncio.Future[Any]] = {coming, closing}
                done, _ = await asyncio.wait(either, timeout=context.keepalive, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    yield b": still here\n\n"
            coming = context.desk.new_events()
            ended = _ended(context, job)
            found = await context.desk.store.events(after, job, _PAGE)
    finally:
        closing.cancel()


def _ended(context: ApiContext, job: str | None) -> bool:
    known = context.desk.cluster.jobs.get(job) if job else None
    return known is not None and known.ended


def _encode(event: Event) -> bytes:
    """ASCII JSON on one line: no character that some reader takes for the end of a line."""
    data = json.dumps(asdict(views.event_view(event)))
    return f"id: {event.id}\nevent: {event.note.kind}\ndata: {data}\n\n".encode()
