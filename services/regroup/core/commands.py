"""What its user asks of a job: to begin, stop, pause, be held, or go on.

Owns: what each of these changes at once. The rest follows from `Job.wanted` at any later moment (`rounds`, `regroup`),
so that it outlives this coordinator.
Refuses to know: how a boundary is reached and a state saved. To ask twice is to ask once.
"""

from collections.abc import Mapping
from math import inf, nextafter

from regroup.core.beginning import beginning, completed
from regroup.core.cluster import Conflict, JobEnded, reached
from regroup.core.jobs import Job, JobPhase, Wanted
from regroup.core.regroup import durable
from regroup.core.spec import JobSpec
from regroup.core.turn import Turn
from regroup.core.written import take_told


def next_moment(jobs: Mapping[str, Job], now: float) -> float:
    """When a job that comes `now` is submitted: after all others, also if the clock of who led before was ahead."""
    last = max((job.submitted for job in jobs.values()), default=-inf)
    return max(now, nextafter(last, inf))


def submit(turn: Turn, id: str, spec: JobSpec, at: float) -> None:
    """Raises CannotBegin."""
    spec = completed(turn.jobs, spec)
    begins = beginning(turn.jobs, spec)
    job = turn.put(Job(id=id, spec=spec, submitted=next_moment(turn.jobs, at), beginning=begins))
    if begins is None:
        turn.note("submitted", f"submitted: {spec.task}", job=id)
        return
    turn.change_job(job, step=job.origin.step)
    reason = f"submitted: {spec.task}, which begins at step {job.origin.step}, from {begins.checkpoint.path}"
    turn.note("submitted", reason, job=id, source=begins.job, step=job.origin.step)


def stop(turn: Turn, job: Job, at_once: bool) -> None:
    """Raises JobEnded."""
    _expect_open(job)
    if job.formation is None and job.round is None:
        turn.end(job, JobPhase.STOPPED, f"stopped {durable(job)}", wanted=Wanted.STOP)
    elif at_once:
        _stop_now(turn, job)
    elif job.wanted is not Wanted.STOP:
        turn.change_job(job, wanted=Wanted.STOP, phase=_awake(job))
        turn.note("stopping", "its user asked to stop it", job=job.id)


def _stop_now(turn: Turn, job: Job) -> None:
    """Its user does not want to wait for what its workers hold, or for a save that does not end."""
    job = take_told(turn, job.id)
    before = reached(job, turn.watch(job.id))
    reason = f"stopped at once, {durable(job) if job.latest is not None else 'without a checkpoint'}"
    step = before if job.checkpoint is None else job.saved.step  # of what is lost, the steps are still worth knowing
    if job.saved.step < before:
        reason += f"; what its workers held of step {before} is given up, as its user asked"
        turn.note("rolled_back", reason, job=job.id, generation=job.generation, base_step=step)
    turn.end(job, JobPhase.STOPPED, reason, wanted=Wanted.STOP, step=step)


def pause(turn: Turn, job: Job, hold: bool) -> None:
    """Raises JobEnded, and Conflict where there is nothing to pause or to hold."""
    _expect_unstopped(job)
    wanted = Wanted.HOLD if hold else Wanted.PAUSE
    if job.wanted is wanted:
        return
    if hold and job.phase in (JobPhase.QUEUED, JobPhase.PAUSED):
        raise Conflict(f"job {job.id} has no workers that could be held: pause it without hold, or resume it first")
    unmoved = job.formation is None and job.round is None
    if unmoved and hold:
        reason = f"held {durable(job)}"
        turn.change_job(job, wanted=wanted, phase=JobPhase.PAUSED, reason=reason)
        turn.note("paused", reason, job=job.id, step=job.saved.step)
    elif unmoved:
        turn.pause(job, Wanted.PAUSE, f"paused {durable(job)}")
    else:
        turn.change_job(job, wanted=wanted, phase=_awake(job))
        turn.note("pausing", f"its user asked to {wanted} it", job=job.id)


def resume(turn: Turn, job: Job) -> None:
    """Raises JobEnded, and Conflict if it is being stopped."""
    _expect_unstopped(job)
    if job.wanted in (Wanted.RUN, Wanted.YIELD):
        return
    freed = job.phase is JobPhase.PAUSED and job.wanted is Wanted.PAUSE
    reason = "its user asked it to go on"
    phase = JobPhase.QUEUED if freed else _awake(job)
    turn.change_job(job, wanted=Wanted.RUN, phase=phase, reason=reason if phase is not job.phase else job.reason)
    if job.phase is JobPhase.PAUSED and not freed:
        turn.change_watch(job.id, since=turn.now)  # until now it waited for nobody
    turn.note("resumed", reason, job=job.id)


def _expect_open(job: Job) -> None:
    if job.ended:
        raise JobEnded(f"job {job.id} is {job.phase} already")


def _expect_unstopped(job: Job) -> None:
    _expect_open(job)
    if job.wanted is Wanted.STOP:
        raise Conflict(f"job {job.id} is being stopped")


def _awake(job: Job) -> JobPhase:
    """The phase in which something can be done about a job: a held one gathers its workers again."""
    if job.phase is not JobPhase.PAUSED:
        return job.phase
    return JobPhase.PREPARING if job.formation is None else JobPhase.WAITING
