"""How the jobs of a life share its workers: who starts first, who keeps whom, and who makes room.

Owns: what has to be remembered over a whole life to tell (since when a job keeps whom it has no seat for), and the
rules. Each breach raises AssertionError and names the rule.
Refuses to know: who may be lent at all, and is released (`lending_rules`), and who is blamed (`justice`).
"""

from math import inf
from typing import TYPE_CHECKING

from regroup.core.cluster import Cluster
from regroup.core.decide import Decision
from regroup.core.jobs import Job, JobPhase, Wanted
from regroup.core.workers import LEFT, Sighting, Worker

if TYPE_CHECKING:
    from regroup.lab.sim.lives.life import Life

SURPLUS = 10.0  # seconds for which a job may keep a worker that it has no seat for
WAITS = (JobPhase.PREPARING, JobPhase.WAITING)


class Sharing:
    def __init__(self, life: "Life") -> None:
        self._life = life
        self._surplus: dict[str, float] = {}  # since when a job keeps somebody that it has no seat for
        self._yielded: dict[str, float] = {}  # when a job was last asked to make room

    def judge(self, before: Cluster, decision: Decision) -> None:
        after = decision.cluster
        for note in decision.notes:
            if note.kind == "yielding" and note.job is not None:
                self._yields(note.job)
        for id, job in after.jobs.items():
            old = before.jobs.get(id)
            if job.phase is JobPhase.PREPARING and (old is None or old.phase is JobPhase.QUEUED):
                self._starts(after, job)
            if not job.ended or job is not old:
                self._keeps(after, job)

    def _yields(self, job: str) -> None:
        now = self._life.decided_at
        since = now - self._yielded.get(job, -inf)
        assert since > 0.9 * self._life.policy.absent_limit, f"{job} is asked again after {since:.2f} s"
        self._yielded[job] = now

    def _starts(self, after: Cluster, job: Job) -> None:
        """First in, first out: nobody overtakes a job that could start with the workers that are alive."""
        life = self._life
        for older in after.jobs.values():
            if older.id == job.id:
                return
            rest = [one for one in after.jobs.values() if one is not job]
            others = {one.id for one in rest if one.wanted is Wanted.HOLD or one.phase in WAITS}
            fit = [
                name
                for name, worker in after.workers.items()
                if life.agents[name].alive and worker.boot != LEFT and name not in older.refused
                if not (worker.quarantined or worker.departs)
                if (seen := after.sightings.get(name)) and life.decided_at - seen.seen < life.policy.absent_limit
                if worker.job not in others and not self._clings(worker, seen)
            ]
            could = older.phase is JobPhase.QUEUED and older.spec.min_workers <= len(fit)
            assert not could, f"{job.id} starts before {older.id}, which could start on {fit}"

    def _clings(self, worker: Worker, seen: Sighting) -> bool:
        """Whether it was freed long ago, and its trainer did not end yet: no job waits for that."""
        freed = worker.job is None and seen.trainer is not None
        return freed and self._life.decided_at - seen.moved > self._life.policy.absent_limit

    def _keeps(self, after: Cluster, job: Job) -> None:
        """A job that has all that it asked for lets go of the others, in time; one that saves may need them yet."""
        undisturbed = job.round is None and job.saver is None and job.wanted is Wanted.RUN
        trains = job.phase is JobPhase.RUNNING and undisturbed
        lent = [name for name, worker in after.workers.items() if worker.job == job.id] if trains else []
        seated = {member.worker for member in job.formation.members} if lent and job.formation is not None else set()
        extra = [name for name in lent if name not in seated and after.present(name)]
        if not extra or len(seated) < job.spec.max_workers:
            self._surplus.pop(job.id, None)
            return
        since = self._surplus.setdefault(job.id, self._life.now)
        waited = min(self._life.now - since, self._life.decided_at - max(after.awake, after.started))
        assert waited < SURPLUS, f"{extra} are kept by a job that has all that it asked for"
