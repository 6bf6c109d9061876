"""Whether workers are alike: their code and data before they take part, their replicas after that.

Owns: what is compared, and who takes no part in a job because of it, or has an error.
Refuses to know: how fingerprints and digests are made, and failures (`blame`).
Does not guarantee: that what is alike at the places that are looked at is alike elsewhere.
"""

from regroup.core.absence import is_useless, others_to_try, untried
from regroup.core.beginning import other_data
from regroup.core.jobs import Job, JobPhase, Member
from regroup.core.messages.trainer_reports import TASK, WORKER, PrepareFailed, ReplicasDiffered
from regroup.core.replicas import receivers, sound
from regroup.core.roster import candidates, is_silent, passed, untold
from regroup.core.turn import Turn
from regroup.core.workers import TrainerStatus


def agrees(turn: Turn, job: Job, name: str, status: TrainerStatus) -> bool:
    """Compare a prepared trainer's code and data with the job's; the first one sets them.

    Until anything was trained, and once nothing of it is left, they are set anew where nobody is left that has them:
    that one's code may be mended now. Who trained with them, and prepares again, is waited for; and who is silent, for
    as long as for its state. Who brings that back before anything is formed without it sets them back.
    """
    theirs = status.fingerprint
    if (why := other_data(job, theirs)) is not None:
        _refuse_data(turn, job, name, why)
        return False
    if theirs == job.fingerprint:
        return True
    if _brings_back(turn, job, Member(name, status.incarnation), status):
        _set_back(turn, turn.change_job(job, fingerprint=theirs))
        return True
    others = {*untold(turn)} - {name}  # whoever is about to come back may hold what was trained with them
    if any(turn.workers[one].job == job.id for one in others):
        return False  # or have others, too: it is soon known
    if job.fingerprint is None or not _is_left(turn, job, name):
        if taken := not (others or _prepares_again(turn, job, name)):
            turn.change_job(job, fingerprint=theirs)
        return taken
    ours = job.fingerprint
    parts = [part for part in ("code", "dataset", "samples") if getattr(theirs, part) != getattr(ours, part)]
    differ = "differ" if len(parts) > 1 else "differs"
    drawn = "" if "code" in parts else ": whatever draws it must be seeded, and read the same files"
    turn.refuse(job, name, f"its {' and '.join(parts)} {differ} from the other workers'{drawn}")
    return False


def _is_left(turn: Turn, job: Job, but: str) -> bool:
    """Whether anybody else has the code and data that are known, or may hold what was trained with them, or that is
    durable. Who is only silent may be back with it."""
    watch = turn.watch(job.id)
    if job.checkpoint is not None or watch.written:
        return True
    listed, given_up = set(job.formation.members) if job.formation is not None else set(), passed(turn, job)
    silent = {one.worker for one in given_up - watch.dead.keys()}
    lent = [one for one, worker in turn.workers.items() if worker.job == job.id and one not in {but, *silent}]
    unheard = [one for one in lent if turn.cluster.present(one) is None]
    trainers = {one: seen.trainer for one, seen in turn.sightings.items() if one != but and seen.trainer is not None}
    holders = [(n, one) for n, one in trainers.items() if one.job == job.id and one.version is not None]
    held = any(not is_silent(turn, job, Member(name, one.incarnation)) for name, one in holders)
    prepared = any(one.worker != but for one in candidates(turn.cluster, job))
    return prepared or held or bool(unheard or listed - given_up)


def _brings_back(turn: Turn, job: Job, member: Member, status: TrainerStatus) -> bool:
    """Whether it was given up, and is there again with what the last formation trained: nothing was formed yet with
    what was set anew meanwhile."""
    watch = turn.watch(job.id)
    gone = watch.has_lost(member)
    hangs = turn.cluster.hangs(member)  # it may never come back from that
    made = status.version is not None and status.version.step > job.origin.step
    return job.formation is not None and member in job.formation.members and made and not (gone or hangs)


def _set_back(turn: Turn, job: Job) -> None:
    """What was trained with is the job's again. Who is there with anything else takes no part."""
    for name, seen in list(turn.sightings.items()):
        trainer = seen.trainer if turn.workers[name].job == job.id else None
        if trainer is not None and trainer.job == job.id and trainer.fingerprint not in (None, job.fingerprint):
            turn.refuse(turn.jobs[job.id], name, "its code or data differ from those of whoever is back with the state")


def _prepares_again(turn: Turn, job: Job, but: str) -> bool:
    """Whether a worker that the last formation listed is about to say which code and data it has by now."""
    listed = {member.worker for member in job.formation.members} if job.formation is not None else set()
    lent = [one for one in listed - {but} if turn.workers[one].job == job.id and not is_useless(turn, one)]
    seen = [there for one in lent if (there := turn.cluster.present(one)) is not None]
    return any(one.trainer is None or one.trainer.fingerprint is None for one in seen)


def _refuse_data(turn: Turn, job: Job, name: str, why: str) -> None:
    """Not the data of the checkpoint that the job begins from. Where two find the same, or nobody else is there to
    look, it is the job's; else this worker's."""
    if not job.history and (why in job.refused.values() or not others_to_try(turn, job, name)):
        turn.end(job, JobPhase.FAILED, f"it cannot begin from another job's checkpoint: {why}")
    else:
        turn.refuse(job, name, why)


def prepare_failed(turn: Turn, job: Job, name: str, report: PrepareFailed) -> None:
    """Before the first formation it is the job's spec that is wrong; later, or if it says so itself, the worker. What
    its task raises may be for want of a file there: that is the job's where two find so, or nobody else is to try."""
    reason = f"{report.field}: {report.message}"
    found = [one for one in job.refused.values() if one.startswith(f"{TASK}: {_kind(report.message)}")]
    alone = report.field == TASK and not found and untried(turn, job, name)
    if not (job.history or alone or report.field == WORKER):
        turn.end(job, JobPhase.FAILED, reason, error=report.traceback or reason)
    else:
        turn.refuse(job, name, reason)


def _kind(error: str) -> str:
    """The type of an exception: the rest of its words may name a place on one machine."""
    return error.partition(":")[0]


def count_odd_replicas(turn: Turn, job: Job, report: ReplicasDiffered) -> None:
    """An error for each worker whose replica is not the sound one, but not where that is only what the leader gave it.

    Where several differ, and no most are alike, it is none of theirs: the task draws or keeps something of its own.
    """
    formation = job.formation
    if formation is None or formation.generation != report.generation or len(report.digests) != len(formation.seats):
        return
    digests, given = report.digests, receivers(formation, report.step)
    kept, leads = sound(digests, formation, report.step), digests[formation.leader]
    odd = [rank for rank, found in enumerate(digests) if found != kept and not (rank in given and found == leads)]
    if len(odd) > 1 and 2 * len(odd) >= len(digests) - len(given):
        return
    for rank in odd:
        turn.count_error(formation.members[rank].worker, f"its replica differed at step {report.step}")
