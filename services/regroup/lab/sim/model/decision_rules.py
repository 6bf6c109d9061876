"""What must hold of every decision, whatever happens in a world. Each breach raises AssertionError and names the rule.

Owns: the rules for coordinators. Refuses to know: how the world got there, and what trainers do (`trainer_rules`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

from regroup.core import messages as m
from regroup.core.cluster import Cluster, Policy, Watch, reached
from regroup.core.decide import Decision
from regroup.core.jobs import ENDED, ORIGIN, Formation, Job, JobPhase, Link, Member, Version
from regroup.core.phases import JOB_ARROWS
from regroup.core.workers import TrainerPhase, Worker
from regroup.lab.sim.model.ghosts import Ghosts, surviving
from regroup.lab.sim.model.trainer import PRINT, Trainer, consumed


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


def decided(ghosts: Ghosts, world: World, before: Cluster, decision: Decision) -> None:
    for id, job in decision.cluster.jobs.items():
        old = before.jobs.get(id)
        if old is not None and old is not job:
            _changed(ghosts, world, before, decision, old, job)
        same = old is job and before.watches.get(id) is decision.cluster.watches.get(id)
        if old is not None and not same and not _rolled_back(decision, id):
            was, now = reached(old, before.watches.get(id)), reached(job, decision.cluster.watches.get(id))
            assert now >= was, f"the step shown goes back from {was} to {now}"
        if old is not None and not same and job.formation is not None and not job.ended:
            _known(ghosts, world, job, job.formation, decision.cluster.watches.get(id))
    for id, watch in decision.cluster.watches.items():
        _answered(world, decision.cluster.jobs[id], watch, before.watches.get(id))
        known = before.watches[id].evicted if id in before.watches else frozenset()
        for member in watch.evicted - known:
            _evicted(world, before, decision, before.jobs[id], member)
    _lent(before, decision.cluster)
    for name, order in decision.orders:
        if isinstance(order, m.Form):
            assert order.formation == decision.cluster.jobs[order.job].formation, "a Form is not what was saved"
            assert name in {member.worker for member in order.formation.members}, "a Form goes to no member"


def _known(ghosts: Ghosts, world: World, job: Job, formation: Formation, watch: Watch | None) -> None:
    """What is known of the last formation is so: who holds its state, the steps of each, and that all are done."""
    step, base = reached(job, watch), formation.base.step
    made = ghosts.commits.get(job.id, {}).get(formation.generation, set())
    done = max(base, max(made, default=-1) + 1)
    assert step <= done, f"step {step} is shown, and only {done} are committed"
    if watch is not None and watch.finished:
        assert job.steps is not None, "called finished, and nobody knows when it is"
        assert done >= job.steps, f"called finished after {done} steps"
    for trainer in [one for one in map(world.living, formation.members) if one is not None]:
        session = trainer.session
        later = session.generation > formation.generation
        holds = later or (session.generation == formation.generation and session.phase is not TrainerPhase.FORMING)
        formed = watch is not None and trainer.member in watch.formed
        assert holds or not formed, f"{trainer.member} is said to have formed, and did not"
        if session.version is not None and session.version.generation <= formation.generation:  # later: overtaken
            its = session.version.step if session.version.generation == formation.generation else base
            assert step <= its, f"step {step} is shown, and {trainer.member} has not committed it"


def _answered(world: World, job: Job, watch: Watch, before: Watch | None) -> None:
    """An answer that counts is the member's own, to this round's Halt, and says what it holds."""
    known = before.answers if before is not None else {}
    for member, answer in watch.answers.items() if watch.answers is not known else ():
        trainer = world.living(member)
        if job.round is not None and trainer is not None and member not in known:
            n, session = job.round.generation, trainer.session
            assert session.promised >= n, f"{member} is said to have promised {n}, and did not"
            same = session.promised > n or session.version == answer.version
            assert same, f"{member} is said to hold {answer.version}, and holds {session.version}"


def _lent(before: Cluster, after: Cluster) -> None:
    for name in before.workers.keys() - after.workers.keys():
        assert not before.workers[name].quarantined, f"the quarantine of {name} is forgotten"
    for name, worker in after.workers.items():
        old = before.workers.get(name)
        if worker is not old and worker.job is not None and (old is None or old.job != worker.job):
            assert not worker.quarantined, f"{name} is lent from its quarantine"
            assert name not in after.jobs[worker.job].refused, f"{name} is lent to a job that refused it"
        if old is not None and old.job is not None and worker.job is None:
            _unlent(after, worker, after.jobs[old.job])


def _unlent(after: Cluster, worker: Worker, job: Job) -> None:
    """Who may hold the state of a job that goes on leaves it only for its errors, or for what it is."""
    seen, watch = after.sightings.get(worker.name), after.watches.get(job.id)
    if seen is None or seen.trainer is None or job.ended or job.formation is None:
        return
    member = Member(worker.name, seen.trainer.incarnation)
    dead = watch is not None and (member in watch.dead or member in watch.evicted)
    meant = worker.quarantined or worker.name in job.refused or dead
    assert meant or member not in job.formation.members, f"{member} is sent away with its state"


def _changed(ghosts: Ghosts, world: World, before: Cluster, decision: Decision, old: Job, job: Job) -> None:
    assert old.phase not in ENDED, "an ended state absorbs"
    assert job.phase is old.phase or job.phase in JOB_ARROWS[old.phase], f"{old.phase} -> {job.phase}"
    assert job.generation >= old.generation, "the generation only grows"
    assert job.history[: len(old.history)] == old.history, "history only grows"
    if job.formation is not None and job.formation is not old.formation:
        _issued(ghosts, world, before, old, job, _rolled_back(decision, job.id))
        dead = decision.cluster.watches[job.id].dead if job.id in decision.cluster.watches else {}
        for member in job.formation.members:
            assert member not in dead, f"{member} is known dead, and is listed"
            assert decision.cluster.present(member.worker), f"{member} is not connected, and is listed"
    if job.ended:
        _ended_job(ghosts, world, before, old, job)


def _issued(ghosts: Ghosts, world: World, before: Cluster, old: Job, job: Job, back: bool) -> None:
    formation = job.formation
    assert formation is not None
    n, base = formation.generation, formation.base
    assert n == job.generation, "a formation of a number that is not the job's"
    assert (job.id, n) not in ghosts.formations, "a generation forms once"
    assert n > max((g for id, g in ghosts.formations if id == job.id), default=0), "formations go back in number"
    ghosts.formations[job.id, n] = formation
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
        assert ghosts.states[job.id, base] == expected, "the base is the state that history tells of"
    leader = world.living(formation.members[formation.leader])
    if leader is not None and leader.session.promised == n:
        assert base == ORIGIN or leader.session.version == base, "the leader holds the base"
        assert leader.session.store == formation.store, "the rendezvous is the leader's"
    best = max((trainer.session.version or ORIGIN for trainer in members), default=ORIGIN)
    assert best <= base, f"{best} is given up for {base}"
    if back:
        ghosts.rolled_back.add((job.id, n))
        _may_roll_back(world, old, n)
        _goes_back_no_further(world, before, job.id, base)
    else:
        shown = reached(old, before.watches.get(job.id))
        assert base.step >= shown, f"no roll-back was told, and step {shown} that all committed is gone"


def _may_roll_back(world: World, old: Job, n: int) -> None:
    assert old.formation is not None, "a roll-back of what never began"
    for member in old.formation.members:
        trainer = world.living(member)
        if trainer is not None:
            gave_up = trainer.session.promised >= n or world.clock(member.worker) >= trainer.session.lease
            assert gave_up, f"rolled back past {member}, which may still commit"


def _goes_back_no_further(world: World, before: Cluster, job: str, base: Version) -> None:
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
        assert given_up or silent or not lower, f"rolled back to {base}, and {trainer.member} holds {status.version}"


def _ended_job(ghosts: Ghosts, world: World, before: Cluster, old: Job, job: Job) -> None:
    if job.checkpoint is not None:
        version = job.checkpoint.version
        assert (job.id, version) in ghosts.written, "called ended before its state was durable"
        assert old.saver is not None, "the checkpoint moves while nobody is asked to save"
        saver = world.living(old.saver)
        asked = (old.saver, version) in ghosts.writers or (saver is not None and saver.session.version == version)
        assert asked or saver is None, "the checkpoint is not what the saver was asked for"
        expected = surviving(job.history, version)
        assert ghosts.states[job.id, version] == expected, "the checkpoint is the state that history tells of"
        assert len(expected) == version.step, "each step of the final state is committed exactly once"
    if job.phase is JobPhase.COMPLETED:
        assert job.checkpoint is not None, "called completed before its state was durable"
        assert job.steps == job.checkpoint.version.step, "called completed before its last step"
        _each_sample_once(job)
    if job.phase is JobPhase.STOPPED and job.checkpoint is None:
        _goes_back_no_further(world, before, job.id, ORIGIN)
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
        said = job.formation is None and job.id in ghosts.unpreparable
        often = len(job.failures) > 1 or job.restarts >= job.spec.max_restarts
        assert said or often, f"failed for no reason: {job.reason}"


def _each_sample_once(job: Job) -> None:
    """Over the whole of a completed job, by counting: every sample of every epoch, once."""
    if job.spec.epochs is None or job.steps is None:
        return
    every = tuple(range(job.spec.shard_count))
    trained = Counter(sample for step in range(job.steps) for sample in consumed(job.spec, step, every))
    wanted = {(epoch, place) for epoch in range(job.spec.epochs) for place in range(PRINT.samples)}
    assert set(trained) == wanted, "the epochs are not whole"
    assert set(trained.values()) == {1}, "a sample is trained twice"


def _evicted(world: World, before: Cluster, decision: Decision, job: Job, member: Member) -> None:
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
    assert enough or world.decided_at - began > world.policy.detached_limit, f"{member} is evicted with the only state"


def over(world: World) -> None:
    """Nothing is left to happen: every job ended, and no worker is kept by one."""
    kept = [worker.name for worker in world.workers.values() if worker.job is not None]
    assert not kept, f"{kept} are still lent to a job that ended"


def _rolled_back(decision: Decision, job: str) -> bool:
    return any(note.kind == "rolled_back" and note.job == job for note in decision.notes)


def _holders(world: World, job: str) -> list[Trainer]:
    """The trainers that live and hold a state of this job with a step in it."""
    mine = [trainer for trainer in world.trainers() if trainer.job == job]
    return [one for one in mine if one.session.version is not None and one.session.version.step > 0]
