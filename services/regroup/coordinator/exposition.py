"""GET /metrics: what Prometheus reads, in its text format or in OpenMetrics, whichever it asks for.

Owns: the route, how families become an answer, and who may read it: whoever has the token of the API, or the lesser
one that opens nothing else.
Refuses to know: what the figures mean (`metrics`). Nothing is kept between two answers, in no registry.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response, Security
from fastapi.security import HTTPAuthorizationCredentials
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from regroup.coordinator import metrics
from regroup.coordinator.desk import InContext
from regroup.coordinator.guard import bearer, check
from regroup.coordinator.problems import documented
from regroup.wire.token import metrics_token

router = APIRouter(tags=["service"])


async def may_read(request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]) -> None:
    """Raises Refused (401) unless the request carries one of the two tokens."""
    token: str = request.app.state.context.token
    check(given, token, metrics_token(token))


class _Told(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def exposition(families: Iterable[Metric], accept: str) -> Response:
    """These and what the process itself takes, in the format that the header `accept` asks for."""
    registry = CollectorRegistry()
    registry.register(_Told(families))
    ProcessCollector(registry=registry)
    encode, media_type = choose_encoder(accept)
    return Response(encode(registry), headers={"Content-Type": media_type})


@router.get(
    "/metrics",
    summary="The cluster's figures, for Prometheus",
    response_class=Response,
    responses={**documented(), 200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    dependencies=[Depends(may_read)],
)
async def read(request: Request, context: InContext) -> Response:
    desk = context.desk

    def families() -> Iterator[Metric]:
        yield from metrics.of_coordinator(context.version, leading=True, reachable=desk.ready is None)
        yield from metrics.of_cluster(desk.cluster, desk.policy, context.clock())

    return exposition(families(), request.headers.get("accept", ""))
