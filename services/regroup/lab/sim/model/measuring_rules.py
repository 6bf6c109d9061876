"""What must hold of the measurements that users are shown: they are of steps that survived.

Owns: these rules. Refuses to know: who measured them. That nothing is missing is not promised.
"""

from collections.abc import Iterable
from math import isnan

from regroup.core.jobs import Job, JobPhase, StepPoint, Version
from regroup.lab.sim.model.ghosts import surviving


def shown(job: Job, points: Iterable[StepPoint]) -> None:
    """What is shown of a job that trains is of the line that survives, as far as that goes."""
    if job.formation is None or job.ended:
        return
    newest = job.history[-1]
    made = surviving(job.history, Version(newest.generation, newest.base_step), job.origin.step)
    for point in points:
        by = made[point.step] if point.step < len(made) else newest.generation
        told = point.loss is None or isnan(point.loss) or int(point.loss) == by
        assert told, f"step {point.step} is shown as of generation {point.loss}, and is {by}'s"


def lengthened(before: Iterable[StepPoint], after: Iterable[StepPoint]) -> None:
    """An evaluation is added to what is known of its step, and takes nothing away; nor does a step told again."""
    now = {one.step: one for one in after}
    for one in before:
        kept = now.get(one.step, one)
        assert one.loss is None or kept.loss is not None, f"the loss of step {one.step} was known, and is not any more"


def gone_back(job: Job, base: int, points: Iterable[StepPoint]) -> None:
    """Nothing is shown of the steps that were just given up; of one whose loss is no number, nobody can tell."""
    void = [one.step for one in points if one.step >= base and not (one.loss is not None and isnan(one.loss))]
    assert not void, f"{job.id} goes back to step {base}, and {void} are shown"


def measured(job: Job, points: Iterable[StepPoint]) -> None:
    """What is shown of a job's steps is of those that survived; that nothing of it is missing is not promised."""
    if job.checkpoint is None or job.phase is JobPhase.FAILED:
        return
    made = surviving(job.history, job.checkpoint.version, job.origin.step)
    for point in points:
        assert point.step < len(made), f"step {point.step} is shown of a job that ended at {len(made)}"
        told = point.loss is None or isnan(point.loss) or int(point.loss) == made[point.step]
        assert told, f"step {point.step} is shown as of generation {point.loss}, and {made[point.step]} made it"
