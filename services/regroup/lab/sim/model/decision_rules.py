"""What must hold of every decision, whatever happens in a world. Each breach raises AssertionError and names the rule.

Owns: the rules for what is known, asked and formed; it calls all others that are asked at decisions.
Refuses to know: how the world got there, and what trainers do (`trainer_rules`).
"""

from dataclasses import replace

from regroup.core.cluster import Cluster, Watch, reached
from regroup.core.decide import Decision
from regroup.core.jobs import ENDED, ORIGIN, Formation, Job, JobPhase, Link, Round, Version
from regroup.core.messages.orders import Discard, Form, Go, Heard, Kill, Release, Save
from regroup.core.phases import JOB_ARROWS
from regroup.core.workers import TrainerPhase
from regroup.lab.sim.model import (
    asking_rules,
    beginning_rules,
    blame_rules,
    ending_rules,
    leaving_rules,
    lending_rules,
    likeness_rules,
    memory_rules,
    saving_rules,
    strangers,
    striking_rules,
)
from regroup.lab.sim.model.ghosts import Ghosts, surviving
from regroup.lab.sim.model.rollback_rules import gave_up, said_silent
from regroup.lab.sim.model.world import (
    World,
    answered,
    changes,
    fresh,
    gets_as_far,
    given_up,
    is_overtaken,
    told_back,
)

JOIN = "prepared to join: "
NO_BOUNDARY = "no boundary was reached"
SILENT = "was heard for as long as its lease lasts"


def decided(ghosts: Ghosts, world: World, before: Cluster, decision: Decision) -> None:
    strangers.turned_away(before, decision)
    saving_rules.heard(ghosts, world, before, decision)
    lending_rules.hang_heard(ghosts, world, before, decision.cluster)
    for _, status in fresh(before, decision.cluster):
        if status.version is not None:
            which = before.started, status.job, status.version.generation
            ghosts.told[which] = max(ghosts.told.get(which, 0), status.version.step)
    for id, job in decision.cluster.jobs.items():
        old, watch = before.jobs.get(id), decision.cluster.watches.get(id)
        if old is None:
            beginning_rules.submitted(ghosts, before, decision.cluster, job)
        elif old is not job or watch is not before.watches.get(id):
            _differs(ghosts, world, before, decision, old, job)
    memory_rules.sighted(world, before, decision)
    submitted = [job.submitted for job in decision.cluster.jobs.values()]
    assert submitted == sorted(submitted), "jobs are not in the order of their submission"
    for id, each in decision.cluster.watches.items():
        _watched(ghosts, world, before, decision, decision.cluster.jobs[id], each)
    lending_rules.lent(world, before, decision, leaving_rules.handed_over)
    for _, known_worker, worker in changes(before.workers, decision.cluster.workers):
        excess = worker.errors > world.policy.error_limit
        assert excess or not worker.quarantined, f"{worker.name} is in quarantine, and has {worker.errors} errors"
        if known_worker is not None:
            leaving_rules.changed(decision.cluster, known_worker, worker)
            blame_rules.counted(ghosts, world, decision, known_worker, worker)
    blame_rules.forgiven(ghosts, world, decision.cluster)
    blame_rules.readmitted(before, decision)
    blame_rules.tried_again(ghosts, world, before, decision)
    blame_rules.left_refused(ghosts, world, decision)
    blame_rules.blamed_unseen(before, decision)
    blame_rules.refused(ghosts, world, before, decision)
    _noted(world, decision)
    if any(worker.departs for worker in decision.cluster.workers.values()):
        for id, job in decision.cluster.jobs.items():
            if id in before.jobs and before.jobs[id].phase is job.phase:  # else the next decision saves it
                leaving_rules.held(ghosts, world, decision.cluster, job)
    _ordered(ghosts, world, decision)


def _differs(ghosts: Ghosts, world: World, before: Cluster, decision: Decision, old: Job, job: Job) -> None:
    """What is kept of a job, or remembered, is another than before."""
    watch = decision.cluster.watches.get(job.id)
    if old is not job:
        _changed(ghosts, world, before, decision, old, job)
    if not told_back(decision, job.id):
        was, now = reached(old, before.watches.get(job.id)), reached(job, watch)
        assert now >= was, f"the step shown goes back from {was} to {now}"
    if job.ended:
        return
    if job.formation is not None:
        memory_rules.known(ghosts, world, job, job.formation, watch)
    memory_rules.watched(before, decision, old, job)


def _watched(ghosts: Ghosts, world: World, before: Cluster, decision: Decision, job: Job, watch: Watch) -> None:
    if job.round is not None and job.round.boundary and job.formation is not None:
        gone = set(job.formation.members) & set(watch.dead)
        assert not gone, f"{gone} are known dead, and the others are asked to come to a boundary together with them"
    if job.round is not None and (job.id not in before.jobs or job.round is not before.jobs[job.id].round):
        again = watch.evicted.intersection(job.round.participants)
        assert not again, f"{again} were given up, and are asked again"
    memory_rules.gone_is_dead(decision.cluster, job, watch)
    _answered(world, job, watch, before.watches.get(job.id))
    striking_rules.heard(ghosts, watch)
    saving_rules.counts(before, decision.cluster, job, watch)
    _owes(ghosts, world, decision, job, watch)
    for member in watch.evicted - given_up(before, job.id):
        lending_rules.evicted(ghosts, world, before, decision, before.jobs[job.id], member)
    ghosts.unheard |= lending_rules.given_up_unheard(decision.cluster, watch)


def _owes(ghosts: Ghosts, world: World, decision: Decision, job: Job, watch: Watch) -> None:
    """Since when each owes its answer: from the first round on that it did not answer since it last answered, or was
    listed."""
    if is_overtaken(world, job):
        return
    formed = job.round is None and job.formation is not None and job.formation.generation == job.generation
    done = {*watch.answers, *(job.formation.members if formed and job.formation is not None else ())}
    for member in done:
        ghosts.owes.pop(member, None)
    over = any(note.kind == "halt" and note.job == job.id for note in decision.notes)  # a round may be, at once
    listed = job.formation.members if over and job.formation is not None and not formed else ()
    for member in {*(job.round.participants if job.round is not None else ()), *listed}:
        if member not in watch.answers:
            ghosts.owes.setdefault(member, world.decided_at)


def _noted(world: World, decision: Decision) -> None:
    """What the timeline says of this decision."""
    fresh: set[str] = set()  # lent by it
    for note in decision.notes:
        if note.kind == "lent" and note.worker is not None:
            fresh.add(note.worker)
            leaving_rules.lent(decision.cluster, note.worker)
        if note.kind == "unlent" and note.worker in fresh:
            # Two may come back at once with the same state, of which one is to go.
            goes = decision.cluster.workers[note.worker].departs
            assert goes, f"{note.worker} is lent and taken back in one breath: {note.reason}"
        if note.kind == "lost_state" and note.job is not None and (last := decision.cluster.jobs[note.job].formation):
            left = [one for one in last.members if world.living(one) is not None]
            assert not left, f"all that held {note.job} are said to be gone, and {left} live"


def _ordered(ghosts: Ghosts, world: World, decision: Decision) -> None:
    for name, order in decision.orders:
        if isinstance(order, Heard):
            continue  # most are
        if isinstance(order, Form):
            assert order.formation == decision.cluster.jobs[order.job].formation, "a Form is not what was saved"
            assert name in {member.worker for member in order.formation.members}, "a Form goes to no member"
        if isinstance(order, Discard):
            saving_rules.discards(ghosts, decision.cluster, order)
            beginning_rules.discards(ghosts, decision.cluster, order)
        if isinstance(order, Save):
            saving_rules.asked(world, decision.cluster, name, order)
        if isinstance(order, Go | Release | Kill):
            lending_rules.told_first(decision.cluster, name, order)
        if isinstance(order, Go):
            leaving_rules.goes(world, decision.cluster, name, order)
        if isinstance(order, Release):
            lending_rules.released(world, decision.cluster, name, order.job)
        if isinstance(order, Kill):
            lending_rules.killed(ghosts, world, decision.cluster, name, order)


def _answered(world: World, job: Job, watch: Watch, before: Watch | None) -> None:
    """An answer that counts is the member's own, to this round's Halt, and says what it holds."""
    known = before.answers if before is not None else {}
    for member, answer in watch.answers.items() if watch.answers is not known else ():
        trainer = world.living(member)
        if job.round is not None and trainer is not None and member not in known:
            n, session = job.round.generation, trainer.session
            assert session.promised >= n, f"{member} is said to have promised {n}, and did not"
            # Another coordinator may have gone on from its answer; and a saver goes on to report when its storage does.
            goes_on = session.phase is TrainerPhase.SAVING or trainer.loop.at == "reporting"
            overtaken = session.promised > n or session.generation == n
            back = overtaken or goes_on or not session.at_work
            assert back, f"{member} is said to have answered, and its step loop is not back"
            same = overtaken or session.version == answer.version
            assert same, f"{member} is said to hold {answer.version}, and holds {session.version}"


def _changed(ghosts: Ghosts, world: World, before: Cluster, decision: Decision, old: Job, job: Job) -> None:
    if old.phase in ENDED:  # its files may still be deleted
        assert replace(old, doomed=job.doomed) == job, "an ended state absorbs"
        return
    assert job.phase is old.phase or job.phase in JOB_ARROWS[old.phase], f"{old.phase} -> {job.phase}"
    assert job.generation >= old.generation, "the generation only grows"
    assert job.history[: len(old.history)] == old.history, "history only grows"
    asking_rules.wanted(decision, old, job)
    ending_rules.goes_on(decision, old, job)
    if job.round is not None and job.round is not old.round and job.round.reason.startswith(JOIN):
        _joins(decision.cluster, job, job.round)
    if job.round is not None and job.round is not old.round and SILENT in job.round.reason:
        said_silent(world, before, decision.cluster, old, job)
    if job.round is not None and job.round is not old.round and job.round.reason.startswith(NO_BOUNDARY):
        _waited(world, before, job)
    cut_short = job.phase is JobPhase.FAILED or ending_rules.is_at_once(job)
    if told_back(decision, job.id) or cut_short:
        saving_rules.left(ghosts, world, before, decision, old, job)
    if job.formation is not None and job.formation is not old.formation:
        _issued(ghosts, world, before, decision.cluster, old, job, told_back(decision, job.id))
        saving_rules.goes_on(before, job, job.formation.base)
        leaving_rules.issued(decision.cluster, job.formation)
        blame_rules.leads(decision.cluster, job, job.formation)
        _listed(decision.cluster, job, job.formation)
    if old.round is not None and old.round.boundary and not told_back(decision, job.id):
        _at_the_boundary(ghosts, decision.cluster, old, job, old.round)
    if job.saver is not None and job.saver != old.saver:
        saving_rules.to_save(ghosts, world, before, decision, old, job, job.saver)
    likeness_rules.compared(world, before, decision.cluster, old, job)
    blame_rules.failed(ghosts, world, before, old, job)
    blame_rules.suspected(before, decision.cluster, old, job)
    blame_rules.restarted(before, decision, old, job)
    leaving_rules.asked(old, job)
    leaving_rules.rests(world, before, decision, old, job)
    leaving_rules.saved(world, decision.cluster, old, job)
    if len(job.struck) > len(old.struck):
        striking_rules.struck(ghosts, world, decision, old, job)
    elif job.checkpoint is not old.checkpoint:
        saving_rules.saved(ghosts, world, before, decision, old, job)
    if job.formation is not None and job.formation is not old.formation:
        ghosts.savers.pop(job.id, None)  # only now: what one of them wrote may count in this very decision
    if job.phase is JobPhase.PAUSED:
        ending_rules.rests(ghosts, world, before, decision, old, job)
    if job.ended:
        ending_rules.ended(ghosts, world, before, decision, old, job)


def _joins(after: Cluster, job: Job, asked: Round) -> None:
    joins = set(asked.reason.removeprefix(JOIN).split(", "))
    unasked = joins - {member.worker for member in asked.participants}
    assert not unasked, f"{unasked} are to join, and are not asked"
    seated = job.formation.members if job.formation is not None else ()
    away = [one for one in seated if after.trainer(one) is None]
    assert not away, f"{joins} are to join, and {away} are away: no boundary can be reached"


def _at_the_boundary(ghosts: Ghosts, after: Cluster, old: Job, job: Job, asked: Round) -> None:
    """Where all come to a boundary, no step is broken off: what is gone on from, saved or held is all that was made.
    Whoever is cut off again may have made one alone, before the others heard of it and their group broke."""
    if old.formation is None or job.generation != asked.generation or job.round is asked:
        return
    answers = answered(after, job) if job.id in after.watches else {}
    if not answers.keys() >= {*old.formation.members}:
        return
    held = {member: version for member, version in answers.items() if version is not None}
    base = ghosts.best(old, held) if held else None
    if job.formation is not None and job.formation is not old.formation:
        base = job.formation.base
    elif job.saver is not None:
        base = answers.get(job.saver)
    done = (
        max(ghosts.commits.get(job.id, {}).get(old.formation.generation, ()), default=old.formation.base.step - 1) + 1
    )
    assert base is None or base.step >= done, f"{asked.reason}: {base} is gone on from, and {done} steps were made"


def _waited(world: World, before: Cluster, job: Job) -> None:
    """Once one is at the boundary, the others have their time to say so, however long the step was before it."""
    watch, listed = before.watches[job.id], job.formation.members if job.formation is not None else ()
    there = not watch.answers.keys().isdisjoint(listed)
    limit = world.policy.halt_limit if there else min(world.policy.halt_limit, job.spec.step_timeout)
    waited = world.decided_at - watch.answered
    assert waited > 0.9 * limit, f"no boundary after {waited:.2f} s, and one had just got there"


def _listed(after: Cluster, job: Job, formation: Formation) -> None:
    for member in formation.members:
        assert member not in after.watches[job.id].dead, f"{member} is known dead, and is listed"
        assert member not in after.watches[job.id].evicted, f"{member} is given up, and is listed"
        assert after.workers[member.worker].job == job.id, f"{member} is not lent, and is listed"
        assert after.present(member.worker), f"{member} is not connected, and is listed"


def _issued(ghosts: Ghosts, world: World, before: Cluster, after: Cluster, old: Job, job: Job, back: bool) -> None:
    formation = job.formation
    assert formation is not None
    n, base = formation.generation, formation.base
    assert n == job.generation, "a formation of a number that is not the job's"
    assert (job.id, n) not in ghosts.formations, "a generation forms once"
    assert n > max((g for id, g in ghosts.formations if id == job.id), default=0), "formations go back in number"
    stores = {one.store for one in ghosts.formations.values()}
    assert formation.store not in stores, f"{formation.store} was a rendezvous before: stale peers could meet there"
    ghosts.formations[job.id, n] = formation
    ranks = range(len(formation.seats))
    assert len(formation.owners) == job.spec.shard_count, "a shard has no owner"
    assert set(formation.owners) <= set(ranks), "the owner of a shard is no member"
    owned = [formation.owners.count(rank) for rank in ranks]
    assert max(owned) - min(owned) <= 1, f"members own as different numbers of shards as {owned}"
    assert len({member.worker for member in formation.members}) == len(ranks), "two members on one worker"
    final = job.checkpoint is not None and job.complete_at(job.checkpoint.version.step)
    least = 1 if final else job.spec.min_workers
    assert least <= len(ranks) <= job.spec.max_workers, f"{len(ranks)} members, not as asked for"
    assert job.history[-1] == Link(n, base.generation, base.step), "history does not tell of the formation"
    members = [trainer for trainer in map(world.living, formation.members) if trainer is not None]
    assert all(trainer.session.promised >= n for trainer in members), "a member did not promise the formation"
    prints = {trainer.session.fingerprint for trainer in members}
    assert prints <= {job.fingerprint}, f"members have different code or data: {prints}"
    expected = surviving(job.history, Version(n, base.step), job.origin.step)
    if base.generation == 0:
        assert base == job.origin, f"it begins at {base}, and was to begin at {job.origin}"
    else:
        assert ghosts.states[job.id, base] == expected, "the base is the state that history tells of"
    leader = world.living(formation.members[formation.leader])
    read = formation.checkpoint
    striking_rules.begins(job, formation)
    if read is not None:
        assert read == job.latest, "what is read is not the job's checkpoint"
        its = read.version if base.generation else job.origin
        assert its == base, f"{read.version} is read, and the generation begins from {base}"
    if leader is not None and leader.session.promised == n:
        assert base == ORIGIN or read is not None or leader.session.version == base, "the leader holds the base"
        assert leader.session.store == formation.store, "the rendezvous is the leader's"
    held = {version for trainer in members if (version := trainer.session.version) and version > base}
    counts = [version for version in held if not ghosts.is_void(job.id, base, version)]
    lost = [one for one in counts if (not gets_as_far(job, base, one) if back else ghosts.goes_on(job.id, n, one))]
    assert not lost, f"{lost} are given up for {base}"
    if back:
        ghosts.rolled_back.add((job.id, n))
        gave_up(world, before, after, old, job, base)
    else:
        shown = reached(old, before.watches.get(job.id))
        assert base.step >= shown, f"no roll-back was told, and step {shown} that all committed is gone"
        last = old.formation.generation if old.formation is not None else 0
        # Heard of or not: each step takes a part of all, so that one that anybody made says that all had those before.
        all_made = max(ghosts.commits.get(job.id, {}).get(last, ()), default=0)
        assert base.step >= all_made, f"no roll-back was told, and all had made {all_made} steps, not {base.step}"
        below = old.formation is not None and base < old.formation.base
        assert not below, f"no roll-back was told, and {base} is below what the last generation began from"
