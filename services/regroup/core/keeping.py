"""Which checkpoints of a job are kept: the newest and the best, as many as its spec says; others' files are deleted.

Owns: taking a new one in, what it pushes out, whom the deleting of a file is due to, and what else may be deleted:
files that nobody told of, because their writers died.
Refuses to know: when a checkpoint counts (`written`), and how a file is deleted.
Does not guarantee: that a file goes away: its worker may never come back. It is named as long as it is not told gone.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from regroup.core.beginning import is_needed
from regroup.core.cluster import Cluster
from regroup.core.jobs import Checkpoint, Job
from regroup.core.messages.orders import Discard


def taken_in(job: Job, newest: Checkpoint) -> Mapping[str, Any]:
    """What changes of a job that has a new checkpoint."""
    others = [one for one in job.kept if one.path != newest.path]  # a state may be written twice, to one file
    best = _best((newest, *others), job.spec.keep_best)
    kept = [one for number, one in enumerate(others, start=1) if number < job.spec.keep_last or one in best]
    dropped = [one for one in others if one not in kept]
    doomed = [one for one in (*job.doomed, *dropped) if one.path != newest.path]
    struck = tuple(one for one in job.struck if one.checkpoint.path != newest.path)  # that file was written anew
    return {"checkpoint": newest, "older": tuple(kept), "doomed": tuple(doomed), "struck": struck}


def _best(files: Sequence[Checkpoint], count: int) -> list[Checkpoint]:
    """Those with the lowest scores; of equal ones the newest, which come first."""
    scored = [(one.score, number) for number, one in enumerate(files) if one.score is not None]
    return [files[number] for _, number in sorted(scored)[:count]]


def discards(cluster: Cluster, name: str) -> tuple[Discard, ...]:
    """What worker `name` is to delete: files that it wrote itself, and URLs of those that are forgotten."""
    found: list[Discard] = []
    for job in cluster.live.values():
        mine = [one.path for one in job.doomed if is_due_to(cluster, name, one)] if job.doomed else []
        mine = [path for path in mine if not is_needed(cluster.live, path)]
        if mine:
            found.append(Discard(job.id, tuple(mine), below=job.saved, keep=_to_keep(cluster, job)))
    return tuple(found)


def _to_keep(cluster: Cluster, job: Job) -> tuple[str, ...]:
    """Its files below its newest that must stay. What is written and was not told yet is above that one."""
    struck = [one.checkpoint.path for one in job.struck]
    needed = [one.beginning.checkpoint.path for one in cluster.live.values() if one.beginning is not None]
    return (*(one.path for one in job.kept), *struck, *(path for path in needed if is_needed(cluster.live, path)))


def is_due_to(cluster: Cluster, name: str, file: Checkpoint) -> bool:
    """Whether `name` is to delete this file. Another's word on a file of that path is of one in its own folder."""
    if file.worker in cluster.workers and ("://" not in file.path or cluster.present(file.worker)):
        return file.worker == name
    return "://" in file.path and name == min((one for one in cluster.workers if cluster.present(one)), default="")
