"""Whether the coordinator of this machine serves, for a container's health check or a supervisor.

Owns: what `regroup-coordinator --check` asks, of its own REST, and the words. A standby that waits is well.
Refuses to know: the store, and what is done with the answer.
Imports next to nothing: it is a process of its own every few seconds, beside those that train.
"""

import json
import os
import sys
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from regroup.wire.places import HOST, PORT, Endpoint, Places, default_data_dir
from regroup.wire.variables import said

PATIENCE = 4.0  # seconds
ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def trouble(url: str) -> str | None:
    """In one line what is wrong at `url`; None: a coordinator leads there and its store answers, or it stands by."""
    try:
        if _ask(url, "/health")[1]["status"] == "standby":
            return None
        status, answer = _ask(url, "/ready")
        return None if status == 200 else str(answer["detail"])
    except (OSError, HTTPException) as error:
        return f"nobody answers at {url} ({error})"
    except (ValueError, LookupError, TypeError):
        return f"something else answers at {url}"


def _ask(url: str, path: str) -> tuple[int, Any]:
    place = urlsplit(url)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def check() -> int:
    """The exit status for `regroup-coordinator --check`."""
    host, given = said("HOST") or HOST, said("PORT") or PORT
    try:
        port = int(given)
    except ValueError:
        port = -1
    if not 0 <= port <= 65535:
        sys.exit(f"regroup-coordinator: REGROUP_PORT: {given} is no port")
    host = ANY.get(host, host)
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    if port == 0:
        try:
            url = Endpoint.decode(Places(default_data_dir(os.environ)).endpoint.read_text()).url
        except (OSError, ValueError):
            sys.exit("regroup-coordinator: none runs here")
    wrong = trouble(url)
    print(wrong or "well")
    return 0 if wrong is None else 1
