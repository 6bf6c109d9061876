"""Which state a job goes on from, of those that its trainers hold, some on branches that roll-backs left behind.

Owns: which states lie on the last formation's line, by the chain of history (rule 8), and the order of all others.
Refuses to know: whether the job may go on at all (`regroup`), and which steps a file stands for (`history`).
"""

from bisect import bisect_left
from collections.abc import Mapping
from operator import attrgetter

from regroup.core.jobs import Job, Member, Version


def follows(job: Job, state: Version, base: Version) -> bool:
    """Whether a state goes on from `base`. Else it is older, or of another branch, which may have a higher number and
    fewer steps. What a generation made of which history does not know, because the store lost it, goes on from all
    before."""
    while state.generation > base.generation:
        at = bisect_left(job.history, state.generation, key=attrgetter("generation"))
        if at == len(job.history) or job.history[at].generation != state.generation:
            return True
        state = Version(job.history[at].parent, job.history[at].base_step)
    return state >= base


def anchored(job: Job, told: Mapping[Member, Version]) -> list[Version]:
    """The states of these that go on from the last formation's base, if one of them was a member of it (rule 6)."""
    last = job.formation
    if last is None or not any(one in told for one in last.members):
        return []
    return [state for state in told.values() if follows(job, state, last.base)]


def best_of(job: Job, told: Mapping[Member, Version]) -> Version:
    """The state to go on from, of what these hold and what is durable. Where there is an anchor, it is the highest
    version on its line (rule 4), else the one with the most steps (rule 7)."""
    if line := anchored(job, told):
        return max([*line, job.saved])  # who wrote the checkpoint may have been a step ahead of who is left
    return max([*told.values(), job.saved], key=lambda state: _progress(job, state))


def as_far(job: Job, state: Version, other: Version) -> bool:
    """Whether a job that holds this state need not keep another one: it has as many steps, on whatever branch."""
    return _progress(job, state) >= _progress(job, other)


def _progress(job: Job, state: Version) -> tuple[bool, int, Version]:
    """What is older than what is durable comes last, and of equal steps the older generation's."""
    return state >= job.saved, state.step, state
