"""When a checkpoint is struck: its file is damaged, and the job goes back to the newest older one.

Owns: whose word about a file counts, how many of them it takes, and what the job then begins from.
Refuses to know: how a file is read, and which checkpoints are kept (`keeping`). A struck one's file is never deleted.
Does not guarantee: that a struck file is damaged: where nobody else can tell, one worker's word does, the second time.

That the storage refused or did not answer says nothing of the file. Nor does it that a file in a folder is missing on
another machine than the one that wrote it: the folder may not be shared. What is missing may also be brought back, and
is waited for where no older checkpoint is left.
"""

from collections.abc import Mapping

from regroup.core.absence import is_near, is_useless
from regroup.core.cluster import Word
from regroup.core.jobs import Checkpoint, Job, JobPhase, Member, Struck
from regroup.core.messages.trainer_reports import CheckpointUnreadable
from regroup.core.roster import away, back_with_state
from regroup.core.turn import Turn


def take_word(turn: Turn, job: Job, member: Member, report: CheckpointUnreadable) -> None:
    """Somebody could not read the checkpoint that its generation begins from."""
    formation, checkpoint, watch = job.formation, job.latest, turn.watch(job.id)
    asked = formation is not None and formation.generation == report.generation
    if formation is None or not asked or checkpoint is None or formation.checkpoint != checkpoint:
        return  # told twice: nobody is to read that file any more
    name = member.worker
    words = watch.words if watch.questioned == checkpoint.path else {}
    before = words.get(name, Word(0, 0))
    if before.generation < report.generation:
        last = job.checkpoint is not None and not job.older
        waits = report.missing and (last or _lies_elsewhere(turn, name, checkpoint))
        counts = report.unfit or (report.damaged and not waits)
        words = {**words, name: Word(report.generation, before.damaged + counts)}
    unable = {**watch.unable, member: report.error}
    turn.change_watch(job.id, unable=unable, questioned=checkpoint.path, words=words)
    if _is_proven(turn, job, words):
        _strike(turn, job, checkpoint, words, report)


def _is_proven(turn: Turn, job: Job, words: Mapping[str, Word]) -> bool:
    """Whether two workers found it damaged, or unfit; or one did twice, and whoever else is there was asked, and cannot
    tell."""
    sure = [name for name, word in words.items() if word.damaged]
    if len(sure) != 1:
        return len(sure) > 1
    return words[sure[0]].damaged > 1 and not any(
        _could_be_asked(turn, job, name) for name in turn.workers.keys() - words
    )


def _could_be_asked(turn: Turn, job: Job, name: str) -> bool:
    if name in job.refused or turn.workers[name].departs or is_useless(turn, name):
        return False
    free = turn.workers[name].job is None and not turn.workers[name].quarantined  # or soon, once its trainer ended
    return (free or turn.workers[name].job == job.id) and is_near(turn, name)


def _lies_elsewhere(turn: Turn, name: str, checkpoint: Checkpoint) -> bool:
    """Whether the file was written into a folder of a machine that may come back, and this worker is on another one.

    Wherever its writer is by now: it may have been off for so long that it is forgotten, or its name may have moved.
    """
    return "://" not in checkpoint.path and checkpoint.host != turn.workers[name].host


def _strike(
    turn: Turn, job: Job, checkpoint: Checkpoint, words: Mapping[str, Word], report: CheckpointUnreadable
) -> None:
    names = ", ".join(sorted(name for name, word in words.items() if word.damaged))
    step = checkpoint.version.step
    if job.checkpoint is None:
        if away(turn, job) or back_with_state(turn, job):
            return  # nobody reads it any more, if the job can go on from what they hold
        damaged = f"the checkpoint of step {step} that it begins from is damaged: {names} found: {report.error}"
        unfit = f"it cannot begin from another job's checkpoint: {names} found: {report.error}"
        turn.end(job, JobPhase.FAILED, unfit if report.unfit else damaged)
        return
    left = job.older[0] if job.older else None
    base = left.version.step if left is not None else job.origin.step
    back = f"goes back to step {base}" if left is not None else f"begins again from step {base}, for none is older"
    reason = f"the checkpoint of step {step} is struck, and the job {back}: {names} found it damaged: {report.error}"
    struck = (*job.struck, Struck(checkpoint, report.error))
    turn.change_job(job, checkpoint=left, older=job.older[1:], struck=struck, reason=reason)
    turn.change_watch(job.id, unable={}, rereads=0, questioned="", words={})
    turn.note("struck", reason, job=job.id, step=step, path=checkpoint.path, base_step=base)
