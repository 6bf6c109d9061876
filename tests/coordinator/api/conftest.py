"""The API in this process, over a desk that decides for real."""

import importlib.util
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from regroup.coordinator.api import create_app

_spec = importlib.util.spec_from_file_location("desk_of_the_tests", Path(__file__).parent / "desk.py")
assert _spec
assert _spec.loader
_desk = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_desk)


@pytest.fixture
def desk() -> Any:
    return _desk.TestDesk()


@pytest.fixture
async def api(desk: Any) -> AsyncIterator[httpx.AsyncClient]:
    """An authorised client of the application, without a socket. A fault in a route is an answer, not an exception."""
    transport = httpx.ASGITransport(create_app(desk, "secret"), raise_app_exceptions=False)
    headers = {"Authorization": "Bearer secret"}
    async with httpx.AsyncClient(transport=transport, base_url="http://regroup", headers=headers) as client:
        yield client


@pytest.fixture
def served() -> Iterator[Any]:
    """The application on a real socket."""
    server = _desk.Served(keepalive=0.2)
    yield server
    server.stop()
