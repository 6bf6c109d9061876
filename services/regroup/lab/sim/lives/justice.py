"""Whether workers and jobs of a life are treated justly: who is given up, and passed over.

Owns: what has to be remembered over a whole life to tell (what gave cause for an error, when a Halt arrived, who failed
in which shard), and the rules for it. Each breach raises AssertionError and names the rule.
Refuses to know: which errors are counted (`errors`), who is waited for (`waiting`), which job has whom (`sharing`), and
whether a state is lost or doubled (`decision_rules` and its like, which hold of every world).
"""

from collections import Counter
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING

from regroup.core.cluster import Cluster
from regroup.core.decide import Decision
from regroup.core.jobs import Formation, Job, JobPhase, Member
from regroup.core.messages.orders import Halt, TrainerOrder
from regroup.core.notes import Note
from regroup.core.workers import LEFT
from regroup.lab.sim.lives.errors import SUSPECTED, Errors
from regroup.lab.sim.lives.excuses import Excuses
from regroup.lab.sim.model.groups import TOGETHER
from regroup.lab.sim.model.limits import COMING_BACK, FRUITLESS
from regroup.lab.sim.model.trainer import Trainer
from regroup.lab.sim.model.world import changes

if TYPE_CHECKING:
    from regroup.lab.sim.lives.life import Life

SLOWEST = 2.0  # seconds, in which the slowest message arrives
LEAVES = 1.5  # seconds within which a step loop in good health is out of a group that is to break


class Justice:
    def __init__(self, life: "Life") -> None:
        self._life, self._excuses = life, Excuses(life)
        self._errors = Errors(life)
        self._differed: set[tuple[str, int]] = set()  # generations of which some replica was not like the others
        self._lent: dict[str, float] = {}  # when a worker was lent last
        self._halted: dict[tuple[Member, int], float] = {}  # when a trainer was told to halt, by generation
        self._formed: set[tuple[str, int]] = set()  # generations that ran
        self._together: dict[frozenset[str], float] = {}  # when two workers were last in one that began to
        self._issued_at: dict[tuple[str, int], float] = {}  # by job and generation
        self._begun: Counter[tuple[object, ...]] = Counter()  # how often the same members began the same step
        self._raised: dict[tuple[str, int], tuple[int, int, str]] = {}  # in a generation: step, shard, worker
        # Coordinator and job -> when it last refused somebody or took all back, and how often it did, as it had to.
        self._out: dict[tuple[float, str], tuple[float, int]] = {}

    # --- what is remembered

    def ended(self, worker: str, asked: bool) -> None:
        """A trainer ended, or an agent was killed."""
        self._errors.cause(worker, not asked)

    def told(self, trainer: Trainer, order: TrainerOrder) -> None:
        if isinstance(order, Halt):
            self._halted.setdefault((trainer.member, order.generation), self._life.now)

    def raised(self, trainer: Trainer, shard: int) -> None:
        step, generation = len(trainer.history or ()), trainer.group.generation
        self._raised[trainer.job, generation] = (step, shard, trainer.member.worker)

    # --- what must hold

    def judge(self, before: Cluster, decision: Decision) -> None:
        for note in decision.notes:
            self._noted(before, decision.cluster, note)
        self._errors.judge(before, decision)
        for _, old, job in changes(before.jobs, decision.cluster.jobs):
            if old is not None:
                self._changed(before, decision, old, job)

    def _noted(self, before: Cluster, after: Cluster, note: Note) -> None:
        """What the timeline says was done, and whether there was a cause for it."""
        life, now = self._life, self._life.decided_at
        match note:
            case Note(kind="evicted", worker=str(worker), job=str(job), reason=why):
                self._errors.cause(worker, not any(words in why for words in SUSPECTED))
                self._evicted(before, after, job, worker, why)
                if "broke before their first step" in why:
                    self._fruitless(before, after, job, worker)
            case Note(kind="halt", job=str(job), reason=why) if "did not form in" in why:
                self._unformed(before, after, job)
            case Note(kind="replicas_differed", job=str(job)):
                self._differs(after, job, note.data["digests"])
            case Note(kind="lent", worker=str(worker)):
                self._lent[worker] = now
            case Note(kind="unlent", worker=str(worker), reason=why) if "started no trainer" in why:
                had, limit = now - self._lent.get(worker, -inf), life.policy.prepare_limit
                assert had > 0.9 * limit, f"{worker} had {had:.2f} s to start a trainer, and may take {limit:g}"
                late = self._excuses.late(life.policy.prepare_limit + 2.0)
                self._errors.cause(worker, life.agents[worker].trainer is None or late)
            case Note(kind="refused" | "readmitted", job=str(job), reason=why):
                self._takes_back(before, job, "cannot go on without" in why)
            case Note(kind="unlent", worker=worker, reason=why) if "not heard of for" in why:
                assert life.awake > 0.9 * life.policy.absent_limit, f"{worker} is absent, and nobody looked"
            case Note(kind="straggler", worker=worker):
                assert worker in life.faults.lagged, f"{worker} is called slow, and never was"

    def _unformed(self, before: Cluster, after: Cluster, job: str) -> None:
        """They had their time; and a step that any member told of says that all have formed."""
        formation, limit = before.jobs[job].formation, self._life.policy.form_limit
        assert formation is not None, f"{job} did not form, and nothing was to"
        since = max(self._issued_at.get((job, formation.generation), -inf), before.awake, before.started)
        limit += before.jobs[job].spec.step_timeout if formation.checkpoint is not None else 0.0
        waited = self._life.decided_at - since
        assert waited > 0.9 * limit, (
            f"{formation.generation} of {job} has {waited:.2f} s to form, and may take {limit:g}"
        )
        told = [one.version for member in formation.members if (one := after.trainer(member)) is not None]
        mine = [one for one in told if one is not None and one.generation == formation.generation]
        stepped = [one for one in mine if one.step > formation.base.step]
        assert not stepped, f"{formation.generation} of {job} did not form, and its members told of {stepped}"

    def _takes_back(self, before: Cluster, job: str, has_to: bool) -> None:
        """Who is taken back because a job cannot go on without, and is refused again, waits for twice as long each
        time."""
        since, times = self._out.get((before.started, job), (0.0, 0))
        waited = self._life.decided_at - since
        enough = waited > self._life.policy.absent_limit * 2.0**times
        assert enough or not has_to, f"{job} takes back whom it refused {waited:.1f} s ago, for the {times + 1}th time"
        self._out[before.started, job] = self._life.decided_at, times + has_to

    def _differs(self, after: Cluster, job: str, digests: list[str]) -> None:
        """That members hold different bits is a cause for each that is not like most. Where there are no most, it is
        one for all, since nobody can know which is odd; but of two the leader's counts. In a generation's first step
        nobody is asked who was given the leader's state."""
        watch = after.watches.get(job)
        formation = self._life.ghosts.formations.get((job, watch.differed)) if watch is not None else None
        if formation is None or (job, formation.generation) in self._differed:
            return
        self._differed.add((job, formation.generation))
        stepped = self._life.ghosts.commits.get(job, {}).get(formation.generation)
        given = () if stepped else formation.receivers
        asked = [digest for rank, digest in enumerate(digests) if rank not in given]
        members, (most, times) = formation.members, Counter(asked).most_common(1)[0]
        sound = {formation.members[formation.leader]} if len(asked) == 2 else set()
        if 2 * times > len(asked):
            sound = {one for one, digest in zip(members, digests, strict=True) if digest == most}
        for one in members:
            self._errors.cause(one.worker, one not in sound)

    def _evicted(self, before: Cluster, after: Cluster, job: str, worker: str, why: str) -> None:
        life, agent = self._life, self._life.agents[worker]
        known = before.jobs[job]
        window = life.policy.halt_limit + SLOWEST
        late = self._excuses.late(window) or self._excuses.away(window)
        if "did not answer" in why and agent.trainer is not None and known.round is not None and not late:
            trainer = agent.trainer
            healthy = not trainer.stuck and trainer.loop.at not in ("applying", "loaded")
            at = self._halted.get((trainer.member, known.round.generation))
            seen = before.trainer(trainer.member)
            late = at is None or life.now - at < 0.9 * life.policy.halt_limit / 2  # its connection is a little older
            assert not (healthy and seen and late), f"{worker} is given up, and was told to halt a moment ago: {at}"
        silent = "did not answer" in why or "did not come back" in why
        if silent and known.round is not None:
            had = life.decided_at - before.watches[job].since
            assert had > 0.9 * life.policy.halt_limit, f"{worker} had {had:.2f} s to answer"
        if silent and agent.trainer is not None:
            self._left(known, agent.trainer)
        if " hangs in phase " in why:
            self._hung(before, after, job, worker)
        if "reach" in why and known.formation is not None:
            names = {one.worker for one in known.formation.members}
            leader = known.formation.members[known.formation.leader].worker
            others = {leader} if worker != leader and "each other" not in why else names - {worker}
            apart = [one for one in others if life.faults.severed.get((worker, one), -inf) >= self._met(worker, one)]
            assert apart, f"{worker} is evicted, and there is a way since they formed between it and {sorted(others)}"
        if "twice" in why:
            last = sorted(n for id, n in life.ghosts.formations if id == job)[-2:]
            formed = [n for n in last if (job, n) in self._formed]
            assert not formed, f"{worker} is evicted for two failures to form in a row, and {formed} formed"

    def _fruitless(self, before: Cluster, after: Cluster, job: str, worker: str) -> None:
        """Of those that led nobody, and were heard for a while, who had no part in the last step goes first; nobody
        does where one died."""
        formation, proven = before.jobs[job].formation, before.watches[job].proven
        assert formation is not None, f"{worker} is evicted for generations, and there was none"
        dead = set(formation.members) & after.watches[job].dead.keys()
        assert not dead, f"{worker} is evicted for what broke although nobody died, and {dead} did"
        others = self._had_their_chance(before, formation)
        spared = worker in proven and not others <= proven
        assert not spared, f"{worker} had a part in the last step, and goes for who had none"
        doubted = before.watches[job].doubted
        alike = {name for name in others | {worker} if (name in proven) == (worker in proven)}
        times = {name: doubted[name].times if name in doubted else 0 for name in alike}
        assert times[worker] == min(times.values()), f"{worker} goes again, and others went less often: {times}"

    def _had_their_chance(self, cluster: Cluster, formation: Formation) -> set[str]:
        """The workers that it lists, but its leader's, whose agents were connected for a while: one of those may go."""
        leader, limit = formation.members[formation.leader], self._life.policy.halt_limit / 2
        heard = {name for name, seen in cluster.sightings.items() if self._life.decided_at - seen.since >= limit}
        return {one.worker for one in formation.members if one != leader} & heard

    def _begins(self, after: Cluster, job: Job, formation: Formation) -> None:
        """Members that begin a step again and again, and never make it, lose one of them in time."""
        names, members = [member.worker for member in formation.members], formation.members
        self._together |= {frozenset(two): self._life.now for two in combinations(names, 2)}
        which = job.id, members, formation.base.step, job.failures  # another failure is another reason
        self._begun[which] += bool(self._had_their_chance(after, formation))
        excuses = self._excuses
        excused = excuses.away() or excuses.unheard() or excuses.late() or excuses.starved()
        if len(members) > 1 and not excused and not any(map(excuses.holds_up, names)):
            times = self._begun[which]
            often = times > 2 * FRUITLESS  # a pause, or replicas that differ, may come in between
            assert not often, f"{members} begin step {formation.base.step} for the {times}th time"

    def _met(self, worker: str, other: str) -> float:
        """When these two were last known to have formed together."""
        return self._together.get(frozenset({worker, other}), -inf)

    def _left(self, job: Job, trainer: Trainer) -> None:
        """Who was told to halt gets out of a group in which all others wait, too."""
        at = self._halted.get((trainer.member, job.generation))
        soon = at is None or self._life.now - at < LEAVES
        held_up = self._excuses.holds_up(trainer.member.worker, LEAVES)
        inside = trainer.loop.at in TOGETHER and trainer.group.generation < job.generation
        assert soon or held_up or trainer.stuck or not inside, f"{trainer.member} was told to halt, and cannot leave"

    def _hung(self, before: Cluster, after: Cluster, job: str, worker: str) -> None:
        """Nobody is evicted for a hang without the word of its agent on this trainer, and without time to come back."""
        watch, now = before.watches[job], after.watches.get(job)
        given_up = {one for one in now.evicted - watch.evicted if one.worker == worker} if now is not None else set()
        unsaid = given_up - self._life.looks.accused
        assert not unsaid, f"{unsaid} is evicted for a hang, and its agent never said so"
        if before.jobs[job].round is not None:
            waited = self._life.decided_at - max(watch.since, watch.answered)
            late = self._life.decided_at - watch.since > self._life.policy.halt_limit
            assert late or waited > 0.9 * COMING_BACK, f"{worker} had {waited:.2f} s to come back from where it hangs"

    def _changed(self, before: Cluster, decision: Decision, old: Job, job: Job) -> None:
        after = decision.cluster
        watch = after.watches.get(job.id)
        if job.phase is JobPhase.RUNNING and job.formation is not None:
            if (job.id, job.formation.generation) not in self._formed:
                self._begins(after, job, job.formation)
            self._formed.add((job.id, job.formation.generation))
        if job.phase is JobPhase.RUNNING or watch is None:
            self._out.pop((before.started, job.id), None)
        if job.formation is not None and not job.ended and watch is not None:
            for one in job.formation.members:
                left = one.worker in after.workers and after.workers[one.worker].boot == LEFT
                assert not left or one in watch.dead, f"{one} said goodbye, and is not known dead"
        if job.formation is not None and job.formation is not old.formation:
            self._issued(before, after, old, job, job.formation)
        if job.phase is JobPhase.PAUSED and job.formation is None and old.formation is not None:
            assert job.id not in after.watches, "what was watched outlives a rest"

    def _gave(self, after: Cluster, member: Member, formation: Formation) -> bool:
        """Whether it gave its promise for this formation, and holds what that begins with."""
        told = after.trainer(member)
        if told is None or told.at_work:
            return False
        return (told.promised, told.version) == (formation.generation, formation.base)

    def _issued(self, before: Cluster, after: Cluster, old: Job, job: Job, formation: Formation) -> None:
        self._issued_at[job.id, formation.generation] = self._life.decided_at
        asked, now = before.watches.get(job.id), after.watches.get(job.id)
        if asked is None or now is None:
            return
        leader = formation.members[formation.leader]
        if formation.checkpoint is not None and leader.worker in {one.worker for one in asked.unable}:
            others = [one for one in formation.members if one.worker not in {each.worker for each in asked.unable}]
            assert not others, f"{leader} could not read, and leads again before {others} tried"
        base = [one for one in old.round.participants if self._gave(after, one, formation)] if old.round else []
        gone = {*now.dead, *now.evicted}
        fit = [one for one in base if one not in gone and after.present(one.worker)]
        stay = [one for one in fit if not after.workers[one.worker].departs]
        if set(stay) - set(formation.members):
            lacking = [seat.member for seat in formation.seats if seat.version != formation.base]
            assert not lacking, f"{lacking} have a seat and no state, and {stay} have the state"
        failed = self._raised.get((job.id, old.formation.generation)) if old.formation is not None else None
        told = job.failures and failed == (job.failures[-1].step, job.failures[-1].shard, job.failures[-1].worker)
        if failed is not None and told and failed[0] == formation.base.step and len(formation.seats) > 1:
            owner = formation.members[formation.owners[failed[1]]].worker
            tried = {one.worker for one in job.failures if (one.step, one.shard) == failed[:2]}
            fresh = {member.worker for member in formation.members} - tried
            assert owner != failed[2] or not fresh, f"shard {failed[1]} failed on {owner}, which is to try again"
