"""Workers that are to go: their agents were asked to end, or their operator drained them. Others take over first.

Owns: who goes, what of a job still rests on it, and that it is taken off the job once nothing does. What all that hold
it would take along is saved first, also where it was only held, or given to those that stay a step behind
(`regroup.conclude`).
Refuses to know: how a boundary is reached (`rounds`), and how an agent ends.
Does not guarantee: that whoever goes waits for it. An agent ends in any case after a while; that is then a goodbye.
"""

from dataclasses import replace

from regroup.core.branches import as_far, best_of
from regroup.core.copies import anchors, is_at_work, makes_up_for, other_holders
from regroup.core.jobs import Job, JobPhase, Member, Version, Wanted
from regroup.core.roster import away, candidates, untold
from regroup.core.suspicion import is_mute, told_lately
from regroup.core.turn import Turn
from regroup.core.workers import TrainerPhase, TrainerStatus

DRAINED, ASKED_TO_END = "drained by its operator", "its agent was asked to end"


def drain(turn: Turn, name: str) -> None:
    worker = turn.worker(name)
    if not worker.drained:
        turn.workers[name] = replace(worker, drained=True, reason=DRAINED)
        turn.note("drained", f"{name} is {DRAINED}: its shards go to others", worker.job, name)


def admit(turn: Turn, name: str) -> None:
    worker = turn.worker(name)
    if worker.drained:
        turn.workers[name] = replace(worker, drained=False, reason="admitted by its operator")
        turn.note("admitted", f"{name} was admitted again by its operator", worker.job, name)


def ask(turn: Turn, name: str) -> None:
    """Its agent says that it was asked to end, and waits until it may."""
    worker = turn.workers[name]
    if not worker.leaving:
        turn.workers[name] = replace(worker, leaving=True, reason=ASKED_TO_END)
        turn.note("leaving", f"{name} is to leave: {ASKED_TO_END}", worker.job, name)


def departs(turn: Turn, member: Member) -> bool:
    return member.worker in turn.workers and turn.workers[member.worker].departs


def let_go(turn: Turn) -> None:
    """Take whoever goes off its job, once nothing rests on it."""
    for name, worker in list(turn.workers.items()):
        if worker.departs and worker.job is not None and not _is_needed(turn, turn.jobs[worker.job], name):
            turn.unlend(name, ASKED_TO_END if worker.leaving else DRAINED)


def _is_needed(turn: Turn, job: Job, name: str) -> bool:
    """Whether it is in a step or a round under way, or holds what nobody who stays is known to hold."""
    sighting = turn.cluster.present(name)
    if sighting is None or not sighting.told:
        return True  # who knows
    trainer = sighting.trainer
    if trainer is None:
        return False
    member = Member(name, trainer.incarnation)
    if job.saver == member or (job.round is not None and member in job.round.participants):
        return True
    formation = job.formation
    if formation is None or trainer.job != job.id:
        return False
    listed = member in formation.members
    if listed and (formation.generation == job.generation or not _told_last(trainer, job)):
        return True  # it trains, or may hold more than it told
    if trainer.version is None:
        return False
    unsure = frozenset(one for one in turn.workers if not told_lately(turn, one) or is_at_work(turn.cluster, one))
    for other, version in other_holders(turn.cluster, job, name, unsure):
        far = as_far(job, version, trainer.version)
        # Where a listed one goes, an anchor must be left; of another one only what it holds.
        enough = anchors(job, other, version) and far if listed else makes_up_for(job, other, version, trainer.version)
        if enough and not turn.workers[other.worker].departs:
            return False
    return True


def _told_last(trainer: TrainerStatus, job: Job) -> bool:
    """Whether it can hold no more than it told: it promised, or its group broke, and it is in no step any more."""
    formed = job.formation.generation if job.formation is not None else 0
    promised = trainer.phase is TrainerPhase.HALTED and trainer.promised > formed  # if not the last number
    return (promised or trainer.phase is TrainerPhase.BROKEN) and not trainer.at_work


def owes_word(turn: Turn, job: Job, member: Member) -> bool:
    """Whether it is to go, and as a listed member may hold more than it told: no round asked it since."""
    trainer = turn.cluster.trainer(member)
    listed = job.formation is not None and member in job.formation.members
    return listed and departs(turn, member) and trainer is not None and not _told_last(trainer, job)


def is_held_by_goers(turn: Turn, job: Job) -> bool:
    """Whether a job that its user holds would lose what it holds, because all that have it go."""
    if job.phase is not JobPhase.PAUSED or job.wanted is not Wanted.HOLD or _may_come_back(turn, job):
        return False
    told = {one: said for one, said in candidates(turn.cluster, job).items() if not is_mute(turn, one.worker)}
    versions = {member: answer.version for member, answer in told.items() if answer.version is not None}
    best = best_of(job, versions)
    holders = [member for member, version in versions.items() if version == best] or [*versions]  # durable is more
    stay = [member for member in holders if not (departs(turn, member) or turn.cluster.hangs(member))]
    # Who is drained has the time that one who was cut off a moment ago may need; an agent that is to end has not.
    if not any(turn.workers[member.worker].leaving for member in holders):
        near = away(turn, job).items()
        stay += [one for one, version in near if as_far(job, version, best) and not departs(turn, one)]
    return not stay and any(departs(turn, member) for member in holders)


def is_left_by(turn: Turn, job: Job, version: Version) -> bool:
    """Whether all that hold this state, or more steps, are to go, also those that are cut off for a moment."""
    if _may_come_back(turn, job):
        return False
    told = away(turn, job) | {member: answer.version for member, answer in candidates(turn.cluster, job).items()}
    holders = [member for member, held in told.items() if held is not None and as_far(job, held, version)]
    return bool(holders) and all(departs(turn, member) for member in holders)


def _may_come_back(turn: Turn, job: Job) -> bool:
    """Whether a member that stays has yet to tell this coordinator, which just began or stood still, what it holds."""
    members, dead = job.formation.members if job.formation is not None else (), turn.watch(job.id).dead
    stay = {member.worker for member in members if member not in dead and not departs(turn, member)}
    return not stay.isdisjoint(untold(turn))
