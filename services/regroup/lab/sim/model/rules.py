"""What must hold in every world, whatever happens in it. Each breach raises AssertionError and names the rule.

Owns: the ghost state that no process of a real cluster has: every state that ever was, every formation ever issued.
Refuses to know: how the world got there.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from regroup.core import messages as m
from regroup.core.cluster import Cluster, reached
from regroup.core.decide import Decision
from regroup.core.jobs import ENDED, ORIGIN, Formation, Job, JobPhase, Link, Member, Version
from regroup.core.phases import JOB_ARROWS
from regroup.lab.sim.model.steps import PRINT, Contribution, consumed
from regroup.worker import session as s

History = tuple[int, ...]


def surviving(history: tuple[Link, ...], version: Version) -> History:
    """In which generation each step of a state was reduced, by the chain of history (rule 8)."""
    links = {link.generation: link for link in history}
    generation, step = version.generation, version.step
    found: list[int] = []
    while generation:
        link = links[generation]
        assert step >= link.base_step, f"{version} is below its own generation's base"
        found = [generation] * (step - link.base_step) + found
        generation, step = link.parent, link.base_step
    assert step == 0, f"{version} begins with {step} steps that no generation committed"
    return tuple(found)


@dataclass(slots=True)
class Rules:
    states: dict[tuple[str, Version], History] = field(default_factory=dict)
    formations: dict[tuple[str, int], Formation] = field(default_factory=dict)
    rolled_back: set[tuple[str, int]] = field(default_factory=set)
    commits: dict[str, dict[int, set[int]]] = field(default_factory=dict)  # job -> generation -> steps
    late: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    written: set[tuple[str, Version]] = field(default_factory=set)
    writers: set[tuple[Member, Version]] = field(default_factory=set)
    unpreparable: set[str] = field(default_factory=set)  # jobs of which a trainer said that they are wrong

    def copy(self) -> "Rules":
        """For another future."""
        return Rules(
            dict(self.states),
            dict(self.formations),
            set(self.rolled_back),
            {job: {n: set(steps) for n, steps in each.items()} for job, each in self.commits.items()},
            {which: set(steps) for which, steps in self.late.items()},
            set(self.written),
            set(self.writers),
            set(self.unpreparable),
        )

    # --- what the coordinator decides

    def decided(self, world: Any, before: Cluster, decision: Decision) -> None:
        for id, job in decision.cluster.jobs.items():
            old = before.jobs.get(id)
            if old is not None and old is not job:
                self._changed(world, before, decision, old, job)
            same = old is job and before.watches.get(id) is decision.cluster.watches.get(id)
            if old is not None and not same and not _rolled_back(decision, id):
                was, now = reached(old, before.watches.get(id)), reached(job, decision.cluster.watches.get(id))
                assert now >= was, f"the step shown goes back from {was} to {now}"
        for id, watch in decision.cluster.watches.items():
            known = before.watches[id].evicted if id in before.watches else frozenset()
            for member in watch.evicted - known:
                self.evicts(world, before, decision, before.jobs[id], member)
        for name, order in decision.orders:
            if isinstance(order, m.Form):
                assert order.formation == decision.cluster.jobs[order.job].formation
                assert name in {member.worker for member in order.formation.members}

    def _changed(self, world: Any, before: Cluster, decision: Decision, old: Job, job: Job) -> None:
        assert old.phase not in ENDED, "an ended state absorbs"
        assert job.phase is old.phase or job.phase in JOB_ARROWS[old.phase], f"{old.phase} -> {job.phase}"
        assert job.generation >= old.generation, "the generation only grows"
        assert job.history[: len(old.history)] == old.history, "history only grows"
        if job.formation is not None and job.formation is not old.formation:
            self._issued(world, before, old, job, job.formation, _rolled_back(decision, job.id))
        if job.ended:
            self._ended_job(world, before, old, job)

    def _issued(self, world: Any, before: Cluster, old: Job, job: Job, formation: Formation, back: bool) -> None:
        n, base = formation.generation, formation.base
        assert n == job.generation
        assert (job.id, n) not in self.formations, "a generation forms once"
        assert n > max((g for id, g in self.formations if id == job.id), default=0)
        self.formations[job.id, n] = formation
        ranks = range(len(formation.seats))
        assert len(formation.owners) == job.spec.shard_count
        assert set(formation.owners) <= set(ranks), "a partition of V"
        assert len({member.worker for member in formation.members}) == len(formation.members)
        assert job.spec.min_workers <= len(ranks) <= job.spec.max_workers
        assert job.history[-1] == Link(n, base.generation, base.step)
        members = [trainer for trainer in map(partial(living, world), formation.members) if trainer is not None]
        assert all(trainer.session.promised >= n for trainer in members), "a member did not promise the formation"
        prints = {trainer.session.fingerprint for trainer in members}
        assert prints <= {job.fingerprint}, f"members have different code or data: {prints}"
        expected = surviving(job.history, Version(n, base.step))
        assert len(expected) == base.step, "each step of the surviving history is committed exactly once"
        if base != ORIGIN:
            assert self.states[job.id, base] == expected, "the base is the state that history tells of"
        leader = world.agents[formation.members[formation.leader].worker].trainer
        if leader is not None and leader.member == formation.members[formation.leader] and leader.session.promised == n:
            assert base == ORIGIN or leader.session.version == base, "the leader holds the base"
        if back:
            self.rolled_back.add((job.id, n))
            self._may_roll_back(world, old, n)
        else:
            shown = reached(old, before.watches.get(job.id))
            assert base.step >= shown, f"no roll-back was told, and step {shown} that all committed is gone"

    def _may_roll_back(self, world: Any, old: Job, n: int) -> None:
        assert old.formation is not None
        for member in old.formation.members:
            trainer = living(world, member)
            if trainer is not None:
                gave_up = trainer.session.promised >= n or world.clock(member.worker) >= trainer.session.lease
                assert gave_up, f"rolled back past {member}, which may still commit"

    def _ended_job(self, world: Any, before: Cluster, old: Job, job: Job) -> None:
        if job.checkpoint is not None:
            version = job.checkpoint.version
            assert (job.id, version) in self.written, "called ended before its state was durable"
            assert old.saver is not None, "the checkpoint moves while nobody is asked to save"
            saver = living(world, old.saver)
            asked = (old.saver, version) in self.writers or (saver is not None and saver.session.version == version)
            assert asked or saver is None, "the checkpoint is not what the saver was asked for"
            expected = surviving(job.history, version)
            assert self.states[job.id, version] == expected
            assert len(expected) == version.step, "each step of the final state is committed exactly once"
        if job.phase is JobPhase.COMPLETED:
            assert job.checkpoint is not None, "called completed before its state was durable"
            assert job.steps == job.checkpoint.version.step
            self._each_sample_once(job)
        if job.phase is JobPhase.STOPPED and job.checkpoint is None:
            given_up = before.watches[job.id].evicted if job.id in before.watches else frozenset()
            for trainer in [one for one in holders(world, job.id) if one.member not in given_up]:
                seen = before.sightings.get(trainer.member.worker)
                away = world.decided_at - (seen.seen if seen else before.started)
                listed = old.formation is not None and trainer.member in old.formation.members
                absent = away > world.policy.absent_limit or trainer.hung or not (listed or (seen and seen.connected))
                assert absent, f"stopped without the state of {trainer.member}"
        if job.phase is JobPhase.FAILED:
            prepares = job.formation is None or job.failures[-1:] == () or job.failures[-1].step >= 0
            assert prepares, "a job that trains does not fail because a newcomer cannot be prepared"
            said = job.formation is None and job.id in self.unpreparable
            often = len(job.failures) > 1 or job.restarts >= job.spec.max_restarts
            assert said or often, f"failed for no reason: {job.reason}"

    def _each_sample_once(self, job: Job) -> None:
        """Over the whole of a completed job, by counting: every sample of every epoch, once."""
        if job.spec.epochs is None or job.steps is None:
            return
        every = tuple(range(job.spec.shard_count))
        trained = Counter(sample for step in range(job.steps) for sample in consumed(job.spec, step, every))
        wanted = {(epoch, place) for epoch in range(job.spec.epochs) for place in range(PRINT.samples)}
        assert set(trained) == wanted, "the epochs are not whole"
        assert set(trained.values()) == {1}, "a sample is trained twice"

    # --- what trainers do

    def handled(self, world: Any, trainer: Any, before: Any, happening: Any) -> None:
        after = trainer.session
        assert after.promised >= before.promised
        assert after.generation >= before.generation
        asked = world.jobs[trainer.job].generation
        if after.promised > before.promised:
            assert after.promised <= asked, f"{after.promised} is promised, and nobody asked for more than {asked}"
        if isinstance(happening, s.StepApplied) and happening.agreed is not None:
            assert before.boundary == happening.agreed, "an agreement is on what this member held when it contributed"
        if after.lease != before.lease:
            assert isinstance(happening, m.RenewLease), "an order never renews the lease"
            assert happening.generation == after.generation, "an answer that names another generation renewed the lease"
        if isinstance(happening, s.StateDiscarded) and after.phase is not before.phase:
            assert after.version is None, "a state that differs from the leader's is kept"
        if after.generation > before.generation:
            assert isinstance(happening, m.Form)
            assert before.promised == after.generation
        if after.version is not None and after.version != before.version:
            self._holds(trainer.job, after.version, trainer.history)

    def _holds(self, job: str, version: Version, history: History | None) -> None:
        assert history is not None
        assert len(history) == version.step, f"{version} is not what is held: {history}"
        known = self.states.setdefault((job, version), history)
        assert known == history, f"two states are called {version}: {known} and {history}"

    def replaced(self, world: Any, trainer: Any, formation: Formation) -> None:
        mine = trainer.session.version
        if mine is not None and (trainer.job, formation.generation) not in self.rolled_back:
            assert mine <= formation.base, f"{trainer.member} is put back from {mine} to {formation.base}"

    def reduced(self, world: Any, trainer: Any, slots: Mapping[int, Contribution]) -> None:
        states = {one.history for one in slots.values()}
        assert states == {trainer.history}, f"replicas differ: {states}"
        samples = [sample for one in slots.values() for sample in one.samples]
        assert len(set(samples)) == len(samples), "a sample is trained twice in one step"
        spec = world.jobs[trainer.job].spec
        whole = consumed(spec, len(trainer.history), tuple(range(spec.shard_count)))
        assert set(samples) == set(whole), "a sample of the step is trained by nobody"

    def committed(self, world: Any, trainer: Any, formation: Formation) -> None:
        g, step = formation.generation, len(trainer.history) - 1
        commits = self.commits.setdefault(trainer.job, {})
        commits.setdefault(g, set()).add(step)
        # The first formation after g went on from its base; a step below that was another member's before it.
        after = min((n for job, n in self.formations if job == trainer.job and n > g), default=g)
        floor = self.formations[trainer.job, after].base.step if after > g else 0
        if g < max(commits) and step >= floor:
            late = self.late.setdefault((trainer.job, g), set())
            late.add(step)
            assert len(late) < 2, f"split brain: generation {g} went on after {max(commits)}"

    def wrote(self, world: Any, trainer: Any, version: Version) -> None:
        assert self.states[trainer.job, version] == trainer.history, "wrote another state than was ordered"
        self.written.add((trainer.job, version))
        self.writers.add((trainer.member, version))

    def given_up(self, trainer: Any, field: str) -> None:
        """A trainer says that it cannot prepare, and whose fault that is."""
        if field != m.WORKER:
            self.unpreparable.add(trainer.job)

    def evicts(self, world: Any, before: Cluster, decision: Decision, job: Job, member: Member) -> None:
        """A trainer in good health that holds the last copy of the state is given up for a long silence alone."""
        trainer = living(world, member)
        if trainer is None or job.ended or trainer.hung or trainer not in holders(world, job.id) or not job.formation:
            return
        if _rolled_back(decision, job.id):
            return  # rule 7 has its own check
        watch = before.watches[job.id]
        began = watch.since if watch.disturbed is None else watch.disturbed
        told = {seat.member for seat in job.formation.seats if seat.version is not None} | set(watch.formed)
        told |= {other for other, answer in watch.answers.items() if answer.version is not None}
        told -= {member, *watch.dead}  # as far as the coordinator can know
        if job.formation.base == ORIGIN and not watch.formed:
            return  # nobody has said yet that there is a state
        listed = [living(world, other) for other in job.formation.members if other != member]
        enough = told or any(other is not None and other.session.version is not None for other in listed)
        assert enough or world.decided_at - began > world.policy.detached_limit, (
            f"{member} is evicted with the only state"
        )

    def over(self, world: Any) -> None:
        """Nothing is left to happen: every job ended, and no worker is kept by one."""
        kept = [worker.name for worker in world.workers.values() if worker.job is not None]
        assert not kept, f"{kept} are still lent to a job that ended"


def _rolled_back(decision: Decision, job: str) -> bool:
    return any(note.kind == "rolled_back" and note.job == job for note in decision.notes)


def living(world: Any, member: Member) -> Any:
    trainer = world.agents[member.worker].trainer
    return trainer if trainer is not None and trainer.member == member else None


def holders(world: Any, job: str) -> list[Any]:
    """The trainers that live and hold a state of this job with a step in it."""
    trainers = [agent.trainer for agent in world.agents.values() if agent.trainer is not None]
    return [t for t in trainers if t.job == job and t.session.version is not None and t.session.version.step > 0]
