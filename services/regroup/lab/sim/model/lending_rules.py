"""What must hold of the workers that jobs are lent: nobody sends the last copy of a state away, or ends it.

Owns: the rules for loans, releases and evictions. Refuses to know: what the jobs do with them (`decision_rules`).
"""

from collections.abc import Callable
from math import inf

from regroup.core.branches import follows
from regroup.core.cluster import Cluster, Watch
from regroup.core.decide import Decision
from regroup.core.jobs import ORIGIN, Formation, Job, Member, Version
from regroup.core.messages.orders import Go, Kill, Release
from regroup.core.workers import LoopPhase, TrainerPhase, Worker
from regroup.lab.sim.model.ghosts import Ghosts
from regroup.lab.sim.model.limits import SELDOM
from regroup.lab.sim.model.trainer import Trainer
from regroup.lab.sim.model.world import (
    World,
    changes,
    gets_as_far,
    holders,
    is_durable,
    is_heard,
    is_overtaken,
    lost,
    tells,
    told_back,
)

Excused = Callable[[Cluster, Job, Member, Version], bool]  # of `leaving_rules`, which looks at these rules itself


def lent(world: World, before: Cluster, decision: Decision, handed_over: Excused) -> None:
    after = decision.cluster
    for name in before.workers.keys() - after.workers.keys():
        assert not before.workers[name].quarantined, f"the quarantine of {name} is forgotten"
        assert not before.workers[name].drained, f"that {name} is drained is forgotten"
    for name, old, worker in changes(before.workers, after.workers):
        if worker.job is not None and (old is None or old.job != worker.job):
            assert not worker.quarantined, f"{name} is lent from its quarantine"
            seen = after.sightings.get(name)
            assert seen is not None, f"{name} is lent, and was never there"
            assert seen.sequence, f"{name} is lent, and has yet to tell whether it has a trainer"
            assert name not in after.jobs[worker.job].refused, f"{name} is lent to a job that refused it"
            said = {(note.kind, note.worker if note.kind == "cleared" else note.job) for note in decision.notes}
            forgiven = ("cleared", name) in said or ("readmitted", worker.job) in said
            refused = worker.job in before.jobs and name in before.jobs[worker.job].refused and not forgiven
            if refused and brings_back(after, name):
                _alone(world, after, before.jobs[worker.job], name)
        if worker.quarantined and worker.job is not None and not (old is not None and old.quarantined):
            seen = after.sightings.get(name)
            trains = seen is not None and seen.trainer is not None
            assert trains, f"{name} is in quarantine from now on, and lent without a trainer that goes on"
        if old is not None and old.job is not None and worker.job is None:
            _unlent(world, after, worker, after.jobs[old.job], handed_over)


def _alone(world: World, cluster: Cluster, job: Job, name: str) -> None:
    """Who was refused is lent again only for the state that it alone brings back."""
    assert job.formation is not None, f"{name} was refused, and is lent again to a job of which nobody holds a state"
    gone = lost(cluster, job.id)
    left = [one for one in job.formation.members if one.worker != name and one not in gone]
    others = [one for one in left if is_heard(world, cluster, one.worker)]
    have = [one.worker for one in others if _has_base(cluster, job, one)]
    assert not have, f"{name} was refused, and is lent again although {have} hold the state"


def brings_back(cluster: Cluster, name: str) -> bool:
    """A state, in the memory of a trainer that was suspected: whose code is another one never has any."""
    seen = cluster.present(name)
    return seen is not None and seen.trainer is not None and seen.trainer.version is not None


def _unlent(world: World, after: Cluster, worker: Worker, job: Job, handed_over: Excused) -> None:
    """Who may hold the state of a job that goes on leaves it only for its errors, or for what it is."""
    seen = after.sightings.get(worker.name)
    if seen is None or seen.trainer is None or job.ended or job.formation is None:
        return
    member = Member(worker.name, seen.trainer.incarnation)
    trainer = world.living(member)
    mine = trainer.session.version if trainer is not None else None
    # Others hold it; or one that may have died this moment, and was heard with it of late. A step more than what that
    # one has was never shown: it is made again.
    others = [one for one in job.formation.members if one != member and tells(world, after, one.worker)]
    heard = [after.trainer(one) for one in others]
    said = [one.version or ORIGIN for one in heard if one is not None]
    base, spare = job.formation.base, mine is None or mine.step == 0 or len(holders(world, job.id)) > 1
    if mine is not None and not spare:
        spare = any(one >= mine or (one >= base and mine.step <= one.step + 1) for one in said)
    odd = seen.trainer.fingerprint != job.fingerprint and after.hangs(member)  # who hangs sets no code back
    meant = odd or ((worker.quarantined or worker.name in job.refused) and spare) or member in lost(after, job.id)
    nothing = mine is None or is_durable(job, job.formation, mine) or handed_over(after, job, member, mine)
    assert meant or nothing or member not in job.formation.members, f"{member} is sent away with its state"


def told_first(cluster: Cluster, name: str, order: Go | Release | Kill) -> None:
    """Whoever comes back may hold more than it told before it was cut off."""
    seen = cluster.present(name)
    assert seen is not None, f"{type(order).__name__} for {name}, which is not there"
    assert seen.told, f"{type(order).__name__} for {name}, which has yet to tell what it holds"


def released(world: World, cluster: Cluster, name: str, id: str) -> None:
    """A trainer is not ended while it holds the last state that the coordinator can know of, but one that was given
    up for a hang, and stands still. Of a code that is the job's no more nothing counts."""
    job, seen = cluster.jobs.get(id), cluster.present(name)
    if job is None or job.ended or job.formation is None or seen is None or seen.trainer is None:
        return
    if is_overtaken(world, job):
        return
    member = Member(name, seen.trainer.incarnation)
    trainer = world.living(member)
    if trainer is None or trainer.session.version is None or seen.trainer.version is None:
        return
    if seen.trainer.fingerprint != job.fingerprint and (member not in job.formation.members or cluster.hangs(member)):
        return  # what the code made that was there before counts no more
    stands = trainer.stuck and seen.trainer.version.step <= job.origin.step  # what it last made it never told
    if stands or trainer.session.version.step <= job.origin.step:
        return  # it is built again
    watch = cluster.watches.get(id)
    hung = watch.evicted - watch.suspected - watch.back if watch is not None else frozenset()
    excused = cluster.workers[name].quarantined or (trainer.stuck and trainer.member in hung)
    heard = {other for other in cluster.workers if other != name and tells(world, cluster, other)}
    hangs = {other: cluster.sightings[other].hang for other in heard}
    heard -= {other for other, hang in hangs.items() if hang is not None and not hang.fetch}  # it may never come back
    heard = {other for other in heard if cluster.workers[other].job == id}  # else it may be ended, too
    others = [one.worker for one in job.formation.members if one.worker in heard and _has_base(cluster, job, one)]
    for other in heard:
        known = cluster.present(other)
        status = known.trainer if known is not None else None
        held = (status.version or ORIGIN) if status is not None else None
        others += [other] if held is not None and gets_as_far(job, held, seen.trainer.version) else []
    assert excused or others, f"{trainer.member} is ended, and holds the last state: {trainer.session.version}"


def _has_base(cluster: Cluster, job: Job, member: Member) -> bool:
    """Whether it said that it holds what the last generation began from, or more."""
    status = cluster.trainer(member)
    assert job.formation is not None, "what never began has no base"
    return status is not None and status.version is not None and follows(job, status.version, job.formation.base)


def given_up_unheard(cluster: Cluster, watch: Watch) -> set[Member]:
    """Those of its evicted trainers whose agents are not connected, or have yet to tell anything since."""
    seen = {one: cluster.present(one.worker) for one in watch.evicted}
    return {one for one, there in seen.items() if there is None or not there.told}


def killed(ghosts: Ghosts, world: World, cluster: Cluster, name: str, order: Kill) -> None:
    """Nobody is killed who was given up on a suspicion, or not heard, and is back, and alone has what counts; nor who
    only did not answer, and of whom nobody says that it hangs, unless others can read what it has."""
    job, watch, member = cluster.jobs.get(order.job), cluster.watches.get(order.job), Member(name, order.incarnation)
    seen = cluster.present(name)
    if job is None or job.ended or job.formation is None or watch is None or seen is None:
        return
    living, trainer = world.living(member), cluster.trainer(member)
    well = living is not None and not living.stuck and trainer is not None and not trainer.at_work
    well = well and cluster.hang(member) is None
    doubtful = member in watch.suspected | watch.back | ghosts.unheard
    if not well and not doubtful:
        return  # the order may have reached it before the others were lost
    silent = world.decided_at - seen.moved > world.policy.detached_limit
    status = cluster.trainer(member)
    if status is None or status.version is None:
        return
    if not doubtful and _can_be_read(cluster, job, name, status.version):
        return
    if not (status.at_work or silent or cluster.hang(member)):
        released(world, cluster, name, order.job)


def hang_heard(ghosts: Ghosts, world: World, before: Cluster, after: Cluster) -> None:
    """Since when agents say that trainers hang, by what this coordinator heard."""
    for name, _, seen in changes(before.sightings, after.sightings):
        if seen.trainer is None:
            continue
        which = before.started, Member(name, seen.trainer.incarnation)
        if seen.hang is None:
            ghosts.hung.pop(which, None)
        else:
            ghosts.hung.setdefault(which, world.decided_at)


def evicted(ghosts: Ghosts, world: World, before: Cluster, decision: Decision, job: Job, member: Member) -> None:
    """A trainer in good health that holds the last copy of the state is given up for a long silence alone."""
    _had_its_chance(world, before, decision.cluster, job, member)
    trainer, formation = world.living(member), job.formation
    if trainer is None or formation is None or _holds_no_last_copy(world, before, decision, job, trainer):
        return
    known, watch, seen = before.trainer(member), before.watches[job.id], before.sightings.get(member.worker)
    hangs = decision.cluster.hangs(member)  # as may be said with what decided it
    hung = ghosts.hung.get((before.started, member), -inf) if hangs else -inf
    # Of whom it is said that it hangs, nothing is asked while nothing goes on without it.
    asked = ghosts.owes.get(member, -inf if hangs else world.decided_at)
    back = seen.since if seen is not None and not hangs else -inf  # who hangs may be back for ever
    began = max(asked, seen.moved if seen else before.started, back, hung)
    patient = world.decided_at - began > 0.9 * world.policy.detached_limit  # it may be back for a little longer
    told = _told(formation, watch)
    heard = {one for one in told if tells(world, decision.cluster, one.worker)}  # others may be gone with what they had
    heard -= {one for one in heard if decision.cluster.hangs(one)}  # or never come back with it
    enough = _as_good(formation, trainer.session.version or ORIGIN)
    others = [one for one in heard - {member, *watch.dead} if (held := told[one]) is not None and held >= enough]
    listed = [world.living(other) for other in formation.members if other != member]
    able = [one for one in listed if one is not None and not one.stuck]
    others += [one.member for one in able if (one.session.version or ORIGIN) >= enough]
    mine = trainer.session.version or ORIGIN
    besides = [one for one in holders(world, job.id) if one is not trainer and not one.stuck]  # whom nobody listed
    others += [one.member for one in besides if (held := one.session.version) and gets_as_far(job, held, mine)]
    assert others or patient, f"{member} is evicted with the only state"
    if job.round is not None and known is not None and known.version is not None and not patient:
        gave = [one for one, answer in watch.answers.items() if answer.version is not None and one not in watch.dead]
        gave = [one for one in gave if before.present(one.worker) and decision.cluster.present(one.worker)]
        assert not gave or heard.intersection(gave), f"{member} is given up with a state, and {gave} are not heard"


def _had_its_chance(world: World, before: Cluster, after: Cluster, job: Job, member: Member) -> None:
    """It was told to halt at once, and its agent was heard. Whoever is in no group, and comes back from none, answers a
    Halt for the boundary at once."""
    known, seen = before.trainer(member), after.sightings.get(member.worker)
    idle = known is None or known.phase not in (TrainerPhase.FORMING, TrainerPhase.TRAINING)
    told_so = job.round is None or not job.round.boundary or member not in job.round.participants
    assert told_so or idle, f"{member} is given up, and was never told to halt at once"
    heard = seen is not None and world.decided_at - max(seen.seen, before.awake) <= world.policy.halt_limit
    seldom = before.watches[job.id].stumbled.get(member, 0) + 1 >= SELDOM
    assert heard or seldom, f"{member} is given up, and its agent was not heard"


def _holds_no_last_copy(world: World, before: Cluster, decision: Decision, job: Job, trainer: Trainer) -> bool:
    """Whether nothing is lost with it, whatever the others hold; where it is gone back, rule 7 has its own check."""
    if job.ended or trainer not in holders(world, job.id) or told_back(decision, job.id):
        return True
    watch, formation, mine = before.watches[job.id], job.formation, trainer.session.version
    if mine is None or formation is None or (formation.base == ORIGIN and not watch.formed):
        return True  # nobody has said yet that there is a state
    if _can_be_read(before, job, None, mine):
        return True
    saved = decision.cluster.jobs[job.id].saved  # if only since this moment
    could_not_save = trainer.member in watch.failed_savers or trainer.wedged
    hang = decision.cluster.hang(trainer.member)
    in_no_step = hang is not None and hang.phase in (LoopPhase.IDLE, LoopPhase.FORMING)
    return (could_not_save and mine == saved) or (in_no_step and mine.step <= job.origin.step)


def _can_be_read(cluster: Cluster, job: Job, but: str | None, version: Version) -> bool:
    """Whether what is durable is as new, and another one that is lent may be able to read it."""
    assert job.formation is not None, "what never began is not durable"
    unable = cluster.watches[job.id].unable
    tried = {one.worker for one in unable if cluster.trainer(one) is not None}  # what came after one may read
    lent = {name for name, worker in cluster.workers.items() if worker.job == job.id and name != but}
    return is_durable(job, job.formation, version) and bool(lent - tried)


def _told(formation: Formation, watch: Watch) -> dict[Member, Version | None]:
    """What each said that it holds, as far as the coordinator can know."""
    told = {seat.member: seat.version for seat in formation.seats}
    told |= {other: Version(formation.generation, watch.committed.get(other, 0)) for other in watch.formed}
    return told | {other: answer.version for other, answer in watch.answers.items()}


def _as_good(formation: Formation, mine: Version) -> Version:
    """The least that others must hold: the base is as good as the same state under its new number, and a step more may
    be one too many."""
    advanced = mine.step > formation.base.step + 1
    return max(formation.base, Version(mine.generation, mine.step - 1)) if advanced else formation.base


def over(world: World) -> None:
    """Nothing is left to happen: every job ended, and no worker is kept by one."""
    kept = [worker.name for worker in world.workers.values() if worker.job is not None]
    assert not kept, f"{kept} are still lent to a job that ended"
