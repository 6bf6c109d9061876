"""Which of its workers a job lets go, because others may be of more use to it, or it has as many as it asked for.

Owns: who goes then. Refuses to know: who is lent instead, and to whom those that went are lent (`schedule`); who is to
leave, or is gone (`leaving`, `absence`).
"""

from regroup.core.absence import idle, is_useless
from regroup.core.branches import as_far, best_of
from regroup.core.copies import is_at_work, is_spared, known_to_hold
from regroup.core.jobs import Job, Member
from regroup.core.roster import candidates
from regroup.core.schedule import at_hand, could_not_read
from regroup.core.severed import rests
from regroup.core.suspicion import heard_lately, is_mute, quiet, told_lately
from regroup.core.turn import Turn


def read_elsewhere(turn: Turn, job: Job) -> None:
    """Unless somebody holds that state: whoever is new may be able to read the checkpoint, and takes the place of one
    that was not; and those that were not may be by now, each time after twice as long."""
    told = {one: said for one, said in candidates(turn.cluster, job).items() if not is_mute(turn, one.worker)}
    held = [answer.version for answer in told.values() if answer.version is not None]
    if any(as_far(job, version, job.saved) for version in held):
        return
    watch, tried = turn.watch(job.id), could_not_read(turn.cluster, job)
    empty = [member.worker for member, answer in told.items() if answer.version is None and member.worker in tried]
    vain = idle(turn) - {*empty}  # others are lent in the place of these
    here = [name for name in at_hand(turn.cluster, job) if name not in vain and heard_lately(turn, name)]
    for name in empty[: max(0, len(here) - job.spec.max_workers)]:
        turn.unlend(name, "it cannot read the checkpoint, and the job has as many others as it asked for")
    if turn.waited(watch.since) > turn.policy.read_retry * 2 ** min(watch.rereads, 6):
        turn.change_watch(job.id, unable={}, rereads=watch.rereads + 1)


def unlend_surplus(turn: Turn, job: Job, seated: tuple[Member, ...]) -> None:
    """Now that it trains, others may have who is lent beyond what the job asked for: whoever came back with a state,
    and whoever is of no use to it, once somebody else is to take its place."""
    told = all(known_to_hold(turn.cluster, one) and told_lately(turn, one.worker) for one in seated)
    if not told or any(is_at_work(turn.cluster, one.worker) for one in seated):
        return
    names, most = {member.worker for member in seated}, job.spec.max_workers
    others = [name for name, worker in turn.workers.items() if worker.job == job.id and name not in names]
    if len(names) < most:
        useless = [name for name in others if rests(turn, job, name) or is_useless(turn, name)]
        others = useless[: max(0, len(at_hand(turn.cluster, job)) - most)]
    for name in others:
        turn.unlend(name, "the job has all the workers that it asked for")


def unlend_older(turn: Turn, job: Job) -> None:
    """Who came back with another state than its job holds, and was lent while nobody else was heard, holds none that
    counts any more: the job rests with what it has."""
    listed = job.formation.members if job.formation is not None else ()
    held = {one: said.version for one, said in candidates(turn.cluster, job).items() if said.version is not None}
    best, silent = best_of(job, held), quiet(turn)
    for member in [one for one, version in held.items() if one not in listed and version != best]:
        if not is_spared(turn.cluster, member.worker, silent):
            turn.unlend(member.worker, "the job holds another state, and goes on from that")
