"""Which of a job's failures still count, once something came off.

Owns: what is forgotten when a state is saved, a worker prepared, a formation formed, or the job gone back.
Refuses to know: whose error a failure is (`blame`), and when any of this happens.
"""

from regroup.core.jobs import IN_LOAD, IN_REPORT, IN_STATE, Formation, Job, StepFailure

AT_A_SAVE = (IN_STATE, IN_REPORT)  # of which something may be durable


def beside_others(failure: StepFailure) -> bool:
    """Whether it came while its worker prepared, and others trained: of the task that says nothing."""
    return failure.step < 0 and failure.generation > 0


def saved(job: Job) -> tuple[StepFailure, ...]:
    """What a job's failures are once its state() came off: none of those that were of it."""
    return tuple(one for one in job.failures if one.shard != IN_STATE)


def prepared(job: Job, name: str) -> tuple[StepFailure, ...]:
    """What they are once this worker prepared: what it failed at before, beside others, is not in a row any more."""
    return tuple(one for one in job.failures if one.worker != name or not beside_others(one))


def formed(job: Job, formation: Formation) -> tuple[StepFailure, ...]:
    """What they are once this formation is: it prepared, its members have taken the state, and one has given it."""
    members = {member.worker for member in formation.members}
    gave = formation.receivers and formation.checkpoint is None  # what its state() told
    past = (one for one in (saved(job) if gave else job.failures) if one.step >= 0 or beside_others(one))
    return tuple(one for one in past if not (one.step < 0 or one.shard == IN_LOAD) or one.worker not in members)


def gone_back(job: Job, made: int) -> tuple[StepFailure, ...]:
    """What they are once it goes back, with `made` steps behind it: steps that came off fail anew, if they do."""
    base = job.formation.base.step if job.formation is not None else 0
    kept = (IN_LOAD, *AT_A_SAVE)
    return tuple(one for one in job.failures if one.shard in kept or not base <= one.step < made)
