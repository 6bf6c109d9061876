"""Faults to a job that trains already, one after the other, and whether it went on. Read it top to bottom.

Owns: when somebody is struck, what is awaited after that, and what the whole must have come to.
Refuses to know: how a fault is done (`deeds`), how the cluster is run, and how results are shown.
Does not guarantee: faults to workers of other machines (it is to be run there, too), nor to the coordinator.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from regroup.client.errors import RegroupError
from regroup.client.sdk import Client
from regroup.core.jobs import JobPhase
from regroup.lab.audit import Audit, audit_job
from regroup.lab.disturb.deeds import DEEDS, LOOK, Gone, Victim, victims
from regroup.wire.rest import JobView

FORMS = 60.0  # seconds beyond the job's step_timeout until it must have committed a step again
RETURNS = 180.0  # seconds until who was struck must be a member again: it may import torch first
SPREAD = (0.5, 1.5)  # of a period: how far apart two faults are


class Unfit(Exception):
    """This job cannot be disturbed from here; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Struck:
    """One fault. Times in ms, from the fault on, as whoever asks the coordinator sees them."""

    deed: str
    worker: str
    went_on: float | None  # until the next step that is due to no work from before it; None: it did not come
    whole: float | None  # until as many members train as before; None: the job ended, or they did not come back
    said: str  # the first that the timeline told


@dataclass(slots=True)
class Outcome:
    """Filled as it goes, so that an interrupted run tells what it has."""

    struck: list[Struck] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    restarts: int = 0
    ended: JobView | None = None  # the job, if it came to its end meanwhile
    audit: Audit | None = None  # None: it did not come to that

    @property
    def complaints(self) -> list[str]:
        """What is not as it should be; empty: nothing."""
        still = [one for one in self.struck if one.went_on is None]
        found = [f"{one.deed} of {one.worker}: the job committed no step after it" for one in still]
        if self.ended is None:
            short = [one for one in self.struck if one.went_on is not None and one.whole is None]
            found += [f"{one.deed} of {one.worker}: not all were back {RETURNS:g} s after it" for one in short]
        if self.ended is not None and self.ended.phase is JobPhase.FAILED:
            found.append(f"the job failed: {self.ended.reason}")
        if self.restarts:
            found.append(f"all that held its state were lost, and it began again {self.restarts} times")
        if self.audit is None:
            found.append("it did not come to the audit, so nothing is known of its samples")
        elif not self.audit.ok:
            found.append(f"{self.audit.summary}; {self.audit.faults[0]}")
        return found


def disturb(
    client: Client,
    id: str,
    deeds: Sequence[str],
    seconds: float,
    every: float,
    draw: random.Random,
    outcome: Outcome,
    on_struck: Callable[[Struck], object] = lambda one: None,
) -> None:
    """Strike until the time is over, or the job. Raises Unfit, NotAllowed, and what asking the cluster raises."""
    job, began = _trains(client, id), time.monotonic()
    if job.ended:
        raise Unfit(f"it is {job.phase}, and must train")
    if not victims(client, job):
        raise Unfit("none of its workers runs on this machine, for all that can be seen here: run this where one does")
    if len(job.members) < 2:
        raise Unfit("it trains on one worker, with which its state would be lost: let it have two (max_workers)")
    size, first, restarts = len(job.members), job.step, job.restarts
    with _audited(client, id, outcome, first, restarts):
        while time.monotonic() < began + seconds:
            struck_at = time.monotonic()
            if (found := _trains(client, id)).ended:
                return
            if len(found.members) > 1 and (here := victims(client, found)):
                with suppress(Gone):
                    one = _strike(client, found, draw.choice(deeds), draw.choice(here), size)
                    outcome.struck.append(one)
                    on_struck(one)
            due = min(struck_at + every * draw.uniform(*SPREAD), began + seconds)
            time.sleep(max(LOOK, due - time.monotonic()))


def _strike(client: Client, job: JobView, name: str, victim: Victim, size: int) -> Struck:
    told = [event.id for event in client.events(job.id)]
    deed, at = DEEDS[name], time.monotonic()
    undo = deed.do(client, job.id, victim)
    done = time.monotonic() if name == "job-held" else at  # how long it is held is no doing of the cluster's
    before = client.job(job.id) if not deed.regroups else job
    try:
        went_on = _await(client, job.id, partial(_goes_on, before, deed.regroups), job.spec.step_timeout + FORMS)
        news = client.events(job.id, after=told[-1] if told else None)
        said = next((f"{event.kind}: {event.reason}" for event in news), "")
    finally:
        undo()
    whole = _await(client, job.id, lambda now: now.phase is JobPhase.RUNNING and len(now.members) >= size, RETURNS)
    if any(worker.name == victim.worker and worker.errors for worker in client.workers()):
        client.clear(victim.worker)  # it died by our hand: that must not quarantine it
    return Struck(
        deed=name,
        worker=victim.worker,
        went_on=(went_on - done) * 1e3 if went_on is not None else None,
        whole=(whole - done) * 1e3 if whole is not None else None,
        said=said,
    )


def _goes_on(before: JobView, regroups: bool, now: JobView) -> bool:
    """A step was committed that is due to the time after the fault."""
    if now.phase is JobPhase.COMPLETED:
        return True
    if not regroups:
        return now.step > before.step
    last = now.history[-1] if now.history else None
    newer = last is not None and last.generation > before.history[-1].generation
    return newer and last is not None and now.phase is JobPhase.RUNNING and now.step > last.base_step


def _trains(client: Client, id: str) -> JobView:
    """The job once it trains, or has ended. Raises Unfit if it does neither in time."""
    limit = client.job(id).spec.step_timeout + FORMS
    if _await(client, id, lambda now: now.phase is JobPhase.RUNNING and bool(now.members), limit) is None:
        now = client.job(id)
        if not now.ended:
            raise Unfit(f"it is {now.phase}, and must train: {now.reason}")
    return client.job(id)


def _await(client: Client, id: str, met: Callable[[JobView], bool], limit: float) -> float | None:
    """When this was so of the job, by the clock of the process; None: it ended otherwise, or the time is over."""
    deadline = time.monotonic() + limit
    while True:
        job = client.job(id)
        if met(job):
            return time.monotonic()
        if job.ended or time.monotonic() > deadline:
            return None
        time.sleep(LOOK)


@contextmanager
def _audited(client: Client, id: str, outcome: Outcome, first: int, restarts: int) -> Iterator[None]:
    """Whatever ends the disturbing, the job goes on, and what it trained until then is counted."""
    began = time.monotonic()
    try:
        yield
    finally:
        outcome.seconds = time.monotonic() - began
        with suppress(RegroupError):
            job = client.job(id)
            outcome.steps, outcome.restarts = job.step - first, job.restarts - restarts
            outcome.ended = job if job.ended else None
            outcome.audit = audit_job(client, id)
