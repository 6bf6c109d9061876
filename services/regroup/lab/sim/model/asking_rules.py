"""What must hold of what a job's user, or the queue, wants of it: it changes only when somebody says so.

Owns: these rules. Refuses to know: when that is done (`leaving_rules`, `ending_rules`).
"""

from regroup.core.decide import Decision
from regroup.core.jobs import Job, Wanted

SAID = {
    Wanted.RUN: {"resumed"},
    Wanted.HOLD: {"pausing", "paused"},
    Wanted.PAUSE: {"pausing", "paused"},
    Wanted.YIELD: {"yielding", "paused"},
    Wanted.STOP: {"stopping"},
}


def wanted(decision: Decision, old: Job, job: Job) -> None:
    if job.wanted is old.wanted:
        return
    assert old.wanted is not Wanted.STOP, "who was told that a job stops is told no more"
    waits_again = job.wanted is Wanted.RUN and old.wanted is Wanted.YIELD  # it has made room, and is in the queue
    said = {note.kind for note in decision.notes if note.job == job.id}
    runs = old.wanted is Wanted.RUN or "resumed" in said
    assert job.wanted is not Wanted.YIELD or runs, f"{job.id} is to make room, and rests"
    kept = job.ended or waits_again or said & SAID[job.wanted]
    assert kept, f"{job.id} was to {old.wanted}, is to {job.wanted}, and nobody said so: {said}"
