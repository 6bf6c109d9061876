"""The bearer token of the REST API, as a file: one word that only its owner may read.

Owns: making it once, what may be one, and the lesser token that follows from it.
Refuses to know: who asks with it, and where the file lies (`places`).
Does not guarantee: secrecy against root, or against whoever can read the owner's files.
"""

import hmac
import secrets
from base64 import urlsafe_b64encode
from pathlib import Path

from regroup.wire.places import write_once


class BadToken(Exception):
    """The token file cannot serve: one line saying why and what to do."""


def load_or_make(path: Path) -> str:
    """The token in `path`; a new one, readable by its owner only, if there is none yet.

    Several processes may start at once: all get the same token. Raises OSError, BadToken.
    """
    if not path.exists():
        write_once(path, secrets.token_urlsafe(32).encode() + b"\n")
    return checked(path.read_bytes().decode("ascii", "replace"), str(path))


def api_token(path: Path, given: str | None) -> str:
    """The token given by the operator, else the one in `path`. Raises OSError, BadToken."""
    return load_or_make(path) if given is None else checked(given, "REGROUP_TOKEN")


def checked(token: str, source: str) -> str:
    """`token` without surrounding blanks, if it can stand in a header. Raises BadToken."""
    token = token.strip()
    if not token or any(not "!" <= character <= "~" for character in token):
        raise BadToken(f"the token in {source} must be one non-empty word of ASCII characters; mend or remove it")
    return token


def metrics_token(token: str) -> str:
    """What opens /metrics and nothing else: it follows from the token, and the token does not follow from it."""
    return urlsafe_b64encode(hmac.digest(token.encode(), b"regroup metrics", "sha256")).decode().rstrip("=")
