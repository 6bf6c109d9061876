"""One cell, from submission to verdict. Read it top to bottom.

Owns: the order of things: hold the victim in its phase, do the fault, let go, wait for the end, and judge.
Refuses to know: how a fault is done, and what passes.
"""

import os
import signal
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from regroup.core.jobs import JobPhase
from regroup.lab.audit import audit_job
from regroup.lab.bench.following import Applied, Following, newest
from regroup.lab.chaos.bed import BESIDE, STEPS, Bed, ChaosFailed, difference, weights
from regroup.lab.chaos.cells import Aftermath, Cell, Phase
from regroup.lab.chaos.faults import DEEDS, Scene, Undo, leave, nothing
from regroup.lab.chaos.hold import Hold
from regroup.lab.chaos.verdict import Observed, Outcome, Result, judge, unwanted
from regroup.lab.trainers import trainer_of
from regroup.wire.rest import EventView, JobView

UNREADY = ("idle", "starting", "preparing", "disconnected")  # what a worker does that could not train now
SETTLED = 3  # steps that all commit together before the fault


@dataclass(frozen=True, slots=True)
class Instant:
    """When the fault was done, by both clocks, and in which generation the last step before it was committed."""

    wall: float
    monotonic: int
    generation: int
    formed: int  # the newest generation that was issued until then


def try_cell(bed: Bed, cell: Cell, folder: Path) -> Result:
    """Run it. Whatever goes wrong is the cell's failure; the cluster is left at rest for the next one."""
    began = time.monotonic()
    trial, observed, story = Trial(bed, cell, folder), None, tuple[str, ...]()
    try:
        observed = trial.run()
        complaints = judge(cell, observed)
        story = tuple(trial.story()) if complaints else ()
    except Exception as error:  # whatever it is, this cell did not pass, and the others are still to be tried
        complaints = (f"{type(error).__name__}: {error}",)
        story = tuple(trial.story())
    finally:
        trial.close()
    outcome = Outcome.FAILED if complaints else Outcome.PASSED
    return Result(
        cell=cell,
        outcome=outcome,
        complaints=complaints,
        observed=observed,
        seconds=time.monotonic() - began,
        story=story,
    )


class Trial:
    def __init__(self, bed: Bed, cell: Cell, folder: Path) -> None:
        self.bed, self.cell, self.hold = bed, cell, Hold(folder)
        self.id = ""
        self._undo: Undo = nothing
        self._done: float | None = None  # when the fault was done, by the wall clock

    def run(self) -> Observed:
        """Raises ChaosFailed."""
        self._train_together()
        fault, scene, rested = self.cell.fault, self._hold(), None
        if fault.rested:
            self.hold.say(fault.word)
            self._rest()
        instant = self._now()
        self._done = instant.wall
        self._undo = DEEDS.get(fault.name, leave)(scene)
        self.hold.say(fault.word)
        if self.cell.phase is Phase.CHECKPOINT and not fault.last:
            if not fault.rested:
                self._repair()
                rested = self._rest()
            self.bed.ask(lambda client: client.resume(self.id))
        self._repair()
        recovered = rested or self._recover(instant)
        self._await_notice(instant)
        self.hold.finish()
        self.bed.until(lambda: self._job().ended, "the job ends")
        return self._observe(instant, recovered)

    def close(self) -> None:
        """Leave nothing broken, held or running, wherever it ended. Raises ChaosFailed."""
        self.hold.release()
        self._repair()
        if self.id:
            self.bed.stop(self.id)

    def story(self) -> list[str]:
        """The timeline, in seconds since the job was submitted, and where in it the fault was done."""
        if not self.id:
            return []
        told = [(each.at, each.kind, each.reason) for each in self._events()]
        if self._done is not None:
            told.append((self._done, "THE FAULT", self.cell.fault.what))
        return [f"{at - self._began:8.3f}  {kind:<12} {reason}" for at, kind, reason in sorted(told)]

    def _repair(self) -> None:
        undo, self._undo = self._undo, nothing
        undo()

    # ----- the acts

    def _train_together(self) -> None:
        """All workers prepare, then they train together."""
        self.bed.rest()
        self._began = time.time()
        beside = self.cell.fault.rested or self.cell.phase is Phase.BESIDE
        self.id = self.bed.submit(self.hold.folder, BESIDE if beside else None)
        self._following = Following(self.bed.cluster.data_dir / "records" / self.id)
        names = list(self.bed.cluster.agents)
        self._until(
            lambda job: sum(each.doing not in UNREADY for each in job.workers) == len(names), "all workers are prepared"
        )
        self.hold.start()
        self._until(lambda job: len(job.members) == len(names) and job.step >= SETTLED, "all workers train together")
        if self.cell.fault.rested:
            self._until(lambda job: job.checkpoint is not None, "there is an older checkpoint")

    def _hold(self) -> Scene:
        """The victim is in the phase, and stays there."""
        members = [each.worker for each in self._job().members]
        draw = zlib.crc32(self.cell.name.encode())
        victim, other = members[draw % len(members)], members[(draw + 1) % len(members)]
        step = STEPS - 1 if self.cell.fault.last else 0
        match self.cell.phase:
            case Phase.EXCHANGE:
                self.hold.arm({victim: "exchange"})  # first: where the other is held, no step begins any more
                self.bed.until(self.hold.watched, f"{victim} watches its exchanges")
                self.hold.arm({victim: "exchange", other: "forward"}, step)
            case Phase.CHECKPOINT:
                self.hold.arm({"*": "checkpoint"}, STEPS if self.cell.fault.last else 0)
                victim = "*"
                if not self.cell.fault.last:
                    self.bed.ask(lambda client: client.pause(self.id))
            case Phase.BESIDE:
                self.hold.arm({"*": "beside"})
                victim = "*"
            case Phase.FORMING:
                self.hold.arm({victim: "forming"}, step)
                time.sleep(0.1)  # it looks for that in each pass
                self._kill(other)
            case Phase.JOINING:
                self.hold.arm({victim: "joining"})
                self._kill(victim)
            case place:
                self.hold.arm({victim: place}, step)
        if self.cell.fault.last:
            self.hold.finish()
        held = self.bed.until(lambda: self.hold.held(victim), f"{victim} is held ({self.cell.phase})")
        if other == held.worker:
            other = next(each for each in members if each != held.worker)
        return Scene(self.bed, self.id, held.worker, held.pid, other)

    def _rest(self) -> float:
        """The pause comes to its end. When that was."""
        self._until(lambda job: job.phase is JobPhase.PAUSED, "the state is on disk, and the job rests")
        return next(each.at for each in reversed(self._events()) if each.kind == "paused")

    def _recover(self, instant: Instant) -> float | None:
        """When the next step was committed, by the wall clock; None: the job ended without another one."""
        found = self.bed.until(lambda: self._committed(instant) or self._job().ended, "the next step is committed")
        return instant.wall + (found.at - instant.monotonic) / 1e9 if isinstance(found, Applied) else None

    def _await_notice(self, instant: Instant) -> None:
        """What the job need not wait for is noticed later: a newcomer that hangs."""
        if self.cell.noticed:
            self.bed.until(
                lambda: self._named(self._events(), instant) or self._job().ended, "the timeline names the fault"
            )

    def _observe(self, instant: Instant, recovered: float | None) -> Observed:
        job, events = self._job(), self._events()
        ended = next((each.at for each in events if each.kind == job.phase), None)
        if recovered is None and job.phase is JobPhase.COMPLETED:
            recovered = ended
        found = self.bed.ask(lambda client: audit_job(client, self.id, self._following.folder))
        named = self._named(events, instant)
        hung = next((each for each in events if each.kind == "hang" and each.at >= instant.wall), None)
        return Observed(
            phase=job.phase,
            reason=job.reason,
            difference=difference(weights(job), self.bed.calm),
            lost=found.lost,
            doubled=found.doubled,
            audit_faults=found.faults,
            restarts=job.restarts,
            regroups=sum(each.kind == "form" and each.data["generation"] > instant.formed for each in events),
            noticed=(named.at - instant.wall) * 1e3 if named else None,
            recovered=(recovered - instant.wall) * 1e3 if recovered else None,
            limit=hung.data["limit"] if hung else None,
            remark=f"{named.kind}: {named.reason}" if named else "",
            unwanted=unwanted(self.cell, events, instant.wall),
        )

    # ----- looking

    def _job(self) -> JobView:
        return self.bed.job(self.id)

    def _events(self) -> list[EventView]:
        return [each for each in self.bed.events(self.id) if each.at >= self._began]

    def _until(self, met: Callable[[JobView], bool], what: str) -> JobView:
        """Raises ChaosFailed when it takes too long, and at once when the job ends before."""

        def look() -> JobView | None:
            job = self._job()
            if met(job):
                return job
            if job.ended:
                raise ChaosFailed(f"{what}: not in time; the job is {job.phase}: {job.reason}")
            return None

        return self.bed.until(look, what)

    def _kill(self, worker: str) -> None:
        pid = trainer_of(self.bed.cluster.data_dir, worker)
        if pid is None:
            raise ChaosFailed(f"no trainer of {worker} was found")
        os.kill(pid, signal.SIGKILL)

    def _now(self) -> Instant:
        self._following.look()
        formed = max((each.data["generation"] for each in self._events() if each.kind == "form"), default=0)
        return Instant(time.time(), time.monotonic_ns(), newest(self._following.seen), formed)

    def _committed(self, instant: Instant) -> Applied | None:
        """The first step after the fault that is certain to be due to a recovery, where somebody was lost."""
        self._following.look()
        aftermath = self.cell.aftermath
        lost = aftermath is Aftermath.RESTARTS or (
            aftermath is Aftermath.REGROUPS and self.cell.phase is not Phase.JOINING
        )
        later = [
            one
            for one in self._following.seen
            if one.at > instant.monotonic and (one.generation > instant.generation or not lost)
        ]
        return min(later, key=lambda one: one.at, default=None)

    def _named(self, events: list[EventView], instant: Instant) -> EventView | None:
        kinds = self.cell.noticed
        return next((each for each in events if each.kind in kinds and each.at >= instant.wall), None)
