"""The coordinator's process: the composition root. It reads the settings, builds the parts, runs them until SIGTERM.

Owns: the order of starting and stopping. Leadership comes before any port, so a second coordinator touches nothing; one
that stands by opens REST's, to say so. The files that say where the coordinator is are written by whoever leads.
Refuses to know: what the parts do.
"""

import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Coroutine
from contextlib import ExitStack, suppress
from hashlib import sha256
from importlib.metadata import version
from typing import TypeVar
from urllib.parse import urlsplit

from fastapi import FastAPI

from regroup.coordinator import embedded
from regroup.coordinator.api import create_app
from regroup.coordinator.leadership import AnotherLeads, lead
from regroup.coordinator.patience import patiently
from regroup.coordinator.persistence import Saved, SharedStore, StoreError, StoreUnavailable
from regroup.coordinator.serving import CannotListen, HttpServer, listen
from regroup.coordinator.settings import Settings
from regroup.coordinator.shell import OVERTAKEN, Leadership, LeadershipLost, Shell
from regroup.coordinator.standing_by import StandingBy, create_standby_app
from regroup.coordinator.store import RedisStore
from regroup.coordinator.tokens import remove_endpoint, write_endpoint
from regroup.wire.codec import Undecodable
from regroup.wire.environment import BadSettings, read
from regroup.wire.folders import told
from regroup.wire.keys import Keys, KeysUnreadable, server_keys, worker_keys
from regroup.wire.link import AddressInUse, AddressUnusable, Hub
from regroup.wire.places import Endpoint, Places, write_privately
from regroup.wire.token import BadToken, api_token

T = TypeVar("T")

log = logging.getLogger("regroup.coordinator")

STORE_LOOK = 0.2  # seconds between looks at the embedded server


class KeysDiffer(Exception):
    """Agents that know the coordinator that leads would refuse this one."""


TOLD_IN_ONE_LINE = (
    AddressUnusable,
    BadSettings,
    BadToken,
    CannotListen,
    KeysDiffer,
    KeysUnreadable,
    LeadershipLost,
    OSError,
    StoreError,
    Undecodable,
    embedded.EmbeddedFailed,
)


class _Front:
    """REST's port: opened when there is something to show on it, and kept when that changes."""

    def __init__(self, settings: Settings, places: Places) -> None:
        self._settings, self._places = settings, places
        self._http: HttpServer | None = None
        self.serving: asyncio.Task[None] | None = None

    def show(self, app: FastAPI) -> str:
        """Let `app` answer from now on, and return where. Raises CannotListen."""
        if self._http is None:
            self._http = HttpServer(app, _listener(self._settings, self._places))
            self.serving = asyncio.create_task(self._http.run_until_stopped())
        self._http.app = app
        return self._http.url

    async def close(self) -> None:
        if self._http is not None and self.serving is not None:
            self._http.stop()
            await self.serving


async def serve(settings: Settings, places: Places, store: SharedStore, server: embedded.Embedded | None) -> None:
    """Lead the cluster that `store` keeps until SIGTERM or SIGINT. Raises what TOLD_IN_ONE_LINE lists.

    `server` is the embedded one behind the store, if it is: it must not end before this does.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    holder = _name(server_keys(places.keys))
    front = _Front(settings, places)

    async def start() -> int:
        await store.examine()
        return await lead(store, holder, settings.leader_lease, asyncio.sleep)

    try:
        try:
            fence = await _unless_stopped(patiently(start, settings.store_limit), stopping)
        except AnotherLeads as another:
            if not settings.standby:
                raise
            fence = await _stand_by(settings, places, store, front, holder, another.holder, stopping)
        if fence is None:
            return
        try:
            await _lead(
                settings, places, store, front, Leadership(holder, fence, settings.leader_lease), stopping, server
            )
        finally:
            with suppress(StoreError):
                await store.release(holder, fence)
    finally:
        await front.close()
        await store.close()


async def _stand_by(
    settings: Settings,
    places: Places,
    store: SharedStore,
    front: _Front,
    holder: str,
    leader: str,
    stopping: asyncio.Event,
) -> int | None:
    """The fence under which it leads at last; None: it is to stop."""
    ours, theirs = (each.rpartition(", keys ")[2] for each in (holder, leader))
    if ours != theirs:
        why = f"the keys in {places.keys} are not those of the coordinator that leads ({leader})"
        raise KeysDiffer(f"{why}: agents would refuse this one; copy that one's folder of keys here")
    standing = StandingBy(store, holder, leader, settings.leader_lease)
    url = front.show(create_standby_app(_token(settings, places), lambda: standing.leader, lambda: standing.reachable))
    when = f"its lease of {settings.leader_lease:g} s has run out"
    log.info("standing by: %s leads; this one takes over once %s; REST on %s says so", leader, when, url)
    return await _unless_stopped(standing.until_it_leads(url), stopping)


async def _lead(
    settings: Settings,
    places: Places,
    store: SharedStore,
    front: _Front,
    leadership: Leadership,
    stopping: asyncio.Event,
    server: embedded.Embedded | None,
) -> None:
    if weakness := await store.weakness():
        log.warning(weakness)
    saved = await _load(store, leadership)
    hub = _hub(settings, places)
    try:
        shell = Shell(store, hub, settings.policy(), leadership, saved, release=version("regroup"))
        await shell.confirm()  # to load took its time, and whoever asks from now on is to hear who leads
        url = front.show(create_app(shell, _token(settings, places), clock=shell.time, standbys=store.standbys))
        write_privately(places.link, hub.address.encode() + b"\n", replace=True)
        write_endpoint(places.endpoint, Endpoint(url, os.getpid()))
        log.info("leading with %d jobs known; REST on %s, link on %s", len(saved.jobs), url, hub.address)
        await _run(shell, front, stopping, server)
        remove_endpoint(places.endpoint, os.getpid())  # not after an error: whoever follows takes its port again
    finally:
        hub.close()


async def _load(store: SharedStore, leadership: Leadership) -> Saved:
    """All that was saved. With very many jobs that takes longer than a lease, which is renewed meanwhile.

    Raises LeadershipLost, StoreError.
    """
    loading = asyncio.create_task(store.load())
    try:
        while not loading.done():
            with suppress(StoreUnavailable):
                if not await store.renew(leadership.holder, leadership.fence, leadership.lease):
                    raise LeadershipLost(OVERTAKEN)
            await asyncio.wait([loading], timeout=leadership.lease / 4)
        return loading.result()
    finally:
        loading.cancel()
        await asyncio.wait([loading])


async def _unless_stopped(what: Coroutine[object, object, T], stopping: asyncio.Event) -> T | None:
    """What comes of it; None, and it is cancelled, if this is to stop first."""
    doing = asyncio.create_task(what)
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait({doing, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if doing.done():
        return doing.result()
    doing.cancel()
    await asyncio.wait([doing])
    return None


async def _run(shell: Shell, front: _Front, stopping: asyncio.Event, server: embedded.Embedded | None) -> None:
    assert front.serving is not None
    leading = asyncio.create_task(shell.run())
    ending = asyncio.create_task(_stopped_or_bereft(stopping, server))
    await asyncio.wait({leading, front.serving, ending}, return_when=asyncio.FIRST_COMPLETED)
    await front.close()
    for task in (leading, ending):
        task.cancel()
    with suppress(asyncio.CancelledError):
        try:
            await leading
        except* LeadershipLost as lost:
            raise lost.exceptions[0] from None
    with suppress(asyncio.CancelledError):
        await ending


async def _stopped_or_bereft(stopping: asyncio.Event, server: embedded.Embedded | None) -> None:
    """Raises EmbeddedFailed if the store's own server ends first: nobody but a new coordinator starts it again."""
    while not stopping.is_set():
        if server is not None:
            server.check()
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), STORE_LOOK)


def _hub(settings: Settings, places: Places) -> Hub:
    keys, allowed = server_keys(places.keys), [worker_keys(places.keys).public]

    def bind(port: int) -> Hub:
        return Hub(public=keys.public, secret=keys.secret, allowed=allowed, host=settings.link_host, port=port)

    former = _port_in(places)
    if settings.link_port == 0 and former:
        # Agents elsewhere know this port: taking it again after a restart lets them re-attach by themselves.
        try:
            return bind(former)
        except AddressInUse:
            log.warning(
                "the link's former port %d is in use; agents with REGROUP_COORDINATOR must be told anew", former
            )
    return bind(settings.link_port)


def _listener(settings: Settings, places: Places) -> socket.socket:
    with suppress(OSError, ValueError, CannotListen):
        if settings.port == 0:
            former = urlsplit(Endpoint.decode(places.endpoint.read_text()).url).port
            return listen(settings.host, former or 0)
    return listen(settings.host, settings.port)


def _port_in(places: Places) -> int | None:
    with suppress(OSError, ValueError):
        return urlsplit(places.link_address() or "").port
    return None


def _name(keys: Keys) -> str:
    """As what this process holds the lease. Who has the same keys is known to the same agents."""
    mark = sha256(keys.public).hexdigest()[:8]
    return f"{socket.gethostname()}, pid {os.getpid()}, {secrets.token_hex(4)}, keys {mark}"


def _token(settings: Settings, places: Places) -> str:
    return api_token(places.token, settings.token.get_secret_value() if settings.token is not None else None)


def main(**given: bool) -> None:
    """`regroup-coordinator`: the cluster's REST API and its decisions. `given` are settings of its command line."""
    try:
        settings = read(Settings, **given)
        form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
        logging.basicConfig(level=settings.log_level.upper(), format=form)
        places = Places(settings.data_dir)
        places.make()
        with ExitStack() as stack:
            if settings.redis_url is not None:
                server, url = None, settings.redis_url.get_secret_value()
            else:
                server = stack.enter_context(embedded.start(settings.data_dir))
                url = server.url
            password = settings.redis_password.get_secret_value() if settings.redis_password is not None else None
            asyncio.run(serve(settings, places, RedisStore(url, password=password), server))
    except AnotherLeads as another:
        sys.exit(f"regroup-coordinator: {another}; with --standby it waits, and takes over when that one dies")
    except TOLD_IN_ONE_LINE as error:
        sys.exit(f"regroup-coordinator: {told(error) if isinstance(error, OSError) else error}")


if __name__ == "__main__":
    main()
