"""Serving the API: a socket of our own, and an end that no open stream can hold up.

Owns: the listening socket, the URL by which this machine reaches it, and closing within a bound.
Refuses to know: signals and processes (the composition root's), and what the application answers.
"""

import contextlib
import socket
from collections.abc import Iterator
from errno import EACCES, EADDRINUSE

import uvicorn
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

CLOSING_LIMIT = 3  # seconds that requests under way are given
IDLE_LIMIT = 60  # seconds; longer than clients keep a connection (httpx: 5), or one is closed as it is used again


class CannotListen(Exception):
    """The address cannot be used: one line saying which, why and what to do."""


def listen(host: str, port: int) -> socket.socket:
    """A listening TCP socket; port 0 takes any free one. Raises CannotListen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while ")[0]  # what follows says the address again
        advice = "set REGROUP_HOST to an address of this machine"
        if error.errno in (EADDRINUSE, EACCES):  # the latter below 1024
            advice = "set REGROUP_PORT (`regroup up --port`) to another port, 0: any free one; or set REGROUP_HOST"
        raise CannotListen(f"cannot listen on {host} port {port}: {why}; {advice}") from None


class HttpServer(uvicorn.Server):
    """Serves `app` on `listener` until `stop`. Event streams end first, then requests.

    `app` may be changed meanwhile; a request under way ends with the one that it came to. Each has in its
    `state.context` an event `closing`, which is set when its streams must end.
    """

    def __init__(self, app: FastAPI, listener: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                self._answer,
                interface="asgi3",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_keep_alive=IDLE_LIMIT,
                timeout_graceful_shutdown=CLOSING_LIMIT,
            )
        )
        self.app = app
        self._listener = listener

    @property
    def url(self) -> str:
        """Where a client on this machine reaches it."""
        host, port = self._listener.getsockname()[:2]
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def run_until_stopped(self) -> None:
        await self.serve(sockets=[self._listener])

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    def stop(self) -> None:
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.app.state.context.closing.set()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing: signals are the composition root's."""
        yield
