"""Who is steadily slower than the others: named, once, and never given up for it.

Owns: what slower means, and when it is said. A pace is seconds of a trainer's own passes for a sample, the median of
its last steps, so that neither the exchange nor the number of shards that it owns counts.
Refuses to know: how a pace is measured (the worker's `pulse`), and what could be done about it.
"""

from statistics import median

from regroup.core.cluster import Cluster
from regroup.core.jobs import Job
from regroup.core.turn import Turn
from regroup.core.workers import Sighting

TIMES = 1.5  # the others' pace
RECOVERED = 1.25  # times it, below which it is no longer slower: between the two nothing is said
LOOKS = 3  # in a row, each at a pace that was measured anew


def compare_pace(turn: Turn, name: str, before: Sighting) -> None:
    """A heartbeat brought a pace: look at it once. `before`: what was known until then."""
    pace, job = turn.sightings[name].pace, turn.jobs.get(turn.workers[name].job or "")
    if pace is None or pace == before.pace or job is None or job.id not in turn.watches:
        return
    usual = others_pace(turn.cluster, job, name)
    if usual is None:
        return
    looks = turn.watch(job.id).slow.get(name, 0)
    now = min(looks + 1, LOOKS)
    if pace <= TIMES * usual:
        now = looks if looks == LOOKS and pace > RECOVERED * usual else 0
    if now == looks:
        return
    turn.change_watch(job.id, slow={**turn.watch(job.id).slow, name: now})
    if now == LOOKS:
        reason = f"{name} is slower than the others: {pace / usual:.1f} times their time for a sample; they wait for it"
        turn.note("straggler", reason, job.id, name, pace=pace, usual=usual)
    elif looks == LOOKS:
        turn.note("recovered", f"{name} is no longer slower than the others", job.id, name, pace=pace, usual=usual)


def others_pace(cluster: Cluster, job: Job, name: str) -> float | None:
    """The median of the other members'; None where none is known, or this one is no member."""
    members = [member.worker for member in job.formation.members] if job.formation is not None else []
    others = [cluster.sightings[one].pace for one in members if one != name and cluster.present(one)]
    known = [pace for pace in others if pace is not None]
    return median(known) if name in members and known else None


def is_straggler(cluster: Cluster, job: Job, name: str) -> bool:
    watch = cluster.watches.get(job.id)
    return watch is not None and watch.slow.get(name, 0) >= LOOKS
