"""What a cluster is busy with at an instant, and what is still wrong with it: what a fault can strike in the midst of.

Owns: the words, and how they are read off the durable records, the agents and their trainers.
Refuses to know: which fault left what (`impossible`), and how often anything was met.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from regroup.core.jobs import ORIGIN, Job, JobPhase, Wanted

if TYPE_CHECKING:
    from regroup.lab.sim.lives.life import Life


class Activity(StrEnum):
    TRAINING = "training"
    START = "start"  # workers prepare, and are made a first formation
    REGROUP = "regroup"  # a round that ends the group at once, or the formation after one
    ROLLBACK = "roll-back"  # the formation that goes back, until it trains
    BOUNDARY = "boundary"  # a round that waits for the end of a step
    JOIN = "join"  # a newcomer prepares beside a formation, or is in one that is being made
    TRANSFER = "transfer"  # a state goes from the leader to others
    SAVE = "checkpoint"  # a member was asked to write the state
    STOP = "stop"
    PAUSE = "pause"  # a job is to pause, or rests
    WAIT = "waiting"  # for workers
    QUARANTINE = "quarantine"  # of a worker
    AWAY = "agent away"  # it left in good order, and is not back
    RESTART = "no leader"
    DOWN = "agent down"  # it is gone without a word; so is one whose machine is off, or gone
    OFF = "machine gone"  # for good
    UNLINKED = "unconnected"  # an agent that lives has no connection
    GOING = "one to go"  # a worker that was drained, or whose agent was asked to end
    STUCK = "one hangs"  # a trainer, also one that does not for ever
    SPOILT = "file damaged"  # from which a job is to begin, or would begin again
    FLIPPED = "bits flipped"  # of a replica


HEALTHY = frozenset({Activity.TRAINING})  # nothing but what a healthy cluster does
LEFT = (  # by faults that were done at once, and whose effect lasts; they are counted apart from what goes on
    *(Activity.DOWN, Activity.OFF, Activity.UNLINKED, Activity.GOING),
    *(Activity.STUCK, Activity.SPOILT, Activity.FLIPPED),
)
GOES_ON = tuple(one for one in Activity if one not in LEFT)


def under_way(life: "Life") -> frozenset[Activity]:
    found = {one for job in life.jobs.values() if not job.ended for one in _of(life, job)}
    if life.leader is None:
        found.add(Activity.RESTART)
    if life.left_well:
        found.add(Activity.AWAY)
    if any(worker.quarantined for worker in life.workers.values()):
        found.add(Activity.QUARANTINE)
    return frozenset(found.union(_left(life)))


def _left(life: "Life") -> Iterator[Activity]:
    agents = life.agents.values()
    if any(not agent.alive and agent.name not in life.left_well for agent in agents):
        yield Activity.DOWN
    if life.gone:
        yield Activity.OFF
    if any(agent.alive and not agent.link for agent in agents):
        yield Activity.UNLINKED
    if any(worker.departs for worker in life.workers.values()) or any(
        agent.alive and agent.leaving for agent in agents
    ):
        yield Activity.GOING
    if any(trainer.stuck for trainer in life.trainers()):
        yield Activity.STUCK
    begins = (job.latest for job in life.jobs.values() if not job.ended)
    if any(file is not None and file.path in life.ghosts.damaged for file in begins):
        yield Activity.SPOILT
    if any(life.digest(trainer) for trainer in life.trainers()):
        yield Activity.FLIPPED


def _of(life: "Life", job: Job) -> Iterator[Activity]:
    formation, asked = job.formation, job.round
    forming = formation is not None and formation.generation == job.generation and job.phase is JobPhase.REGROUPING
    if job.wanted is Wanted.STOP:
        yield Activity.STOP
    elif job.wanted is not Wanted.RUN:
        yield Activity.PAUSE
    if job.saver is not None:
        yield Activity.SAVE
    elif job.phase is JobPhase.WAITING:
        yield Activity.WAIT
    elif job.phase is JobPhase.PREPARING:
        yield Activity.START
    elif asked is not None and asked.boundary:
        yield Activity.BOUNDARY
    elif asked is not None or forming:
        yield Activity.REGROUP
    elif job.phase is JobPhase.RUNNING:
        yield Activity.TRAINING
    if formation is None:
        return
    if forming and (job.id, job.generation) in life.ghosts.rolled_back:
        yield Activity.ROLLBACK
    mine = [trainer for trainer in life.trainers() if trainer.job == job.id]
    new = forming and formation.base != ORIGIN and any(seat.version is None for seat in formation.seats)
    if new or any(trainer.member not in formation.members for trainer in mine):
        yield Activity.JOIN
    if formation.receivers and any(trainer.loop.at in ("connected", "loaded") for trainer in mine):
        yield Activity.TRANSFER
