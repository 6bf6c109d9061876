"""When an error that was counted against a worker is forgiven, or a suspicion: one for each long while without another.

Owns: how long that is. A sound worker whose trainer somebody kills now and then is never quarantined; one that dies
more often than it is forgiven is, in the end.
Refuses to know: what counts as an error (`blame`, `agent_reports`, `suspicion`), and when a quarantine ends: its
operator lifts it.
Does not guarantee: that a while is as long as it looks: it begins anew when the coordinator or the agent does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from regroup.core.cluster import Doubt
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
