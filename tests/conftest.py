"""A real Redis-compatible server for all tests that want one: started once, and each test has keys of its own."""

import signal
from collections.abc import Iterator
from uuid import uuid4

import pytest

from regroup.coordinator import embedded


def pytest_configure() -> None:
    """A shell's background job ignores Ctrl-C, and so would every command that a test starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that lives as long as the test session."""
    with embedded.start(tmp_path_factory.mktemp("store")) as server:
        yield server.url


@pytest.fixture
def key_prefix() -> str:
    """What this test's keys begin with."""
    return f"test-{uuid4().hex}:"
