"""A coordinator that stands by: it waits for the lead that another has, and says so to whoever asks.

Owns: the waiting, this coordinator's entry among those that wait, and what its REST answers until it leads.
Refuses to know: ports, and what leading means.
Does not guarantee that it is the next: of several that wait for a dead one, the first to see it leads.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Annotated, NoReturn

from fastapi import Depends, FastAPI, Request, Response, Security
from fastapi.security import HTTPAuthorizationCredentials

from regroup.coordinator import metrics, problems
from regroup.coordinator.exposition import exposition, may_read
from regroup.coordinator.guard import bearer, check
from regroup.coordinator.json_line import JsonLine
from regroup.coordinator.leadership import AnotherLeads, lead
from regroup.coordinator.persistence import STORE_RETRY, SharedStore, Standby, StoreUnavailable
from regroup.coordinator.problems import STANDBY, Refused
from regroup.wire.rest import Health

log = logging.getLogger("regroup.coordinator")

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class StandingBy:
    """The wait of `holder` for a lead that `leader` had when it was last seen. `lease` is in seconds."""

    def __init__(self, store: SharedStore, holder: str, leader: str, lease: float) -> None:
        self.leader = leader
        self.reachable = True  # the store, when it was last asked
        self._store, self._holder, self._lease = store, holder, lease

    async def until_it_leads(self, url: str) -> int:
        """The fence under which it leads from now on. `url` is where it answers meanwhile.

        A store that is away is waited for, too: the one that leads does the same.
        """
        me = Standby(self._holder, url)
        announcing = asyncio.create_task(self._announce(me))
        try:
            return await self._wait()
        finally:
            announcing.cancel()
            await asyncio.wait([announcing])
            with suppress(StoreUnavailable):
                await self._store.stand_by(me, 0)

    async def _wait(self) -> int:
        while True:
            try:
                return await lead(self._store, self._holder, self._lease, asyncio.sleep)
            except AnotherLeads as another:
                self.reachable = True
                if another.holder != self.leader:
                    log.info("standing by: %s leads now", another.holder)
                self.leader = another.holder
            except StoreUnavailable as trouble:
                if self.reachable:
                    log.warning("standing by, and trying on: %s", trouble)
                self.reachable = False
                await asyncio.sleep(STORE_RETRY)

    async def _announce(self, me: Standby) -> NoReturn:
        while True:
            with suppress(StoreUnavailable):
                await self._store.stand_by(me, self._lease)
            await asyncio.sleep(self._lease / 4)


@dataclass(frozen=True, slots=True)
class StandbyContext:
    """What the application of a standby needs."""

    token: str
    leader: Callable[[], str]
    reachable: Callable[[], bool]
    closing: asyncio.Event = field(default_factory=asyncio.Event)


def create_standby_app(token: str, leader: Callable[[], str], reachable: Callable[[], bool]) -> FastAPI:
    """What answers in the place of the API: that it lives, and for all else that `leader()` leads, and not it.

    `reachable()`: whether the store is. Its metrics tell of itself alone.
    """
    app = FastAPI(openapi_url=None, redirect_slashes=False, default_response_class=JsonLine)
    app.state.context = StandbyContext(token, leader, reachable)
    problems.install(app)
    app.add_api_route("/health", _health, methods=["GET"])
    app.add_api_route("/metrics", _metrics, methods=["GET"], response_class=Response, dependencies=[Depends(may_read)])
    app.add_api_route("/v1/{path:path}", _refuse_guarded, methods=METHODS)
    app.add_api_route("/{path:path}", _refuse, methods=METHODS)
    return app


async def _health() -> Health:
    return Health("standby")


async def _metrics(request: Request) -> Response:
    context: StandbyContext = request.app.state.context
    told = metrics.of_coordinator(version("regroup"), leading=False, reachable=context.reachable())
    return exposition(told, request.headers.get("accept", ""))


async def _refuse_guarded(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]
) -> None:
    context: StandbyContext = request.app.state.context
    check(given, context.token)
    raise Refused(STANDBY, f"this coordinator stands by and did nothing; the one that leads: {context.leader()}")


async def _refuse() -> None:
    raise Refused(STANDBY, "this coordinator stands by: another one leads")
