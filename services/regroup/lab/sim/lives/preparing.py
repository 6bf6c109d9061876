"""What becomes of workers that die, again and again, as they prepare: they are left out, or their job fails.

Owns: what has to be remembered over a whole life to tell (how often one died, since it prepared last), and the rules.
Each breach raises AssertionError and names the rule.
Refuses to know: who was refused without need (`blame_rules`).
"""

from collections import Counter
from typing import TYPE_CHECKING

from regroup.core.cluster import Cluster
from regroup.core.decide import Decision
from regroup.core.jobs import Job
from regroup.lab.sim.model.world import changes, fresh, given_up, is_heard, may_try

if TYPE_CHECKING:
    from regroup.lab.sim.lives.life import Life

TIMES_ALONE = 3  # deaths of one, beside whom nobody may try


class Preparing:
    def __init__(self, life: "Life") -> None:
        self._life = life
        self._deaths: Counter[tuple[str, str]] = Counter()  # of a job's worker, not by chance, since it prepared last

    def judge(self, before: Cluster, decision: Decision) -> None:
        after = decision.cluster
        anew = {note.worker for note in decision.notes if note.kind in ("registered", "cleared")}
        anew |= {name for name, status in fresh(before, after) if status.fingerprint is not None}
        for key in [key for key in self._deaths if key[1] in anew]:
            del self._deaths[key]
        for _, old, job in changes(before.jobs, after.jobs):
            if old is not None and len(job.failures) > len(old.failures) and not job.ended:
                last = job.failures[-1]
                self._fails(after, job, last.worker)
                if last.step < 0 and last.generation and not last.chance and job.formation is not None:
                    self._deaths[job.id, last.worker] += 1
                    self._is_left_out(after, job, last.worker)

    def _is_left_out(self, after: Cluster, job: Job, worker: str) -> None:
        """Who dies twice while others train takes no part, if those are enough."""
        assert job.formation is not None, f"{worker} joined what never formed"
        evicted = given_up(after, job.id)  # they may not end
        members = [one for one in job.formation.members if one.worker != worker and one not in evicted]
        others = [after.workers.get(one.worker) for one in members]
        stay = [one for one in others if one is not None and one.job == job.id and not (one.departs or one.quarantined)]
        there = [one.name for one in stay if is_heard(self._life, after, one.name)]
        again = self._deaths[job.id, worker] > 1 and worker not in job.refused
        assert not again or len(there) < job.spec.min_workers, f"{worker} dies again and again, and {there} are enough"

    def _fails(self, after: Cluster, job: Job, worker: str) -> None:
        """What dies on one before the job ever trained, where nobody else may try, is the task's."""
        others, row = may_try(after, job, but=worker), 0
        for one in reversed(job.failures):
            if one.worker != worker or one.step >= 0 or one.chance or one.generation:
                break
            row += 1
        goes_on = row >= TIMES_ALONE and not others and not job.history
        assert not goes_on, f"{worker} died {row} times as it prepared, nobody else may try, and {job.id} goes on"
