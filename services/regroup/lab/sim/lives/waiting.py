"""Who is waited for in a life, and for how long: whoever hangs, and whoever saves.

Owns: what has to be remembered over a whole life to tell (who hangs since when, whose save failed), and the rules.
Each breach raises AssertionError and names the rule.
Refuses to know: who is blamed for it (`justice`), and which states are durable (`saving_rules`).
"""

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from regroup.core.branches import anchored
from regroup.core.cluster import Cluster, reached
from regroup.core.decide import Decision
from regroup.core.jobs import ORIGIN, Job, Member, Version
from regroup.core.workers import TrainerPhase
from regroup.lab.sim.lives.excuses import AWAY, LATE, Excuses
from regroup.lab.sim.model.limits import COMING_BACK, OF_ONE
from regroup.lab.sim.model.trainer import Trainer
from regroup.lab.sim.model.world import fresh, gets_as_far, holders, is_heard, newly_ended

if TYPE_CHECKING:
    from regroup.lab.sim.lives.life import Life

CALM = 6.0  # seconds after a fault that kept somebody from hearing, or from going on
SLACK = 1.5  # seconds until a coordinator that hears of nothing else looks again, and more


class Waiting:
    def __init__(self, life: "Life") -> None:
        self._life, self._excuses = life, Excuses(life)
        self._vain: dict[str, tuple[list[Member], float]] = {}  # since when a job waits for none but these, that hang
        self._wedged: dict[Member, float] = {}  # since when a trainer hangs in the task's code at a save
        self._failed: dict[str, tuple[float, Version]] = {}  # when a job's last save failed, and of which state
        self._raised_in_state: dict[str, list[str]] = {}  # job -> workers of which it is known, since it last came off
        # By worker: who segfaulted in a pass, and is not known to have; and in which job and step.
        self._segfaulted: dict[str, tuple[Member, tuple[str, int]]] = {}
        self._killed_in: dict[tuple[str, int], set[str]] = {}  # job and step -> workers of which it is known

    def wedged(self, trainer: Trainer) -> None:
        self._wedged[trainer.member] = self._life.decided_at  # as the coordinator's clock goes

    def took(self, trainer: Trainer) -> None:
        """It took its leader's state: what state() told, unless that was read from a file."""
        if trainer.group.checkpoint is None:
            self._raised_in_state.pop(trainer.job, None)

    def segfaults(self, trainer: Trainer) -> None:
        self._segfaulted[trainer.member.worker] = trainer.member, (trainer.job, len(trainer.state))

    def judge(self, before: Cluster, decision: Decision) -> None:
        after = decision.cluster
        # It may stand still while an event waits for it, and is awake later than that came.
        assert after.awake <= self._life.decided_at + self._life.took, "time passed that is yet to come"
        for note in decision.notes:
            if note.kind == "save_failed" and note.job is not None and note.worker is not None:
                status = before.sightings[note.worker].trainer
                held = status.version if status is not None else None
                self._failed[note.job] = self._life.decided_at, held or ORIGIN
                if note.reason.endswith("E: no"):
                    self._raised_in_state.setdefault(note.job, []).append(note.worker)
            if note.kind in ("pausing", "stopping", "resumed", "drained") and note.job is not None:
                self._failed.pop(note.job, None)  # it is asked for anew
            # Who is stuck in the kernel goes on after that, and may end of something else.
            if note.kind == "exited" and note.reason.endswith("killed by SIGSEGV") and note.worker in self._segfaulted:
                member, where = self._segfaulted[note.worker]
                told = newly_ended(before, after, note.worker)
                ran = after.jobs[where[0]].formation is not None  # told at a rest, it counts beside the next
                if ran and member.incarnation in told:  # else another trainer's end is heard of
                    self._killed_in.setdefault(where, set()).add(note.worker)
        heard = (*fresh(before, after), *self._life.told_left(after)) if self._killed_in else ()
        for id, job in after.jobs.items():
            if job.ended and job is before.jobs.get(id):
                continue
            self._waits(after, job)
            self._reaches(after, job)
            old = before.jobs.get(id)
            if old is not None and old is not job:
                if not set(job.kept) <= set(old.kept):
                    self._raised_in_state.pop(id, None)  # it came off, into a file
                raised = self._raised_in_state.get(id, [])
                forgiven = old.refused.keys() - job.refused.keys()
                raised[:] = [name for name in raised if name not in forgiven]
                for which in [which for which in self._killed_in if which[0] == id]:
                    self._killed_in[which] -= forgiven
                if job.saver is not None and job.saver != old.saver:
                    self._saver(before, after, job, job.saver)
                self._saver_is_gone(after, old, job)
                self._saver_evaluates(old, job)
                self._members_evaluate(old, job)
            made = [one.version.step for _, one in heard if one.job == id and one.version is not None]
            self._came_off(id, max([reached(job, after.watches.get(id)), *made]))
            if not self._life.jobs[id].ended:  # as is durable: who was deposed may not know
                killed = [names for which, names in self._killed_in.items() if which[0] == id and len(names) > 1]
                assert not killed, f"one shard kills {killed} in one step, and {id} goes on"
                self._saves(after, job)

    def _came_off(self, id: str, made: int) -> None:
        """Steps that were made fail anew, if they do."""
        for which in [which for which in self._killed_in if which[0] == id and which[1] < made]:
            self._killed_in.pop(which)

    def _saver_is_gone(self, after: Cluster, old: Job, job: Job) -> None:
        """Who saves is not replaced for a connection that is lost for a moment."""
        if old.saver is None or job.reason == old.reason or " is gone and did not save" not in job.reason:
            return
        watch, seen = after.watches.get(job.id), after.sightings.get(old.saver.worker)
        dead = watch is not None and old.saver in watch.dead
        silent = self._life.decided_at - (seen.seen if seen is not None else after.started)
        long = silent > 0.9 * self._life.policy.halt_limit
        assert dead or long, f"{old.saver} saves, and was heard {silent:.2f} s ago"

    def _saver_evaluates(self, before: Job, job: Job) -> None:
        """Who ends the last evaluation is not given up for the time that all of it takes."""
        if before.saver is None or " did not save in " not in job.reason:
            return
        for trainer in self._able([before.saver]):
            assert trainer.loop.at != "evaluating", f"{before.saver} goes on with its evaluation, and is given up"

    def _members_evaluate(self, before: Job, job: Job) -> None:
        """An evaluation that goes on is not broken off for the time that all of it takes, once a chunk was heard of."""
        if job.reason == before.reason or " no chunk evaluated" not in job.reason or job.formation is None:
            return
        for trainer in self._able(job.formation.members):
            step, done = trainer.evaluated
            goes_on = trainer.loop.at == "measuring" and step == len(trainer.state) and done > 1
            assert not goes_on, f"{trainer.member} goes on with its evaluation, which is broken off"

    def _able(self, members: Sequence[Member]) -> list[Trainer]:
        """Those of them that go on, and of which that is heard in time."""
        excuses = self._excuses
        if excuses.unheard(CALM) or excuses.late(CALM):
            return []
        found = [self._life.agents[one.worker].trainer for one in members if not excuses.holds_up(one.worker, CALM)]
        return [one for one in found if one is not None and one.member in members and not one.stuck]

    def _saves(self, after: Cluster, job: Job) -> None:
        """What the task does to its saves comes to an end, on one worker and on all, unless its state() comes off in
        between: into a file, or to others that took the state."""
        raised = self._raised_in_state.get(job.id, [])
        often = len(set(raised)) > 1 or len(raised) > OF_ONE
        assert not often, f"state() raised on {raised}, and {job.id} goes on"
        if not self._wedged:
            return
        calm = self._life.faults.last((*AWAY, *LATE))
        if calm == self._life.now:
            return
        watch, now, policy = after.watches.get(job.id), self._life.decided_at, self._life.policy
        for name, worker in after.workers.items():
            seen = after.present(name)
            trainer = self._life.agents[name].trainer
            if worker.job != job.id or seen is None or trainer is None or trainer.member not in self._wedged:
                continue
            if watch is None or trainer.member in watch.evicted or now - seen.seen > policy.heartbeat_interval * 2:
                continue
            held = trainer.session.version
            known = after.hang(trainer.member) is not None or trainer.member in watch.failed_savers
            # Until then its agent may have to wait as long before it says so.
            limit = max(policy.halt_limit, 0.0 if known and job.saver is None else job.spec.step_timeout)
            if not known and job.saver is None:  # nobody can tell it from who is silent
                limit = max(limit, policy.detached_limit)
            hung = self._wedged[trainer.member]  # it may have moved long after it was asked, as out of the kernel
            since = max(hung, watch.since, seen.since + policy.halt_limit / 2, after.awake, after.started)
            if held is not None and held > job.saved:
                spared = self._others_have(after, job, trainer, held)
                since, limit = max(since, spared or 0.0), limit + (policy.detached_limit if spared is None else 0.0)
            since = max(since, self._life.decided_at - (self._life.now - calm))
            over = max(since + limit, watch.progressed + job.spec.step_timeout)  # whoever promised may take that long
            assert now < over + SLACK, f"{trainer.member} hangs in the task's code at a save for {now - since:.1f} s"

    def _others_have(self, after: Cluster, job: Job, trainer: Trainer, held: Version) -> float | None:
        """Since when somebody else whom the last formation lists is heard with what this one holds, and could give it;
        None: nobody is, and rule 7 gives this one its time."""
        listed = job.formation.members if job.formation is not None else ()
        able = [one for one in holders(self._life, job.id) if one.member in listed and not one.wedged]
        heard = [one for one in able if one is not trainer and is_heard(self._life, after, one.member.worker)]
        have = [one.member.worker for one in heard if gets_as_far(job, one.session.version or ORIGIN, held)]
        return min([after.sightings[name].since for name in have], default=None)

    def _saver(self, before: Cluster, after: Cluster, job: Job, saver: Member) -> None:
        watch, now = before.watches.get(job.id), after.watches.get(job.id)
        hung = self._wedged.get(saver)
        asked = hung is not None and now is not None and now.disturbed is not None and hung < now.disturbed
        assert not asked, f"{saver} is to save, and hangs in the task's code at a save since before it was asked"
        if watch is None or now is None or not watch.failed_savers:
            return
        best = now.answers.get(saver)  # of now: the last answer may be what decided it
        others = [
            member
            for member, answer in now.answers.items()
            if best is not None and answer.version == best.version and member not in watch.failed_savers
            if member not in now.dead and after.present(member.worker)
        ]
        again = saver in watch.failed_savers
        assert not again or not others, f"{saver} could not save, and is asked again before {others}"
        at, tried = self._failed.pop(job.id, (-inf, ORIGIN))
        waited, newer = self._life.decided_at - at, best is not None and (best.version or ORIGIN) > tried
        soon = waited < 0.9 * self._life.policy.save_retry and not newer  # who is back may bring more
        assert not soon, f"a failed save is tried again after {waited:.2f} s"

    def _reaches(self, after: Cluster, job: Job) -> None:
        """Once one is at a boundary all are, but for what the task does: no step is made any more."""
        watch, formation, asked = after.watches.get(job.id), job.formation, job.round
        if asked is None or not asked.boundary or watch is None or formation is None:
            return
        if watch.answers.keys().isdisjoint(formation.members):
            return
        others = [after.trainer(one) for one in asked.participants if one not in watch.answers]
        # Who promised in the middle of a pass may take as long as a step.
        passes = any(one is not None and one.at_work and one.phase is TrainerPhase.HALTED for one in others)
        late = self._life.decided_at - max(watch.since, watch.answered, after.awake, after.started)
        soon = late < self._life.policy.halt_limit + SLACK
        assert passes or soon, f"one is at the boundary, and others are waited for {late:.2f} s"

    def _waits(self, after: Cluster, job: Job) -> None:
        """Where all others have answered, who hangs is not waited for, unless its state is needed; nor who is cut off
        from a group that broke, or was never formed."""
        watch, formation = after.watches.get(job.id), job.formation
        vain = False
        if job.round is not None and not job.round.boundary and watch is not None and formation is not None:
            lent = [one for one in watch.answers if one.worker in after.workers]
            lent = [one for one in lent if after.workers[one.worker].job == job.id]  # others may not be gone on with
            there = [one for one in lent if one not in watch.dead and after.present(one.worker)]
            told = {one: watch.answers[one] for one in there}
            rest = [one for one in job.round.participants if one not in watch.answers and one not in watch.dead]
            held = {one: each.version for one, each in told.items() if each.version is not None}
            unformed = not watch.formed.issuperset(formation.members) or watch.broken is not None
            gone = [one for one in rest if unformed and one.worker in after.sightings and not after.present(one.worker)]
            useless = all(one in gone or after.hang(one) is not None for one in rest)
            vain = bool(rest) and bool(anchored(job, held)) and useless
        if not vain:
            self._vain.pop(job.id, None)
            return
        if job.id not in self._vain or self._vain[job.id][0] != rest:
            self._vain[job.id] = rest, self._life.decided_at  # anew with each that comes back
        since = max(self._vain[job.id][1], after.awake)
        waited = self._life.decided_at - since
        assert waited < COMING_BACK + 1.5 * self._life.policy.tick, (
            f"who hangs, or is cut off, is waited for {waited:.2f} s, and all others wait"
        )
