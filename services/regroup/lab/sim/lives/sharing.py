"""How the jobs of a life share its workers: who starts first, who keeps whom, and who makes room.

Owns: what has to be remembered over a whole life to tell (since when a job keeps whom it has no seat for), and the
rules. Each breach raises AssertionError and names the rule.
Refuses to know: who may be lent at all, and is released (`lending_rules`), and who is blamed (`justice`).
"""

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from regroup.core.cluster import Cluster
from regroup.core.decide import Decision
from regroup.core.jobs import Job, JobPhase, Member, Wanted
from regroup.core.workers import Sighting, Worker
from regroup.lab.sim.model.world import given_up, is_heard, tells

if TYPE_CHECKING:
    from regroup.lab.sim.lives.life import Life

IDLE = 3.0  # seconds for which a worker may have nothing to do, or wait to join, though a job has a place for it
SURPLUS = 2.0  # seconds for which a job may keep a worker that it has no seat for
WAITS = (JobPhase.PREPARING, JobPhase.WAITING)


class Sharing:
    def __init__(self, life: "Life") -> None:
        self._life = life
        self._surplus: dict[str, float] = {}  # since when a job keeps somebody that it has no seat for
        self._idle: dict[tuple[str, str], float] = {}  # since when a job does without a worker
        self._yielded: dict[str, float] = {}  # when a job was last asked to make room

    def judge(self, before: Cluster, decision: Decision) -> None:
        after = decision.cluster
        for note in decision.notes:
            if note.kind == "yielding" and note.job is not None:
                self._yields(note.job)
            known = before.jobs.get(note.job or "")
            if note.kind == "unlent" and note.job is not None and "it cannot read the checkpoint, and" in note.reason:
                self._had_enough(after, after.jobs[note.job], note.worker or "")
            if note.kind == "lent" and known is not None and note.worker is not None:
                self._seated(before, after, known, note.worker)
                self._leaves_for_others(before, after, known, note.worker)
        self._takes(after)
        for id, job in after.jobs.items():
            old = before.jobs.get(id)
            if job.phase is JobPhase.PREPARING and (old is None or old.phase is JobPhase.QUEUED):
                self._starts(after, job)
            if not job.ended or job is not old:
                self._keeps(after, job)

    def _had_enough(self, after: Cluster, job: Job, name: str) -> None:
        """Who cannot read goes only for others that may: those that are not heard keep no place from it."""
        lent, most = [one for one, worker in after.workers.items() if worker.job == job.id], job.spec.max_workers
        others = [one for one in lent if is_heard(self._life, after, one)]
        assert len(others) >= most, f"{name} cannot read, and goes, and {job.id} has {others}, and may have {most}"

    def _takes(self, after: Cluster) -> None:
        """A job that has a place for a worker is lent it, and takes it in once it is prepared."""
        live = [job for job in after.jobs.values() if not job.ended]
        found = {
            (job.id, name) for job in live for name in (*self._could_have(after, job, live), *self._ready(after, job))
        }
        self._idle = {key: self._idle.get(key, self._life.now) for key in found}
        for (id, name), since in self._idle.items():
            waited = min(self._life.now - since, self._life.decided_at - max(after.awake, after.started))
            assert waited < IDLE, f"{id} has a place for {name}, and does without it: {after.jobs[id].reason}"

    def _could_have(self, after: Cluster, job: Job, live: Sequence[Job]) -> list[str]:
        """Free workers, where it is the only job, and could go on with them."""
        begun = (*WAITS, JobPhase.RUNNING, JobPhase.REGROUPING)
        if len(live) > 1 or job.wanted is not Wanted.RUN or job.phase not in begun:
            return []
        members = job.formation.members if job.formation and job.phase is not JobPhase.WAITING else ()
        keeps = {one.worker for one in members}
        # Who is in quarantine, and lent, keeps its place, for its trainer may go on; it is not counted on.
        mine = [name for name, one in after.workers.items() if one.job == job.id and not one.departs]
        mine = [name for name in mine if after.present(name) or name in keeps or job.formation is None]
        free = [name for name, one in after.workers.items() if one.job is None and name not in job.refused]
        free = [name for name in free if self._is_free(after, after.workers[name])]
        sound = [name for name in mine if not after.workers[name].quarantined]
        heard = [name for name in sound if tells(self._life, after, name)]
        useful = [name for name in heard if not self._is_given_up(after, name, after.sightings[name])]
        enough = len(free) + len(useful) >= job.spec.min_workers
        return free if enough and len(mine) < job.spec.max_workers else []

    def _is_free(self, after: Cluster, worker: Worker) -> bool:
        agent, seen = self._life.agents[worker.name], after.present(worker.name)
        there = worker.boot == agent.boot and agent.link and agent.trainer is None
        told = seen is not None and seen.trainer is None and tells(self._life, after, worker.name)
        return bool(there and told) and not (worker.quarantined or worker.departs)

    def _ready(self, after: Cluster, job: Job) -> list[str]:
        """Those that are prepared to join it, as it trains with a place left."""
        watch, formation, life = after.watches.get(job.id), job.formation, self._life
        undisturbed = job.phase is JobPhase.RUNNING and job.round is None and job.saver is None
        if watch is None or formation is None or not undisturbed or watch.failed_savers or job.wanted is not Wanted.RUN:
            return []
        sound = all(tells(life, after, one.worker) and after.trainer(one) for one in formation.members)
        sound = sound and all(after.hang(one) is None for one in formation.members)
        found = []
        for name in [name for name, one in after.workers.items() if one.job == job.id and not one.departs]:
            seen, trainer = after.present(name), life.agents[name].trainer
            if seen is None or seen.trainer is None or seen.hang is not None or trainer is None or trainer.stuck:
                continue
            said, member = seen.trainer, trainer.member
            prepared = said.incarnation == member.incarnation and said.fingerprint is not None and said.job == job.id
            out = member in formation.members or member in watch.evicted or name in watch.resting
            if prepared and not out and tells(life, after, name):
                found.append(name)
        return found if sound and len(formation.seats) < job.spec.max_workers else []

    def _yields(self, job: str) -> None:
        now = self._life.decided_at
        since = now - self._yielded.get(job, -inf)
        assert since > 0.9 * self._life.policy.absent_limit, f"{job} is asked again after {since:.2f} s"
        self._yielded[job] = now

    def _seated(self, before: Cluster, after: Cluster, job: Job, worker: str) -> None:
        """No job is lent another worker while members that train have all its seats, and none of them is to rest."""
        was, watch, seen = before.watches.get(job.id), after.watches.get(job.id), after.present(worker)
        undisturbed = job.phase is JobPhase.RUNNING and job.round is None and after.jobs[job.id].round is None
        if job.formation is None or was is None or watch is None or not undisturbed:
            return
        if job.formation.generation != job.generation:
            return  # its last generation is over, and nobody is asked for anything
        if watch.unable or (seen is not None and seen.trainer is not None):
            return  # it may read, or bring back, what the others cannot
        members, lost = job.formation.members, {*watch.dead, *watch.evicted, *watch.resting}
        there = [one for one in members if one not in lost and one.worker not in lost and after.trainer(one)]
        mine = [one for one in there if (held := after.workers[one.worker]).job == job.id and not held.departs]
        full = len(mine) == len(members) == job.spec.max_workers
        assert not full, f"{worker} is lent to {job.id}, in which {mine} have all the seats"

    def _leaves_for_others(self, before: Cluster, after: Cluster, job: Job, worker: str) -> None:
        """A job that has enough grows by what no queued job can use, now or once others end."""
        seen, watch = after.present(worker), before.watches.get(job.id)
        if seen is None or seen.trainer is not None or watch is None or watch.unable:
            return  # it may bring back, or read, what the others cannot
        mine = [name for name, one in before.workers.items() if one.job == job.id]
        still = [one for one in map(after.workers.get, mine) if one and one.job == job.id and not one.departs]
        has = [one.name for one in still if before.present(one.name) and self._is_of_use(after, job, one.name)]
        if job.phase is not JobPhase.RUNNING or len(has) < job.spec.min_workers:
            return
        queued = [one for one in after.jobs.values() if one.phase is JobPhase.QUEUED and one.id in before.jobs]
        for other in [one for one in queued if before.jobs[one.id].phase is JobPhase.QUEUED]:
            fit = self._fit(after, other, None, self._life.policy.quiet_limit)
            could = worker in fit and other.spec.min_workers <= len(fit)
            assert not could, f"{worker} is lent to {job.id}, which has {has}, and {other.id} waits for {fit}"

    def _is_of_use(self, after: Cluster, job: Job, name: str) -> bool:
        """Whether a worker keeps its place in its job from a free one."""
        seen, watch = after.present(name), after.watches.get(job.id)
        if seen is None or watch is None or name in watch.resting or seen.trainer is None:
            return False
        quiet = self._life.decided_at - seen.seen > self._life.policy.quiet_limit
        return not quiet and Member(name, seen.trainer.incarnation) not in watch.evicted

    def _starts(self, after: Cluster, job: Job) -> None:
        """First in, first out: nobody overtakes a job that could start with the workers that are alive."""
        for older in after.jobs.values():
            if older.id == job.id:
                return
            fit = self._fit(after, older, job, self._life.policy.absent_limit)
            waits = older.phase is JobPhase.QUEUED or (older.phase is JobPhase.PAUSED and older.wanted is Wanted.YIELD)
            could = waits and older.spec.min_workers <= len(fit)
            assert not could, f"{job.id} starts before {older.id}, which could start on {fit}"

    def _fit(self, after: Cluster, job: Job, but: Job | None, silent: float) -> list[str]:
        """The workers that a queued job could have, now or once others end; but for one, those that wait keep theirs.
        They were heard within so many seconds."""
        life = self._life
        rest = [one for one in after.jobs.values() if one is not but]
        keep = {one.id for one in rest if one.wanted is Wanted.HOLD or one.phase in WAITS}
        return [
            name
            for name, worker in after.workers.items()
            if life.agents[name].alive and name not in job.refused
            if not (worker.quarantined or worker.departs) and worker.job not in keep
            if (seen := after.sightings.get(name)) and life.decided_at - seen.seen < silent
            if not (self._clings(worker, seen) or self._is_given_up(after, name, seen))
        ]

    def _clings(self, worker: Worker, seen: Sighting) -> bool:
        """Whether it was freed long ago, and its trainer did not end yet: no job waits for that."""
        freed = worker.job is None and seen.trainer is not None
        return freed and self._life.decided_at - seen.moved > self._life.policy.absent_limit

    def _is_given_up(self, after: Cluster, name: str, seen: Sighting) -> bool:
        """Whether its trainer was, and did not end yet; the job that gave it up may have let it go already."""
        trainer = seen.trainer
        return trainer is not None and Member(name, trainer.incarnation) in given_up(after, trainer.job)

    def _keeps(self, after: Cluster, job: Job) -> None:
        """A job that has all that it asked for, and hears of each, lets go of the others, in time. One that saves, or
        tries to, may need them yet; so may one of which somebody hangs."""
        watch = after.watches.get(job.id)
        saves = job.saver is not None or (watch is not None and watch.failed_savers)
        trains = job.phase is JobPhase.RUNNING and job.round is None and not saves and job.wanted is Wanted.RUN
        lent = [name for name, worker in after.workers.items() if worker.job == job.id] if trains else []
        seated = {member.worker for member in job.formation.members} if lent and job.formation is not None else set()
        extra = [name for name in lent if name not in seated and after.present(name)]
        sound = all(tells(self._life, after, name) and after.sightings[name].hang is None for name in seated)
        if not extra or not sound or len(seated) < job.spec.max_workers:
            self._surplus.pop(job.id, None)
            return
        since = self._surplus.setdefault(job.id, self._life.now)
        waited = min(self._life.now - since, self._life.decided_at - max(after.awake, after.started))
        assert waited < SURPLUS, f"{extra} are kept by a job that has all that it asked for"
