"""Workers and the cluster as a whole over REST.

Owns: the routes below /v1/workers, and /v1/cluster.
Refuses to know: how a worker is reached; to clear or to drain one is a command like any other.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Path

from regroup.coordinator import views
from regroup.coordinator.desk import ApiContext, InContext
from regroup.coordinator.persistence import Standby, StoreUnavailable
from regroup.coordinator.problems import NO_SUCH_WORKER, documented
from regroup.core.cluster import NoSuchWorker
from regroup.core.messages.commands import AdmitWorker, ClearWorker, DrainWorker
from regroup.wire.rest import ClusterView, WorkerList, WorkerView

router = APIRouter(prefix="/v1", tags=["workers"])

WorkerName = Annotated[str, Path(description="the worker's name")]


@router.get("/workers", summary="List the workers", responses=documented())
async def workers(context: InContext) -> WorkerList:
    desk, now = context.desk, context.clock()
    return WorkerList(
        tuple(views.worker_view(desk.cluster, name, desk.policy, now) for name in sorted(desk.cluster.workers))
    )


@router.get("/workers/{name}", summary="Inspect a worker", responses=documented(NO_SUCH_WORKER))
async def worker(context: InContext, name: WorkerName) -> WorkerView:
    return _view(context, name)


@router.post(
    "/workers/{name}/clear",
    summary="Forgive a worker's errors and lift its quarantine",
    responses=documented(NO_SUCH_WORKER),
)
async def clear(context: InContext, name: WorkerName) -> WorkerView:
    await context.desk.command(ClearWorker(name))
    return _view(context, name)


@router.post(
    "/workers/{name}/drain",
    summary="Let others take over what a worker has, and give it nothing to do until it is admitted",
    responses=documented(NO_SUCH_WORKER),
)
async def drain(context: InContext, name: WorkerName) -> WorkerView:
    await context.desk.command(DrainWorker(name))
    return _view(context, name)


@router.post(
    "/workers/{name}/admit",
    summary="Give a drained worker something to do again",
    responses=documented(NO_SUCH_WORKER),
)
async def admit(context: InContext, name: WorkerName) -> WorkerView:
    await context.desk.command(AdmitWorker(name))
    return _view(context, name)


@router.get("/cluster", summary="The whole in a few numbers", responses=documented())
async def cluster(context: InContext) -> ClusterView:
    desk = context.desk
    leader: str | None = None
    standbys: Sequence[Standby] = ()
    trouble = desk.ready
    if trouble is None:  # else the store may take long to say nothing
        with suppress(StoreUnavailable):
            lease = await desk.store.lease()
            leader = lease.holder if lease is not None else None
            standbys = await context.standbys()
    return views.cluster_view(
        desk.cluster,
        desk.policy,
        context.clock(),
        trouble=trouble,
        version=context.version,
        leader=leader,
        standbys=standbys,
    )


def _view(context: ApiContext, name: str) -> WorkerView:
    desk = context.desk
    if name not in desk.cluster.workers:
        raise NoSuchWorker(f"there is no worker {name}")
    return views.worker_view(desk.cluster, name, desk.policy, context.clock())
