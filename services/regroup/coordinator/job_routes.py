"""Jobs over REST: submit, list, inspect, stop, and what was measured and recorded of one.

Owns: the routes below /v1/jobs except events. Each is parse, command or read, view.
Refuses to know: what a command leads to.
"""

import hashlib
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Response
from fastapi.responses import StreamingResponse
from starlette.types import Send

from regroup.coordinator import views
from regroup.coordinator.desk import Desk, InContext
from regroup.coordinator.gathering import RecordsBroke
from regroup.coordinator.persistence import StoreUnavailable
from regroup.coordinator.problems import (
    CANNOT_BEGIN,
    CONFLICT,
    JOB_ENDED,
    KEY_TAKEN,
    MALFORMED,
    NO_SUCH_JOB,
    TOO_LARGE,
    Refused,
    documented,
)
from regroup.coordinator.submissions import body_schema, read_spec
from regroup.core.beginning import completed
from regroup.core.cluster import NoSuchJob
from regroup.core.commands import next_moment
from regroup.core.jobs import Job, StepPoint
from regroup.core.messages.commands import PauseJob, ResumeJob, StopJob, SubmitJob
from regroup.core.spec import JobSpec
from regroup.wire.rest import JobList, JobView, PointList, RecordPiece

log = logging.getLogger("regroup.coordinator")

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

JobId = Annotated[str, Path(description="the job's id, such as j-k3v7p2mxda")]
Key = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        pattern="^[!-~]+$",
        max_length=200,
        description="the same request under the same key is the same job, however often it is sent",
    ),
]

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is read for another
_NDJSON = "application/x-ndjson"
_PLACED: dict[str, Any] = {"headers": {"Location": {"description": "where the job is", "schema": {"type": "string"}}}}
_LATEST = 20  # steps back in which the last loss is looked for


def job_id(key: str) -> str:
    """The id of what is submitted under `key`. It can be read out over a telephone."""
    return "j-" + "".join(_LETTERS[byte % len(_LETTERS)] for byte in hashlib.sha256(key.encode()).digest()[:10])


def job_at(desk: Desk, job: str) -> Job:
    """Raises NoSuchJob."""
    found = desk.cluster.jobs.get(job)
    if found is None:
        raise NoSuchJob(f"there is no job {job}")
    return found


@router.post(
    "",
    status_code=201,
    summary="Submit a job",
    responses=documented(MALFORMED, KEY_TAKEN, CANNOT_BEGIN, TOO_LARGE)
    | {201: _PLACED, 200: _PLACED | {"model": JobView, "description": "the job that was submitted under this key"}},
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": body_schema()}}}},
)
async def submit(
    context: InContext, spec: Annotated[JobSpec, Depends(read_spec)], response: Response, key: Key = ""
) -> JobView:
    desk = context.desk
    at = next_moment(desk.cluster.jobs, time.time())
    id = job_id(key or secrets.token_hex(16))
    if id not in desk.cluster.jobs:
        await desk.command(SubmitJob(id, spec, at))
    job = job_at(desk, id)
    if job.spec != completed(desk.cluster.jobs, spec):
        raise Refused(
            KEY_TAKEN, f"job {id} was submitted under this key, with another spec: make a new key for each job"
        )
    response.status_code = 201 if job.submitted >= at else 200
    response.headers["Location"] = f"{router.prefix}/{id}"
    return views.job_view(desk.cluster, job)


@router.get("", summary="List the jobs", responses=documented())
async def jobs(context: InContext) -> JobList:
    cluster = context.desk.cluster
    return JobList(tuple(views.job_view(cluster, job) for job in cluster.jobs.values()))


@router.get("/{job}", summary="Inspect a job", responses=documented(NO_SUCH_JOB))
async def job(context: InContext, job: JobId) -> JobView:
    desk = context.desk
    step = views.committed_step(desk.cluster, job_at(desk, job))
    points: list[StepPoint] = []
    with suppress(StoreUnavailable):  # all but the loss is known without the store
        points = await desk.store.points(job, step - 1 - _LATEST, _LATEST)
    committed = [point for point in points if point.step < step]
    return views.job_view(desk.cluster, job_at(desk, job), committed)


@router.post(
    "/{job}/stop",
    status_code=202,
    summary="Stop a job at its next step, with a checkpoint",
    responses=documented(NO_SUCH_JOB, JOB_ENDED),
)
async def stop(
    context: InContext,
    job: JobId,
    now: Annotated[bool, Query(description="at once, with what is durable already; the rest is given up")] = False,
) -> JobView:
    return await _asked(context, StopJob(job, now))


@router.post(
    "/{job}/pause",
    status_code=202,
    summary="Pause a job at its next step",
    responses=documented(NO_SUCH_JOB, JOB_ENDED, CONFLICT),
)
async def pause(
    context: InContext,
    job: JobId,
    hold: Annotated[bool, Query(description="keep its workers, and its state in their memory")] = False,
) -> JobView:
    return await _asked(context, PauseJob(job, hold))


@router.post(
    "/{job}/resume",
    status_code=202,
    summary="Let a paused job go on",
    responses=documented(NO_SUCH_JOB, JOB_ENDED, CONFLICT),
)
async def resume(context: InContext, job: JobId) -> JobView:
    return await _asked(context, ResumeJob(job))


async def _asked(context: InContext, command: StopJob | PauseJob | ResumeJob) -> JobView:
    desk = context.desk
    await desk.command(command)
    return views.job_view(desk.cluster, job_at(desk, command.job))


@router.get("/{job}/points", summary="The loss history of a job, step by step", responses=documented(NO_SUCH_JOB))
async def points(
    context: InContext,
    job: JobId,
    after: Annotated[int, Query(ge=-1, le=2**53, description="only steps above this one")] = -1,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> PointList:
    job_at(context.desk, job)
    found = await context.desk.store.points(job, after, limit)
    return PointList(tuple(views.point_view(point) for point in found))


@router.get(
    "/{job}/records",
    summary="The workers' own records of a job, as JSON lines of {file, text}",
    response_class=StreamingResponse,
    responses=documented(NO_SUCH_JOB)
    | {200: {"description": "pieces of the files, one JSON object a line", "content": {_NDJSON: {}}}},
)
async def records(context: InContext, job: JobId) -> StreamingResponse:
    job_at(context.desk, job)
    return _Breakable(_lines(context.desk, job), media_type=_NDJSON)


async def _lines(desk: Desk, job: str) -> AsyncIterator[bytes]:
    async for file, text in desk.records(job):
        piece = RecordPiece(file, text)
        yield json.dumps({"file": piece.file, "text": piece.text}).encode() + b"\n"


class _Breakable(StreamingResponse):
    """Where its source breaks, it ends without its last chunk: whoever reads it must see that this is not all."""

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except RecordsBroke as broke:
            log.warning("%s", broke)
