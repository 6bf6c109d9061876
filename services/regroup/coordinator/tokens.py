"""How a token is compared, and the endpoint file by which a client on this machine finds the coordinator.

Owns: the comparison, and whose endpoint it is. Refuses to know: who asks (`guard`), where the files lie
(`wire.places`), and which token the REST API goes by (`wire.token`).
"""

import secrets
from pathlib import Path

from regroup.wire.places import Endpoint, write_privately


def matches(given: str, token: str) -> bool:
    """Compares in a time that does not depend on where the two differ."""
    return secrets.compare_digest(given.encode(), token.encode())


def write_endpoint(path: Path, endpoint: Endpoint) -> None:
    write_privately(path, endpoint.encode().encode(), replace=True)


def remove_endpoint(path: Path, pid: int) -> None:
    """Remove the endpoint if it is still that of process `pid`: a successor may have written its own."""
    try:
        ours = Endpoint.decode(path.read_text()).pid == pid
    except (FileNotFoundError, ValueError):
        return
    if ours:
        path.unlink(missing_ok=True)
