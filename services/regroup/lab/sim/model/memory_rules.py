"""What must be true of all that a coordinator remembers between two decisions, and what must be forgotten in time.

Owns: the rules for a job's watch, and for what is known of workers that are there.
Refuses to know: what is decided from it (`decision_rules`).
"""

from math import inf

from regroup.core.cluster import Cluster, Watch, reached
from regroup.core.decide import Decision
from regroup.core.jobs import Formation, Job, JobPhase, Member
from regroup.core.messages.orders import Heard, Welcome
from regroup.core.workers import TrainerPhase
from regroup.lab.sim.model.ghosts import Ghosts
from regroup.lab.sim.model.world import World, changes, fresh, given_up, told_back


def known(ghosts: Ghosts, world: World, job: Job, formation: Formation, watch: Watch | None) -> None:
    """What is known of the last formation is so: who holds its state, the steps of each, and that all are done.

    Once it trains, nobody has failed to form in a row, and all reach each other.
    """
    if watch is not None and job.phase is JobPhase.RUNNING and job.round is None:
        assert not watch.stumbled, f"{job.id} trains, and it is still known who failed to form"
        assert not watch.severed, f"{job.id} trains, and {watch.severed} were apart"
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


def watched(before: Cluster, decision: Decision, old: Job, job: Job) -> None:
    """Who made the last step, who failed to save, who is suspected: all of it is of this formation, and of no other."""
    was, watch, formation = before.watches.get(job.id), decision.cluster.watches.get(job.id), job.formation
    if watch is None:
        return
    if formation is not None and max(watch.committed.values(), default=-1) > formation.base.step:
        names = {one.worker for one in formation.members}
        assert watch.proven == names, f"{names} made a step, and it is known of {set(watch.proven)}"
        assert not watch.fruitless, f"a step is made, and {watch.fruitless} generations are said to have made none"
    begun = formation is not None and formation.generation == job.generation
    trains = begun and job.phase is JobPhase.RUNNING and job.round is None and job.saver is None
    assert not (trains and watch.failed_savers), f"{job.id} trains, and {watch.failed_savers} are said to have failed"
    for note in decision.notes:
        if note.kind == "rolled_back" and note.job == job.id:
            shown, base = reached(job, watch), note.data["base_step"]
            assert shown <= base, f"gone back to step {base} of {job.id}, and {shown} is shown"
    if formation is not None and formation is not old.formation:
        stale = watch.first, dict(watch.committed), dict(watch.evaluated), watch.broken, set(watch.formed)
        assert stale == (None, {}, {}, None, set()), f"{job.id} forms anew, and of the last it is known: {stale}"
        listed = [decision.cluster.workers[one.worker] for one in formation.members]
        gone = [worker.name for worker in listed if worker.meant]
        assert not gone, f"{job.id} forms anew with {gone}, whose end is said to be meant"
    if was is None:
        return
    if formation is old.formation:
        formed = watch.formed & watch.stumbled.keys() if watch.stumbled != was.stumbled else set()
        assert not formed, f"{set(formed)} formed, and are still said to have failed to, in a row"
        told_late = [pair for pair in watch.severed - was.severed if not was.formed.isdisjoint(pair)]
        assert not told_late, f"{told_late} are said to be apart, and one of them has reached all by then"
    if job.round is not None and job.round is not old.round:
        asked = set(job.round.participants) & watch.evicted & was.evicted
        assert not asked, f"{asked} are given up, and are asked"
        late = "did not save in" in job.round.reason or "was to save" in job.round.reason
        forgotten = late and old.saver is not None and job.saver is None and old.saver not in watch.failed_savers
        assert not forgotten, f"{old.saver} was given up as it saved, and that is forgotten"
    for name, doubt in watch.doubted.items():
        last = was.doubted.get(name)
        anew = last is None or doubt.times >= last.times or doubt.last > last.last
        assert anew, f"a doubt of {name} is forgiven, and the next one has not its time"


def sighted(world: World, before: Cluster, decision: Decision) -> None:
    """What was heard of workers: each trainer that is said to be gone is, what each told counts, and so its lease. Who
    connects anew has its time anew; who was given up has no lease."""
    _counted(before, decision)
    answered = {name for name, order in decision.orders if isinstance(order, Heard) and order.generation}
    welcome = {name for name, order in decision.orders if isinstance(order, Welcome)}
    for name in answered:
        _leased(before, decision.cluster, name)
    for name, was, seen in changes(before.sightings, decision.cluster.sightings):
        told = name in answered or seen.renewed <= (was.renewed if was is not None else -inf)
        assert told, f"the lease of {name} is known as renewed, and it was not"
        anew = name not in welcome or (seen.since == world.decided_at and not seen.told)
        assert anew, f"{name} connects anew, and is known to be there since {seen.since:.3f}, or to have told something"
        if was is not None and was.trainer is not None and seen.trainer is None:
            member = Member(name, was.trainer.incarnation)
            assert world.living(member) is None, f"{member} lives, and is known gone"


def _leased(before: Cluster, after: Cluster, name: str) -> None:
    """An answer that renews a lease goes to nobody who was given up: the others are not to wait for ever."""
    trainer = seen.trainer if (seen := after.present(name)) is not None else None
    evicted = trainer is not None and Member(name, trainer.incarnation) in given_up(before, trainer.job)
    assert not evicted, f"{name} is given up, and its lease is renewed"


def _counted(before: Cluster, decision: Decision) -> None:
    """What a member tells of the last generation it committed, whatever it does now: also with its answer to a Halt."""
    after = decision.cluster
    for name, told in fresh(before, after):
        if told.version is None:
            continue
        job, watch, member = after.jobs.get(told.job), after.watches.get(told.job), Member(name, told.incarnation)
        was = before.workers.get(name)
        if job is None or watch is None or job.formation is None or was is None or was.job != job.id:
            continue  # whoever is lent by this same decision is believed from its next word on
        counts = told.version.generation == job.formation.generation and member in job.formation.members
        if counts and not job.ended and not told_back(decision, job.id):
            step = watch.committed.get(member, -1)
            assert told.version.step <= step, f"{member} told of {told.version}, and step {step} is counted"


def gone_is_dead(cluster: Cluster, job: Job, watch: Watch) -> None:
    """Nobody waits for the answer of a trainer that its agent has not any more."""
    for member in job.round.participants if job.round is not None else ():
        seen = cluster.present(member.worker)
        trainer = seen.trainer if seen is not None else None
        gone = seen is not None and seen.told and (trainer is None or trainer.incarnation != member.incarnation)
        assert not gone or member in watch.dead, f"{member} is gone, and its answer is waited for"
