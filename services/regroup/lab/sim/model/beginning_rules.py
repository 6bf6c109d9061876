"""What must hold of a job that begins from another job's checkpoint.

Owns: these rules. Refuses to know: everything that holds of all jobs (`decision_rules`, `saving_rules`).
"""

from regroup.core.cluster import Cluster
from regroup.core.jobs import Formation, Job
from regroup.core.messages.orders import Discard
from regroup.lab.sim.model.ghosts import Ghosts


def submitted(ghosts: Ghosts, before: Cluster, cluster: Cluster, job: Job) -> None:
    """It comes after all others, and begins exactly where the newest checkpoint is that the other job had kept."""
    assert all(one.submitted < job.submitted for one in cluster.jobs.values() if one is not job), (
        f"{job.id} is no later than those before it, as the store tells them"
    )
    asked, begins = job.spec.begin_from, job.beginning
    assert (asked is None) == (begins is None), f"{job.id} was to begin from {asked}, and begins from {begins}"
    if asked is None or begins is None:
        assert job.step == 0, f"{job.id} begins at its seed, and step {job.step} is shown"
        return
    source = before.jobs[asked.job]  # a newer one may count in this very decision
    assert begins.checkpoint == source.checkpoint, f"{job.id} begins from {begins.checkpoint}, not from the newest"
    assert begins.checkpoint.path not in ghosts.deleted, f"{job.id} begins from a file that was deleted"
    assert job.step == begins.checkpoint.version.step, f"{job.id} begins, and step {job.step} is shown"
    assert job.steps is None or job.steps > job.step, f"{job.id} begins at its end"


def discards(ghosts: Ghosts, cluster: Cluster, order: Discard) -> None:
    """No file is deleted from which a job has yet to begin, or may have to begin again."""
    for job in cluster.jobs.values():
        if job.beginning is not None and not job.ended:
            path = job.beginning.checkpoint.path
            gone = {*order.paths, *ghosts.let_go_by(order)}
            assert path not in gone, f"{path} is to be deleted, and {job.id} may have to begin from it"


def read(ghosts: Ghosts, job: str, formation: Formation) -> None:
    """The leader reads another job's file, which is whole, and of that step."""
    file = formation.checkpoint
    assert file is not None, "there is nothing to read"
    sources = [id for id, version in ghosts.written if version == file.version and id != job]
    states = [ghosts.states[id, file.version] for id in sources]
    assert any(len(one) == formation.base.step for one in states), f"{file.version} is read for {formation.base}"


def is_damaged(ghosts: Ghosts, job: Job) -> bool:
    """Whether more than one word says so of the file that the job begins from."""
    file = job.latest
    return file is not None and job.checkpoint is None and len(ghosts.words.get(file.path, ())) > 1
