"""The secrets that a cluster's services share, made before any of them starts.

Owns: which service gets which, in a folder of its own: nobody holds what it does not need. What is there is kept.
Refuses to know: what brings the folders to the services: volumes, Secrets.
Does not guarantee: that copies follow where one was removed here to have a new one made.

    coordinator/  its data directory: the REST token, the keys; and regroup_redis_password, one of its settings
    redis/        redis.conf: the same password, and that what was answered is on the disk
    worker/       regroup_join, one of an agent's settings
    prometheus/   token, which reads /metrics and nothing else
    grafana/      password, of its user admin
"""

import secrets
from pathlib import Path

from regroup.wire.join import token_of
from regroup.wire.keys import server_keys, worker_keys
from regroup.wire.places import Places, write_once
from regroup.wire.token import load_or_make, metrics_token

REDIS = """requirepass {password}
appendonly yes
appendfsync always
maxmemory 400mb
maxmemory-policy noeviction
"""  # below the container's limit: so it refuses to write and says why, and is not killed


def provision(folder: Path) -> list[Path]:
    """Make what is missing, each readable by its owner only, and return those files.

    Raises OSError, KeysUnreadable, BadToken.
    """
    services = [folder / name for name in ("coordinator", "redis", "worker", "prometheus", "grafana")]
    coordinator, redis, worker, prometheus, grafana = services
    for place in services:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    places = Places(coordinator)
    before = set(_files(folder))
    token = load_or_make(places.token)
    for made in (server_keys, worker_keys):
        made(places.keys)
    password = coordinator / "regroup_redis_password"
    _make(password, secrets.token_urlsafe(32))
    _make(redis / "redis.conf", REDIS.format(password=password.read_text().strip()))
    _make(worker / "regroup_join", token_of(places.keys))
    _make(prometheus / "token", metrics_token(token))
    _make(grafana / "password", secrets.token_urlsafe(32))
    return sorted(set(_files(folder)) - before)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _make(path: Path, content: str) -> None:
    write_once(path, content.encode() + b"\n")
