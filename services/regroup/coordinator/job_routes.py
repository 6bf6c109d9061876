"""Jobs over REST: submit, list, inspect, stop, and what was measured and recorded of one.

Owns: the routes below /v1/jobs except events. Each is parse, command or read, view.
Refuses to know: what a command leads to.
"""

import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from regroup.coordinator import views
from regroup.coordinator.desk import Desk, InContext
from regroup.coordinator.persistence import StoreUnavailable
from regroup.coordinator.problems import JOB_ENDED, MALFORMED, NO_SUCH_JOB, TOO_LARGE, documented
from regroup.coordinator.submissions import body_schema, read_spec
from regroup.core.cluster import NoSuchJob
from regroup.core.jobs import Job, JobSpec
from regroup.core.messages import StepPoint, StopJob, SubmitJob
from regroup.wire.rest import JobList, JobView, PointList, RecordPiece

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

JobId = Annotated[str, Path(description="the job's id, such as j-k3v7p2mx")]

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is read for another
_NDJSON = "application/x-ndjson"
_LATEST = 20  # steps back in which the last loss is looked for


def new_id(taken: Desk) -> str:
    """An id that can be read out over a telephone, and that no job has."""
    while True:
        made = "j-" + "".join(secrets.choice(_LETTERS) for _ in range(8))
        if made not in taken.cluster.jobs:
            return made


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
    responses=documented(MALFORMED, TOO_LARGE)
    | {201: {"headers": {"Location": {"description": "where the job is", "schema": {"type": "string"}}}}},
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": body_schema()}}}},
)
async def submit(context: InContext, spec: Annotated[JobSpec, Depends(read_spec)], response: Response) -> JobView:
    desk = context.desk
    job = new_id(desk)
    await desk.command(SubmitJob(job, spec, at=time.time()))
    response.headers["Location"] = f"{router.prefix}/{job}"
    return views.job_view(desk.cluster, job_at(desk, job))


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
        points = await desk.store.points(job, step - _LATEST, _LATEST + 1)
    return views.job_view(desk.cluster, job_at(desk, job), points)


@router.post(
    "/{job}/stop",
    status_code=202,
    summary="Stop a job at its next step, with a checkpoint",
    responses=documented(NO_SUCH_JOB, JOB_ENDED),
)
async def stop(context: InContext, job: JobId) -> JobView:
    desk = context.desk
    await desk.command(StopJob(job))
    return views.job_view(desk.cluster, job_at(desk, job))


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
async def records(context: InContext, job: JobId, request: Request) -> StreamingResponse:
    job_at(context.desk, job)
    return StreamingResponse(_lines(context.desk, job), media_type=_NDJSON)


async def _lines(desk: Desk, job: str) -> AsyncIterator[bytes]:
    async for file, text in desk.records(job):
        piece = RecordPiece(file, text)
        yield json.dumps({"file": piece.file, "text": piece.text}).encode() + b"\n"
