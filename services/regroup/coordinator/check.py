"""Whether the coordinator of this machine serves, for a container's health check or a supervisor.

Owns: what `regroup-coordinator --check` asks, of its own REST, and the words. A standby that waits is well.
Refuses to know: the store, and what is done with the answer.
"""

import sys

import httpx

from regroup.coordinator.settings import Settings
from regroup.wire.environment import BadSettings, read
from regroup.wire.places import Endpoint, Places

PATIENCE = 4.0  # seconds
ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def trouble(url: str) -> str | None:
    """In one line what is wrong at `url`; None: a coordinator leads there and its store answers, or it stands by."""
    try:
        if _ask(url, "/health").json()["status"] == "standby":
            return None
        ready = _ask(url, "/ready")
        return None if ready.is_success else str(ready.json()["detail"])
    except httpx.HTTPError as error:
        return f"nobody answers at {url} ({error})"
    except (ValueError, LookupError, TypeError):
        return f"something else answers at {url}"


def _ask(url: str, path: str) -> httpx.Response:
    return httpx.get(url + path, timeout=PATIENCE, trust_env=False)


def check() -> int:
    """The exit status for `regroup-coordinator --check`."""
    try:
        settings = read(Settings)
    except BadSettings as error:
        sys.exit(f"regroup-coordinator: {error}")
    host = ANY.get(settings.host, settings.host)
    url = f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
    if settings.port == 0:
        try:
            url = Endpoint.decode(Places(settings.data_dir).endpoint.read_text()).url
        except (OSError, ValueError):
            sys.exit("regroup-coordinator: none runs here")
    wrong = trouble(url)
    print(wrong or "well")
    return 0 if wrong is None else 1
