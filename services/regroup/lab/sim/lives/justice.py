"""Whether workers, jobs and users of a life are treated justly: who is blamed, given up, passed over, asked again.

Owns: what has to be remembered over a whole life to tell (what gave cause for an error, when a Halt arrived, who failed
in which shard), and the rules for it. Each breach raises AssertionError and names the rule.
Refuses to know: whether a state is lost or doubled (`decision_rules` and its like), which hold of every world.
"""

from collections import Counter
from math import inf
from typing import TYPE_CHECKING

from regroup.core.blame import TRIES_OF_ONE
from regroup.core.cluster import Cluster
from regroup.core.decide import Decision
from regroup.core.hanging import GRACE
from regroup.core.jobs import IN_REPORT, IN_STATE, ORIGIN, Formation, Job, JobPhase, Member, Version, Wanted
from regroup.core.messages.orders import Halt, TrainerOrder
from regroup.core.workers import LEFT
from regroup.lab.sim.lives.plan import Fault, Kind
from regroup.lab.sim.model.limits import NAMES
from regroup.lab.sim.model.steps import TOGETHER
from regroup.lab.sim.model.trainer import Trainer
from regroup.lab.sim.model.world import holders, is_heard

if TYPE_CHECKING:
    from regroup.lab.sim.lives.life import Life

SLACK = 1.5  # seconds until a coordinator that hears of nothing else looks again, and more
_AWAY = (Kind.STORE_AWAY, Kind.STORE_MUTE, Kind.STORE_CUT, Kind.STORE_CRASH, Kind.FREEZE, Kind.SILENCE)
_UNHEARD = (*_AWAY, Kind.CUT, Kind.ISOLATE, Kind.LOSSY, Kind.JUMBLED, Kind.CRASH, Kind.CRASH_UNSAVED, Kind.CRASH_UNSENT)
LEAVES = 1.5  # seconds within which a step loop in good health is out of a group that is to break
SURPLUS = 10.0  # seconds for which a job may keep a worker that it has no seat for


class Justice:
    def __init__(self, life: "Life") -> None:
        self._life = life
        self._causes: Counter[str] = Counter()  # by worker, of errors that may be counted
        self._counted: Counter[str] = Counter()
        self._lent: dict[str, float] = {}  # when a worker was lent last
        self._halted: dict[tuple[Member, int], float] = {}  # when a trainer was told to halt, by generation
        self._formed: set[tuple[str, int]] = set()  # generations that ran
        self._raised: dict[tuple[str, int], tuple[int, int, str]] = {}  # in a generation: step, shard, worker
        self._failed_at: dict[str, float] = {}  # when a job's last save failed
        self._vain: dict[str, tuple[list[Member], float]] = {}  # since when a job waits for none but these, that hang
        self._wedged: dict[Member, float] = {}  # since when a trainer hangs in the task's code at a save
        self._raised_in_state: dict[str, list[str]] = {}  # job -> workers of which it is known, each time
        self._yielded: dict[str, float] = {}  # when a job was last asked to make room
        self._surplus: dict[str, float] = {}  # since when a job keeps somebody that it has no seat for
        kinds = {fault.kind for fault in life.plan.faults}
        # Errors follow from what cannot be seen, or are told twice, which a connection never does.
        self._odd = bool(kinds & {Kind.FLIP, Kind.DOUBLING, Kind.JUMBLED})
        self._away = bool(kinds & set(_AWAY))  # the coordinator, for long
        self._unheard = bool(kinds & set(_UNHEARD))  # last words may not be, or after what followed them
        self._late = bool(kinds & {Kind.SLOW, Kind.LOSSY, Kind.DEAFEN, Kind.JUMBLED})  # orders, as nobody can know

    # --- what is remembered

    def ended(self, worker: str, asked: bool) -> None:
        """A trainer ended, or an agent was killed."""
        self._causes[worker] += not asked

    def told(self, trainer: Trainer, order: TrainerOrder) -> None:
        if isinstance(order, Halt):
            self._halted.setdefault((trainer.member, order.generation), self._life.now)

    def raised(self, trainer: Trainer, shard: int) -> None:
        step, generation = len(trainer.history or ()), trainer.group.generation
        self._raised[trainer.job, generation] = (step, shard, trainer.member.worker)

    def wedged(self, trainer: Trainer) -> None:
        self._wedged[trainer.member] = self._life.now

    # --- what must hold

    def judge(self, before: Cluster, decision: Decision) -> None:
        after = decision.cluster
        for note in decision.notes:
            if note.kind == "evicted" and note.worker is not None and note.job is not None:
                self._causes[note.worker] += 1
                self._evicted(before, note.job, note.worker, note.reason)
            if note.kind == "lent" and note.worker is not None:
                self._lent[note.worker] = self._life.decided_at
            if note.kind == "unlent" and note.worker is not None and "started no trainer" in note.reason:
                had = self._life.decided_at - self._lent.get(note.worker, -inf)
                limit = self._life.policy.prepare_limit
                assert had > 0.9 * limit, f"{note.worker} had {had:.2f} s to start a trainer, and may take {limit:g}"
                self._causes[note.worker] += self._life.agents[note.worker].trainer is None or self._late
            if note.kind == "unlent" and "not heard of for" in note.reason:
                awake = self._life.now - self._life.woke
                assert awake > 0.9 * self._life.policy.absent_limit, f"{note.worker} is absent, and nobody looked"
            if note.kind == "yielding" and note.job is not None:
                since = self._life.decided_at - self._yielded.get(note.job, -inf)
                assert since > 0.9 * self._life.policy.absent_limit, f"{note.job} is asked again after {since:.2f} s"
                self._yielded[note.job] = self._life.decided_at
            if note.kind == "straggler":
                assert note.worker in self._life.faults.lagged, f"{note.worker} is called slow, and never was"
            if note.kind == "save_failed" and note.job is not None:
                self._failed_at[note.job] = self._life.decided_at
                if note.reason.endswith("E: no") and note.worker is not None:
                    self._raised_in_state.setdefault(note.job, []).append(note.worker)
        self._errors(before, after)
        for job in after.jobs.values():
            self._waits(after, job)
        for id, job in after.jobs.items():
            old = before.jobs.get(id)
            if old is not None and old is not job:
                if not set(job.kept) <= set(old.kept):
                    self._raised_in_state.pop(id, None)  # it came off since
                self._changed(before, decision, old, job)
                self._measures(old, job)
            self._keeps(after, job)
            if not self._life.jobs[id].ended:  # as is durable: who was deposed may not know
                self._saves(after, job)

    def _measures(self, before: Job, job: Job) -> None:
        """Who ends the last evaluation is not given up for the time that all of it takes."""
        if before.saver is None or " did not save in " not in job.reason or self._away or self._unheard or self._late:
            return
        trainer = self._life.agents[before.saver.worker].trainer
        stalls = any(self._holds_up(fault, before.saver.worker) for fault in self._life.plan.faults)
        if trainer is not None and trainer.member == before.saver and not trainer.stuck and not stalls:
            assert trainer.loop.at != "evaluating", f"{before.saver} goes on with its evaluation, and is given up"

    def _holds_up(self, fault: Fault, worker: str) -> bool:
        """At a border a fault strikes whoever comes there."""
        struck = bool(fault.border) or NAMES.index(worker) in fault.workers
        return fault.kind is Kind.FREEZE or (fault.kind in (Kind.HANG, Kind.STALL) and struck)

    def _saves(self, after: Cluster, job: Job) -> None:
        """What the task does to its saves, and none comes off in between, comes to an end, on one worker and on all."""
        raised = self._raised_in_state.get(job.id, [])
        often = len(set(raised)) > 1 or len(raised) > TRIES_OF_ONE
        assert not often, f"state() raised on {raised}, and {job.id} goes on"
        if self._away or self._late:
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
            since = max(watch.since, seen.since + policy.halt_limit / 2, after.awake, after.started)
            if held is not None and held > job.saved:
                spared = self._others_have(after, job, trainer, held)
                since, limit = max(since, spared or 0.0), limit + (policy.detached_limit if spared is None else 0.0)
            over = max(since + limit, watch.progressed + job.spec.step_timeout)  # whoever promised may take that long
            assert now < over + SLACK, f"{trainer.member} hangs in the task's code at a save for {now - since:.1f} s"

    def _others_have(self, after: Cluster, job: Job, trainer: Trainer, held: Version) -> float | None:
        """Since when somebody else is heard with what this one holds, and could give it; None: nobody is."""
        others = [one for one in holders(self._life, job.id) if one is not trainer and not one.wedged]
        heard = [one for one in others if is_heard(self._life, after, one.member)]
        have = [one.member.worker for one in heard if (one.session.version or ORIGIN) >= held]
        return min([after.sightings[name].since for name in have], default=None)

    def _evicted(self, before: Cluster, job: str, worker: str, why: str) -> None:
        life, agent = self._life, self._life.agents[worker]
        known = before.jobs[job]
        if "did not answer" in why and agent.trainer is not None and known.round is not None and not self._late:
            trainer = agent.trainer
            healthy = not trainer.stuck and trainer.loop.at not in ("applying", "loaded")
            at = self._halted.get((trainer.member, known.round.generation))
            seen = before.trainer(trainer.member)
            late = at is None or life.now - at < 0.9 * life.policy.halt_limit / 2  # its connection is a little older
            assert not (healthy and seen and late), f"{worker} is given up, and was told to halt a moment ago: {at}"
        if agent.trainer is not None and ("did not answer" in why or "did not come back" in why):
            self._left(known, agent.trainer)
        if " hangs in phase " in why:
            self._hung(before, job, worker, why)
        if "reach" in why and known.formation is not None:
            names = {one.worker for one in known.formation.members}
            leader = known.formation.members[known.formation.leader].worker
            others = {leader} if worker != leader and "each other" not in why else names - {worker}
            apart = [one for one in others if (worker, one) in life.faults.severed]
            assert apart, f"{worker} is evicted, and there always was a way between it and {', '.join(sorted(others))}"
        if "broke before their first step" in why and known.formation is not None:
            proven = before.watches[job].proven
            others = {
                one.worker for one in known.formation.members if one != known.formation.members[known.formation.leader]
            }
            assert worker not in proven or others <= proven, (
                f"{worker} had a part in the last step, and goes for who had none"
            )
        if "twice" in why:
            last = sorted(n for id, n in life.ghosts.formations if id == job)[-2:]
            formed = [n for n in last if (job, n) in self._formed]
            assert not formed, f"{worker} is evicted for two failures to form in a row, and {formed} formed"

    def _left(self, job: Job, trainer: Trainer) -> None:
        """Who was told to halt gets out of a group in which all others wait, too."""
        at = self._halted.get((trainer.member, job.generation))
        soon = at is None or self._life.now - at < LEAVES
        held_up = any(self._holds_up(one, trainer.member.worker) for one in self._life.plan.faults)
        inside = trainer.loop.at in TOGETHER and trainer.group.generation < job.generation
        assert soon or held_up or trainer.stuck or not inside, f"{trainer.member} was told to halt, and cannot leave"

    def _hung(self, before: Cluster, job: str, worker: str, why: str) -> None:
        """Nobody is evicted for a hang without the word of its agent, and without time to come back."""
        accused = {member.worker for member in self._life.looks.accused}
        assert worker in accused, f"{worker} is evicted for a hang, and its agent never said so"
        watch = before.watches[job]
        if before.jobs[job].round is not None:
            waited = self._life.decided_at - max(watch.since, watch.answered)
            late = self._life.decided_at - watch.since > self._life.policy.halt_limit
            assert late or waited > 0.9 * GRACE, f"{worker} had {waited:.2f} s to come back from where it hangs"

    def _waits(self, after: Cluster, job: Job) -> None:
        """Where all others have answered, who hangs is not waited for, unless its state is needed."""
        watch, formation = after.watches.get(job.id), job.formation
        vain = False
        if job.round is not None and not job.round.boundary and watch is not None and formation is not None:
            there = [one for one in watch.answers if one not in watch.dead and after.present(one.worker)]
            told = {one: watch.answers[one] for one in there}
            rest = [one for one in job.round.participants if one not in watch.answers and one not in watch.dead]
            best = max((each.version or ORIGIN for each in told.values()), default=ORIGIN)
            anchored = best >= formation.base and any(
                one in told and told[one].version is not None for one in formation.members
            )
            vain = bool(rest) and anchored and all(after.hang(one) is not None for one in rest)
        if not vain:
            self._vain.pop(job.id, None)
            return
        if job.id not in self._vain or self._vain[job.id][0] != rest:
            self._vain[job.id] = rest, self._life.decided_at  # anew with each that comes back
        since = max(self._vain[job.id][1], after.awake)
        waited = self._life.decided_at - since
        assert waited < GRACE + 1.5 * self._life.policy.tick, (
            f"who hangs is waited for {waited:.2f} s, and all others wait"
        )

    def _errors(self, before: Cluster, after: Cluster) -> None:
        """Nobody has more errors than it gave cause for."""
        for name, worker in after.workers.items():
            old = before.workers.get(name)
            if old is None or worker.errors <= old.errors or self._odd:
                continue
            self._counted[name] += worker.errors - old.errors
            counted, causes = self._counted[name], self._causes[name]
            assert counted <= causes, f"{name} has {counted} errors, and gave cause for {causes}"

    def _changed(self, before: Cluster, decision: Decision, old: Job, job: Job) -> None:
        after = decision.cluster
        watch = after.watches.get(job.id)
        if job.phase is JobPhase.RUNNING and job.formation is not None:
            self._formed.add((job.id, job.formation.generation))
        if job.formation is not None and not job.ended and watch is not None:
            for one in job.formation.members:
                left = one.worker in after.workers and after.workers[one.worker].boot == LEFT
                assert not left or one in watch.dead, f"{one} said goodbye, and is not known dead"
        if job.formation is not None and job.formation is not old.formation:
            self._issued(before, after, old, job, job.formation)
        if job.saver is not None and job.saver != old.saver:
            self._saver(before, after, job, job.saver)
        if job.phase is JobPhase.PAUSED and job.formation is None and old.formation is not None:
            assert job.id not in after.watches, "what was watched outlives a rest"
        if old.phase is JobPhase.QUEUED and job.phase is JobPhase.PREPARING:
            self._starts(after, job)
        if job.phase is JobPhase.FAILED and job.reason.startswith("the task failed") and job.failures:
            last = job.failures[-1]
            kept = job.checkpoint is not None and job.checkpoint.version.step >= last.step
            lost = last.shard == IN_REPORT and not (kept or self._unheard)
            assert not lost, f"report() failed {job.id} at step {last.step}, and its state there is not durable"
            for failure in job.failures:
                same = last.step == failure.step or last.shard in (IN_STATE, IN_REPORT)
                place = same and last.shard == failure.shard
                if failure.died and place and failure.worker in before.workers:
                    errors, were = after.workers[failure.worker].errors, before.workers[failure.worker].errors
                    assert errors <= were, f"{failure.worker} is blamed for what is the task's doing"

    def _issued(self, before: Cluster, after: Cluster, old: Job, job: Job, formation: Formation) -> None:
        asked, now = before.watches.get(job.id), after.watches.get(job.id)
        if asked is None or now is None:
            return
        leader = formation.members[formation.leader]
        if formation.checkpoint is not None and leader.worker in {one.worker for one in asked.unable}:
            others = [one for one in formation.members if one.worker not in {each.worker for each in asked.unable}]
            assert not others, f"{leader} could not read, and leads again before {others} tried"
        base = [member for member, answer in asked.answers.items() if answer.version == formation.base]
        gone = {*now.dead, *now.evicted}
        fit = [one for one in base if one not in gone and after.present(one.worker)]
        seatless = [one for one in fit if not after.workers[one.worker].departs]
        if set(seatless) - set(formation.members):
            lacking = [seat.member for seat in formation.seats if seat.version != formation.base]
            assert not lacking, f"{lacking} have a seat and no state, and {seatless} have the state"
        failed = self._raised.get((job.id, old.formation.generation)) if old.formation is not None else None
        told = job.failures and failed == (job.failures[-1].step, job.failures[-1].shard, job.failures[-1].worker)
        if failed is not None and told and failed[0] == formation.base.step and len(formation.seats) > 1:
            owner = formation.members[formation.owners[failed[1]]].worker
            tried = {one.worker for one in job.failures if (one.step, one.shard) == failed[:2]}
            fresh = {member.worker for member in formation.members} - tried
            assert owner != failed[2] or not fresh, f"shard {failed[1]} failed on {owner}, which is to try again"

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
        if job.id in self._failed_at:
            waited = self._life.decided_at - self._failed_at.pop(job.id)
            assert waited >= 0.9 * self._life.policy.save_retry, f"a failed save is tried again after {waited:.2f} s"

    def _starts(self, after: Cluster, job: Job) -> None:
        """First in, first out: nobody overtakes a job that could start with the workers that are alive."""
        life = self._life
        for older in after.jobs.values():
            if older.id == job.id:
                return
            others = {id for id, one in after.jobs.items() if one.wanted is Wanted.HOLD or one.phase in _WAITS}
            fit = [
                name
                for name, worker in after.workers.items()
                if life.agents[name].alive and not (worker.quarantined or worker.departs) and name not in older.refused
                if (seen := after.sightings.get(name)) and life.decided_at - seen.seen < life.policy.absent_limit
                if worker.job not in others
            ]
            could = older.phase is JobPhase.QUEUED and older.spec.min_workers <= len(fit)
            assert not could, f"{job.id} starts before {older.id}, which could start on {fit}"

    def _keeps(self, after: Cluster, job: Job) -> None:
        """A job that has all that it asked for lets go of the others, in time; one that saves may need them yet."""
        undisturbed = job.round is None and job.saver is None and job.wanted is Wanted.RUN
        trains = job.phase is JobPhase.RUNNING and undisturbed
        seated = {member.worker for member in job.formation.members} if trains and job.formation is not None else set()
        extra = [
            name
            for name, worker in after.workers.items()
            if trains and worker.job == job.id and name not in seated and after.present(name)
        ]
        if not extra or len(seated) < job.spec.max_workers:
            self._surplus.pop(job.id, None)
            return
        since = self._surplus.setdefault(job.id, self._life.now)
        waited = min(self._life.now - since, self._life.decided_at - max(after.awake, after.started))
        assert waited < SURPLUS, f"{extra} are kept by a job that has all that it asked for"


_WAITS = (JobPhase.PREPARING, JobPhase.WAITING)
