"""One decision in the making: copies of the state's maps, changed in place, frozen again at the end.

Owns: the bookkeeping that every handler shares (change a job's phase, lend, kill, take note).
Refuses to know: when any of that is right. It lives only inside one call of `decide`, so no caller sees it change.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from regroup.core.cluster import ASKED, Cluster, NoSuchJob, NoSuchWorker, Policy, Watch, reached
from regroup.core.jobs import Job, JobPhase, Member, StepPoint, Wanted
from regroup.core.notes import Note
from regroup.core.phases import check_arrow
from regroup.core.workers import LEFT, Worker


class Turn:
    def __init__(self, cluster: Cluster, now: float, policy: Policy) -> None:
        self.now, self.policy = now, policy
        self.jobs = dict(cluster.jobs)
        self.workers = dict(cluster.workers)
        self.sightings = dict(cluster.sightings)
        self.watches = dict(cluster.watches)
        self.cluster = Cluster(  # as it stands: it holds the very maps that change until the decision is made
            started=cluster.started,
            release=cluster.release,
            awake=max(cluster.started, cluster.awake),
            jobs=self.jobs,
            workers=self.workers,
            sightings=self.sightings,
            watches=self.watches,
        )
        self.live = {id: job for id, job in cluster.live.items() if not cluster.over(job)}
        vars(self.cluster)["live"] = self.live  # in step with the jobs (`put`), so that it need not be found again
        self.notes: list[Note] = []
        self.points: list[tuple[str, tuple[StepPoint, ...]]] = []

    def waited(self, since: float) -> float:
        """Seconds since then in which this coordinator was awake: what it slept through says nothing of others."""
        return self.now - max(since, self.cluster.awake)

    def note(self, kind: str, reason: str, job: str | None = None, worker: str | None = None, **data: Any) -> None:
        self.notes.append(Note(kind=kind, reason=reason, job=job, worker=worker, data=data))

    def job(self, job: str) -> Job:
        if job not in self.jobs:
            raise NoSuchJob(f"there is no job {job}")
        return self.jobs[job]

    def worker(self, name: str) -> Worker:
        if name not in self.workers:
            raise NoSuchWorker(f"there is no worker {name}")
        return self.workers[name]

    def listed(self) -> Iterator[tuple[Job, Member]]:
        """The members of the last formation of each job that has not ended, and whoever is asked to be in the next."""
        for job in self.live.values():
            members = job.formation.members if job.formation is not None else ()
            asked = job.round.participants if job.round is not None else ()
            if not job.ended:
                yield from ((job, member) for member in dict.fromkeys((*members, *asked)))

    def watch(self, job: str) -> Watch:
        """The job's watch; begun now if this coordinator had none, as after its restart."""
        if job not in self.watches:
            known = self.jobs[job]
            members = known.formation.members if known.formation else ()
            self.watches[job] = Watch(
                since=self.now,
                progressed=self.now,
                formed=frozenset(members if known.phase is JobPhase.RUNNING else ()),
                dead={one: ASKED for one in members if self._ended(one.worker)},
            )
        return self.watches[job]

    def _ended(self, worker: str) -> bool:
        """Whether it said goodbye: no trainer of it is alive that a formation lists, though it may be back."""
        return worker in self.workers and (self.workers[worker].meant or self.workers[worker].boot == LEFT)

    def change_watch(self, job: str, **changes: Any) -> None:
        self.watches[job] = replace(self.watch(job), **changes)

    def change_job(self, job: Job, **changes: Any) -> Job:
        """Replace a job; a change of phase must be legal."""
        assert self.jobs[job.id] is job, f"{job.id} was changed by another part of this decision"
        if "phase" in changes:
            check_arrow(job.phase, changes["phase"])
        return self.put(replace(job, **changes))

    def put(self, job: Job) -> Job:
        """A job as it is from now on, or a new one. Until the decision is made it stays among those that live."""
        self.jobs[job.id] = self.live[job.id] = job
        return job

    def end(self, job: Job, phase: JobPhase, reason: str, **changes: Any) -> None:
        """The job ends: its workers are free, and nothing of it is watched any more. The step shown stays."""
        changes = {"step": reached(job, self.watches.get(job.id)), **changes}
        job = self.change_job(job, phase=phase, reason=reason, round=None, saver=None, savers=(), **changes)
        self._free_workers(job)

    def pause(self, job: Job, wanted: Wanted, reason: str, **changes: Any) -> None:
        """The job rests: its workers are free, and its last generation is closed, since all that counts is durable.

        `wanted`: PAUSE, until its user says so; or YIELD, until the next tick.
        """
        closed = {"formation": None, "round": None, "saver": None, "savers": (), "wanted": wanted}
        job = self.change_job(job, phase=JobPhase.PAUSED, reason=reason, refused={}, **closed, **changes)
        self._free_workers(self.change_job(job, step=job.saved.step))

    def _free_workers(self, job: Job) -> None:
        self.watches.pop(job.id, None)
        for name, worker in self.workers.items():
            if worker.job == job.id:
                self.workers[name] = replace(worker, job=None, reason=f"job {job.id} is {job.phase}")
                self._now_may_end(name)
        self.note(str(job.phase), job.reason, job=job.id, step=job.step)

    def refuse(self, job: Job, name: str, reason: str) -> None:
        """The worker takes no part in the job, until its agent starts anew, its operator clears it, the job rests, or
        waits for workers (`forgiving`). What is told only then, of a trainer from before the rest, keeps nobody out."""
        lent = self.workers[name].job == job.id  # it may be told late, and another job has it by now
        if not lent and job.phase in (JobPhase.PAUSED, JobPhase.QUEUED) and job.formation is None:
            return
        self.change_job(job, refused={**job.refused, name: reason})
        self.change_watch(job.id, out_since=self.now)
        self.note("refused", f"{name} may not take part: {reason}", job=job.id, worker=name)
        if lent:
            self.unlend(name, reason)

    def readmit(self, name: str) -> None:
        """What it was refused for may be mended, and what it was suspected of."""
        for id, watch in list(self.watches.items()):
            if name in watch.doubted or name in watch.resting:
                doubted = {other: times for other, times in watch.doubted.items() if other != name}
                resting = {other: rest for other, rest in watch.resting.items() if other != name}
                self.change_watch(id, doubted=doubted, resting=resting)
        for id in [id for id, job in self.live.items() if not job.ended]:
            if name in self.jobs[id].refused:
                self.take_back(id, name)
                left = tuple(one for one in self.jobs[id].failures if one.worker != name)
                self.change_job(self.jobs[id], failures=left)

    def recall(self, name: str) -> None:
        """A worker that was forgotten is back: jobs that are over may have files there that are to be deleted."""
        self.live.update({id: job for id, job in self.jobs.items() if any(one.worker == name for one in job.doomed)})

    def take_back(self, id: str, name: str) -> None:
        """The job refuses this worker no more."""
        if name in self.jobs[id].refused:
            others = {other: why for other, why in self.jobs[id].refused.items() if other != name}
            self.change_job(self.jobs[id], refused=others)

    def unlend(self, name: str, reason: str) -> None:
        worker = self.workers[name]
        if worker.job is not None:
            self.workers[name] = replace(worker, job=None, reason=reason)
            self._now_may_end(name)
            self.note("unlent", f"{name} leaves the job: {reason}", job=worker.job, worker=name)

    def _now_may_end(self, name: str) -> None:
        """Its trainer was of use until now: from here on it has its time to end."""
        if name in self.sightings:
            self.sightings[name] = replace(self.sightings[name], moved=self.now)

    def bury(self, job: str, member: Member, cause: str) -> None:
        """A member is known dead."""
        if job in self.jobs and not self.jobs[job].ended:
            self.change_watch(job, dead={**self.watch(job).dead, member: cause})

    def charge(self, name: str, incarnation: str, cause: str, succeeded: bool = False) -> None:
        """An error of a worker for this trainer of its, once, however often it is given up, or its end is told."""
        worker = self.workers[name]
        if worker.charged != incarnation:
            self.workers[name] = replace(worker, charged=incarnation or None)
            self.count_error(name, cause, succeeded)

    def count_error(self, name: str, cause: str, succeeded: bool = False) -> None:
        """A trainer died unasked; a worker with more errors than the policy's limit is quarantined.

        `succeeded`: it has another trainer by now, which may hold all that there is, and goes on until it errs, too.
        """
        worker = self.workers[name]
        worker = self.workers[name] = replace(worker, errors=worker.errors + 1)
        if name in self.sightings:
            self.sightings[name] = replace(self.sightings[name], blamed=self.now)
        if worker.errors <= self.policy.error_limit:
            return
        reason = f"quarantined after {worker.errors} errors, the last: {cause}"
        if not succeeded:
            self.unlend(name, reason)
        if not worker.quarantined:
            self.workers[name] = replace(self.workers[name], quarantined=True, reason=reason)
            self.note("quarantined", f"{name} is {reason}", worker=name)

    def forgive_error(self, name: str) -> None:
        """A death that was counted was the task's doing."""
        worker = self.workers[name]
        worker = self.workers[name] = replace(worker, errors=max(worker.errors - 1, 0))
        if worker.quarantined and worker.errors <= self.policy.error_limit:
            self.workers[name] = replace(worker, quarantined=False, reason="its last errors were a task's")
            self.note("cleared", f"{name} is no longer quarantined: its last errors were a task's", worker=name)
