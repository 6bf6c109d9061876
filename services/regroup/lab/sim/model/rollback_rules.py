"""What must hold when the last generation is given up, and an older state is gone back to (rule 7).

Owns: when that is allowed, and how far. Refuses to know: what is then done with the older state.
"""

from dataclasses import replace
from math import inf

from regroup.core.cluster import Cluster
from regroup.core.jobs import Job, Member, Version, Wanted
from regroup.lab.sim.model.world import World, gets_as_far, given_up, holders, is_yet_to_tell


def gave_up(world: World, before: Cluster, cluster: Cluster, old: Job, job: Job, base: Version) -> None:
    """The last generation is lost: each of its members is dead, or answered, or was silent for as long as it takes."""
    assert old.formation is not None, "a roll-back of what never began"
    for member in old.formation.members:
        trainer = world.living(member)
        known = trainer is None or trainer.session.promised >= job.generation
        silent = is_silent(world, before, cluster, old, job, member)
        assert known or silent, f"{base} is gone back to, and {member} may hold more"
    if job.wanted is not Wanted.STOP:
        _nobody_may_commit(world, old, job.generation)
    goes_back_no_further(world, before, job, base)


def is_silent(world: World, before: Cluster, cluster: Cluster, old: Job, job: Job, member: Member) -> bool:
    """Whether this member of the last formation was not heard for as long as rule 7 has it waited for. Where its user
    has a job rest, that is for ever."""
    if old.formation is None or job.wanted in (Wanted.HOLD, Wanted.PAUSE):
        return False
    stops = job.wanted is Wanted.STOP
    limit = world.policy.absent_limit if stops else old.formation.detached_limit + world.policy.detached_margin
    seen, awake = cluster.sightings.get(member.worker), max(cluster.started, cluster.awake)
    lent = before.workers[member.worker].job == job.id  # after that the job may have ended
    lent = lent and member.worker not in job.refused  # who is, in the same breath, is taken off the job
    leased = lent and member not in given_up(before, job.id)
    last = -inf if seen is None else seen.seen if leased else seen.renewed  # else nobody renews its lease
    since = last if last >= awake else awake + world.policy.leader_lease
    return world.decided_at - since > limit


def is_over(world: World, before: Cluster, cluster: Cluster, old: Job, job: Job, member: Member) -> bool:
    """Whether it is known dead, or was not heard for so long."""
    watch = cluster.watches.get(job.id)
    return (watch is not None and member in watch.dead) or is_silent(world, before, cluster, old, job, member)


def _nobody_may_commit(world: World, old: Job, n: int) -> None:
    assert old.formation is not None, "a roll-back of what never began"
    for member in old.formation.members:
        trainer = world.living(member)
        if trainer is not None:
            session = trainer.session
            forms = session.promised > session.generation  # what it has yet to form may be issued with another limit
            lease = session.heard + old.formation.detached_limit if forms else session.lease
            harmless = session.promised >= n or world.clock(member.worker) >= lease
            assert harmless, f"rolled back past {member}, which may still commit"


def goes_back_no_further(world: World, before: Cluster, job: Job, base: Version) -> None:
    """A roll-back goes to the most advanced state that a healthy trainer told of, if that one is there, or was a moment
    ago. It waits for whoever is back, or about to be, and has not told yet. What no step was made from is no state."""
    policy, last = world.policy, before.jobs[job.id].formation
    limit = last.detached_limit if last is not None else policy.detached_limit
    for trainer in holders(world, job.id):
        name, held = trainer.member.worker, trainer.session.version
        seen = before.sightings.get(name)
        ahead = held is not None and not gets_as_far(job, base, held) and held.step > job.origin.step
        untold = ahead and not trainer.stuck and is_yet_to_tell(world, before, name, 1.0)
        assert not untold, f"rolled back to {base}, and {trainer.member} with {held} has yet to tell what it holds"
        if seen is not None and (not seen.connected or job.wanted is Wanted.STOP):
            seen = seen if world.decided_at - max(seen.seen, before.awake) < policy.absent_limit else None
        status = seen.trainer if seen is not None else None
        if seen is None or status is None or status.incarnation != trainer.member.incarnation or trainer.stuck:
            continue
        evicted = trainer.member in given_up(before, job.id)
        moved = min(seen.moved, max(seen.seen, before.awake))  # to be lent anew is no word of its own
        silent = world.decided_at - moved > limit
        told = status.version
        lower = told is not None and not gets_as_far(job, base, told) and told.step > job.origin.step
        assert evicted or silent or not lower, f"rolled back to {base}, and {trainer.member} holds {status.version}"


def said_silent(world: World, before: Cluster, cluster: Cluster, old: Job, job: Job) -> None:
    """A generation goes on no more because all were silent: each was for as long as its lease takes, whatever is wanted
    of the job."""
    runs = replace(job, wanted=Wanted.RUN)
    for member in old.formation.members if old.formation is not None else ():
        over = is_over(world, before, cluster, old, runs, member)
        assert over, f"{member} is said to have lost its lease, and may have it"
