"""Which errors a worker of a life has: none that it gave no cause for, none twice, none that is the task's doing.

Owns: what has to be remembered over a whole life to tell, and the rules for it. Each breach raises AssertionError.
Refuses to know: what is a cause (`justice` says so), and who is given up, refused or passed over.
"""

from collections import Counter
from typing import TYPE_CHECKING

from regroup.core.cluster import Cluster
from regroup.core.decide import Decision
from regroup.core.jobs import IN_REPORT, IN_STATE, Job, JobPhase, StepFailure
from regroup.lab.sim.lives.excuses import Excuses
from regroup.lab.sim.model.world import changes, lost, newly_ended

if TYPE_CHECKING:
    from regroup.lab.sim.lives.life import Life

# In the words of who is left out, and may be sound: no error of its worker.
SUSPECTED = ("reach", "failed to form together twice", "broke before their first step", "is seldom heard")
LAST_WORDS = 15.0  # seconds for which what was lost, or came late, may be missed


class Errors:
    def __init__(self, life: "Life") -> None:
        self._excuses = Excuses(life)
        self._causes: Counter[str] = Counter()  # by worker, of errors that may be counted
        self._counted: Counter[str] = Counter()
        self._blamed: dict[tuple[str, str], str] = {}  # worker, incarnation -> what for

    def cause(self, worker: str, is_one: bool) -> None:
        self._causes[worker] += is_one

    def judge(self, before: Cluster, decision: Decision) -> None:
        self._count(before, decision)
        forgotten = before.workers.keys() - decision.cluster.workers.keys()  # with all that was counted
        if forgotten:
            self._blamed = {which: why for which, why in self._blamed.items() if which[0] not in forgotten}
        for _, old, job in changes(before.jobs, decision.cluster.jobs):
            if old is not None:
                self._failed(before, decision, old, job)

    def _count(self, before: Cluster, decision: Decision) -> None:
        """Nobody has more errors than it gave cause for, and each trainer is one cause at most."""
        for name, old, worker in changes(before.workers, decision.cluster.workers):
            if old is None or worker.errors <= old.errors:
                continue
            self._once(before, decision, name)
            self._counted[name] += worker.errors - old.errors
            counted, causes = self._counted[name], self._causes[name]
            assert counted <= causes, f"{name} has {counted} errors, and gave cause for {causes}"

    def _once(self, before: Cluster, decision: Decision, name: str) -> None:
        after, known = decision.cluster, before.sightings.get(name)
        ended = newly_ended(before, after, name)
        given_up = {one for id, watch in after.watches.items() for one in watch.evicted - lost(before, id)}
        for note in [note for note in decision.notes if note.worker == name]:
            suspected = any(words in note.reason for words in SUSPECTED)
            blamed = ended if note.kind == "exited" else set()
            if note.kind == "registered" and known is not None and known.trainer is not None:
                blamed = {known.trainer.incarnation}  # its agent began anew
            if note.kind == "evicted" and not suspected:
                blamed = {one.incarnation for one in given_up if one.worker == name}
            for one in blamed:
                said = self._blamed.get((name, one))
                assert said is None, f"{name} is blamed for {one} twice: {said}; {note.reason}"
                self._blamed[name, one] = note.reason

    def _failed(self, before: Cluster, decision: Decision, old: Job, job: Job) -> None:
        """Whatever is the task's doing is no worker's error, and costs nothing that was made."""
        after = decision.cluster
        if job.phase is not JobPhase.FAILED or not job.reason.startswith("the task failed") or not job.failures:
            return
        last = job.failures[-1]
        kept = job.checkpoint is not None and job.checkpoint.version.step >= last.step
        lost = last.shard == IN_REPORT and not (kept or self._excuses.unheard(LAST_WORDS))
        assert not lost, f"report() failed {job.id} at step {last.step}, and its state there is not durable"
        alone = last.step < 0 and {one.worker for one in job.failures if one.step < 0} == {last.worker}
        for failure in () if alone else job.failures:  # where all others are busy, nobody else shows it
            same = last.step == failure.step or last.shard in (IN_STATE, IN_REPORT)
            place = same and last.shard == failure.shard
            if failure.died and place and failure.worker in before.workers:
                errors, were = after.workers[failure.worker].errors, before.workers[failure.worker].errors
                were += _lost_elsewhere(before, after, job.id, failure.worker)
                assert errors <= were, f"{failure.worker} is blamed for what is the task's doing"
        if not old.ended and " times no data came " not in job.reason:  # those are remembered elsewhere
            _pardons(before, decision, job, last)


def _pardons(before: Cluster, decision: Decision, job: Job, last: StepFailure) -> None:
    """Each of the deaths that failed a job is taken back, also those that were counted long ago."""
    if last.step < 0 and {one.worker for one in job.failures if one.step < 0} == {last.worker}:
        return  # where all others are busy, nobody else shows it
    saves = last.shard in (IN_REPORT, IN_STATE)
    died = [one for one in job.failures if one.died and (last.chance or not one.chance)]  # chance says little beside
    alike = [one for one in died if one.shard == last.shard and (saves or one.step == last.step)]
    alike = [one for one in alike if one is last or one.step >= 0 or not one.generation]  # nor beside others that train
    for name in {one.worker for one in alike} & before.workers.keys():
        times = sum(one.worker == name for one in alike)
        notes = [note for note in decision.notes if note.worker == name]
        counted = sum(note.kind in ("exited", "registered", "evicted") for note in notes)
        counted += _lost_elsewhere(before, decision.cluster, job.id, name)
        most = max(0, before.workers[name].errors + counted - times)
        errors = decision.cluster.workers[name].errors
        assert errors <= most, f"{name} has {errors} errors, and {times} of those before were the task's doing"


def _lost_elsewhere(before: Cluster, after: Cluster, job: str, worker: str) -> int:
    """How many trainers of a worker were given up, or died, in other jobs in one decision."""
    others = after.watches.keys() - {job}
    return sum(one.worker == worker for id in others for one in lost(after, id) - lost(before, id))
