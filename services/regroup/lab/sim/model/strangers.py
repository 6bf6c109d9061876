"""Agents of another release that come under a worker's name: what they say, and that nothing follows from it.

Owns: their words, and the rule. Refuses to know: when one comes, and what becomes of the worker's own connection.
"""

from regroup.core.cluster import Cluster
from regroup.core.decide import Decision
from regroup.core.messages.agent_reports import AgentRegistered, Heartbeat
from regroup.core.messages.protocol import PROTOCOL
from regroup.lab.sim.model.world import changes

BOOT = "of another release"
SEQUENCE = 10**9  # no other agent lives that long


def words(older: bool) -> tuple[AgentRegistered, Heartbeat]:
    """They come in one breath, before any answer."""
    protocol = PROTOCOL - 1 if older else PROTOCOL + 1
    said = AgentRegistered(boot=BOOT, device="cpu", host="elsewhere", pid=2, version="0", protocol=protocol)
    return said, Heartbeat(boot=BOOT, sequence=SEQUENCE, leaving=True)


def turned_away(before: Cluster, decision: Decision) -> None:
    for name, _, worker in changes(before.workers, decision.cluster.workers):
        assert worker.boot != BOOT, f"{name} is of another release, and is let in"
    for name, _, sighting in changes(before.sightings, decision.cluster.sightings):
        assert sighting.sequence != SEQUENCE, f"{name}: the heartbeat of another release's agent is believed"
