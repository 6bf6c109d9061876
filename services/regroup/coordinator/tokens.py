"""The bearer token of the REST API and the endpoint file by which a client on this machine finds the coordinator.

Owns: making both files so that nobody else can read them, and nobody ever reads half of one.
Refuses to know: who asks (`guard`) and where the files lie (`wire.places`).
Does not guarantee: secrecy against root, or against whoever can read the owner's files.
"""

import contextlib
import secrets
from pathlib import Path

from regroup.wire.places import Endpoint, write_privately


class BadToken(Exception):
    """The token file cannot serve: one line saying why and what to do."""


def api_token(path: Path, given: str | None) -> str:
    """The token given by the operator, else the one in `path`. Raises OSError, BadToken."""
    return load_or_make(path) if given is None else checked(given, "REGROUP_TOKEN")


def load_or_make(path: Path) -> str:
    """The token in `path`; a new one, readable by its owner only, if there is none yet.

    Several processes may start at once: all get the same token. Raises OSError, BadToken.
    """
    if not path.exists():
        with contextlib.suppress(FileExistsError):  # another process was first: its token is the token
            write_privately(path, secrets.token_urlsafe(32).encode() + b"\n", replace=False)
    return checked(path.read_bytes().decode("ascii", "replace"), str(path))


def checked(token: str, source: str) -> str:
    """`token` without surrounding blanks, if it can stand in a header. Raises BadToken."""
    token = token.strip()
    if not token or any(not "!" <= character <= "~" for character in token):
        raise BadToken(f"the token in {source} must be one non-empty word of ASCII characters; mend or remove it")
    return token


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
