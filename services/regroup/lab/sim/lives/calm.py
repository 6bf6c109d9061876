"""What jobs and workers may count on once nothing has gone wrong for a while.

Owns: since when that is, and the rules for it: who trains makes steps, who is free is lent, who is to go may, and the
trainer of who is free ends; and nobody in good health is given up.
Refuses to know: what is owed while something goes wrong (`waiting`, `sharing`, `justice`).
"""

from math import inf
from typing import TYPE_CHECKING

from regroup.core.beginning import is_needed
from regroup.core.cluster import Cluster
from regroup.core.decide import Decision
from regroup.core.jobs import Job, JobPhase, Wanted
from regroup.core.stragglers import is_straggler
from regroup.core.workers import Worker
from regroup.lab.sim.lives.excuses import STORE
from regroup.lab.sim.lives.faults import GENTLE
from regroup.lab.sim.lives.plan import Kind
from regroup.lab.sim.model.rollback_rules import is_over
from regroup.lab.sim.model.world import given_up, holders, is_overtaken, tells

if TYPE_CHECKING:
    from regroup.lab.sim.lives.life import Life

STEP = 15.0  # seconds for which a job that trains may make no step, nor get on with an evaluation
LENT = 3.0  # seconds for which a worker may be free that the first job of the queue, or one with a place, could have
GOES = 8.0  # seconds for which one that is to go may be kept, but to save
ENDS = 1.0  # seconds for which the trainer of a free worker may live, once no state is waited for that it may have, too
ANSWERS = 4.0  # seconds after which a trainer in good health has answered, come back, or gone on with its step
PREPARES = 6.0  # seconds after which it has prepared
DELETES = 4.0  # seconds for which a file may be there that its worker is to delete
LAGS = 3.0  # seconds for which nobody may say that one is slower than the others
GIVES_UP = 8.0  # seconds for which a job that is to stop may wait, once all that may hold more are silent for long
HOLDS_UP = (  # one worker
    *(Kind.HANG, Kind.DEADLOCK, Kind.STALL, Kind.WEDGE, Kind.UNKILLABLE, Kind.STARVE, Kind.BREAK, Kind.SEVER),
    *(Kind.DEAFEN, Kind.SILENCE, Kind.ISOLATE, Kind.CUT, Kind.STRANGER, Kind.KILL_AGENT, Kind.AWAY, Kind.MOVE),
)
KEEPS_FROM_HEARING = (*STORE, Kind.STORE_SLOW, Kind.SLOW, Kind.LOSSY, Kind.JUMBLED, Kind.FREEZE)  # all of them
HARMS = tuple(kind for kind in Kind if kind not in GENTLE and kind is not Kind.SEVER)
UNANSWERED = ("did not answer", "did not come back", " hangs in phase ", "did not prepare")
STEPS = ("stepping", "contributed", "applying")  # where a step loop stands that makes steps, and evaluates nothing
TRAINS = (JobPhase.RUNNING, JobPhase.REGROUPING)
GROWS = (JobPhase.RUNNING, JobPhase.PREPARING, JobPhase.WAITING)


class Calm:
    def __init__(self, life: "Life") -> None:
        self._life = life
        self._since: dict[tuple[str, str], tuple[float, object]] = {}  # since when something is so, and how it was then

    def judge(self, decision: Decision) -> None:
        after, leader = decision.cluster, self._life.leader
        if leader is None or leader.frozen:
            return
        for note in decision.notes:
            if note.kind == "evicted" and note.worker is not None:
                self._evicted(note.worker, note.job or "", note.reason)
        for job in after.jobs.values():
            if not is_overtaken(self._life, job):
                self._makes_steps(after, job)
                self._stops(after, job)
                self._tells_who_lags(after, job)
            self._deletes(after, job)
        for worker in after.workers.values():
            self._may_go(after, worker)
            self._ends(after, worker)
        self._lends(after)

    def _evicted(self, name: str, job: str, why: str) -> None:
        trainer, faults = self._life.agents[name].trainer, self._life.faults
        if trainer is None or trainer.stuck or trainer.job != job or not any(words in why for words in UNANSWERED):
            return
        calm = self._life.now - max(faults.last(HOLDS_UP, name), faults.last(KEEPS_FROM_HEARING), *self._turns())
        limit = PREPARES if "prepare" in why else ANSWERS
        assert calm < limit, f"{trainer.member} is sound, and evicted after {calm:.1f} s of calm: {why}"

    def _makes_steps(self, after: Cluster, job: Job) -> None:
        watch = after.watches.get(job.id)
        trains = job.phase in TRAINS and job.wanted is Wanted.RUN and job.saver is None
        trains = trains and not (watch is not None and watch.failed_savers)
        made = sum(map(len, self._life.ghosts.commits.get(job.id, {}).values())) if trains else 0
        evaluated = [one.evaluated for one in self._life.trainers() if one.job == job.id] if trains else []
        state = job.phase is JobPhase.RUNNING, made, max(evaluated, default=None)
        harmed = self._harmed_for(after, job) if trains else 0.0
        waited = self._lasts("step", job.id, trains, state, harmed)
        assert waited < STEP, f"{job.id} makes no step for {waited:.1f} s: {job.phase}, {job.reason}"

    def _harmed_for(self, after: Cluster, job: Job) -> float:
        """When anything last went wrong that keeps this job from its steps: that there is no way to some does not, if
        enough others are there, and one of them has the state, if anybody has."""
        faults, life = self._life.faults, self._life
        if not faults.lasts(Kind.SEVER):
            return faults.harmed
        near = [one for one in after.workers.values() if not faults.lasts(Kind.SEVER, one.name)]
        fit = [one.name for one in near if one.job in (None, job.id) and self._is_there(after, one)]
        fit = [name for name in fit if not (after.workers[name].quarantined or after.workers[name].departs)]
        fit = [name for name in fit if name not in job.refused]
        held = {one.member.worker for one in holders(life, job.id)}
        enough = len(fit) >= job.spec.min_workers and (not held or not held.isdisjoint(fit))
        return faults.last(HARMS) if enough else faults.harmed

    def _stops(self, after: Cluster, job: Job) -> None:
        """Once nobody may hold more, whatever is left is saved."""
        members = job.formation.members if job.formation is not None else ()
        waits = job.wanted is Wanted.STOP and not job.ended and job.saver is None and job.id in after.watches
        waits = waits and all(one.worker in after.workers for one in members)
        waits = waits and all(is_over(self._life, after, after, job, job, one) for one in members)
        harmed = self._life.faults.last(KEEPS_FROM_HEARING) if waits else 0.0
        waited = self._lasts("stops", job.id, waits, harmed=harmed)
        assert waited < GIVES_UP, f"{job.id} is to stop, and waits for {members} for {waited:.1f} s: {job.reason}"

    def _tells_who_lags(self, after: Cluster, job: Job) -> None:
        members, faults = job.formation.members if job.formation is not None else (), self._life.faults
        lagging = [one.worker for one in members if faults.lasts(Kind.LAG, one.worker)]
        there = all(tells(self._life, after, one.worker) for one in members)
        steps = [one for one in self._life.trainers() if one.member in members and one.loop.at in STEPS]
        runs = job.phase is JobPhase.RUNNING and job.round is None and there and len(steps) == len(members)
        runs = runs and len(lagging) < (len(members) + 1) / 2
        for name in [one.worker for one in members]:
            lags = runs and name in lagging and not is_straggler(after, job, name)
            waited = self._lasts("lags", name, lags, job.generation)
            assert waited < LAGS, f"{name} is slower than the others for {waited:.1f} s, and nobody says so"

    def _deletes(self, after: Cluster, job: Job) -> None:
        """What is not kept goes, once its worker can be told to delete it."""
        for file in job.doomed:
            worker = after.workers.get(file.worker)
            there = worker is not None and self._is_there(after, worker) and not is_needed(after.jobs, file.path)
            there = there and file.path not in self._life.ghosts.deleted
            waited = self._lasts("deletes", file.path, there and not self._life.faults.lasts(Kind.UNDELETABLE))
            assert waited < DELETES, f"{file.path} is not kept, and {file.worker} has not deleted it in {waited:.1f} s"

    def _may_go(self, after: Cluster, worker: Worker) -> None:
        job = after.jobs.get(worker.job or "")
        saves = job is not None and (job.wanted is not Wanted.RUN or job.saver is not None)
        trainer = self._life.agents[worker.name].trainer
        stuck = trainer is not None and trainer.stuck
        kept = job is not None and worker.departs and not (saves or stuck) and self._is_there(after, worker)
        waited = self._lasts("goes", worker.name, kept, worker.job)
        assert waited < GOES, f"{worker.name} is to go, and is kept for {waited:.1f} s: {job.reason if job else ''}"

    def _ends(self, after: Cluster, worker: Worker) -> None:
        trainer = self._life.agents[worker.name].trainer
        clings = worker.job is None and trainer is not None and not trainer.stuck and self._is_there(after, worker)
        waited = self._lasts("ends", worker.name, clings, trainer.member if trainer is not None else None)
        of = trainer.job if trainer is not None else ""
        assert waited < ENDS + self._life.policy.detached_limit, (
            f"{worker.name} is free, and keeps its trainer of {of} for {waited:.1f} s"
        )

    def _lends(self, after: Cluster) -> None:
        """The first of the queue goes first; where nobody waits, whoever has a place."""
        there = [one for one in after.workers.values() if one.job is None and self._is_there(after, one)]
        able = [one.name for one in there if not (one.quarantined or one.departs)]
        free = [name for name in able if self._life.agents[name].trainer is None]
        live = [job for job in after.jobs.values() if not job.ended]
        queued = [job for job in live if job.phase is JobPhase.QUEUED]
        for job in live:
            lent = [name for name, one in after.workers.items() if one.job == job.id and not one.departs]
            fit = [name for name in free if name not in job.refused] if len(lent) < job.spec.max_workers else []
            may = job is queued[0] if queued else job.phase in GROWS and job.wanted is Wanted.RUN
            useful = {name for name in lent if self._is_near(after, name)}
            useful -= {one.worker for one in given_up(after, job.id)}  # they may not end for long
            may = may and bool(fit) and len(useful) + len(fit) >= job.spec.min_workers
            waited = self._lasts("lent", job.id, may)
            assert waited < LENT, f"{job.id} has {lent}, and could have {fit} for {waited:.1f} s: {job.reason}"

    def _is_near(self, after: Cluster, name: str) -> bool:
        """Whether it is counted on: it is connected, or was a moment ago."""
        seen = after.sightings.get(name)
        away = self._life.decided_at - (after.started if seen is None else seen.seen)
        return after.present(name) is not None or away <= self._life.policy.absent_limit

    def _is_there(self, after: Cluster, worker: Worker) -> bool:
        agent = self._life.agents[worker.name]
        return worker.boot == agent.boot and bool(agent.link) and tells(self._life, after, worker.name)

    def _lasts(self, rule: str, whose: str, holds: bool, state: object = None, harmed: float | None = None) -> float:
        """Seconds of calm for which this holds, and nothing about it changed; `harmed`: when that was over last."""
        now, key = self._life.now, (rule, whose)
        if not holds:
            self._since.pop(key, None)
            return 0.0
        since, was = self._since.get(key, (inf, None))
        if since == inf or was != state:
            since = now
            self._since[key] = since, state
        return now - max(since, self._life.faults.harmed if harmed is None else harmed, *self._turns())

    def _turns(self) -> list[float]:
        """When coordinators began, ended, or were awake again."""
        lives = self._life.processes
        return [at for one in lives for at in (one.began, one.woke, *(() if one.gone == inf else (one.gone,)))]
