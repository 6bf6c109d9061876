"""Who hangs, by the word of the agent beside it, and what that word changes.

Owns: when a hang begins a round, whom a round waits for no longer, who is left out although it answered (its data
never comes), and when slow data is the task's error.
Refuses to know: how a trainer is watched (the worker's `watching`), and how somebody is given up (`suspicion`).
Does not guarantee: that whoever is not accused does not hang. An agent that is away accuses nobody.
"""

from collections.abc import Sequence
from dataclasses import replace

from regroup.core.blame import blame_task
from regroup.core.branches import best_of
from regroup.core.cluster import Late, reached
from regroup.core.jobs import IN_DATA, Job, JobPhase, Member, StepFailure
from regroup.core.messages.agent_reports import MAX_STACKS, StacksTaken
from regroup.core.regroup import Wait
from regroup.core.settling import answers_of
from regroup.core.suspicion import evict, hang_words, told_lately
from regroup.core.turn import Turn
from regroup.core.workers import Hang, Sighting
from regroup.core.written import take_told

GRACE = 1.0  # seconds that who hangs has to come back, once the others have answered
STARVED = 3  # fetches for one step, each longer than step_timeout, until it is the task's error


def hang_told(turn: Turn, name: str, before: Sighting) -> None:
    """Say once what a heartbeat says for the first time. `before`: what was known until then.

    A fetch that outlasts step_timeout counts here, for others' may end just then, and each round come to nothing.
    """
    seen = turn.sightings[name]
    hang, trainer = seen.hang, seen.trainer
    if hang is None or trainer is None:
        return
    known = before.trainer is not None and before.trainer.incarnation == trainer.incarnation
    if not known or before.hang is None or hang.lasts < before.hang.lasts:  # that one was over meanwhile
        turn.sightings[name] = replace(seen, hung=turn.now)
    if known and before.hang is not None and (before.hang.phase, before.hang.fetch) == (hang.phase, hang.fetch):
        return
    facts = {"phase": str(hang.phase), "seconds": round(hang.lasts, 3), "limit": round(hang.limit, 3)}
    turn.note("hang", f"the trainer on {name} {hang_words(hang)}", trainer.job, name, **facts)
    job = turn.jobs.get(trainer.job)
    if job is not None and hang.fetch and hang.lasts >= job.spec.step_timeout:
        _came_too_late(turn, job, Member(name, trainer.incarnation), hang)


def stacks_taken(turn: Turn, name: str, report: StacksTaken) -> None:
    if report.job in turn.jobs:
        reason = f"where the trainer on {name} hangs in phase {report.phase}"
        turn.note("stacks", reason, report.job, name, stacks=report.stacks[:MAX_STACKS])


def worth_a_round(turn: Turn, job: Job, formed: bool = True) -> str | None:
    """Why the last formation had better go on without some of it; None where all of it hangs, or nobody.

    Until it is `formed`, nobody needs data, and who lacks it may be needed for its state.
    """
    members = job.formation.members if job.formation is not None else ()
    found = {member: hang for member in members if (hang := turn.cluster.hang(member)) is not None}
    if len(found) == len(members):
        return None
    said = [f"{member.worker} {hang_words(hang)}" for member, hang in found.items() if formed or not hang.fetch]
    return "; ".join(said) or None


def waits_in_vain(turn: Turn, job: Job, unanswered: Sequence[Member]) -> bool:
    """Whether all that a plain round waits for hang, had their time to come back, and are not needed."""
    watch = turn.watch(job.id)
    if not unanswered or any(turn.cluster.hang(member) is None for member in unanswered):
        return False
    if turn.waited(max(watch.since, watch.answered)) <= GRACE:
        return False
    verdict = answers_of(turn, job)[1]
    return not (isinstance(verdict, Wait) and verdict.missing)


def awaits_data(turn: Turn, job: Job) -> list[Member]:
    """Those that answered, and whose data does not come: to form with them is in vain, if others hold what is gone on
    from. Where nobody does, others can read it."""
    watch = turn.watch(job.id)
    answers = {one: said for one, said in watch.answers.items() if one not in watch.dead and turn.cluster.trainer(one)}
    hangs = {one: hang for one in answers if (hang := turn.cluster.hang(one)) is not None}
    held = {one: said.version for one, said in answers.items() if said.version is not None}
    best, fit = best_of(job, held), [one for one in answers if one not in hangs and told_lately(turn, one.worker)]
    others = [one for one in fit if answers[one].version == best] if best in held.values() else fit
    return [one for one, hang in hangs.items() if hang.fetch] if others else []


def set_aside(turn: Turn, job: Job, members: Sequence[Member]) -> None:
    """They are evicted. The same step on two workers is the task's error, which ends the job."""
    for member in members:
        hang, job = turn.cluster.hang(member), turn.jobs[job.id]
        if hang is None or job.ended or not told_lately(turn, member.worker):
            continue  # it answered, so it was asked
        watch = turn.watch(job.id)
        turn.change_watch(job.id, answers={one: said for one, said in watch.answers.items() if one != member})
        evict(turn, job, member, f"it {hang_words(hang)}")
        error = "it waited for its data in vain, and was evicted"
        generation = job.formation.generation if job.formation is not None else 0
        failure = StepFailure(reached(job, watch), IN_DATA, member.worker, error, died=True, generation=generation)
        blame_task(turn, turn.jobs[job.id], failure)


def starve(turn: Turn, job: Job) -> None:
    """No step in time, because data does not come to anybody."""
    for member in job.formation.members if job.formation is not None else ():
        hang = turn.cluster.hang(member)
        if hang is not None and hang.fetch:
            _came_too_late(turn, turn.jobs[job.id], member, hang)


def _came_too_late(turn: Turn, job: Job, member: Member, hang: Hang) -> None:
    """Count this fetch, once. Where data comes too late again and again, the job ends.

    A fetch that never ends is no new one: storage may return.
    """
    if job.ended:
        return
    watch, limit = turn.watch(job.id), job.spec.step_timeout
    step, before = reached(job, watch), watch.late.get(member.worker)
    known = before.fetches if before is not None and before.step == step else frozenset()
    late = Late(step, known | {(member.incarnation, hang.fetch)})
    turn.change_watch(job.id, late={**watch.late, member.worker: late})
    if len(late.fetches) >= STARVED:
        way_out = "make the dataset faster, or step_timeout longer"
        reason = f"the task failed in step {step}: {STARVED} times no data came in {limit:g} s: {way_out}"
        turn.end(take_told(turn, job.id), JobPhase.FAILED, reason, error=reason)
