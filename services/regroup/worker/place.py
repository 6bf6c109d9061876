"""Where checkpoints are kept, as an operator says it: a folder, or a URL that fsspec knows.

Owns: which words may be a place, and that a URL holds no password, so that it may be shown.
Refuses to know: whether anything is there, and how it is reached (`storage`).
Does not guarantee: that the package behind a URL works; it looks only whether it is installed.
"""

import os
import re
from difflib import get_close_matches
from importlib.util import find_spec


def is_url(path: str) -> bool:
    return re.match(r"[^/]+://", path) is not None


def place_of(text: str) -> str:
    """The absolute folder or the URL that an operator means. Raises ValueError: why it cannot be used."""
    if not text.strip() or not text.isprintable():
        raise ValueError("must be a folder or a URL such as s3://bucket/prefix")
    if not is_url(text):
        return _folder(text)
    protocol, _, rest = text.partition("://")
    if re.search(r":[^@]*@", rest):
        raise ValueError("must hold no user and password: give credentials as the storage's own environment variables")
    if "::" in text or "?" in text or "#" in text:
        raise ValueError("must be one plain URL, with nothing chained to it and without ?options or #fragments")
    if protocol in ("file", "local"):
        return os.path.abspath(f"/{rest.lstrip('/')}")
    if protocol == "memory":
        raise ValueError("must outlive the process that writes there, and memory:// does not")
    if not rest.strip("/"):
        raise ValueError(f"must name a bucket or folder after {protocol}://")
    _require(protocol)
    return text.rstrip("/")


def _folder(text: str) -> str:
    """What was meant as a URL, or as somebody's home, would else be a folder of that name wherever this was started."""
    if begins := re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", text):
        protocol = begins[1].lower()
        raise ValueError(f"must be a URL, which begins with {protocol}://, or a folder, which begins with / or ./")
    home = os.path.expanduser(text)
    if home.startswith("~"):
        raise ValueError(f"{home.partition('/')[0]} is nobody's home on this machine: name a folder by its whole path")
    return os.path.abspath(home)


def _require(protocol: str) -> None:
    """Raises ValueError if no file system for it is installed; imports none."""
    from fsspec.registry import known_implementations

    if protocol not in known_implementations:
        near = get_close_matches(protocol.lower(), known_implementations, 1)
        raise ValueError(
            f"fsspec knows no storage named {protocol}://" + (f"; did you mean {near[0]}://?" if near else "")
        )
    known = known_implementations[protocol]
    if find_spec(known["class"].partition(".")[0]) is None:
        more = ": pip install 'regroup[s3]'" if protocol in ("s3", "s3a") else ""
        raise ValueError(f"{protocol}:// needs a package that is not installed. {known.get('err', '')}{more}")
