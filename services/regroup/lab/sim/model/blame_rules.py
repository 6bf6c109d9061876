"""What must hold of blame: which errors count, and are forgiven; what one worker alone fails at; who gives its state.

Owns: these rules. Refuses to know: when a job may fail (`ending_rules`), and what gave cause for an error
(`lives.justice`).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from regroup.core.branches import follows
from regroup.core.cluster import ASKED, Cluster, reached
from regroup.core.decide import Decision
from regroup.core.jobs import (
    IN_DATA,
    IN_LOAD,
    IN_REPORT,
    IN_STATE,
    ORIGIN,
    OUTSIDE,
    Formation,
    Job,
    JobPhase,
    Member,
    StepFailure,
    Wanted,
)
from regroup.core.schedule import at_hand, reads_in_vain
from regroup.core.workers import Worker
from regroup.lab.sim.model import likeness_rules
from regroup.lab.sim.model.ghosts import Ghosts
from regroup.lab.sim.model.world import World, is_heard, lost, may_try, newly_ended, told_back

ROW = 6  # failures of one worker alone, one after the other, that are too many
HUNG = "it hung"  # the first words of a failure that is an eviction
LATE = 5.0  # seconds: a store that is away, or a queue that is never empty, may keep the coordinator from looking


def failed(ghosts: Ghosts, world: World, before: Cluster, old: Job, job: Job) -> None:
    """What failed in a generation failed once, however often it is told; a restart is one only where steps are lost."""
    if job.failures is not old.failures:
        _alone(world, before, old, job)
        hung = [one for one in job.failures if one.chance and one.error.startswith(HUNG)]
        hung = [one for one in hung if one.shard not in (OUTSIDE, IN_LOAD)]
        assert not hung, f"{hung} were ended because they hung, and that is taken for chance"
        trained = [one for one in job.failures if one.generation and one.step >= 0]
        for one in trained:
            same = [other for other in trained if replace(other, error=one.error) == one]
            times = f"{one.worker} failed once in generation {one.generation}, and {len(same)} times count"
            assert len(same) == 1, times
    if job.restarts > old.restarts:
        issued = job.formation is not None and job.formation is not old.formation
        back = job.saved.step if job.ended else job.step  # where too many end it, it shows what it reached
        base = job.formation.base.step if issued and job.formation is not None else back
        assert job.restarts == old.restarts + 1, "one roll-back is one restart"
        assert _is_lost(ghosts, old, job, base), f"a restart counts, and no step was made since step {base}"
        if old.formation is not None:
            lost = job.id, old.formation.generation
            assert base < ghosts.restarted.get(lost, base + 1), f"that {lost} is lost counts twice"
            ghosts.restarted[lost] = base


def suspected(before: Cluster, after: Cluster, old: Job, job: Job) -> None:
    """Who was given up for a suspicion may have been sound: that it ended is no failure of the task."""
    for failure in [one for one in job.failures if one not in old.failures and one.error.startswith(HUNG)]:
        ended = newly_ended(before, after, failure.worker)
        doubted = {one.incarnation for one in before.watches[job.id].suspected if one.worker == failure.worker}
        assert not ended or ended - doubted, f"{failure.worker} was suspected, and that counts as {failure}"


def _is_lost(ghosts: Ghosts, old: Job, job: Job, base: int) -> bool:
    """Whether steps are lost that the last generation made, or held in memory: a file that was struck is no such loss,
    unless none is left."""
    last = old.formation
    if last is None:
        return False
    steps = ghosts.commits.get(job.id, {}).get(last.generation, set())
    made = max(steps, default=last.base.step - 1) + 1
    held = bool(steps) or last.checkpoint is None
    return made > base and (held or base == job.origin.step)


def _alone(world: World, before: Cluster, old: Job, job: Job) -> None:
    """What one worker cannot do, and others that hold the state can, fails no job that trained, and is not tried for
    ever."""
    row = _failed_steps(job)[-ROW:]
    if not row or row[-1] in old.failures or {one.shard for one in row} & {IN_STATE, IN_REPORT}:
        return  # who was alone as it failed, and goes on beside others, has yet to fail there
    last, held = row[-1], _staying_holders(world, before, old, row[-1].worker)
    # Who fails at something else before that has its tries to take the state all the same.
    loads = last.shard == IN_LOAD and any(one.shard != IN_LOAD for one in row)
    made = old.formation is not None and old.formation.base.step > old.origin.step
    ended = held and made and job.phase is JobPhase.FAILED and last is job.failures[-1]
    assert not (ended and last.shard == IN_LOAD), f"failed as {last.worker} took the state that {held} hold"
    failed_there = {one.worker for one in job.failures if (one.step, one.shard) == (last.step, last.shard)}
    five = row[1 - ROW :]
    by_one = failed_there == {last.worker} and len(five) == ROW - 1 and _in_a_row(five)
    assert not (ended and by_one), f"failed for what {last.worker} alone cannot do, and {held} hold the state"
    many = len(row) == ROW and _in_a_row(row) and not loads
    kept = many and last.worker not in job.refused and not job.ended
    assert not (kept and held), f"{last.worker} alone fails again and again, beside {held}"


def _failed_steps(job: Job) -> list[StepFailure]:
    """The failures in steps that were not by chance. Who waited for its data did not fail at a pass."""
    found = [one for one in job.failures if one.step >= 0 and not one.chance]
    return found if found and found[-1].shard == IN_DATA else [one for one in found if one.shard != IN_DATA]


def _in_a_row(row: Sequence[StepFailure]) -> bool:
    """Whether one worker alone failed in as many generations, each time in the same step as before or in the next."""
    together = all(two.step - one.step in (0, 1) for one, two in pairwise(row))
    return together and len({one.generation for one in row}) == len(row) and len({one.worker for one in row}) == 1


def _staying_holders(world: World, before: Cluster, job: Job, but: str) -> list[Member]:
    """The members of the last formation, but one's, that are heard to hold the state from which it starts, and stay."""
    formation, gone = job.formation, lost(before, job.id)
    if formation is None or formation.base == ORIGIN:
        return []
    others = [one for one in formation.members if one.worker != but and one not in gone]
    there = [one for one in others if is_heard(world, before, one.worker) and _stays(before.workers[one.worker], job)]
    told = {one: status.version for one in there if (status := before.trainer(one)) is not None}
    return [one for one, version in told.items() if version is not None and follows(job, version, formation.base)]


def _stays(worker: Worker, job: Job) -> bool:
    return worker.job == job.id and not (worker.departs or worker.quarantined)


def leads(cluster: Cluster, job: Job, formation: Formation) -> None:
    """Who could not tell its state gives it to others only where all others failed as well."""
    if not formation.receivers or formation.checkpoint is not None:
        return
    failed_so = {one.worker for one in job.failures if one.shard == IN_STATE}
    there = [one for one in job.failures if one.step == formation.base.step and one.shard in (OUTSIDE, IN_LOAD)]
    as_well = failed_so | {one.worker for one in there}  # as it gave it, or before a step could be made with it
    have = [seat.member for seat in formation.seats if seat.version == formation.base]
    others = [one for one in have if one.worker not in as_well and not cluster.workers[one.worker].departs]
    leader = formation.members[formation.leader]
    assert leader.worker not in failed_so or not others, f"{leader} could not tell its state, and {others} can"


def restarted(before: Cluster, decision: Decision, old: Job, job: Job) -> None:
    """Steps of the last generation that were shown and are lost are a restart, also as the job rests, unless all were
    ended on purpose, or the job is to stop, or to make room."""
    after, issued = decision.cluster, job.formation is not None and job.formation is not old.formation
    meant = {Wanted.STOP, Wanted.YIELD} & {old.wanted, job.wanted}
    rests = told_back(decision, job.id) and not job.ended and not meant
    if old.formation is None or not (issued or rests):
        return
    shown, watch = reached(old, before.watches.get(job.id)), after.watches.get(job.id, before.watches.get(job.id))
    back = job.formation.base.step if issued and job.formation is not None else job.step
    from_file = old.formation.checkpoint is not None  # a file that was struck is no loss of workers
    lost = shown > (max(old.formation.base.step, back) if from_file else back)
    dead = watch.dead if watch is not None else {}
    # Who ends in the decision by which the job rests may have been ended on purpose, too: nothing keeps that.
    ended = all(dead.get(member, None if issued else ASKED) == ASKED for member in old.formation.members)
    counted = job.restarts > old.restarts
    assert not lost or ended or counted, f"{shown} steps were shown, and to lose them is no restart"
    asked = all(dead.get(member) == ASKED for member in old.formation.members)
    assert not (asked and counted), f"all members of {job.id} were ended on purpose, and that is a restart"


def refused(ghosts: Ghosts, world: World, before: Cluster, decision: Decision) -> None:
    """Nobody is refused for what it failed at once, for what others fail at, too, or for a state that nobody took."""
    for note in decision.notes:
        job = decision.cluster.jobs.get(note.job or "")
        why = job.refused.get(note.worker or "") if job is not None else None
        if note.kind != "refused" or job is None or job.ended or why is None:
            continue
        likeness_rules.refused(world, before, job, note.worker or "", why)
        if job.failures and why.endswith((" times", "for the second time", "and nobody else")):
            last = job.failures[-1]
            assert last.worker == note.worker, f"{note.worker} is refused, and the last that failed is {last.worker}"
            if why.endswith("and nobody else"):
                row = _failed_steps(job)[1 - ROW :]
                by_one = len(row) == ROW - 1 and {one.worker for one in row} == {note.worker}
                assert by_one, f"{note.worker} is refused as if nobody else had failed: {row}"
            else:
                _again(ghosts, world, decision.cluster, job, last)


def _again(ghosts: Ghosts, world: World, cluster: Cluster, job: Job, last: StepFailure) -> None:
    """Who is refused as it prepares, or takes the state, failed at that before, and not by chance; others are left that
    can prepare, and somebody did take the state. Who is refused for its steps does not lose any."""
    name = last.worker
    mine = [one for one in job.failures if one.worker == name]
    taking, preparing = last.shard == IN_LOAD, last.step < 0
    alike = [one for one in mine if (one.shard == IN_LOAD if taking else (one.step < 0) == preparing)]
    sure = [one for one in alike if not one.chance]
    assert len(sure) > 1 or len(alike) > 2, f"{name} is refused for what may be chance: {alike}"
    steps = last.step >= 0 and last.shard != IN_LOAD
    made = ghosts.commits.get(job.id, {}).values()
    lost = reached(job, cluster.watches.get(job.id)) > job.origin.step
    assert not (steps and lost), f"{name} is refused for its steps, and {job.id} has some to lose"
    if last.step < 0 or steps:
        fit = may_try(cluster, job, but=name)
        assert len(fit) >= job.needs, f"{name} is refused, and {fit} are all that is left"
    if last.shard == IN_LOAD and job.beginning is None and not any(made):
        took = {one.member for one in world.trainers() if one.job == job.id and one.session.version is not None}
        told = {name: seen.trainer for name, seen in cluster.sightings.items() if seen.trainer is not None}
        # Who is gone again, unknown to anybody yet.
        took |= {Member(name, one.incarnation) for name, one in told.items() if one.job == job.id and one.version}
        built = {job.formation.members[job.formation.leader]} if job.formation is not None else set()
        assert took - built, f"{name} is refused as it took the state, which nobody ever took"


def readmitted(before: Cluster, decision: Decision) -> None:
    """Whoever begins anew, or is cleared, is refused by no job for what was, and neither suspected nor passed over."""
    for note in decision.notes:
        if note.kind == "registered" or (note.kind == "cleared" and "operator" in note.reason):
            again = {one.job for one in decision.notes if one.kind == "refused" and one.worker == note.worker}
            still = [id for id, job in decision.cluster.jobs.items() if note.worker in job.refused and not job.ended]
            assert set(still) <= again, f"{note.worker} begins anew, and {still} refuse it still"
            watches = decision.cluster.watches.items()
            known = [id for id, watch in watches if note.worker in watch.doubted or note.worker in watch.resting]
            assert not known, f"{note.worker} begins anew, and is suspected still in {known}"
            for id, old in before.jobs.items():
                job = decision.cluster.jobs[id]
                failed = [one for one in job.failures if one.worker == note.worker] if not job.ended else []
                forgotten = note.worker not in old.refused or not failed
                assert forgotten or id in again, f"{note.worker} begins anew, and {id} remembers {failed}"


def tried_again(ghosts: Ghosts, world: World, before: Cluster, decision: Decision) -> None:
    """Who was refused is tried again after a long while, and before that only by a job that waited for workers with
    those that it had."""
    for note in decision.notes:
        if note.kind == "readmitted" and note.job is not None:
            waited = world.decided_at - ghosts.out_since.get(note.job, 0.0)
            long = waited > world.policy.error_forget
            assert long or _lacks(world, before, decision, note.job), f"{note.job} takes back whom it does not need"
            enough = long or waited > world.policy.absent_limit
            assert enough, f"{note.job} takes back whom it refused after {waited:.1f} s"
        if note.kind in ("readmitted", "refused") and note.job is not None:
            ghosts.out_since[note.job] = world.decided_at


def _lacks(world: World, before: Cluster, decision: Decision, id: str) -> bool:
    """Whether those that a job has, and that are heard and not given up, are too few, or cannot read its checkpoint."""
    job, watches = before.jobs[id], (before.watches.get(id), decision.cluster.watches.get(id))
    given_up = {one.worker for watch in watches if watch for one in watch.evicted}  # it may be in the same breath
    given_up |= {name for watch in watches if watch for name in watch.resting}  # nobody reaches it
    given_up |= {note.worker for note in decision.notes if note.kind == "unlent" and note.worker is not None}
    sound = [name for name in at_hand(before, job) if is_heard(world, before, name) and name not in given_up]
    return len(sound) < job.spec.min_workers or bool(reads_in_vain(before, job))


def left_refused(ghosts: Ghosts, world: World, decision: Decision) -> None:
    """By a job that rested nobody is refused, and nobody is refused for ever."""
    after, at = decision.cluster, world.decided_at
    paused = [note.job for note in decision.notes if note.kind == JobPhase.PAUSED and note.job is not None]
    for job in (after.jobs[id] for id in paused):
        rests = job.phase is JobPhase.PAUSED and job.wanted is not Wanted.HOLD  # a hold may be a pause at once
        assert not (rests and job.refused), f"{job.id} rests, and refuses {set(job.refused)}"
    for id, job in after.jobs.items():
        if job.ended or job.wanted is not Wanted.RUN or job.phase in (JobPhase.QUEUED, JobPhase.PAUSED):
            ghosts.rested[id] = at
        elif job.refused:
            last = max(ghosts.out_since.get(id, 0.0), ghosts.rested.get(id, 0.0))
            since = at - max(last, after.started, after.awake)
            named = set(job.refused)
            assert since <= world.policy.error_forget + LATE, f"{id} refuses {named} for what is {since:.1f} s ago"


def blamed_unseen(before: Cluster, decision: Decision) -> None:
    """Nobody is blamed for what happened while nobody led."""
    for note in decision.notes:
        if note.kind == "registered" and note.worker is not None and note.worker not in before.sightings:
            known, worker = before.workers.get(note.worker), decision.cluster.workers[note.worker]
            more = worker.errors - (known.errors if known is not None else 0)
            assert more <= 0, f"{note.worker} is blamed for what happened while nobody led"


def counted(ghosts: Ghosts, world: World, decision: Decision, before: Worker, after: Worker) -> None:
    """An error is forgiven by an operator, because a task failed of it, or because time passed without another."""
    name, at = after.name, world.decided_at
    said = [note.kind for note in decision.notes if note.worker == name]
    left = before.errors - ("forgiven" in said)  # of those that were counted; another one may come in the same breath
    if "forgiven" in said:
        assert not before.quarantined, f"{name} is in quarantine, and time forgives it"
        since = at - ghosts.blamed[name]
        assert since >= world.policy.error_forget, f"an error of {name} is forgiven after {since:.1f} s"
        ghosts.blamed[name] = at
    if after.errors > left:
        ghosts.blamed[name] = at
    failed = any(note.kind == JobPhase.FAILED for note in decision.notes)
    pardoned = failed or "cleared" in said
    assert after.errors >= left or pardoned, f"of {name}, {before.errors - after.errors} errors are forgiven at once"


def forgiven(ghosts: Ghosts, world: World, cluster: Cluster) -> None:
    """Time forgives those that are there."""
    for name, last in ghosts.blamed.items():
        worker, seen = cluster.workers.get(name), cluster.present(name)
        if worker is None or seen is None or not worker.errors or worker.quarantined:
            continue
        since = world.decided_at - max(last, seen.since, cluster.started, cluster.awake)
        assert since <= world.policy.error_forget + LATE, f"{name} is blamed for what is {since:.1f} s ago"
