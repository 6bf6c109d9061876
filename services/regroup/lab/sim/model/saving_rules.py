"""What must hold when a state is saved, and of the file that it is in.

Owns: the rules for checkpoints. Refuses to know: formations (`decision_rules`), and who rests or ends with a state
(`ending_rules`).
"""

from collections.abc import Collection

from regroup.core.cluster import Cluster, Watch, reached
from regroup.core.decide import Decision
from regroup.core.jobs import Formation, Job, JobPhase, Member, Version, Wanted
from regroup.core.messages.orders import Discard, Save
from regroup.core.workers import TrainerStatus
from regroup.lab.sim.model import leaving_rules
from regroup.lab.sim.model.ending_rules import is_at_once
from regroup.lab.sim.model.ghosts import Ghosts, surviving
from regroup.lab.sim.model.rollback_rules import gave_up
from regroup.lab.sim.model.trainer import History
from regroup.lab.sim.model.world import World, answered, fresh, is_overtaken, told_back


def to_save(
    ghosts: Ghosts, world: World, before: Cluster, decision: Decision, old: Job, job: Job, saver: Member
) -> None:
    """Who is to save answered with the best of the answers; and where they hold no anchor, rule 7 allows to go back."""
    cluster, formation = decision.cluster, old.formation
    assert formation is not None, "a state is to be saved, and no generation made it"
    answers = answered(cluster, job)
    held = {member: version for member, version in answers.items() if version is not None}
    version, best = answers.get(saver), ghosts.best(job, held)
    assert version is not None, f"{saver} is to save, and said that it holds nothing"
    assert version == best, f"{version} is to be saved, and {best} was answered"
    ghosts.savers.setdefault(job.id, {})[saver] = version
    leaving_rules.to_save(cluster, job, version, saver)
    if not ghosts.goes_on(job.id, job.generation, version) or all(
        answers.get(member) is None for member in formation.members
    ):
        gave_up(world, before, cluster, old, job, version)
        shown = reached(old, before.watches.get(job.id))
        assert version.step >= shown or told_back(decision, job.id), "steps that were shown are given up unsaid"


def saved(ghosts: Ghosts, world: World, before: Cluster, decision: Decision, old: Job, job: Job) -> None:
    """What is called durable is, is what was asked for, and is the state that history tells of."""
    notes = [note.data for note in decision.notes if note.kind == "checkpoint" and note.job == job.id]
    beside = [Version(data["generation"], data["step"]) for data in notes]  # several may be told at once
    assert job.checkpoint is not None, "a checkpoint is forgotten"
    version = job.checkpoint.version
    assert job.checkpoint.path not in ghosts.deleted, f"{version} counts, and its file was deleted"
    bad = [one.checkpoint.path for one in job.struck]
    assert job.checkpoint.path not in bad, f"{version} was struck, and counts again"
    _keeps(old, job, beside)
    again = old.checkpoint is not None and version == old.checkpoint.version and old.saver is not None
    newer = old.checkpoint is None or version > old.checkpoint.version
    assert newer or again, f"the checkpoint goes back to {version}"  # again: it had just been written beside, too
    for each in {version, *beside}:
        assert (job.id, each) in ghosts.written, "called saved before its state was durable"
        made = surviving(job.history, each, job.origin.step)
        assert ghosts.states[job.id, each] == made, "the checkpoint is not as history tells"
    status = _last_word(world, decision.cluster, old.saver) if old.saver is not None else None
    ordered = status is not None and status.version == version and (old.saver, version) in ghosts.writers
    if old.saver is not None and (ordered or (job.saver is None and version not in beside)):
        saver = world.living(old.saver)
        asked = (old.saver, version) in ghosts.writers or (saver is not None and saver.session.version == version)
        assert asked or saver is None, "the checkpoint is not what the saver was asked for"
    else:
        assert version in beside, f"{version} counts, and nobody said so"
    for each in beside:
        if _lies_on(each, status.version if status is not None else None) or _was_asked(ghosts, old, each):
            continue  # what the saver has, or had before: it is told before the task is asked for its report
        _beside(ghosts, world, before, decision.cluster, old, job, each)


def _last_word(world: World, cluster: Cluster, member: Member) -> TrainerStatus | None:
    """What is known of a trainer, also of one that has ended, as its agent tells it."""
    ended = [one for name, one in world.told_left(cluster) if Member(name, one.incarnation) == member]
    return cluster.trainer(member) or next(iter(ended), None)


def _was_asked(ghosts: Ghosts, job: Job, version: Version) -> bool:
    """Whether it, or what came from it in the last generation, was to be saved, whether that was given up or not."""
    if job.formation is None:
        return False
    last, asked = version.generation == job.formation.generation, ghosts.savers.get(job.id, {})
    return any(its == version or (last and _lies_on(version, its)) for its in asked.values())


def heard(ghosts: Ghosts, world: World, before: Cluster, decision: Decision) -> None:
    """What those tell to be whole who were to save since the last formation counts at once, given up or not."""
    after = decision.cluster
    for id, asked in ghosts.savers.items():
        job, old = after.jobs.get(id), before.jobs.get(id)
        last = old.formation if old is not None else None
        if job is None or job.ended or job.formation is None or last is None or is_overtaken(world, job):
            continue
        newest = max([job.saved, *(one.checkpoint.version for one in job.struck)])
        for name, status in (*fresh(before, after), *world.told_left(after)):
            if status.job != id or Member(name, status.incarnation) not in asked:
                continue
            whole = [one.version for one in status.written if _lies_on(one.version, status.version)]
            lost = [version for version in whole if version.generation == last.generation and version > newest]
            assert not lost, f"{name} was to save, told that {lost} is whole, and {newest} counts"


def forgotten(ghosts: Ghosts, job: Job | None, files: Collection[str]) -> None:
    """A file is told of until its job names it: as one that is kept, was struck or is to be deleted."""
    if job is None:
        return
    named = {one.path for one in (*job.kept, *job.doomed, *(each.checkpoint for each in job.struck))}
    lost = set(files) - named - ghosts.deleted
    assert not lost, f"{lost} is told of no more, and its job does not name it"


def left(ghosts: Ghosts, world: World, before: Cluster, decision: Decision, old: Job, job: Job) -> None:
    """Who goes back goes back to no less than what agents told that is whole, though they may be cut off by now."""
    if job.saver is not None or old.formation is None:
        return
    issued = job.formation is not None and job.formation is not old.formation
    base = job.formation.base if job.formation is not None and issued else job.saved
    last = old.formation.generation
    known = [(name, one.trainer) for name, one in before.sightings.items() if one.trainer is not None]
    told = [(name, one) for name, one in (*world.told_left(decision.cluster), *known) if one.job == job.id]
    # One below a file that was struck may have been deleted since, as overtaken: nobody counts on it any more.
    struck = max((one.checkpoint.version for one in job.struck), default=old.origin)
    line = surviving(old.history, Version(last, old.history[-1].base_step), old.origin.step)
    goes_on = _generations(old)
    for name, ended in told:
        for version in [one.version for one in ended.written if one.version > struck]:
            survives = version.generation in goes_on and ghosts.states[job.id, version] == line[: version.step]
            counts = survives or version.generation == last
            lost = counts and version > base and version.step > base.step  # what has no more steps is no loss
            assert not lost, f"{base} is gone back to, and {name} told that {version} is whole"


def goes_on(before: Cluster, job: Job, base: Version) -> None:
    """A file that was told of counts once the training goes on from beyond it."""
    watch = before.watches.get(job.id)
    newest = max([job.saved, *(one.checkpoint.version for one in job.struck)])
    for version in [one.version for one in watch.written] if watch is not None else ():
        counts = version <= newest or version.generation != base.generation or version > base
        assert counts, f"{job.id} goes on from {base}, {version} is known to be whole, and {newest} counts"


def counts(before: Cluster, after: Cluster, job: Job, watch: Watch) -> None:
    """A file counts as soon as it is told that all that may be alive have made its step, or told of it again."""
    if not watch.written or job.formation is None or job.saver is not None or job.struck:
        return
    was = before.watches.get(job.id)
    stepped = was is None or was.committed != watch.committed
    told = {one.version for _, status in fresh(before, after) if status.job == job.id for one in status.written}
    made = min([watch.committed.get(one, -1) for one in job.formation.members if one not in watch.dead], default=-1)
    wait = [one.version for one in watch.written if one.version.generation == job.formation.generation]
    late = [each for each in wait if job.saved < each and each.step <= made and (stepped or each in told)]
    assert not late, f"all have made the steps of {late}, which wait to count"


def _generations(job: Job) -> set[int]:
    """Those of the line that goes on. One that was gone back behind is void, though it began with the same state."""
    parents, found, n = {link.generation: link.parent for link in job.history}, set[int](), job.history[-1].generation
    while n in parents:
        found.add(n)
        n = parents.pop(n)
    return found


def _lies_on(version: Version, held: Version | None) -> bool:
    """Whether a state is one that another one of its generation came from, or that one."""
    return held is not None and held.generation == version.generation and held >= version


def _keeps(old: Job, job: Job, beside: Collection[Version]) -> None:
    """The newest and the best of those that there were, and no others."""
    new = [one for one in (*job.kept, *job.doomed) if one is job.checkpoint or one.version in beside]
    files = {one.path: one for one in (*old.kept, *new)}
    newest = sorted(files.values(), key=lambda one: one.version, reverse=True)
    scored = [(one.score, place, one.path) for place, one in enumerate(newest) if one.score is not None]
    wanted = {one.path for one in newest[: job.spec.keep_last]}
    wanted |= {path for _, _, path in sorted(scored)[: job.spec.keep_best]}  # of equal ones the newest
    kept = {one.path for one in (job.checkpoint, *job.older) if one is not None}
    assert kept == wanted, f"{kept} are kept, not the newest and the best, {wanted}"
    assert wanted.isdisjoint(one.path for one in job.doomed), "one of the newest or the best is to be deleted"


def discards(ghosts: Ghosts, cluster: Cluster, order: Discard) -> None:
    """No file that is kept is deleted, whoever wrote it too; nor one that was struck, nor one that may yet count."""
    job = cluster.jobs[order.job]
    struck = [one.checkpoint for one in job.struck]
    kept = {one.path for one in (job.checkpoint, *job.older, *struck) if one is not None}
    gone = {*order.paths, *ghosts.let_go_by(order)}
    assert kept.isdisjoint(gone), f"{kept & gone} are kept, and to be deleted"
    assert order.below <= job.saved, f"all below {order.below} is to be deleted, and {job.saved} is the newest"


def _beside(
    ghosts: Ghosts, world: World, before: Cluster, after: Cluster, old: Job, job: Job, version: Version
) -> None:
    """What was written beside the training counts only once all who train on said that they are not behind it, or go on
    from beyond it; or once all that the last generation held in memory is given up, as also where the job fails, or is
    stopped at once."""
    assert old.formation is not None, "a checkpoint moves, and nobody trains, and nobody was asked to save"
    made, said = ghosts.states[job.id, version], _all_made(before, after, old, old.formation)
    on = [one.formation for one in (old, job) if one.formation and made == _line(one, said)[: version.step]]
    if not on:
        assert version.generation == old.formation.generation, f"{version} counts, and step {said} is committed"
        if job.phase is not JobPhase.FAILED and not is_at_once(job):  # those wait for nothing that is held in memory
            gave_up(world, before, after, old, job, version)
        return
    for trainer in [one for one in map(world.living, on[0].members) if one is not None]:
        held = trainer.session.version
        behind = held is not None and held < version and on[0].base < version  # else it is given its base
        assert not behind, f"{version} counts, and {trainer.member} holds {held}"


def _all_made(before: Cluster, after: Cluster, job: Job, formation: Formation) -> int:
    """The steps that all members are known to have made, by what was known, and what each says now."""
    watches = [watch for one in (before, after) if (watch := one.watches.get(job.id)) is not None]
    told = {member: [watch.committed.get(member, -1) for watch in watches] for member in formation.members}
    for member, steps in told.items():
        status = after.trainer(member)
        if status is not None and status.version is not None and status.version.generation == formation.generation:
            steps.append(status.version.step)
    made = {member: max(steps, default=-1) for member, steps in told.items()}
    dead = {member for watch in watches for member in watch.dead}  # who is, holds nothing
    living = [step for member, step in made.items() if member not in dead]
    return max(
        job.step, min(made.values()), max(made.values()) - 1, min(living, default=-1)
    )  # each takes a part of all


def _line(job: Job, said: int) -> History:
    newest = job.history[-1]
    return surviving(job.history, Version(newest.generation, max(said, newest.base_step)), job.origin.step)


def asked(world: World, cluster: Cluster, name: str, order: Save) -> None:
    """Who saves the state with which its job ends makes the task's report, too."""
    job = cluster.jobs[order.job]
    ends = job.wanted is Wanted.STOP or order.version.step == job.steps
    said = f"{name} saves, {job.id} ends with it: {ends}, and its report is due: {order.final}"
    assert order.final is ends or is_overtaken(world, job), said
