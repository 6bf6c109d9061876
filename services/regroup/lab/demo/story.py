"""What happens in the demo, act by act, and what must be true of it. Read it top to bottom.

Owns: the acts: whatever the demo says happened is checked where it is said (`claims`), and raises otherwise.
Refuses to know: terminals and options. It starts an agent, and kills one, at an instant that the killed one's record
gives; all else it asks the REST API for.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import TypeVar

from regroup.client.sdk import Client
from regroup.core.jobs import JobPhase
from regroup.lab.audit import audit_job
from regroup.lab.demo.claims import ClaimFailed, fallen, kept_its_state, lived_on, went_on
from regroup.lab.demo.evidence import Aftermath, Kill, aftermath, steps_applied
from regroup.lab.demo.facts import Facts, Joined, Killed
from regroup.lab.demo.screen import Screen
from regroup.lab.local import LocalCluster
from regroup.wire.rest import EventView, JobView, MemberView
from regroup.worker.records import file_of

LOOK = 0.2  # seconds between two questions
CLOSE_LOOK = 0.01  # the same while the survivors regroup
READ_LOOK = 0.002  # and between two looks into a record, for the beginning of a step
RECENT = 30  # steps whose median time is the usual one
LIMIT = 120.0  # seconds without any news until what is waited for counts as never happening

Found = TypeVar("Found")


class Story:
    def __init__(
        self, cluster: LocalCluster, client: Client, screen: Screen, facts: Facts, interrupted: threading.Event
    ) -> None:
        self._cluster, self._client, self._screen, self._interrupted = cluster, client, screen, interrupted
        self._facts, self._plan = facts, facts.plan
        self._job = ""
        self._after: str | None = None  # the last event seen
        self._events: list[EventView] = []  # of the act that plays
        self._step_time = 0.0  # seconds, the usual one before the kill
        self._members: tuple[MemberView, ...] = ()  # before the kill
        self._began = time.monotonic()

    def play(self) -> None:
        """Raises ClaimFailed, RegroupError; KeyboardInterrupt when it was interrupted."""
        self._start()
        kill = self._kill()
        self._regroup(kill)
        self._join()
        self._complete()
        self._facts.seconds = round(time.monotonic() - self._began, 1)

    # ----- the acts

    def _start(self) -> None:
        """All workers are free, the job is submitted, and trains until it is time for the kill."""
        plan, client = self._plan, self._client
        self._until(lambda: client.cluster().idle >= plan.workers or None, f"{plan.workers} workers register")
        job = client.submit(plan.spec)
        self._job = self._facts.job = job.id
        self._screen.say(
            "submitted", f"job {job.id}: {plan.steps} steps of {job.spec.global_batch} samples, in {job.shards} shards"
        )
        self._follow(lambda job: _trains(job, plan.names) and job.step >= plan.kill_at, "all workers train together")

    def _kill(self) -> Kill:
        """SIGKILL to a worker's agent and trainer together, half a step after it read the samples of one."""
        victim = self._plan.victim
        points = self._client.points(self._job, self._plan.kill_at - RECENT)
        self._step_time = median(point.seconds or 0.0 for point in points)
        job = self._client.job(self._job)
        self._members = job.members
        member = next(member for member in job.members if member.worker == victim)
        record = file_of(self._cluster.data_dir / "records" / job.id, victim)
        assert record is not None
        with record.open("rb") as lines:
            lines.seek(0, os.SEEK_END)
            self._until(lambda: b'{"read"' in lines.read() or None, f"{victim} reads the samples of a step", READ_LOOK)
        time.sleep(self._step_time / 2)
        kill = Kill(victim, member.incarnation, job.generation, time.time(), time.monotonic_ns())
        self._cluster.agents[victim].kill()
        self._screen.killed(victim, kill.at, f"SIGKILL to {victim}: its agent and its trainer, with one signal")
        return kill

    def _regroup(self, kill: Kill) -> None:
        """The survivors go on without it; their records say where the kill hit and when they committed again."""
        survivors = [name for name in self._plan.names if name != kill.worker]
        self._events.clear()
        what = f"{', '.join(survivors)} regroup without {kill.worker}"
        lived_on(self._members, self._follow(lambda job: _trains(job, survivors), what, CLOSE_LOOK).members)
        regrouped, halted = self._event("regrouped"), next(event for event in self._events if event.kind == "halt")
        found = self._until(lambda: self._committed(kill), "a survivor commits a step")
        went_on(found)
        assert found.step is not None
        assert found.milliseconds is not None
        self._screen.moment(
            kill.at + found.milliseconds / 1e3,
            "committed",
            f"step {found.committed} by {found.first}, the first of the new generation",
        )
        self._facts.killed = Killed(
            worker=kill.worker,
            in_step=found.step,
            stood=found.stood,
            halted=round((halted.at - kill.at) * 1e3, 1),
            regrouped=round((regrouped.at - kill.at) * 1e3, 1),
            committed=round(found.milliseconds, 1),
            step_time=round(self._step_time * 1e3, 1),
            timeline=[(round((event.at - kill.at) * 1e3, 1), event.kind, event.reason) for event in self._events],
        )
        fate = (
            "whose sum was complete: it stands"
            if found.stood
            else "which nobody had applied: the survivors did it again"
        )
        self._screen.say("survived", f"{kill.worker} died in step {found.step}, {fate}; no process was restarted")

    def _join(self) -> None:
        """A new agent registers, its trainer prepares beside the running job, and is taken in at a step's end."""
        newcomer, dead = self._plan.newcomer, self._plan.victim
        self._follow(lambda job: job.step >= self._plan.join_at, "the survivors train on")
        self._events.clear()
        began = time.time()
        self._screen.joins(newcomer, began)
        self._cluster.start_worker(newcomer)
        members = [*(name for name in self._plan.names if name != dead), newcomer]
        lived_on(self._members, self._follow(lambda job: _trains(job, members), f"{newcomer} becomes a member").members)
        regrouped, form = self._event("regrouped"), self._event("form")
        self._facts.joined = Joined(
            worker=newcomer,
            from_step=form.data["base_step"],
            after=round(regrouped.at - began, 2),
            pause=regrouped.data["seconds"],
            steps=0,
            timeline=[(round(event.at - began, 2), event.kind, event.reason) for event in self._events],
        )
        self._screen.gap()

    def _complete(self) -> None:
        """The job completes; what it leaves behind is read and judged."""
        facts, client = self._facts, self._client
        job = self._follow(lambda job: job.ended, "the job ends")
        if job.phase is not JobPhase.COMPLETED or job.checkpoint is None:
            raise ClaimFailed(f"the job did not complete: it is {job.phase}, {job.reason}")
        points = {point.step: point for point in client.points(job.id)}
        facts.losses = [points[step].loss if step in points else None for step in range(self._plan.steps)]
        facts.held_out = {
            step + 1: loss for step, point in points.items() if (loss := point.metrics.get("loss")) is not None
        }
        facts.generations = len(job.history)
        facts.checkpoint = {
            "path": job.checkpoint.path,
            "bytes": job.checkpoint.bytes,
            "sha256": job.checkpoint.checksum,
        }
        facts.sample = str((job.result or {}).get("sample", ""))
        facts.parameters = (job.result or {}).get("parameters")
        facts.loss_before, facts.loss_after = fallen(facts.losses)
        if not facts.sample.strip():
            raise ClaimFailed("the trained model wrote no text")
        self._screen.say("audit", "reading the workers' own records")
        assert facts.joined is not None
        facts.joined.steps = steps_applied(facts.joined.worker, self._records())
        if not facts.joined.steps:
            raise ClaimFailed(f"{facts.joined.worker} became a member and committed no step")
        facts.audit = audit_job(client, job.id)
        if not facts.audit.ok:
            raise ClaimFailed(f"the audit is not exact: {facts.audit.summary}")

    # ----- asking

    def _follow(self, met: Callable[[JobView], bool], what: str, interval: float = LOOK) -> JobView:
        """Show the job and its timeline until it is as wanted. Raises ClaimFailed when that cannot happen any more."""
        step, heard = -1, time.monotonic()
        while True:
            job = self._client.job(self._job)
            news = self._listen()
            self._screen.show(job)
            kept_its_state(job)
            if met(job):
                return job
            if job.ended:
                raise ClaimFailed(f"{what}: this did not happen; the job is {job.phase}, {job.reason}")
            if news or job.step != step:
                step, heard = job.step, time.monotonic()
            if time.monotonic() - heard > LIMIT:
                raise ClaimFailed(f"{what}: nothing happened for {LIMIT:g} s; the job is {job.phase}, {job.reason}")
            self._pause(interval)

    def _listen(self) -> bool:
        """Show what is new in the timeline; whether there was something."""
        new = list(self._client.events(after=self._after))
        for event in new:
            self._after = event.id
            self._screen.told(event)
        self._events += new
        return bool(new)

    def _until(self, met: Callable[[], Found | None], what: str, interval: float = LOOK) -> Found:
        """What is found, asked for again and again. Raises ClaimFailed when it takes too long."""
        deadline = time.monotonic() + LIMIT
        while (found := met()) is None:
            if time.monotonic() > deadline:
                raise ClaimFailed(f"{what}: this did not happen in {LIMIT:g} s")
            self._pause(interval)
        return found

    def _pause(self, seconds: float) -> None:
        if self._interrupted.wait(seconds):
            raise KeyboardInterrupt

    def _committed(self, kill: Kill) -> Aftermath | None:
        """What the records say of the kill, once a survivor committed a step after it."""
        found = aftermath(kill, self._records())
        return found if found.first is not None else None

    def _records(self) -> Iterator[tuple[str, str]]:
        return ((piece.file, piece.text) for piece in self._client.records(self._job))

    def _event(self, kind: str) -> EventView:
        """The last of its kind in this act."""

        def last() -> EventView | None:
            self._listen()
            return next((event for event in reversed(self._events) if event.kind == kind), None)

        return self._until(last, f"the timeline tells of {kind}")


def _trains(job: JobView, workers: Sequence[str]) -> bool:
    """Whether it runs on exactly these workers."""
    return job.phase is JobPhase.RUNNING and sorted(m.worker for m in job.members) == sorted(workers)
