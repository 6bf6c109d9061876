"""The CURVE keys of a cluster: made at the first start, then read from a folder that only its owner may enter.

Owns: two pairs, `server` and `worker`, each as a secret file that the pair is made from and a public file beside it.
The coordinator needs the server's pair and the worker's public key; an agent the worker's pair and the server's public
key. On several machines, copy exactly these files.
Refuses to know: sockets, and what a key is used for.
Does not guarantee: that one worker cannot pass for another. All workers of a cluster share one pair.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from regroup.wire.link import new_secret, public_of
from regroup.wire.places import write_once, write_privately

_Z85 = re.compile(rb"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")


class KeysUnreadable(Exception):
    """A key can be neither read nor made; the message names the path and says what to do."""


class Keys(NamedTuple):
    """A CURVE pair, each key as 40 characters of Z85."""

    public: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"Keys(public={self.public!r}, secret=<hidden>)"


def is_key(content: bytes) -> bool:
    """Whether this could be a CURVE key: 40 characters of Z85."""
    return _Z85.fullmatch(content) is not None


def server_keys(folder: Path) -> Keys:
    """The coordinator's pair, made if there is none. Raises KeysUnreadable."""
    return _pair(folder, "server")


def worker_keys(folder: Path) -> Keys:
    """The pair that all agents share, made if there is none. Raises KeysUnreadable."""
    return _pair(folder, "worker")


def server_public(folder: Path) -> bytes:
    """The key by which an agent knows the coordinator. Raises KeysUnreadable if it was not made yet, or not copied."""
    path = folder / "server.public"
    try:
        return _checked(path, path.read_bytes().strip(), bytes)
    except FileNotFoundError as error:
        message = f"{path} does not exist: start the coordinator first, or set REGROUP_JOIN to its join token"
        raise KeysUnreadable(message) from error
    except OSError as error:
        raise _unreadable(error, folder) from error


def _pair(folder: Path, name: str) -> Keys:
    path = folder / f"{name}.secret"
    try:
        if not path.exists():
            _make(path)
        secret = path.read_bytes().strip()
        keys = Keys(_checked(path, secret, public_of), secret)
        public = folder / f"{name}.public"
        known = public.exists() and public.read_bytes().strip() == keys.public  # the secret may be a new one
        if not known and os.access(folder, os.W_OK):  # a mounted secret may stand alone and be read-only
            write_privately(public, keys.public + b"\n", replace=True)
        return keys
    except OSError as error:
        raise _unreadable(error, folder) from error


def _make(path: Path) -> None:
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_once(path, new_secret() + b"\n")


def _checked(path: Path, content: bytes, derive: Callable[[bytes], bytes]) -> bytes:
    try:
        if not is_key(content):
            raise ValueError(f"{len(content)} bytes, where 40 characters of Z85 were expected")
        return derive(content)
    except ValueError as error:
        raise KeysUnreadable(
            f"{path} holds no key ({error}): copy it again, or remove it to have a new one made"
        ) from error


def _unreadable(error: OSError, folder: Path) -> KeysUnreadable:
    path = error.filename or folder
    return KeysUnreadable(
        f"no access to the keys at {path} ({error.strerror}): run as the owner of {folder}, or name another folder"
    )
