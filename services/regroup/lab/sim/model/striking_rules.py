"""What must hold when a checkpoint is struck, and of those that were.

Owns: these rules. Refuses to know: which checkpoints count (`saving_rules`), and how a file was damaged.
"""

from regroup.core.cluster import Cluster, Watch
from regroup.core.decide import Decision
from regroup.core.jobs import Formation, Job, Member
from regroup.core.workers import LEFT
from regroup.lab.sim.model.ghosts import Ghosts
from regroup.lab.sim.model.world import World, given_up, is_mute


def struck(ghosts: Ghosts, world: World, decision: Decision, old: Job, job: Job) -> None:
    """It is the newest, more than one word says so, and the job goes back to the one before it, which is told."""
    one = job.struck[-1].checkpoint
    assert job.struck[:-1] == old.struck, "a checkpoint that was struck is forgotten"
    assert one == old.checkpoint, f"{one} is struck, and {old.checkpoint} is what counts"
    assert (job.checkpoint, *job.older) == (old.older or (None,)), f"after {one} comes {job.checkpoint}"
    assert job.saved >= job.origin, f"after {one} comes {job.saved}, and it began at {job.origin}"
    assert any(note.kind == "struck" and note.job == job.id for note in decision.notes), "struck, and nobody is told"
    words = ghosts.words.get(one.path, set())
    workers = {worker for worker, _ in words}
    assert len(words) > 1, f"{one.path} is struck for the words of {words}"
    unasked = _could_be_asked(world, decision.cluster, job) - ghosts.asked[one.path]
    assert len(workers) > 1 or not unasked, (
        f"{one.path} is struck by the word of {workers}, and {unasked} was not asked"
    )


def heard(ghosts: Ghosts, watch: Watch) -> None:
    """A worker's word against a file counts as often as it was given, each time in another generation."""
    said = ghosts.words.get(watch.questioned, set())
    for name, word in watch.words.items():
        given = sum(worker == name for worker, _ in said)
        assert word.damaged <= given, f"{name} found {watch.questioned} damaged {given} times, not {word.damaged}"


def begins(job: Job, formation: Formation) -> None:
    read = formation.checkpoint
    bad = [one.checkpoint.path for one in job.struck]
    assert read is None or read.path not in bad, (
        f"{read} was struck, and generation {formation.generation} begins from it"
    )


def _could_be_asked(world: World, cluster: Cluster, job: Job) -> set[str]:
    """Who is there, or away for a moment, and not about to leave: who leaves takes part in no further generation.
    Nor is anybody there who was not heard for longer than one may be away, or was given up. Of those that the job has,
    who is prepared; and who is free, or will be once its trainer ended, which takes no longer than that."""
    found = set()
    for name, worker in cluster.workers.items():
        if worker.departs or is_mute(world, cluster, name):
            continue
        seen = cluster.sightings.get(name)
        trainer = seen.trainer if seen is not None else None
        prepared = trainer is not None and trainer.job == job.id and trainer.fingerprint is not None
        lost = trainer is not None and Member(name, trainer.incarnation) in given_up(cluster, job.id)
        clings = trainer is not None and seen is not None and world.decided_at - seen.moved > world.policy.absent_limit
        free = worker.job is None and worker.boot != LEFT and not (worker.quarantined or clings)
        if free or (worker.job == job.id and prepared and not lost):
            found.add(name)
    return found - set(job.refused)
