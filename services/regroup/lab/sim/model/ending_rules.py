"""What must hold when a job rests without its workers, or ends.

Owns: these rules. Refuses to know: how its state was saved (`saving_rules`), and what is shown of its steps
(`measuring_rules`).
"""

from collections import Counter
from collections.abc import Iterable

from regroup.core.branches import follows
from regroup.core.cluster import Cluster
from regroup.core.decide import Decision
from regroup.core.jobs import (
    IN_DATA,
    IN_LOAD,
    IN_REPORT,
    IN_STATE,
    ORIGIN,
    Formation,
    Job,
    JobPhase,
    Member,
    StepFailure,
    Version,
    Wanted,
)
from regroup.lab.sim.model import beginning_rules
from regroup.lab.sim.model.ghosts import Ghosts
from regroup.lab.sim.model.limits import FETCHES
from regroup.lab.sim.model.rollback_rules import gave_up, goes_back_no_further, is_silent
from regroup.lab.sim.model.trainer import PRINT, Trainer, consumed
from regroup.lab.sim.model.world import (
    World,
    answered,
    given_up,
    holders,
    is_durable,
    is_evicted,
    is_heard,
    told_back,
)

TRIES = 5  # of one worker at what nobody else tried


def is_at_once(job: Job) -> bool:
    """Whether its user cut it short: it ends with what counted by then."""
    return job.ended and job.reason.startswith("stopped at once")


def goes_on(decision: Decision, old: Job, job: Job) -> None:
    """What rested without workers goes on when it is its turn."""
    rested = old.phase is JobPhase.PAUSED and old.wanted is not Wanted.HOLD  # who is held keeps its workers
    freed = rested and old.formation is None and job.phase is not old.phase
    turn = job.phase is JobPhase.QUEUED or any(one.kind == "preparing" and one.job == job.id for one in decision.notes)
    assert not freed or turn or job.ended, f"{job.id} rested, and goes on before it is its turn"


def rests(ghosts: Ghosts, world: World, before: Cluster, decision: Decision, old: Job, job: Job) -> None:
    """It is held, in its workers' memory, or its generation is closed."""
    if job.formation is None:
        closed(ghosts, world, before, decision, old, job)
        return
    assert job.wanted is Wanted.HOLD, f"{job.id} is to {job.wanted}, and rests with its state in memory"
    if old.phase is not JobPhase.PAUSED and told_back(decision, job.id):
        held = [version for version in answered(decision.cluster, job).values() if version is not None]
        gave_up(world, before, decision.cluster, old, job, max([job.saved, *held]))


def closed(ghosts: Ghosts, world: World, before: Cluster, decision: Decision, old: Job, job: Job) -> None:
    """A pause freed the workers: nothing is left of the job but what is durable, and that was all there was."""
    ghosts.closed[job.id, job.saved] = job.generation
    assert job.step == job.saved.step, f"paused at step {job.saved.step}, and {job.step} is shown"
    if old.formation is None or job.checkpoint is not old.checkpoint:
        return
    listed = [one for one in map(world.living, old.formation.members) if one is not None]
    promised = [one for one in listed if one.session.promised >= job.generation]
    bound = [(one, held) for one in promised if (held := one.session.version) is not None]
    unheard = all(is_silent(world, before, before, old, job, one.member) for one, _ in bound)  # whatever they promised
    if unheard and not _is_anchored(before, old, old.formation):
        gave_up(world, before, before, old, job, job.saved)
        return
    base = old.formation.base
    anew = Version(old.formation.generation, base.step)  # the same state: no step is made yet
    ahead = [(one, held) for one, held in bound if (base if held == anew else held) > job.saved]
    more = [held for one, held in ahead if not _is_passed(world, before, decision, old, job, one)]
    assert not more, f"paused at {job.saved}, and {more} are held"


def _is_anchored(before: Cluster, job: Job, formation: Formation) -> bool:
    """Whether a member answered this round with a state; it may be off since, unknown to anybody: its promise holds."""
    watch = before.watches.get(job.id)
    told = {} if watch is None else {one: each.version for one, each in watch.answers.items() if one not in watch.dead}
    return any((held := told.get(member)) is not None and held >= formation.base for member in formation.members)


def _is_passed(world: World, before: Cluster, decision: Decision, old: Job, job: Job, trainer: Trainer) -> bool:
    """Whether all that it has is one step more than a member that answered, and nobody heard of it, or it is cut off,
    or came back when the round's time was over, or had its time to answer: by rule 6 the other's answer is enough. That
    step was never shown, for not all had committed it."""
    held, seen = trainer.session.version, before.sightings.get(trainer.member.worker)
    assert old.formation is not None
    said = seen is not None and seen.trainer is not None and seen.trainer.version == held
    told = said and all(is_heard(world, one, trainer.member.worker) for one in (before, decision.cluster))
    back = seen is not None and world.decided_at - seen.since < world.policy.halt_limit / 2
    late = _had_its_time(world, before, old, trainer.member)
    if told and not (back or late or is_evicted(before, decision, job.id, trainer.member)):
        return False
    others = [one.session for one in map(world.living, old.formation.members) if one is not None and one is not trainer]
    beside = any(one.promised >= job.generation and one.version == job.saved for one in others)
    return beside and held == Version(job.saved.generation, job.saved.step + 1)


def _had_its_time(world: World, before: Cluster, job: Job, member: Member) -> bool:
    """Whether it was told to halt at once, and did not answer for as long as is waited for that."""
    watch = before.watches.get(job.id)
    if watch is None or job.round is None or job.round.boundary or member in watch.answers:
        return False
    return world.decided_at - watch.since > world.policy.halt_limit


def ended(ghosts: Ghosts, world: World, before: Cluster, decision: Decision, old: Job, job: Job) -> None:
    asked = job.round or job.savers
    assert not asked, f"{job.id} ended, and {asked} is still asked"
    if job.phase is JobPhase.COMPLETED:
        assert job.checkpoint is not None, "called completed before its state was durable"
        assert job.checkpoint is not old.checkpoint, "called completed, and nothing was saved"
        assert job.steps == job.checkpoint.version.step, "called completed before its last step"
        assert job.result == {"steps": job.steps}, f"completed, and its task reports {job.result} of its final state"
        _each_sample_once(job)
    if job.phase is JobPhase.STOPPED and job.checkpoint is not None:
        durable = job.checkpoint.version.step
        assert job.step == durable, f"stopped with the state of step {durable}, and {job.step} is shown"
    at_once = is_at_once(job)
    assert not at_once or job.id in ghosts.cut_short, f"{job.id} is stopped at once, and nobody asked for that"
    if job.phase is JobPhase.STOPPED and job.checkpoint is old.checkpoint and old.formation is not None and not at_once:
        listed = [one.session for one in map(world.living, old.formation.members) if one is not None]
        if not any(one.promised >= job.generation and one.version is not None for one in listed):
            goes_back_no_further(world, before, job, job.saved)
        for trainer in [one for one in holders(world, job.id) if one.member not in given_up(before, job.id)]:
            if trainer.session.version is not None and is_durable(job, old.formation, trainer.session.version):
                continue
            seen = before.sightings.get(trainer.member.worker)
            away = world.decided_at - (seen.seen if seen else before.started)
            absent = away > world.policy.absent_limit or trainer.stuck
            absent = absent or _says_nothing(world, before, trainer.member.worker)
            absent = absent or not (trainer.member in old.formation.members or (seen and seen.connected))
            passed = _is_passed(world, before, decision, old, job, trainer)
            assert absent or passed, f"stopped without the state of {trainer.member}"
    if job.phase is JobPhase.FAILED:
        _failed(ghosts, world, before, decision, old, job)


def _says_nothing(world: World, before: Cluster, worker: str) -> bool:
    """Whether it is back, and told nothing for as long as is waited for that."""
    seen = before.sightings.get(worker)
    return seen is not None and not seen.sequence and world.decided_at - seen.moved > world.policy.halt_limit


def _failed(ghosts: Ghosts, world: World, before: Cluster, decision: Decision, old: Job, job: Job) -> None:
    newest = job.failures[-1:] if job.failures is not old.failures else ()
    trained = not job.history or all(failure.step >= 0 for failure in newest) or not _prepared(before, job, newest)
    assert trained, "a job that trains does not fail because a newcomer cannot be prepared"
    for last in [one for one in newest if one.step < 0 or one.shard == IN_LOAD]:
        go_on = _may_go_on(world, before, decision, old, last.worker)
        assert not go_on, f"failed for {last.worker}, which takes no part, and {go_on} train on"
    said = not job.history and job.id in ghosts.unpreparable
    often = len(job.failures) > 1 or job.restarts >= job.spec.max_restarts
    damaged = beginning_rules.is_damaged(ghosts, job)
    starves = " times no data came " in job.reason
    assert not starves or _starves(ghosts, job), f"failed for data that came: {job.reason}"
    assert said or often or damaged or starves, f"failed for no reason: {job.reason}"
    for last in newest if job.reason.startswith("the task failed in step") and not starves else ():
        _is_the_tasks(ghosts, world, before, job, last)


def _starves(ghosts: Ghosts, job: Job) -> bool:
    """Whether data came too late again and again. A fetch that is heard of when its step is over is one of the next."""
    late = ghosts.fetches
    both = (each | late.get((id, name, step - 1), set()) for (id, name, step), each in late.items() if id == job.id)
    return any(len(fetches) >= FETCHES for fetches in both)


def _is_the_tasks(ghosts: Ghosts, world: World, before: Cluster, job: Job, last: StepFailure) -> None:
    """What fails a job failed more than once at the same place, or again and again on one worker; more often where
    somebody may have killed its trainers; and data that do not come may come in a moment."""
    at_a_save = last.shard in (IN_STATE, IN_REPORT)
    alike = [one for one in job.failures if one.shard == last.shard and (at_a_save or one.step == last.step)]
    if not (at_a_save or last.shard == IN_LOAD):
        alike = [one for one in alike if one is last or not _came_off(ghosts, before, job, one)]
    row = [one for one in job.failures if one.step >= 0 and not one.chance][-TRIES:]
    alone = len(row) == TRIES and {one.worker for one in row} == {last.worker}
    assert len(alike) > 1 or alone, f"{job.id} failed for what failed once: {last}"
    times = {one.generation for one in alike}
    enough = not last.chance or at_a_save or len(times) > 2
    assert enough, f"failed because somebody killed its trainers, in generations {times}"
    watch = before.watches.get(job.id)
    waited = 0.0 if watch is None else world.decided_at - max(watch.progressed, before.awake, before.started)
    in_vain = last.shard != IN_DATA or waited > job.spec.step_timeout
    assert in_vain, f"failed for data that did not come for {waited:.2f} s: it may in a moment"


def _came_off(ghosts: Ghosts, before: Cluster, job: Job, failure: StepFailure) -> bool:
    """Whether a step in which something failed was made since, as somebody told this coordinator: each takes a part of
    all."""
    mine = (which for which in ghosts.told if which[:2] == (before.started, job.id))
    return any(ghosts.told[which] > failure.step for which in mine if which[2] > failure.generation)


def _may_go_on(world: World, before: Cluster, decision: Decision, job: Job, but: str) -> list[Member]:
    """The members of the last formation, but one's, that live with steps to lose, under a lease: those that told of
    them, and those that are not heard of. Who is heard, and is about to tell, is not known to have any."""
    members = job.formation.members if job.formation is not None else ()
    others = [one for one in members if one.worker != but and not is_evicted(before, decision, job.id, one)]
    alive = [one for one in map(world.living, others) if one is not None and not one.stuck]
    leased = [one for one in alive if world.clock(one.member.worker) < one.session.lease]
    base = job.formation.base if job.formation is not None else ORIGIN  # what does not go on from it is void
    trained = {one.member: one.session.version or ORIGIN for one in leased}
    holds = [one for one, held in trained.items() if held.step > job.origin.step and follows(job, held, base)]
    told = {one: status.version or ORIGIN for one in holds if (status := decision.cluster.trainer(one)) is not None}
    heard = {one for one in holds if is_heard(world, decision.cluster, one.worker)}
    return [one for one in holds if one not in heard or (one in told and told[one].step > job.origin.step)]


def _prepared(before: Cluster, job: Job, failures: Iterable[StepFailure]) -> bool:
    """Whether another worker of the job is prepared than those on which it failed, and not given up."""
    others = before.workers.keys() - {one.worker for one in failures}
    lent = {name: seen for name in others if before.workers[name].job == job.id and (seen := before.present(name))}
    ready = {name: one.trainer for name, one in lent.items() if one.trainer and one.trainer.fingerprint is not None}
    gone = given_up(before, job.id)
    return any(Member(name, one.incarnation) not in gone for name, one in ready.items())


def _each_sample_once(job: Job) -> None:
    """The arithmetic of the shards: all steps of a completed job are every sample of every epoch, once. That each step
    was made once, and of its own samples, is checked as it is reduced, and by the chain of history."""
    if job.spec.epochs is None or job.steps is None:
        return
    every = tuple(range(job.spec.shard_count))
    trained = Counter(sample for step in range(job.steps) for sample in consumed(job.spec, step, every))
    wanted = {(epoch, place) for epoch in range(job.spec.epochs) for place in range(PRINT.samples)}
    assert set(trained) == wanted, "the epochs are not whole"
    assert set(trained.values()) == {1}, "a sample is trained twice"
