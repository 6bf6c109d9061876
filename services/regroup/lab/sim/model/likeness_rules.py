"""What must hold of likeness: whose code and data are a job's, and who is refused for its own.

Owns: these rules. Refuses to know: who is blamed for replicas that differ (`lives.justice`).
"""

from regroup.core.cluster import Cluster
from regroup.core.jobs import Job, Member
from regroup.lab.sim.model.world import World, given_up, is_mute, is_yet_to_tell

OTHER_DATA_WORDS = "whose checkpoint this job begins from"  # in the words of each refusal for what `other_data` finds


def compared(world: World, before: Cluster, after: Cluster, old: Job, job: Job) -> None:
    """Code and data that are a job's stay so while somebody has them who told so, or is about to say it again; but who
    is back with what the last formation trained sets them back."""
    if old.fingerprint is None or job.fingerprint == old.fingerprint:
        return
    back = [after.trainer(one) for one in (old.formation.members if old.formation is not None else ())]
    if any(one.version and one.fingerprint == job.fingerprint for one in back if one is not None):
        return
    for name in {one.worker for one in old.formation.members} if old.formation is not None else ():
        prepares = all(_prepares(world, cluster, job.id, name) for cluster in (before, after))
        assert not prepares, f"{job.id} takes other code, and {name}, which trained, is about to say which it has"
    for trainer in world.trainers():
        worker, seen = before.workers.get(trainer.member.worker), before.sightings.get(trainer.member.worker)
        lent = worker is not None and worker.job == trainer.job == job.id
        if not lent or trainer.session.fingerprint != old.fingerprint or trainer.member in given_up(before, job.id):
            continue
        last = after.sightings.get(trainer.member.worker)
        if last is not None and last.trainer is not None and last.trainer.incarnation != trainer.member.incarnation:
            continue  # what arrives only now is of the one before it on this worker
        said = seen.trainer.fingerprint if seen is not None and seen.trainer is not None else None
        heard = max(seen.seen if seen is not None else 0.0, before.started, before.awake)
        if old.formation is not None and world.decided_at - heard > old.formation.detached_limit:
            continue  # it is waited for no longer than for its state
        untold = seen is None or not seen.sequence  # yet, to a coordinator that began anew
        counts = untold or said == old.fingerprint
        assert not counts, f"{job.id} takes other code than {trainer.member} has"


def _prepares(world: World, cluster: Cluster, job: str, name: str) -> bool:
    """Whether it may soon say what it has. Of who is not heard for long, or was given up, nothing is to be had."""
    seen = cluster.present(name)
    lent = name in cluster.workers and cluster.workers[name].job == job
    if not lent or seen is None or is_mute(world, cluster, name):
        return False
    if seen.trainer is None:
        return True
    return seen.trainer.fingerprint is None and Member(name, seen.trainer.incarnation) not in given_up(cluster, job)


def refused(world: World, before: Cluster, job: Job, name: str, why: str) -> None:
    """Where two find the same of the data that a job is to begin from, that is the job's, and fails it. Nobody is
    unlike others while one of them has yet to tell."""
    if "from the other workers'" in why:
        lent = [one for one, worker in before.workers.items() if worker.job == job.id and one != name]
        untold = [one for one in lent if is_yet_to_tell(world, before, one, 0.9)]
        assert not untold, f"{name} is said to differ, and {untold} may be like it"
    if job.beginning is not None and not job.history and OTHER_DATA_WORDS in why:
        same = [name for name, theirs in job.refused.items() if theirs == why]
        assert len(same) < 2, f"{same} found the same of the data of {job.id}, and each is refused for it"
