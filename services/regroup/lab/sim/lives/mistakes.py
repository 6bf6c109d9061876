"""What users ask for by mistake: commands of which nothing can be made, whatever the cluster is like.

Owns: these commands. Refuses to know: when they are asked, and how a refusal is worded.
"""

from dataclasses import replace
from random import Random

from regroup.core.jobs import Job
from regroup.core.messages.commands import ClearWorker, Command, DrainWorker, PauseJob, StopJob, SubmitJob
from regroup.core.spec import BeginFrom, JobSpec

NEVER = "never"  # no job has this id, and no worker this name


def mistake(dice: Random, spec: JobSpec, first: Job | None) -> Command:
    """One of them. `spec`: of the first job; rightly asked, others would go on from its checkpoints."""
    onward = replace(spec, begin_from=BeginFrom("j0"), steps=10_000, epochs=None)
    wrong = [
        replace(onward, begin_from=BeginFrom(NEVER)),
        replace(onward, begin_from=BeginFrom("j0", step=9_999)),
        replace(onward, seed=spec.seed + 1),
    ]
    if first is not None and first.ended and first.kept:  # there come no more, but the newest may prove to be damaged
        wrong.append(replace(onward, steps=first.kept[-1].version.step))
    commands: list[Command] = [StopJob(NEVER), PauseJob(NEVER), ClearWorker(NEVER), DrainWorker(NEVER)]
    commands += [SubmitJob(NEVER, spec, 0.0) for spec in (*wrong, *wrong)]
    return dice.choice(commands)
