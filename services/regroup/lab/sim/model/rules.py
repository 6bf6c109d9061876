"""What must hold in every world, whatever happens in it. Each breach raises AssertionError and names the rule.

Owns: the ghost state that no process of a real cluster has: every state that ever was, every formation ever issued.
Refuses to know: how the world got there.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from regroup.core import messages as m
from regroup.core.cluster import Cluster, Policy, Watch, reached
from regroup.core.decide import Decision
from regroup.core.jobs import ENDED, ORIGIN, Formation, Job, JobPhase, JobSpec, Link, Member, Version
from regroup.core.phases import JOB_ARROWS
from regroup.core.workers import TrainerPhase, Worker
from regroup.lab.sim.model.trainer import PRINT, Contribution, Happening, History, Trainer, consumed
from regroup.worker import session as s

CHANGING = ("applying", "loaded")  # where a step loop stands while its state is being changed


class World(Protocol):
    """What the rules look at when something was decided."""

    @property
    def policy(self) -> Policy: ...

    @property
    def workers(self) -> Mapping[str, Worker]: ...

    @property
    def decided_at(self) -> float:
        """The coordinator's clock at its last decision."""

    def clock(self, worker: str) -> float: ...

    def living(self, member: Member) -> Trainer | None: ...

    def trainers(self) -> Iterable[Trainer]:
        """All that live."""


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
    late: dict[tuple[str, int], set[int]] = field(default_factory=dict)  # steps of a generation after a later one's
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

    # --- what a coordinator decides

    def decided(self, world: World, before: Cluster, decision: Decision) -> None:
        for id, job in decision.cluster.jobs.items():
            old = before.jobs.get(id)
            if old is not None and old is not job:
                self._changed(world, before, decision, old, job)
            same = old is job and before.watches.get(id) is decision.cluster.watches.get(id)
            if old is not None and not same and not _rolled_back(decision, id):
                was, now = reached(old, before.watches.get(id)), reached(job, decision.cluster.watches.get(id))
                assert now >= was, f"the step shown goes back from {was} to {now}"
            if old is not None and not same and job.formation is not None and not job.ended:
                self._known(world, job, job.formation, decision.cluster.watches.get(id))
        for id, watch in decision.cluster.watches.items():
            self._answered(world, decision.cluster.jobs[id], watch, before.watches.get(id))
            known = before.watches[id].evicted if id in before.watches else frozenset()
            for member in watch.evicted - known:
                self._evicted(world, before, decision, before.jobs[id], member)
        self._lent(before, decision.cluster)
        for name, order in decision.orders:
            if isinstance(order, m.Form):
                assert order.formation == decision.cluster.jobs[order.job].formation, "a Form is not what was saved"
                assert name in {member.worker for member in order.formation.members}, "a Form goes to no member"

    def _known(self, world: World, job: Job, formation: Formation, watch: Watch | None) -> None:
        """What is known of the last formation is so: who holds its state, the steps of each, and that all are done."""
        step, base = reached(job, watch), formation.base.step
        made = self.commits.get(job.id, {}).get(formation.generation, set())
        done = max(base, max(made, default=-1) + 1)
        assert step <= done, f"step {step} is shown, and only {done} are committed"
        if watch is not None and watch.finished:
            assert job.steps is not None, "called finished, and nobody knows when it is"
            assert done >= job.steps, f"called finished after {done} steps"
        for trainer in [one for one in map(world.living, formation.members) if one is not None]:
            session = trainer.session
            holds = session.generation >= formation.generation and session.phase is not TrainerPhase.FORMING
            formed = watch is not None and trainer.member in watch.formed
            assert holds or not formed, f"{trainer.member} is said to have formed, and did not"
            if session.version is not None and session.version.generation <= formation.generation:  # later: overtaken
                its = session.version.step if session.version.generation == formation.generation else base
                assert step <= its, f"step {step} is shown, and {trainer.member} has not committed it"

    def _answered(self, world: World, job: Job, watch: Watch, before: Watch | None) -> None:
        """An answer that counts is the member's own, to this round's Halt, and says what it holds."""
        known = before.answers if before is not None else {}
        for member, answer in watch.answers.items() if watch.answers is not known else ():
            trainer = world.living(member)
            if job.round is not None and trainer is not None and member not in known:
                n, session = job.round.generation, trainer.session
                assert session.promised >= n, f"{member} is said to have promised {n}, and did not"
                same = session.promised > n or session.version == answer.version
                assert same, f"{member} is said to hold {answer.version}, and holds {session.version}"

    def _lent(self, before: Cluster, after: Cluster) -> None:
        for name in before.workers.keys() - after.workers.keys():
            assert not before.workers[name].quarantined, f"the quarantine of {name} is forgotten"
        for name, worker in after.workers.items():
            old = before.workers.get(name)
            if worker is not old and worker.job is not None and (old is None or old.job != worker.job):
                assert not worker.quarantined, f"{name} is lent from its quarantine"
                assert name not in after.jobs[worker.job].refused, f"{name} is lent to a job that refused it"
            if old is not None and old.job is not None and worker.job is None:
                self._unlent(after, worker, after.jobs[old.job])

    def _unlent(self, after: Cluster, worker: Worker, job: Job) -> None:
        """Who may hold the state of a job that goes on leaves it only for its errors, or for what it is."""
        seen, watch = after.sightings.get(worker.name), after.watches.get(job.id)
        if seen is None or seen.trainer is None or job.ended or job.formation is None:
            return
        member = Member(worker.name, seen.trainer.incarnation)
        dead = watch is not None and (member in watch.dead or member in watch.evicted)
        meant = worker.quarantined or worker.name in job.refused or dead
        assert meant or member not in job.formation.members, f"{member} is sent away with its state"

    def _changed(self, world: World, before: Cluster, decision: Decision, old: Job, job: Job) -> None:
        assert old.phase not in ENDED, "an ended state absorbs"
        assert job.phase is old.phase or job.phase in JOB_ARROWS[old.phase], f"{old.phase} -> {job.phase}"
        assert job.generation >= old.generation, "the generation only grows"
        assert job.history[: len(old.history)] == old.history, "history only grows"
        if job.formation is not None and job.formation is not old.formation:
            self._issued(world, before, old, job, job.formation, _rolled_back(decision, job.id))
            dead = decision.cluster.watches[job.id].dead if job.id in decision.cluster.watches else {}
            for member in job.formation.members:
                assert member not in dead, f"{member} is known dead, and is listed"
                assert decision.cluster.present(member.worker), f"{member} is not connected, and is listed"
        if job.ended:
            self._ended_job(world, before, old, job)

    def _issued(self, world: World, before: Cluster, old: Job, job: Job, formation: Formation, back: bool) -> None:
        n, base = formation.generation, formation.base
        assert n == job.generation, "a formation of a number that is not the job's"
        assert (job.id, n) not in self.formations, "a generation forms once"
        assert n > max((g for id, g in self.formations if id == job.id), default=0), "formations go back in number"
        self.formations[job.id, n] = formation
        ranks = range(len(formation.seats))
        assert len(formation.owners) == job.spec.shard_count, "a shard has no owner"
        assert set(formation.owners) <= set(ranks), "the owner of a shard is no member"
        assert len({member.worker for member in formation.members}) == len(ranks), "two members on one worker"
        assert job.spec.min_workers <= len(ranks) <= job.spec.max_workers, f"{len(ranks)} members, not as asked for"
        assert job.history[-1] == Link(n, base.generation, base.step), "history does not tell of the formation"
        members = [trainer for trainer in map(world.living, formation.members) if trainer is not None]
        assert all(trainer.session.promised >= n for trainer in members), "a member did not promise the formation"
        prints = {trainer.session.fingerprint for trainer in members}
        assert prints <= {job.fingerprint}, f"members have different code or data: {prints}"
        expected = surviving(job.history, Version(n, base.step))
        assert len(expected) == base.step, "each step of the surviving history is committed exactly once"
        if base != ORIGIN:
            assert self.states[job.id, base] == expected, "the base is the state that history tells of"
        leader = world.living(formation.members[formation.leader])
        if leader is not None and leader.session.promised == n:
            assert base == ORIGIN or leader.session.version == base, "the leader holds the base"
            assert leader.session.store == formation.store, "the rendezvous is the leader's"
        best = max((trainer.session.version or ORIGIN for trainer in members), default=ORIGIN)
        assert best <= base, f"{best} is given up for {base}"
        if back:
            self.rolled_back.add((job.id, n))
            self._may_roll_back(world, old, n)
            self._goes_back_no_further(world, before, job.id, base)
        else:
            shown = reached(old, before.watches.get(job.id))
            assert base.step >= shown, f"no roll-back was told, and step {shown} that all committed is gone"

    def _may_roll_back(self, world: World, old: Job, n: int) -> None:
        assert old.formation is not None, "a roll-back of what never began"
        for member in old.formation.members:
            trainer = world.living(member)
            if trainer is not None:
                gave_up = trainer.session.promised >= n or world.clock(member.worker) >= trainer.session.lease
                assert gave_up, f"rolled back past {member}, which may still commit"

    def _goes_back_no_further(self, world: World, before: Cluster, job: str, base: Version) -> None:
        """A roll-back goes to the most advanced state of which a healthy trainer told that is there and may answer."""
        watch = before.watches.get(job)
        for trainer in _holders(world, job):
            seen = before.present(trainer.member.worker)
            status = seen.trainer if seen is not None else None
            if seen is None or status is None or status.incarnation != trainer.member.incarnation or trainer.hung:
                continue
            given_up = watch is not None and trainer.member in watch.evicted
            silent = world.decided_at - seen.moved > world.policy.detached_limit
            lower = status.version is not None and status.version > base
            assert given_up or silent or not lower, (
                f"rolled back to {base}, and {trainer.member} holds {status.version}"
            )

    def _ended_job(self, world: World, before: Cluster, old: Job, job: Job) -> None:
        if job.checkpoint is not None:
            version = job.checkpoint.version
            assert (job.id, version) in self.written, "called ended before its state was durable"
            assert old.saver is not None, "the checkpoint moves while nobody is asked to save"
            saver = world.living(old.saver)
            asked = (old.saver, version) in self.writers or (saver is not None and saver.session.version == version)
            assert asked or saver is None, "the checkpoint is not what the saver was asked for"
            expected = surviving(job.history, version)
            assert self.states[job.id, version] == expected, "the checkpoint is the state that history tells of"
            assert len(expected) == version.step, "each step of the final state is committed exactly once"
        if job.phase is JobPhase.COMPLETED:
            assert job.checkpoint is not None, "called completed before its state was durable"
            assert job.steps == job.checkpoint.version.step, "called completed before its last step"
            self._each_sample_once(job)
        if job.phase is JobPhase.STOPPED and job.checkpoint is None:
            self._goes_back_no_further(world, before, job.id, ORIGIN)
            given_up = before.watches[job.id].evicted if job.id in before.watches else frozenset()
            for trainer in [one for one in _holders(world, job.id) if one.member not in given_up]:
                seen = before.sightings.get(trainer.member.worker)
                away = world.decided_at - (seen.seen if seen else before.started)
                listed = old.formation is not None and trainer.member in old.formation.members
                absent = away > world.policy.absent_limit or trainer.hung or not (listed or (seen and seen.connected))
                assert absent, f"stopped without the state of {trainer.member}"
        if job.phase is JobPhase.FAILED:
            newest = job.failures[-1:] if job.failures is not old.failures else ()
            trained = job.formation is None or all(failure.step >= 0 for failure in newest)
            assert trained, "a job that trains does not fail because a newcomer cannot be prepared"
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

    def _evicted(self, world: World, before: Cluster, decision: Decision, job: Job, member: Member) -> None:
        """A trainer in good health that holds the last copy of the state is given up for a long silence alone."""
        assert job.round is None or not job.round.boundary, f"{member} is given up, and was never told to halt at once"
        trainer = world.living(member)
        if trainer is None or job.ended or trainer.hung or trainer not in _holders(world, job.id) or not job.formation:
            return
        if _rolled_back(decision, job.id):
            return  # rule 7 has its own check
        watch = before.watches[job.id]
        seen = before.sightings.get(member.worker)
        began = max(watch.since if watch.disturbed is None else watch.disturbed, seen.moved if seen else before.started)
        told = {seat.member for seat in job.formation.seats if seat.version is not None} | set(watch.formed)
        told |= {other for other, answer in watch.answers.items() if answer.version is not None}
        told -= {member, *watch.dead}  # as far as the coordinator can know
        if job.formation.base == ORIGIN and not watch.formed:
            return  # nobody has said yet that there is a state
        listed = [world.living(other) for other in job.formation.members if other != member]
        enough = told or any(other is not None and other.session.version is not None for other in listed)
        assert enough or world.decided_at - began > world.policy.detached_limit, (
            f"{member} is evicted with the only state"
        )

    def over(self, world: World) -> None:
        """Nothing is left to happen: every job ended, and no worker is kept by one."""
        kept = [worker.name for worker in world.workers.values() if worker.job is not None]
        assert not kept, f"{kept} are still lent to a job that ended"

    # --- what trainers do

    def handled(self, trainer: Trainer, before: s.Session, happening: Happening, asked: int) -> None:
        """A session took something in. `asked`: the generation that the coordinator keeps for its job."""
        after = trainer.session
        assert after.promised >= before.promised, "a promise is taken back"
        assert after.generation >= before.generation, "a trainer goes back to an older generation"
        if isinstance(happening, s.StateHeld | s.LastStepDone | s.CollectiveBroke | s.StateDiscarded):
            same = (after.phase, after.version) == (before.phase, before.version)
            assert same or happening.generation == before.generation, "what happened in another generation counts"
        if isinstance(happening, m.Halt) and not happening.boundary and before.phase is not TrainerPhase.PREPARING:
            kept = after.promised >= happening.generation or trainer.loop.at in CHANGING
            assert kept, f"a plain Halt of {happening.generation} is not answered"
        if isinstance(happening, s.StepApplied) and happening.agreed is not None:
            assert after.promised >= happening.agreed, "all agreed on the boundary, and yet it goes on"
        if after.promised > before.promised:
            assert trainer.loop.at not in CHANGING, "a Halt is answered in the middle of a change"
            assert after.promised <= asked, f"{after.promised} is promised, and nobody asked for more than {asked}"
        if isinstance(happening, s.StepApplied) and happening.agreed is not None:
            assert before.boundary == happening.agreed, "an agreement is on what this member held when it contributed"
        if after.lease != before.lease:
            assert isinstance(happening, m.RenewLease), "an order never renews the lease"
            assert happening.generation == after.generation, "an answer that names another generation renewed the lease"
        if isinstance(happening, s.StateDiscarded) and after.phase is not before.phase:
            assert after.version is None, "a state that differs from the leader's is kept"
        if after.generation > before.generation:
            assert isinstance(happening, m.Form), "only a Form takes a trainer into a generation"
            assert before.promised == after.generation, "a formation is accepted under another promise"
        if after.version is not None and after.version != before.version:
            self._holds(trainer.job, after.version, trainer.history)

    def _holds(self, job: str, version: Version, history: History | None) -> None:
        assert history is not None, f"{version} is called a state, and nothing is held"
        assert len(history) == version.step, f"{version} is not what is held: {history}"
        known = self.states.setdefault((job, version), history)
        assert known == history, f"two states are called {version}: {known} and {history}"

    def replaced(self, trainer: Trainer, formation: Formation) -> None:
        assert trainer.session.phase is TrainerPhase.FORMING, "a state is replaced after it was answered"
        mine = trainer.session.version
        if mine is not None and (trainer.job, formation.generation) not in self.rolled_back:
            assert mine <= formation.base, f"{trainer.member} is put back from {mine} to {formation.base}"

    def reduced(self, trainer: Trainer, slots: Mapping[int, Contribution], spec: JobSpec) -> None:
        states = {one.history for one in slots.values()}
        assert states == {trainer.history}, f"replicas differ: {states}"
        samples = [sample for one in slots.values() for sample in one.samples]
        assert len(set(samples)) == len(samples), "a sample is trained twice in one step"
        whole = consumed(spec, len(trainer.state), tuple(range(spec.shard_count)))
        assert set(samples) == set(whole), "a sample of the step is trained by nobody"

    def applies(self, slots: Mapping[int, Contribution], agreed: int | None) -> None:
        """A step is applied: its members' replicas are the same, and `agreed` is the proposal that all of them held."""
        assert len({one.tail.digests[rank] for rank, one in slots.items()}) == 1, "replicas that differ train on"
        held = {one.tail.flags[rank] for rank, one in slots.items()}
        wanted = held.pop() if len(held) == 1 and 0 not in held else None
        assert agreed == wanted, f"{agreed} is taken for agreed, and {wanted} is what all held"

    def committed(self, trainer: Trainer, formation: Formation) -> None:
        g, step = formation.generation, len(trainer.state) - 1
        commits = self.commits.setdefault(trainer.job, {})
        commits.setdefault(g, set()).add(step)
        # The first formation after g went on from its base; a step below that was another member's before it.
        after = min((n for job, n in self.formations if job == trainer.job and n > g), default=g)
        floor = self.formations[trainer.job, after].base.step if after > g else 0
        if g < max(commits) and step >= floor:
            late = self.late.setdefault((trainer.job, g), set())
            late.add(step)
            assert len(late) < 2, f"split brain: generation {g} went on after {max(commits)}"

    def wrote(self, trainer: Trainer, version: Version) -> None:
        assert self.states[trainer.job, version] == trainer.history, "wrote another state than was ordered"
        self.written.add((trainer.job, version))
        self.writers.add((trainer.member, version))

    def given_up(self, trainer: Trainer, field: str) -> None:
        """A trainer says that it cannot prepare, and whose fault that is."""
        if field != m.WORKER:
            self.unpreparable.add(trainer.job)


def _rolled_back(decision: Decision, job: str) -> bool:
    return any(note.kind == "rolled_back" and note.job == job for note in decision.notes)


def _holders(world: World, job: str) -> list[Trainer]:
    """The trainers that live and hold a state of this job with a step in it."""
    mine = [trainer for trainer in world.trainers() if trainer.job == job]
    return [one for one in mine if one.session.version is not None and one.session.version.step > 0]
