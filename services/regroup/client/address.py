"""Finding the coordinator and its token.

Owns: the order in which URL and token are looked for: argument, environment, this machine's data directory.
Refuses to know: HTTP. Does not guarantee: that anybody answers there.

The token of this machine's data directory is sent to this machine only, never to a host named by hand.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from regroup.client.errors import BadAddress, NotRunning
from regroup.wire.places import Endpoint, Places, default_data_dir
from regroup.wire.token import BadToken, checked


@dataclass(frozen=True, slots=True)
class Address:
    """Where to ask, and with what token (None: ask without)."""

    urls: tuple[str, ...]  # of coordinators of one cluster; one of them leads
    token: str | None


def find(
    environ: Mapping[str, str], *, url: str | None = None, token: str | None = None, token_file: Path | None = None
) -> Address:
    """The coordinator to talk to. `url` may be those of several, with commas between them.

    Raises NotRunning if none is known, BadAddress if what was given cannot be used.
    """
    places = Places(default_data_dir(environ))
    urls = tuple(map(_checked, (url or environ.get("REGROUP_URL") or _running(places)).split(",")))
    if token is None and token_file is not None:
        token = _read(token_file)
    token = token or environ.get("REGROUP_TOKEN")
    if token is None and all(map(is_loopback, urls)) and places.token.exists():
        token = _read(places.token)
    if token is not None:
        token = _sendable(token)
    return Address(urls, token)


def _checked(url: str) -> str:
    url = url.strip()
    if "@" in url:  # not repeated: it would be in every log of what was asked
        raise BadAddress("the coordinator's URL must hold no user and password: give its token with --token-file")
    if not _is_usable(url):
        raise BadAddress(f"{url or 'nothing'} is no URL of a coordinator; it looks like http://127.0.0.1:8787")
    return url.rstrip("/")


def _is_usable(url: str) -> bool:
    try:
        parts, port = urlsplit(url), httpx.URL(url).port
    except (ValueError, httpx.InvalidURL):
        return False
    bare = not (parts.path.strip("/") or parts.query or any(map(str.isspace, url)))
    return parts.scheme in ("http", "https") and bool(parts.hostname) and bare and (port is None or 0 < port < 1 << 16)


def _running(places: Places) -> str:
    try:
        return Endpoint.decode(places.endpoint.read_text()).url
    except FileNotFoundError:
        advice = "or name another one's with REGROUP_DATA_DIR, or its URL with --url or REGROUP_URL"
        raise NotRunning(f"no coordinator runs from {places.root}; start one with `regroup up`, {advice}") from None
    except (OSError, ValueError) as error:
        raise NotRunning(f"cannot read where the coordinator is from {places.endpoint}: {error}") from None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise BadAddress(f"cannot read the token from {path}: {why}") from None


def _sendable(token: str) -> str:
    try:
        return checked(token, "")
    except BadToken:
        raise BadAddress("the token is not one word of ASCII characters: give the coordinator's, as it is") from None


def is_loopback(url: str) -> bool:
    """Whether it is this machine's own."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
