"""The name by which a worker is known: as it was given, or numbered. Of `worker-*` an agent takes the first number that
no other one has on this data directory: containers that are made anew are known by their names again.

Owns: the lock on a name, which an agent holds for as long as it lives.
Refuses to know: what the name is used for.
Does not guarantee: that nobody has it who works on another data directory.
"""

import socket
from itertools import count
from pathlib import Path

from regroup.worker.locks import hold

STAR = "*"


class WorkerTaken(Exception):
    """Another agent of this name runs on this machine."""


def host_name() -> str:
    return socket.gethostname().split(".")[0]


def usual() -> str:
    """The name of whoever is given none."""
    return f"{host_name()}-0"


def take(run: Path, wanted: str) -> str:
    """The name that is this process's from now on. `run`: the folder of locks. Raises WorkerTaken."""
    names = (wanted.replace(STAR, str(number)) for number in count()) if STAR in wanted else iter([wanted])
    for name in names:
        try:
            hold(run / f"{name}.agent.lock")
        except BlockingIOError:
            continue
        return name
    raise WorkerTaken(f"an agent named {wanted} runs already: stop it, or set REGROUP_WORKER to another name")


def asked_as(wanted: str) -> str:
    """By what an agent is found by whoever knows its settings alone: those who share them are on hosts of their own."""
    return wanted.replace(STAR, host_name())
