"""Which of a job's failures still count, once something came off.

Owns: what is forgotten when a state is saved, a worker prepared, a formation formed, a step made, or the job gone
back.
Refuses to know: whose error a failure is (`blame`), and when any of this happens.
"""

from dataclasses import replace

from regroup.core.jobs import IN_LOAD, IN_REPORT, IN_STATE, Formation, Job, StepFailure, Version

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


def is_made(failure: StepFailure, told: Version) -> bool:
    """Whether its step was made since, where somebody has this state: each step takes a part of all members."""
    in_step = failure.step >= 0 and failure.shard not in (IN_LOAD, *AT_A_SAVE)
    return in_step and failure.generation < told.generation and failure.step < told.step


def made(job: Job, told: Version) -> tuple[StepFailure, ...]:
    """What they are once somebody told of this state: whoever did may be gone soon, and nobody else know of the step.
    They still count to those in a row."""
    if not any(is_made(one, told) and not one.made for one in job.failures):
        return job.failures
    return tuple(replace(one, made=True) if is_made(one, told) else one for one in job.failures)


def gone_back(job: Job, made: int) -> tuple[StepFailure, ...]:
    """What they are once it goes back, with `made` steps behind it: steps that came off fail anew, if they do."""
    base = job.formation.base.step if job.formation is not None else 0
    kept = (IN_LOAD, *AT_A_SAVE)
    return tuple(one for one in job.failures if one.shard in kept or not base <= one.step < made)
