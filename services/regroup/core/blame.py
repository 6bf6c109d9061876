"""Whose error it is: the task's, which fails the job, or a worker's, which counts against it or refuses it.

Owns: what makes a failure the task's (decision 0007), and who takes no part in a job for what failed on it.
Refuses to know: how failures are noticed (`agent_reports`, `trainer_reports`, `hanging`), who is given up
(`suspicion`), and whose code or data differ (`likeness`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from regroup.core.absence import others_to_try, untried
from regroup.core.branches import follows
from regroup.core.cluster import reached
from regroup.core.copies import other_holders
from regroup.core.failures import AT_A_SAVE, beside_others, is_made
from regroup.core.jobs import (
    IN_DATA,
    IN_LOAD,
    IN_REPORT,
    IN_STATE,
    OUTSIDE,
    Job,
    JobPhase,
    Member,
    StepFailure,
    Version,
    Wanted,
)
from regroup.core.roster import away, back_with_state, candidates, passed
from regroup.core.suspicion import heard_lately, quiet
from regroup.core.turn import Turn
from regroup.core.written import take_told

REMEMBERED = 20  # failures of a job in full, the newest ones
TRIES_OF_ONE = 4  # failures of one worker, though another one was to try each time
_PLACES = {
    OUTSIDE: "outside of a pass",
    IN_STATE: "in its state()",
    IN_REPORT: "in its report()",
    IN_DATA: "at its data",
    IN_LOAD: "as it took the state",
}


def died_preparing(turn: Turn, job: Job, failure: StepFailure) -> None:
    """A process ended before its worker took part. While another worker of a job that trained is prepared, this is the
    worker's error: it was counted, and the second time it takes no part any more, if there are enough others."""
    name = failure.worker
    others = any(one.worker != name for one in candidates(turn.cluster, job)) or _others_are_away(turn, job, name)
    if not (job.history and others):
        blame_task(turn, job, failure)
        return
    _prepares_elsewhere(turn, _remember(turn, job, replace(failure, generation=job.generation)), failure)


def blame_task(turn: Turn, job: Job, failure: StepFailure) -> None:
    """The same step and shard failing on two workers, or again where there is no other worker, is the task's error.
    So is its state(), unless it came off in between, or its report(), at whatever steps: that is the same code. What
    may be one worker's is not (`_is_its_own`), unless nothing is lost with a job that needs that one. Nor are data that
    do not come, until no step was made for `step_timeout`: storage stalls for all at once, and returns.

    By chance it is where a process was killed by SIGKILL, by whoever it was, as also the kernel does when memory is
    short, or is gone with its agent. That says nothing beside a failure of another kind; only the third time in the
    same step and shard, and not all on one worker, is taken for the task's doing. Nor are those that come once on each
    while it prepares: all may have lost their power. Once a job trains, those of one generation are one time: somebody
    may have killed all its workers at once.
    """
    if failure.generation and failure in job.failures:
        return  # told twice
    if _came_off(turn, job, failure):
        return  # since, with others
    preparing = failure.step < 0
    kept = failure.shard in AT_A_SAVE
    alike = [f for f in job.failures if f.shard == failure.shard and (kept or f.step == failure.step)]
    same = [f for f in alike if (failure.chance or not f.chance) and not (beside_others(f) or f.made)]
    job = _remember(turn, job, failure)
    formed = job.formation.generation if job.formation is not None else 0
    if not failure.died and 0 < failure.generation < formed:
        return  # told so late that it may have come off since: it decides nothing, and counts beside the next
    if not preparing and job.formation is None:
        return  # the job rests, or begins anew: what broke is closed, and this counts beside the next
    stalls = failure.shard == IN_DATA and turn.waited(turn.watch(job.id).progressed) <= job.spec.step_timeout
    others = {f.worker for f in same} - {failure.worker}
    if _is_its_own(turn, job, failure, bool(others)) or stalls:
        return
    times = len(same) + 1 if preparing else len({f.generation for f in (*same, failure)})
    killed = [f.worker for f in (*same, failure) if f.chance]
    once = len(set(killed)) == len(killed)
    often = times >= 3 and not (preparing and once)
    nothing_lost = not (kept or _trained(turn, job))
    near = [one for one in untried(turn, job, failure.worker) if turn.workers[one].job == job.id]
    alone = job.formation is None or (len(job.formation.seats) == 1 and not near)
    vain = len(same) >= TRIES_OF_ONE or (nothing_lost and _in_a_row(job.failures) > TRIES_OF_ONE)
    if (others and often) if failure.chance else (others or (same and alone) or vain):
        place = _PLACES.get(failure.shard, f"shard {failure.shard}")
        where = "while preparing" if preparing else f"in step {failure.step}, {place}"
        workers = ", ".join(sorted({f.worker for f in (*same, failure)}))
        last = _last_line(failure.error)
        job = take_told(turn, job.id)
        left = _left(job) if kept else ""
        # Where others were there to try, and were not free to, it may be this worker that fails each job.
        its = preparing and not others and others_to_try(turn, job, failure.worker)
        turn.end(job, JobPhase.FAILED, f"the task failed {where} on {workers}: {last}{left}", error=failure.error)
        for each in (*same, failure):
            if each.died and not its and each.worker in turn.workers:
                turn.forgive_error(each.worker)


def _came_off(turn: Turn, job: Job, failure: StepFailure) -> bool:
    """Whether its step is known to be made, also if it is told so late that this was heard before it."""
    last, watch = job.formation, turn.watch(job.id)
    known = [Version(job.generation + 1, reached(job, watch))]  # of whichever generation
    if last is not None:
        known += [Version(last.generation, step) for step in watch.committed.values()]
    return any(is_made(failure, one) for one in known)


def _is_its_own(turn: Turn, job: Job, failure: StepFailure, others: bool) -> bool:
    """Whether a failure is taken for this worker's alone, which takes no part in the job any more where it comes again.
    `others`: failed at the same."""
    if failure.step < 0:
        return not (others or failure.chance) and _prepares_elsewhere(turn, job, failure)
    if failure.shard == IN_LOAD:
        return _can_be_taken(turn, job, failure)
    tasks = failure.shard in AT_A_SAVE  # where the others were to try, and did not come off
    if others or tasks or failure.chance:
        return False
    return _begins_elsewhere(turn, job, failure) or _fails_alone(turn, job, failure)


def _prepares_elsewhere(turn: Turn, job: Job, failure: StepFailure) -> bool:
    """Others are to try as well. Each death was counted: where they are too few, it is tried until its quarantine."""
    others = untried(turn, job, failure.worker)
    times, again = _times(one for one in job.failures if one.worker == failure.worker and one.step < 0)
    if times > 1 and _enough(job, others):
        _leave_out(turn, job, failure, again)
    return bool(others)


def _can_be_taken(turn: Turn, job: Job, failure: StepFailure) -> bool:
    """Once another one took the state, who cannot has that error. If the job waits without it, it tries more often."""
    times, again = _times(one for one in job.failures if one.worker == failure.worker and one.shard == IN_LOAD)
    taken, trained = _was_taken(turn, job, failure.worker), _trained(turn, job)
    enough = _enough(job, untried(turn, job, failure.worker))
    if taken and times > 1 and (enough or (trained and times > TRIES_OF_ONE)):
        _leave_out(turn, job, failure, again)
        return True
    return (taken and times <= TRIES_OF_ONE) or (trained and _others_are_away(turn, job, failure.worker))


def _begins_elsewhere(turn: Turn, job: Job, failure: StepFailure) -> bool:
    """With no step to lose, a job of one worker begins on another one, where this one failed twice: else one broken
    device would fail each job of the queue."""
    if job.formation is None or len(job.formation.seats) > 1 or _trained(turn, job):
        return False
    times, again = _times(one for one in job.failures if one.worker == failure.worker and one.step >= 0)
    enough = times > 1 and _enough(job, untried(turn, job, failure.worker))
    if enough:
        _leave_out(turn, job, failure, again)
    return enough


def _fails_alone(turn: Turn, job: Job, failure: StepFailure) -> bool:
    """Who fails in step after step, while nobody else does and others hold the state, is the cause."""
    times, trained = _in_a_row(job.failures), _trained(turn, job)
    if times <= TRIES_OF_ONE:
        return False
    enough = _enough(job, untried(turn, job, failure.worker))
    if _others_hold(turn, job, failure.worker) and (enough or trained):
        _leave_out(turn, job, failure, f"{times} times in a row, and nobody else")
        return True
    return trained and _others_are_away(turn, job, failure.worker)


def _leave_out(turn: Turn, job: Job, failure: StepFailure, again: str) -> None:
    turn.refuse(job, failure.worker, f"{_last_line(failure.error)}, {again}")


def _times(failures: Iterable[StepFailure]) -> tuple[int, str]:
    """How often a worker failed, where one time may have been by chance; and how often it was, in words."""
    chances = [failure.chance for failure in failures]
    told = "for the second time" if len(chances) == 2 else f"{len(chances)} times"
    return max(chances.count(False), len(chances) - 1), told


def _enough(job: Job, workers: Sequence[str]) -> bool:
    return len(workers) >= job.needs


def _trained(turn: Turn, job: Job) -> bool:
    """Whether there are steps to lose. Who failed in one, and lives, made those before it, told or not."""
    last, known = job.formation, reached(job, turn.watches.get(job.id))
    if last is None:
        return known > job.origin.step
    failed = (one.step for one in job.failures if one.generation == last.generation and not one.died)
    return max(last.base.step, known, *failed) > job.origin.step


def _others_hold(turn: Turn, job: Job, name: str) -> list[Member]:
    """The other members of the last formation that are heard of, and hold its state."""
    formation = job.formation
    if formation is None:
        return []
    holders = other_holders(turn.cluster, job, name, quiet(turn), owing=True)
    return [one for one, held in holders if one in formation.members and follows(job, held, formation.base)]


def _others_are_away(turn: Turn, job: Job, name: str) -> bool:
    """Whether another one may hold the state: a member of the last formation that is not heard of, and may train on all
    the same; one that was cut off a moment ago; one that is back with it, and may be asked."""
    members = job.formation.members if job.formation is not None else ()
    # One that is to stop waits less long for them; of the task that says nothing.
    lasting = replace(job, wanted=Wanted.RUN) if job.wanted is Wanted.STOP else job
    gone = passed(turn, lasting) | turn.watch(job.id).evicted
    others = [one for one in members if one.worker != name and one not in gone]
    unheard = any(turn.cluster.trainer(one) is None or not heard_lately(turn, one.worker) for one in others)
    return unheard or any(one.worker != name for one in (*away(turn, job), *back_with_state(turn, job)))


def _was_taken(turn: Turn, job: Job, name: str) -> bool:
    """Whether others hold the state, and not only the one that built it and never gave it to anybody."""
    holders, formation = _others_hold(turn, job, name), job.formation
    from_seed = formation is not None and job.beginning is None and not _trained(turn, job)
    built = formation.members[formation.leader] if formation is not None and from_seed else None
    return any(member != built for member in holders)


def _in_a_row(failures: Sequence[StepFailure]) -> int:
    """In how many generations, one after the other, all that failed were of one worker: each time in the same step as
    before, or in the next."""
    last = failures[-1]
    generations, step = set(), last.step
    for one in reversed(failures):
        if one.chance or one.step < 0 or (one.shard == IN_DATA and last.shard != IN_DATA):
            continue  # that says nothing of a device
        if one.worker != last.worker or not 0 <= step - one.step <= 1:
            break
        generations.add(one.generation)
        step = one.step
    return len(generations)


def _remember(turn: Turn, job: Job, failure: StepFailure) -> Job:
    """Of the newest three for each worker, or no third time is seen. A job's record is written whole at each change, so
    that of older ones only the last line is kept."""
    kept = (*job.failures, failure)[-max(REMEMBERED, 3 * len(turn.workers)) :]
    old = (replace(one, error=_last_line(one.error)) if "\n" in one.error else one for one in kept[:-REMEMBERED])
    return turn.change_job(job, failures=(*old, *kept[-REMEMBERED:]))


def _last_line(error: str) -> str:
    return (error.strip() or "without a word").splitlines()[-1]


def _left(job: Job) -> str:
    if job.latest is None:
        return "; nothing of its training is durable"
    return f"; what is durable is the state of step {job.saved.step}, in {job.latest.path}"
