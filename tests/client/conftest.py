"""A coordinator's API on a real socket, found as a user's own machine finds it."""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regroup.client import Client
from regroup.coordinator.tokens import write_endpoint
from regroup.wire.places import Endpoint, Places

_spec = importlib.util.spec_from_file_location(
    "desk_of_the_tests", Path(__file__).parents[1] / "coordinator" / "api" / "desk.py"
)
assert _spec
assert _spec.loader
_desk = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_desk)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """This machine's data directory, empty, and no other variable that would lead elsewhere."""
    for name in [name for name in os.environ if name.startswith("REGROUP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("REGROUP_DATA_DIR", str(tmp_path / "data"))
    places = Places(tmp_path / "data")
    places.make()
    return places


@pytest.fixture(scope="session")
def _one_server() -> Iterator[Any]:
    server = _desk.Served(keepalive=0.2)
    yield server
    server.stop()


@pytest.fixture
def served(_one_server: Any, places: Places) -> Any:
    """The API over a fresh desk. A test may stop it."""
    _one_server.renew()
    places.token.write_text(_one_server.token)
    write_endpoint(places.endpoint, Endpoint(_one_server.url, os.getpid()))
    return _one_server


@pytest.fixture
def client(served: Any) -> Iterator[Client]:
    with Client() as client:
        yield client
