"""What is done to a job, or to the processes of one of its workers on this machine, and what takes it back.

Owns: the deeds, and that a process is touched only if the agent that the coordinator names is its ancestor here: a
number alone says nothing, in containers least of all.
Refuses to know: who is struck and when, and what must come of it.
"""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from regroup.client.errors import ApiError
from regroup.client.sdk import Client
from regroup.core.jobs import JobPhase
from regroup.lab.chaos.faults import Undo, nothing
from regroup.wire.rest import JobView

PAUSED = 1.0  # seconds that a process stands still without being given up
LOOK = 0.02  # seconds between two looks
LIMIT = 120.0  # seconds to wait for what a deed itself needs, such as a job that comes to rest


class NotAllowed(Exception):
    """A process is not ours to touch; the message says whose."""


class Gone(Exception):
    """Who was to be struck is not there any more, or the job did not come to where it can be struck: draw again."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A member of the job whose processes are this machine's."""

    worker: str
    agent: int  # process ids
    trainer: int


@dataclass(frozen=True, slots=True)
class Deed:
    what: str
    do: Callable[[Client, str, Victim], Undo]  # gives what is to be done once the job went on, or nobody waits for that
    regroups: bool = True  # a newer generation must come of it
    drawn: bool = True  # also where it was not named


def victims(client: Client, job: JobView) -> list[Victim]:
    """The members of the job that can be struck from here, in the order of their ranks."""
    here, workers = socket.gethostname(), {worker.name: worker for worker in client.workers()}
    found = [workers[member.worker] for member in job.members if member.worker in workers]
    return [
        Victim(worker.name, worker.pid, worker.trainer)
        for worker in found
        if worker.host == here and worker.trainer is not None and descends(worker.trainer, worker.pid)
    ]


def descends(pid: int, ancestor: int) -> bool:
    """Whether one process of this machine was started by the other, or by what that one started."""
    while pid > 1:
        try:
            status = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        pid = int(status.rpartition(")")[2].split()[1])
        if pid == ancestor:
            return True
    return False


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise Gone from None
    except PermissionError:
        raise NotAllowed(f"process {pid} is another user's: run this as the user whose agents they are") from None


def _kill_trainer(client: Client, job: str, victim: Victim) -> Undo:
    _signal(victim.trainer, signal.SIGKILL)
    return nothing


def _stop_trainer(client: Client, job: str, victim: Victim) -> Undo:
    _signal(victim.trainer, signal.SIGSTOP)
    return lambda: _wake(victim.trainer)


def _pause_trainer(client: Client, job: str, victim: Victim) -> Undo:
    _signal(victim.trainer, signal.SIGSTOP)
    try:
        time.sleep(PAUSED)
    finally:
        _wake(victim.trainer)
    return nothing


def _kill_agent(client: Client, job: str, victim: Victim) -> Undo:
    _signal(victim.agent, signal.SIGKILL)
    return nothing


def _drain(client: Client, job: str, victim: Victim) -> Undo:
    client.drain(victim.worker)
    return lambda: _admit(client, victim.worker)


def _admit(client: Client, worker: str) -> None:
    client.admit(worker)


def _hold(client: Client, job: str, victim: Victim) -> Undo:
    """It has gone on when this is over, which the job's next step shows."""
    with _unless_ended(client, job):
        client.pause(job, hold=True)
        try:
            deadline = time.monotonic() + LIMIT
            while client.job(job).phase is not JobPhase.PAUSED and time.monotonic() < deadline:
                time.sleep(LOOK)
        finally:
            client.resume(job)
    return nothing


@contextmanager
def _unless_ended(client: Client, job: str) -> Iterator[None]:
    """What a job that ended meanwhile refuses is no fault of anybody's. Raises Gone then."""
    try:
        yield
    except ApiError:
        if client.job(job).ended:
            raise Gone from None
        raise


def _wake(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


DEEDS: Mapping[str, Deed] = {
    "trainer-killed": Deed("SIGKILL to a trainer", _kill_trainer),
    "trainer-stopped": Deed("SIGSTOP to a trainer, for good: it hangs until it is evicted", _stop_trainer),
    "trainer-paused": Deed("SIGSTOP to a trainer, SIGCONT a second later", _pause_trainer, regroups=False),
    "worker-drained": Deed("a worker is drained, and admitted when the job went on", _drain),
    "job-held": Deed("the job is held, and resumed at once", _hold),
    "agent-killed": Deed("SIGKILL to an agent, where something starts it again", _kill_agent, drawn=False),
}
