"""The join token: all that an agent on another machine must know to be let in, as one word.

Owns: its form: a mark with a version, the server's public key, the workers' secret one, and a checksum against a
character lost on the way.
Refuses to know: how it travels; whoever has it is let in, so over a channel that you trust.
Does not guarantee: that the keys are still those of the cluster. The coordinator's door finds out.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from regroup.wire.keys import Keys, KeysUnreadable, is_key, server_public, worker_keys
from regroup.wire.link import public_of

MARK = "regroup-join-1-"
_KEY, _SUM = 40, 4  # bytes of a key, and of the checksum


class BadJoinToken(ValueError):
    """It cannot be one: half of it was copied, or it is something else. Does not repeat it."""


class Joining(NamedTuple):
    """What a token says: the key by which the coordinator is known, and the pair that lets a worker in."""

    server: bytes
    worker: Keys


def joining(folder: Path, token: str | None) -> Joining:
    """What an agent goes by: its token, else the keys in `folder`. Raises BadJoinToken, KeysUnreadable."""
    return read_join_token(token) if token is not None else Joining(server_public(folder), worker_keys(folder))


def token_of(folder: Path) -> str:
    """The token that lets an agent in without the files in `folder`, the coordinator's. Raises KeysUnreadable."""
    if not (folder / "worker.secret").exists():
        raise KeysUnreadable(f"{folder} has no keys: start the coordinator once, and ask on its machine, as its user")
    return join_token(server_public(folder), worker_keys(folder).secret)


def join_token(server: bytes, secret: bytes) -> str:
    """The token of the server's public key and the workers' secret one, both as 40 characters of Z85."""
    content = server + secret
    return MARK + urlsafe_b64encode(content + _checksum(content)).decode()


def read_join_token(token: str) -> Joining:
    """Raises BadJoinToken."""
    word = token.strip()
    try:
        content = urlsafe_b64decode(word.removeprefix(MARK).encode("ascii"))
    except ValueError:
        content = b""
    keys = content[:_KEY], content[_KEY : 2 * _KEY]
    sound = word.startswith(MARK) and content[2 * _KEY :] == _checksum(content[: 2 * _KEY]) and all(map(is_key, keys))
    if not sound:
        raise BadJoinToken("is no join token: copy it whole from `regroup join-token`, on the coordinator's machine")
    server, secret = keys
    return Joining(server, Keys(public_of(secret), secret))


def _checksum(content: bytes) -> bytes:
    return sha256(MARK.encode() + content).digest()[:_SUM]
