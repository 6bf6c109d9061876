"""When an error that was counted against a worker is forgiven, or a suspicion: one for each long while without another.
And when a job tries those again that may take no part in it.

Owns: how long that is. A sound worker whose trainer somebody kills now and then is never quarantined; one that dies
more often than it is forgiven is, in the end.
Refuses to know: what counts as an error (`blame`, `agent_reports`, `suspicion`), and when a quarantine ends: its
operator lifts it.
Does not guarantee: that a while is as long as it looks: it begins anew when the coordinator or the agent does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from regroup.core.absence import lacks_for, useless
from regroup.core.cluster import Doubt
from regroup.core.jobs import Job, Wanted
from regroup.core.rounds import Stage, stage
from regroup.core.schedule import at_hand, reads_in_vain
from regroup.core.severed import LONGEST
from regroup.core.turn import Turn


def forgive_in_time(turn: Turn) -> None:
    limit = turn.policy.error_forget
    for id, watch in list(turn.watches.items()):
        if any(turn.waited(doubt.last) >= limit for doubt in watch.doubted.values()):
            turn.change_watch(id, doubted=dict(_forgiven(turn, watch.doubted)))
    for name, worker in list(turn.workers.items()):
        sighting = turn.cluster.present(name)
        if sighting is None or not worker.errors or worker.quarantined or turn.waited(sighting.blamed) < limit:
            continue
        turn.workers[name] = replace(worker, errors=worker.errors - 1)
        turn.sightings[name] = replace(sighting, blamed=turn.now)
        reason = f"an error of {name} is forgiven, for {limit:g} s brought no other; {worker.errors - 1} still count"
        turn.note("forgiven", reason, worker=name)


def _forgiven(turn: Turn, doubted: Mapping[str, Doubt]) -> Iterator[tuple[str, Doubt]]:
    for name, doubt in doubted.items():
        if turn.waited(doubt.last) < turn.policy.error_forget:
            yield name, doubt
        elif doubt.times > 1:
            yield name, Doubt(doubt.times - 1, turn.now)


def try_again(turn: Turn) -> None:
    """What keeps a worker out of a job may pass, or be mended, and nobody tells. So it is taken back once in a long
    while; where the job cannot go on without it much sooner, after twice as long each time. Whoever is unfit is soon
    refused again."""
    for id, watch in list(turn.watches.items()):
        job, waited = turn.jobs[id], turn.waited(watch.out_since)
        if not job.refused or job.wanted is not Wanted.RUN or stage(job) is Stage.IDLE:
            continue
        patience = min(turn.policy.absent_limit * 2.0 ** min(watch.retries, 16), LONGEST)
        lacks = waited > patience and _lacks(turn, job)
        if not lacks and waited <= turn.policy.error_forget:
            continue
        why = "it cannot go on without" if lacks else "it was refused long ago"
        reason = f"{', '.join(job.refused)} may take part again: {why}"
        for name in job.refused:
            turn.take_back(id, name)
        turn.change_watch(id, retries=watch.retries + lacks)
        turn.note("readmitted", reason, job=id)


def _lacks(turn: Turn, job: Job) -> bool:
    """Whether it has waited for long, and those that it has are too few, or cannot read its checkpoint."""
    if stage(job) is not Stage.GATHERING or lacks_for(turn, job.id) <= turn.policy.absent_limit:
        return False
    useful = {*at_hand(turn.cluster, job)} - useless(turn)
    return len(useful) < job.needs or bool(reads_in_vain(turn.cluster, job))
