"""The coordinator's process: the composition root. It reads the settings, builds the parts, runs them until SIGTERM.

Owns: the order of starting and stopping. Leadership comes before any port, so a second coordinator touches nothing.
Refuses to know: what the parts do.
"""

import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

from regroup.coordinator import embedded
from regroup.coordinator.api import create_app
from regroup.coordinator.leadership import AnotherLeads, lead
from regroup.coordinator.persistence import Store, StoreError
from regroup.coordinator.serving import CannotListen, HttpServer, listen
from regroup.coordinator.settings import Settings
from regroup.coordinator.shell import Leadership, LeadershipLost, Shell
from regroup.coordinator.store import RedisStore
from regroup.coordinator.tokens import BadToken, api_token, remove_endpoint, write_endpoint
from regroup.wire.codec import Undecodable
from regroup.wire.environment import BadSettings, read
from regroup.wire.keys import KeysUnreadable, server_keys, worker_keys
from regroup.wire.link import AddressInUse, AddressUnusable, Hub
from regroup.wire.places import Endpoint, Places, write_privately

log = logging.getLogger("regroup.coordinator")

STORE_LOOK = 0.2  # seconds between looks at the embedded server

TOLD_IN_ONE_LINE = (
    AddressUnusable,
    AnotherLeads,
    BadSettings,
    BadToken,
    CannotListen,
    KeysUnreadable,
    LeadershipLost,
    OSError,
    StoreError,
    Undecodable,
    embedded.EmbeddedFailed,
)


async def serve(settings: Settings, places: Places, store: Store, server: embedded.Embedded | None) -> None:
    """Lead the cluster that `store` keeps until SIGTERM or SIGINT. Raises what TOLD_IN_ONE_LINE lists.

    `server` is the embedded one behind the store, if it is: it must not end before this does.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    holder = f"{socket.gethostname()}, pid {os.getpid()}, {secrets.token_hex(4)}"
    fence = await _lead_unless_stopped(store, holder, settings.leader_lease, stopping)
    if fence is None:
        return
    try:
        if weakness := await store.weakness():
            log.warning(weakness)
        saved = await store.load()
        hub = _hub(settings, places)
        try:
            shell = Shell(store, hub, settings.policy(), Leadership(holder, fence, settings.leader_lease), saved)
            given = settings.token.get_secret_value() if settings.token is not None else None
            app = create_app(shell, api_token(places.token, given))
            http = HttpServer(app, _listener(settings, places))
            write_privately(places.link, hub.address.encode() + b"\n", replace=True)
            write_endpoint(places.endpoint, Endpoint(http.url, os.getpid()))
            log.info("leading with %d jobs known; REST on %s, link on %s", len(saved.jobs), http.url, hub.address)
            await _run(shell, http, stopping, server)
            remove_endpoint(places.endpoint, os.getpid())  # not after an error: whoever follows takes its port again
        finally:
            hub.close()
    finally:
        with suppress(StoreError):
            await store.release(holder, fence)
        await store.close()


async def _lead_unless_stopped(store: Store, holder: str, lease: float, stopping: asyncio.Event) -> int | None:
    leading = asyncio.create_task(lead(store, holder, lease, asyncio.sleep))
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait({leading, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if leading.done():
        return leading.result()
    leading.cancel()
    return None


async def _run(shell: Shell, http: HttpServer, stopping: asyncio.Event, server: embedded.Embedded | None) -> None:
    leading = asyncio.create_task(shell.run())
    serving = asyncio.create_task(http.run_until_stopped())
    ending = asyncio.create_task(_stopped_or_bereft(stopping, server))
    await asyncio.wait({leading, serving, ending}, return_when=asyncio.FIRST_COMPLETED)
    http.stop()
    await serving
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


def main() -> None:
    """`regroup-coordinator`: the cluster's REST API and its decisions."""
    try:
        settings = read(Settings)
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
            asyncio.run(serve(settings, places, RedisStore(url), server))
    except TOLD_IN_ONE_LINE as error:
        sys.exit(f"regroup-coordinator: {error}")


if __name__ == "__main__":
    main()
