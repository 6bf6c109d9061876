"""What the REST API is written against: a desk where one reads the cluster and hands in commands.

Owns: the narrow view that the web side has of the coordinator's shell, and how a route gets at it.
Refuses to know: how the shell decides, persists and talks to workers.
Does not guarantee: that two reads of `cluster` see the same value; take it once per request.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol

from fastapi import Depends, Request

from regroup.coordinator.persistence import Standby, Store
from regroup.core.cluster import Cluster, Policy
from regroup.core.messages.commands import Command


class Desk(Protocol):
    """The coordinator, as the API sees it."""

    @property
    def cluster(self) -> Cluster:
        """The current value. Read it, never change it."""

    @property
    def ready(self) -> str | None:
        """None while this coordinator leads and its store answers, else why not."""

    @property
    def policy(self) -> Policy: ...

    @property
    def store(self) -> Store: ...

    async def command(self, command: Command) -> None:
        """Decide and persist. Raises a Refusal if it cannot be carried out, StoreUnavailable if nothing was done.

        Raises Unconfirmed, which is a StoreUnavailable, if it was decided and is still being persisted.
        """

    def records(self, job: str) -> AsyncIterator[tuple[str, str]]:
        """(file, text) pieces of the workers' own records of a job, from the agents that are there.

        Asked for piece by piece, as they are taken. Raises RecordsBroke where they cannot go on.
        """

    def new_events(self) -> asyncio.Future[None]:
        """Done once an event was written after this call. Shared between all that wait: never cancel it."""


@dataclass(frozen=True, slots=True)
class ApiContext:
    """What the routes share: the desk, and what only the web side needs to know."""

    desk: Desk
    token: str
    version: str  # of this coordinator
    clock: Callable[[], float]  # the one that the cluster's times are of, seconds
    keepalive: float  # seconds between comments on a silent event stream
    standbys: Callable[[], Awaitable[Sequence[Standby]]]  # the coordinators that wait
    closing: asyncio.Event = field(default_factory=asyncio.Event)  # set: end the event streams


async def context_of(request: Request) -> ApiContext:
    context = request.app.state.context
    assert isinstance(context, ApiContext)
    return context


InContext = Annotated[ApiContext, Depends(context_of)]
