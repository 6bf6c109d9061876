"""Where a new job begins that another one's checkpoint was given to: which file, and whether it may.

Owns: finding that checkpoint, and comparing what must be the same for the ledger of both: task, seed, batch and shards,
the data. What is wrong is named with both values.
Refuses to know: what a file holds (a worker compares models when it reads it), and options that may differ.
Does not guarantee: that the file is there. It is not deleted while a job may have to begin from it (`keeping`).
"""

from collections.abc import Mapping
from dataclasses import replace

from regroup.core.cluster import CannotBegin
from regroup.core.jobs import Beginning, Fingerprint, Job
from regroup.core.shards import steps_per_epoch
from regroup.core.spec import JobSpec, Problem

SAME = ("task", "global_batch", "shards", "seed")  # the data's order and every random draw follow from these


def completed(jobs: Mapping[str, Job], spec: JobSpec) -> JobSpec:
    """The spec with as many shards as the job has that it begins from, where it gives none."""
    source = jobs.get(spec.begin_from.job) if spec.begin_from is not None else None
    return replace(spec, shards=source.spec.shard_count) if source is not None and spec.shards is None else spec


def beginning(jobs: Mapping[str, Job], spec: JobSpec) -> Beginning | None:
    """Where this job begins; None: at its seed. Raises CannotBegin."""
    asked = spec.begin_from
    if asked is None:
        return None
    source = jobs.get(asked.job)
    if source is None:
        raise CannotBegin([Problem("begin_from.job", f"there is no job {asked.job}")])
    kept = source.kept
    if not kept:
        message = f"job {source.id} has no checkpoint: pause it, or give a job checkpoint_every"
        raise CannotBegin([Problem("begin_from.job", message)])
    found = next((one for one in kept if asked.step in (None, one.version.step)), None)
    if found is None:
        steps = ", ".join(str(one.version.step) for one in kept)
        message = f"job {source.id} keeps no checkpoint of step {asked.step}; it keeps those of steps {steps}"
        raise CannotBegin([Problem("begin_from.step", message)])
    begins = Beginning(source.id, found, source.fingerprint)
    if problems := [*_differing(source.spec, spec), *_too_short(source, spec, found.version.step)]:
        raise CannotBegin(problems)
    return begins


def _differing(theirs: JobSpec, ours: JobSpec) -> list[Problem]:
    """Shards are those that are used, given or not."""
    words = "is {}, and the checkpoint's job has {}: they must be the same"
    pairs = [(name, _value(ours, name), _value(theirs, name)) for name in SAME]
    return [Problem(name, words.format(mine, its)) for name, mine, its in pairs if mine != its]


def _value(spec: JobSpec, name: str) -> object:
    return spec.shard_count if name == "shards" else getattr(spec, name)


def _too_short(source: Job, spec: JobSpec, step: int) -> list[Problem]:
    name, steps = "steps", spec.steps
    if spec.epochs is not None and source.fingerprint is not None:
        name, steps = "epochs", spec.epochs * steps_per_epoch(source.fingerprint.samples, spec.global_batch)
    if steps is None or steps > step:
        return []
    return [Problem(name, f"must lead beyond step {step}, where it begins: it leads to step {steps}")]


def other_data(job: Job, theirs: Fingerprint | None) -> str | None:
    """Why a worker's data is not what the checkpoint was trained on that the job begins from; None: it is."""
    known = job.beginning.fingerprint if job.beginning is not None else None
    if job.beginning is None or known is None or theirs is None:
        return None
    if (known.samples, known.dataset) == (theirs.samples, theirs.dataset):
        return None
    begins = f"job {job.beginning.job}, whose checkpoint this job begins from"
    if known.samples != theirs.samples:
        return f"the dataset has {theirs.samples} samples, and that of {begins}, has {known.samples}"
    return f"the dataset's samples are others than those of {begins}: {theirs.dataset}, not {known.dataset}"


def is_needed(jobs: Mapping[str, Job], path: str) -> bool:
    """Whether a job may have to begin from this file, or to begin again: all of its own may turn out damaged."""
    return any(
        job.beginning is not None and job.beginning.checkpoint.path == path and not job.ended for job in jobs.values()
    )
