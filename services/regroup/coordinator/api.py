"""The REST API, put together: routes, the token's guard, problems, health and readiness.

Owns: the application object and the routes that need no token.
Refuses to know: how it is served (`serving`) and what stands behind the desk.
"""

from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi_offline import FastAPIOffline

from regroup.coordinator import event_routes, exposition, job_routes, problems, worker_routes
from regroup.coordinator.desk import ApiContext, Desk, InContext
from regroup.coordinator.guard import authorize
from regroup.coordinator.json_line import JsonLine
from regroup.coordinator.persistence import Standby
from regroup.core.spec import Problem
from regroup.wire.lease_clock import lease_clock
from regroup.wire.rest import Greeting, Health, ProblemView

__all__ = ["Desk", "create_app"]

open_routes = APIRouter(tags=["service"])

_DESCRIPTION = """An elastic training cluster for PyTorch. Every route below `/v1`, and `/metrics`, needs the bearer
token of the coordinator. Errors are RFC 9457 problem details: `detail` says what is wrong, and `errors` names each
field."""


async def nobody() -> tuple[Standby, ...]:
    return ()


def create_app(
    desk: Desk,
    token: str,
    *,
    clock: Callable[[], float] = lease_clock,
    keepalive: float = 15.0,
    standbys: Callable[[], Awaitable[Sequence[Standby]]] = nobody,
) -> FastAPI:
    """The application over `desk`. `clock` is the one that the cluster's times are of; `keepalive` is in seconds.

    `standbys` says which other coordinators wait; raises StoreUnavailable.
    """
    app = FastAPIOffline(
        title="Regroup",
        version=version("regroup"),
        description=_DESCRIPTION,
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=JsonLine,
    )
    app.state.context = ApiContext(desk, token, app.version, clock, keepalive, standbys)
    problems.install(app)
    app.include_router(open_routes)
    app.include_router(exposition.router, dependencies=[Depends(refuse_unknown_parameters)])
    for router in (job_routes.router, event_routes.router, worker_routes.router):
        app.include_router(router, dependencies=[Depends(authorize), Depends(refuse_unknown_parameters)])
    return app


async def refuse_unknown_parameters(request: Request) -> None:
    """Raises Refused (422) for a query parameter that the route does not have: it may be a known one, misspelt."""
    known = [each.alias for each in request.scope["route"].dependant.query_params]
    there = f"there are {', '.join(known)}" if known else "there is none"
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise problems.invalid(Problem(name, f"is no parameter of this route; {there}") for name in unknown)


@open_routes.get("/", summary="What this is")
async def root(context: InContext) -> Greeting:
    return Greeting(service="regroup coordinator", version=context.version, docs="/docs", openapi="/openapi.json")


@open_routes.get("/health", summary="The process lives")
async def health() -> Health:
    return Health("alive")


@open_routes.get(
    "/ready",
    response_model=Health,
    summary="It leads and its store answers",
    responses={503: {"model": ProblemView, "description": "not ready, and why"}},
)
async def ready(context: InContext) -> Health | JsonLine:
    reason = context.desk.ready
    return Health("ready") if reason is None else problems.respond(problems.UNAVAILABLE, reason)


@open_routes.get("/problems/{slug}", include_in_schema=False)
async def problem(slug: str) -> dict[str, str | int]:
    """What a problem's `type` points at."""
    kind = problems.KINDS.get(slug)
    if kind is None:
        raise problems.Refused(problems.NOT_FOUND, f"there is no kind of problem called {slug}")
    return {"type": f"/problems/{kind.slug}", "title": kind.title, "status": kind.status}
