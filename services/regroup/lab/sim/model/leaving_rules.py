"""What must hold of workers that are to go: nobody is sent away in mid-step or with the last copy, or chosen again.

Owns: the rules for who departs, and for what is saved because of it. Refuses to know: all other loans and saves
(`lending_rules`, `saving_rules`).
"""

from regroup.core.cluster import Cluster
from regroup.core.decide import Decision
from regroup.core.jobs import Formation, Job, JobPhase, Member, Version, Wanted
from regroup.core.messages.orders import Go
from regroup.core.regroup import RESTED
from regroup.core.workers import Worker
from regroup.lab.sim.model import lending_rules
from regroup.lab.sim.model.ghosts import Ghosts
from regroup.lab.sim.model.world import (
    World,
    answered,
    gets_as_far,
    is_evicted,
    is_heard,
    is_yet_to_tell,
    lost,
)


def departs(cluster: Cluster, member: Member) -> bool:
    return member.worker in cluster.workers and cluster.workers[member.worker].departs


def changed(cluster: Cluster, before: Worker, after: Worker) -> None:
    name = after.name
    again = after.boot != before.boot
    assert after.leaving or again or not before.leaving, f"{name} is to leave, which is forgotten"
    assert after.errors <= before.errors or not (again and before.leaving), f"{name} was asked to end, and is blamed"
    assert not (again and after.leaving), f"{name} began anew, and is taken for one that is to leave"
    if after.departs and before.job is not None and after.job is None:
        saver = cluster.jobs[before.job].saver
        assert saver is None or saver.worker != name, f"{name} is sent away while it saves"


def lent(cluster: Cluster, name: str) -> None:
    brings = lending_rules.brings_back(cluster, name)
    assert brings or not cluster.workers[name].departs, f"{name} is lent, brings nothing back, and is to go"


def issued(cluster: Cluster, formation: Formation) -> None:
    """Who is to go is listed only to give those that stay what none of them holds."""
    goers = [seat.member for seat in formation.seats if departs(cluster, seat.member)]
    leader = formation.seats[formation.leader].member
    assert goers in ([], [leader]), f"{goers} are to go, and are listed"
    stay = [seat for seat in formation.seats if seat.member not in goers]
    have = [seat.member for seat in stay if seat.version == formation.base]
    assert not goers or (stay and not have), f"{leader} is to go, and leads {stay}, of which {have} hold its state"


def asked(before: Job, job: Job) -> None:
    """Nobody's step is broken off because somebody is to go."""
    if job.round is not None and job.round is not before.round and job.round.reason.endswith(" may go"):
        assert job.round.boundary, f"a step is broken off, and {job.round.reason}"


def to_save(cluster: Cluster, job: Job, version: Version, saver: Member) -> None:
    """Only what rests or ends is saved by order, and what none of those that stay holds. Where those that stay hold an
    older state and are enough to go on, they are given the newer one instead. Who stays saves rather than who goes."""
    stay = {one: held for one, held in answered(cluster, job).items() if not departs(cluster, one)}
    have = [one for one, held in stay.items() if held == version]
    able = [one for one in have if one not in cluster.watches[job.id].failed_savers]
    assert not able or not departs(cluster, saver), f"{saver} is to save and to go, and {able} could"
    if job.wanted in RESTED or job.complete_at(version.step):
        return
    assert not have, f"{version} is to be saved, and {have} stay with it"
    older = [one for one, held in stay.items() if held is not None]
    few = job.spec.max_workers < 2 or len(stay) + 1 < job.spec.min_workers
    assert few or not older, f"{version} is to be saved, and {older} stay and lose what they hold"


def rests(world: World, before: Cluster, decision: Decision, old: Job, job: Job) -> None:
    """A job that is to run rests only because nobody is left with its state, heard, and back if it hung."""
    if old.wanted is not Wanted.RUN or job.phase is not JobPhase.PAUSED or job.wanted is not Wanted.YIELD:
        return
    if old.formation is None:
        return
    after, watch = decision.cluster, before.watches.get(job.id)
    left = [one for one in old.formation.members if not is_evicted(before, decision, job.id, one)]
    listed = [one for one in left if not (departs(after, one) or (watch is not None and one in watch.dead))]
    heard = [one for one in listed if is_heard(world, after, one.worker)]
    there = [(one, after.trainer(one)) for one in heard]
    stay = [one for one, status in there if status is not None and _holds(job, status.version)]
    stay = [one for one in stay if after.hang(one) is None or (watch is not None and one in watch.answers)]
    away = [one for one in listed if one not in heard and _holds(job, _held_when_cut_off(world, after, one, 0.9))]
    assert not stay, f"{job.id} rests, and {stay} stay with its state"
    assert not away, f"{job.id} rests, and {away} may be back in a moment with its state"


def _holds(job: Job, version: Version | None) -> bool:
    """Whether that is what is durable, or the step more that one may have made before the group broke."""
    return version is not None and gets_as_far(job, version, job.saved)


def _held_when_cut_off(world: World, cluster: Cluster, member: Member, share: float) -> Version | None:
    """What a trainer holds whose connection is closed, though not for longer than this share of absent_limit: a little
    less than all of it where it must be waited for, a little more where it may be."""
    seen = cluster.sightings.get(member.worker)
    if seen is None or seen.connected or seen.trainer is None or seen.trainer.incarnation != member.incarnation:
        return None
    since = world.decided_at - max(seen.seen, cluster.started, cluster.awake)
    return seen.trainer.version if since < share * world.policy.absent_limit else None


def _yet_to_tell(world: World, cluster: Cluster, job: Job) -> list[Member]:
    """The members that may hold what they did not tell yet."""
    watch, members = cluster.watches.get(job.id), job.formation.members if job.formation is not None else ()
    alive = [one for one in members if watch is None or one not in watch.dead]
    return [one for one in alive if is_yet_to_tell(world, cluster, one.worker, 1.1)]


def saved(world: World, cluster: Cluster, old: Job, job: Job) -> None:
    """What was saved as all that hold it go, rests then; after one more round if who saved it hangs, is gone, or was
    given up for its time, as another one's file came."""
    if old.saver is None or job.saver is not None or job.checkpoint is old.checkpoint or job.formation is None:
        return
    watch = cluster.watches.get(job.id)
    late = watch is not None and old.saver in watch.failed_savers
    gone = late or cluster.trainer(old.saver) is None or cluster.hang(old.saver) is not None
    if job.round is not None and (gone or job.complete_at(job.saved.step)):
        return  # of a final state the report is due, too
    have = [member for member, version in _told(cluster, job).items() if _holds(job, version)]
    known = [(name, seen.trainer) for name, seen in cluster.sightings.items()]
    mine = [Member(name, one.incarnation) for name, one in known if one is not None and one.job == job.id]
    away = [one for one in mine if _holds(old, _held_when_cut_off(world, cluster, one, 1.1))]
    if not all(departs(cluster, one) for one in (*away, *_yet_to_tell(world, cluster, old))):
        return  # it is waited for
    assert job.ended or not have or not all(departs(cluster, one) for one in have), (
        f"{job.id} goes on with who is to go"
    )


def held(ghosts: Ghosts, world: World, cluster: Cluster, job: Job) -> None:
    """A job is not held by those alone that are to go, but for moments in which one that stays is cut off, or has yet
    to tell a coordinator that just began."""
    if job.phase is JobPhase.PAUSED and job.formation is not None and (told := _told(cluster, job)):
        best = ghosts.best(job, told)
        have = [member for member, version in told.items() if version == best] or [*told]
        patient = not any(cluster.workers[one.worker].leaving for one in have)
        near = _away_with_as_much(world, cluster, job, have[0]) if patient else []
        stay = [one for one in (*have, *near, *_yet_to_tell(world, cluster, job)) if not departs(cluster, one)]
        assert stay, f"{job.id} is held by {have}, and all of them go"


def _away_with_as_much(world: World, cluster: Cluster, job: Job, like: Member) -> list[Member]:
    """The trainers that hold as much as this one, and whose connections were closed a moment ago."""
    trainer, found = cluster.trainer(like), []
    for name, seen in cluster.sightings.items():
        status, near = seen.trainer, world.decided_at - max(seen.seen, cluster.awake) <= world.policy.absent_limit
        if seen.connected or status is None or trainer is None or status.job != job.id or not near:
            continue
        if status.version and trainer.version and gets_as_far(job, status.version, trainer.version):
            found.append(Member(name, status.incarnation))
    return found


def _told(cluster: Cluster, job: Job) -> dict[Member, Version]:
    """What the trainers of a job that are there said that they hold."""
    gone = lost(cluster, job.id)
    found: dict[Member, Version] = {}
    for name, worker in cluster.workers.items():
        seen = cluster.present(name)
        status = seen.trainer if seen is not None else None
        if worker.job != job.id or status is None or status.job != job.id or status.version is None:
            continue
        member = Member(name, status.incarnation)
        if member not in gone:
            found[member] = status.version
    return found


def goes(world: World, cluster: Cluster, name: str, order: Go) -> None:
    worker, seen = cluster.workers[name], cluster.present(name)
    assert worker.leaving, f"{name} is sent away, and did not ask for it"
    assert worker.boot == order.boot, f"{name} is sent away, and began anew"
    assert worker.job is None, f"{name} is sent away, and is lent"
    assert seen is not None, f"{name} is sent away, and is not there"
    trainer = seen.trainer
    job = cluster.jobs.get(trainer.job) if trainer is not None else None
    if trainer is None or job is None or job.ended or job.formation is None:
        return
    member = Member(name, trainer.incarnation)
    trains = member in job.formation.members and job.formation.generation == job.generation
    assert not trains, f"{member} is sent away before the boundary"
    lending_rules.released(world, cluster, name, job.id)


def handed_over(cluster: Cluster, job: Job, member: Member, version: Version) -> bool:
    """Whether somebody who stays is known to hold what it holds."""
    listed = job.formation.members if job.formation is not None else ()
    others = [one for one in listed if one != member and not departs(cluster, one)]
    told = [status.version for one in others if (status := cluster.trainer(one)) is not None]
    return departs(cluster, member) and any(known is not None and known >= version for known in told)
