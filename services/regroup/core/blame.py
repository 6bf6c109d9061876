"""Whose error it is: the task's, which fails the job, or a worker's, which counts against it or refuses it.

Owns: what makes a failure the task's (decision 0007), who may not take part in a job, whose replica is the odd one.
Refuses to know: how failures are noticed (`agent_reports`, `trainer_reports`, `hanging`), and who is given up
(`suspicion`).
"""

from collections.abc import Sequence
from dataclasses import replace

from regroup.core.beginning import other_data
from regroup.core.jobs import IN_DATA, IN_LOAD, IN_REPORT, IN_STATE, OUTSIDE, Formation, Job, JobPhase, StepFailure
from regroup.core.messages.trainer_reports import WORKER, PrepareFailed, ReplicasDiffered
from regroup.core.replicas import sound
from regroup.core.schedule import may_be_lent, other_holders
from regroup.core.settling import candidates
from regroup.core.suspicion import quiet
from regroup.core.turn import Turn
from regroup.core.workers import TrainerStatus

REMEMBERED = 20  # failures of a job in full, the newest ones
TRIES_OF_ONE = 4  # failures of one worker, though another one was to try each time
AT_A_SAVE = (IN_STATE, IN_REPORT)  # of which something may be durable
_PLACES = {
    OUTSIDE: "outside of a pass",
    IN_STATE: "in its state()",
    IN_REPORT: "in its report()",
    IN_DATA: "at its data",
    IN_LOAD: "as it took the state",
}


def agrees(turn: Turn, job: Job, name: str, status: TrainerStatus) -> bool:
    """Compare a prepared trainer's code and data with the job's; the first one sets them.

    Until anything was trained they are set anew where nobody is left that has them: that one's code may be mended now.
    """
    theirs = status.fingerprint
    others = [each for each in candidates(turn.cluster, job) if each.worker != name]
    if (why := other_data(job, theirs)) is not None:
        _refuse_data(turn, job, name, why)
        return False
    if job.fingerprint is None or not (job.history or others):
        turn.change_job(job, fingerprint=theirs)
        return True
    if theirs == job.fingerprint:
        return True
    ours = job.fingerprint
    parts = [part for part in ("code", "dataset", "samples") if getattr(theirs, part) != getattr(ours, part)]
    differ = "differ" if len(parts) > 1 else "differs"
    drawn = "" if "code" in parts else ": whatever draws it must be seeded, and read the same files"
    turn.refuse(job, name, f"its {' and '.join(parts)} {differ} from the other workers'{drawn}")
    return False


def _refuse_data(turn: Turn, job: Job, name: str, why: str) -> None:
    """Not the data of the checkpoint that the job begins from. Where two find the same, or nobody else is there to
    look, it is the job's; else this worker's."""
    if not job.history and (why in job.refused.values() or not _others(turn, job, name)):
        turn.end(job, JobPhase.FAILED, f"it cannot begin from another job's checkpoint: {why}")
    else:
        turn.refuse(job, name, why)


def _others(turn: Turn, job: Job, name: str) -> list[str]:
    """The workers that are there and may take part in the job, now or later, but this one."""
    others = turn.workers.keys() - job.refused.keys() - {name}
    return [one for one in others if turn.cluster.present(one) and may_be_lent(turn.cluster, one)]


def prepare_failed(turn: Turn, job: Job, name: str, report: PrepareFailed) -> None:
    """Before the first formation it is the job's spec that is wrong; later, or if it says so itself, the worker."""
    reason = f"{report.field}: {report.message}"
    if not job.history and report.field != WORKER:
        turn.end(job, JobPhase.FAILED, reason, error=report.traceback or reason)
    else:
        turn.refuse(job, name, reason)


def died_preparing(turn: Turn, job: Job, failure: StepFailure) -> None:
    """A process ended before its worker took part. Once the task has prepared on any, and while another worker is
    prepared, it is this worker's error, which was counted."""
    if not (job.history and any(one.worker != failure.worker for one in candidates(turn.cluster, job))):
        blame_task(turn, job, failure)


def blame_task(turn: Turn, job: Job, failure: StepFailure) -> None:
    """The same step and shard failing on two workers, or again where there is no other worker, is the task's error.
    So is its state(), unless it came off in between, or its report(), at whatever steps: that is the same code. What
    may be one worker's is not, where there are others to go on (`_is_its_own`).

    By chance it is where a process was killed by SIGKILL, by whoever it was, as also the kernel does when memory is
    short, or is gone with its agent. That says nothing beside a failure of another kind; only the third time in the
    same step and shard, and not all on one worker, is taken for the task's doing. Nor are those that come once on each
    while it prepares: all may have lost their power. Once a job trains, those of one generation are one time: somebody
    may have killed all its workers at once.
    """
    if failure.generation and failure in job.failures:
        return  # told twice
    kept = failure.shard in AT_A_SAVE
    alike = [f for f in job.failures if f.shard == failure.shard and (kept or f.step == failure.step)]
    same = [f for f in alike if failure.chance or not f.chance]
    preparing = failure.step < 0
    job = turn.change_job(job, failures=_remembered((*job.failures, failure), len(turn.workers)))
    others = {f.worker for f in same} - {failure.worker}
    if _is_its_own(turn, job, failure, bool(others)):
        return
    times = len(same) + 1 if preparing else len({f.generation for f in (*same, failure)})
    killed = [f.worker for f in (*same, failure) if f.chance]
    once = len(set(killed)) == len(killed)
    often = times >= 3 and not (preparing and once)
    alone = job.formation is None or len(job.formation.seats) == 1
    if (others and often) if failure.chance else (others or (same and alone) or len(same) >= TRIES_OF_ONE):
        place = _PLACES.get(failure.shard, f"shard {failure.shard}")
        where = "while preparing" if preparing else f"in step {failure.step}, {place}"
        workers = ", ".join(sorted({f.worker for f in (*same, failure)}))
        last = _last_line(failure.error)
        left = _left(job) if kept else ""
        turn.end(job, JobPhase.FAILED, f"the task failed {where} on {workers}: {last}{left}", error=failure.error)
        for each in (*same, failure):
            if each.died and each.worker in turn.workers:
                turn.forgive_error(each.worker)


def _is_its_own(turn: Turn, job: Job, failure: StepFailure, others: bool) -> bool:
    """Whether a failure is taken for this worker's alone. Where it comes again it takes no part in the job any more, if
    there are enough others. `others`: failed at the same.

    While it prepares, others are to try, too. Once others hold the state, it can be taken, and who cannot has that
    error; who fails in step after step, while nobody else does, is the cause."""
    name = failure.worker
    its = [one for one in job.failures if one.worker == name and not one.chance]
    untried = [one for one in _others(turn, job, name) if turn.workers[one].job in (None, job.id)]
    enough, most = len(untried) >= job.spec.min_workers, 1
    if failure.step < 0:
        own = bool(untried) and not (others or failure.chance)
        times = sum(one.step < 0 for one in its)
    elif failure.shard == IN_LOAD:
        own = _others_hold(turn, job, name)
        times = sum(one.shard == IN_LOAD and not one.died for one in its)  # a death was counted
    else:
        times, most = _in_a_row(job.failures), TRIES_OF_ONE
        tasks = failure.shard in AT_A_SAVE  # where the others were to try, and did not come off
        own = times > most and enough and not (others or tasks or failure.chance) and _others_hold(turn, job, name)
    if own and enough and times > most:
        again = "for the second time" if most == 1 else f"{times} times in a row, and nobody else"
        turn.refuse(job, name, f"{_last_line(failure.error)}, {again}")
    return own


def _others_hold(turn: Turn, job: Job, name: str) -> bool:
    """Whether another member of the last formation is heard of, and holds its state."""
    formation = job.formation
    holders = other_holders(turn.cluster, job, name, quiet(turn), owing=True)
    return formation is not None and any(
        member in formation.members and version >= formation.base for member, version in holders
    )


def _in_a_row(failures: Sequence[StepFailure]) -> int:
    """In how many generations, one after the other, all that failed were of one worker: each time in the same step as
    before, or in the next."""
    last = failures[-1]
    generations, step = set(), last.step
    for one in reversed(failures):
        if one.chance or one.step < 0:
            continue
        if one.worker != last.worker or not 0 <= step - one.step <= 1:
            break
        generations.add(one.generation)
        step = one.step
    return len(generations)


def _remembered(failures: tuple[StepFailure, ...], workers: int) -> tuple[StepFailure, ...]:
    """The newest, three of each worker, or no third time is seen. A job's record is written whole at each change, so
    that of older ones only the last line is kept."""
    kept = failures[-max(REMEMBERED, 3 * workers) :]
    old = (replace(one, error=_last_line(one.error)) if "\n" in one.error else one for one in kept[:-REMEMBERED])
    return (*old, *kept[-REMEMBERED:])


def _last_line(error: str) -> str:
    return (error.strip() or "without a word").splitlines()[-1]


def saved(job: Job) -> tuple[StepFailure, ...]:
    """What a job's failures are once its state() came off: none of those that were of it."""
    return tuple(one for one in job.failures if one.shard != IN_STATE)


def formed(job: Job, formation: Formation) -> tuple[StepFailure, ...]:
    """What they are once this formation is: it prepared, its members have taken the state, and one has given it."""
    members = {member.worker for member in formation.members}
    gave = formation.receivers and formation.checkpoint is None  # what its state() told
    past = (one for one in (saved(job) if gave else job.failures) if one.step >= 0)
    return tuple(one for one in past if one.shard != IN_LOAD or one.worker not in members)


def _left(job: Job) -> str:
    if job.latest is None:
        return "; nothing of its training is durable"
    return f"; what is durable is the state of step {job.saved.step}, in {job.latest.path}"


def count_odd_replicas(turn: Turn, job: Job, report: ReplicasDiffered) -> None:
    """An error for each worker whose replica is not the sound one."""
    formation = job.formation
    if formation is None or formation.generation != report.generation or len(report.digests) != len(formation.seats):
        return
    kept = sound(report.digests, formation.leader)
    for member, found in zip(formation.members, report.digests, strict=True):
        if found != kept:
            turn.count_error(member.worker, f"its replica differed at step {report.step}")
