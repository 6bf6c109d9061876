"""What must be true of the play, judged from values alone: each function raises ClaimFailed unless it is.

Owns: the judgement on the steps around the kill, on the processes that live on, and on the curve.
Refuses to know: how the values were found out.
"""

from collections.abc import Sequence
from statistics import fmean

from regroup.lab.demo.evidence import Aftermath
from regroup.lab.demo.facts import MEAN_OF
from regroup.wire.rest import JobView, MemberView


class ClaimFailed(Exception):
    """Something that the demo claims did not happen; the message says what."""


def kept_its_state(job: JobView) -> None:
    """The job never lost all its state."""
    if job.restarts:
        raise ClaimFailed(f"all state was lost, and the job began again: {job.reason}")


def went_on(found: Aftermath) -> None:
    """The kill hit a step, and the first one after it is that step, or its successor where its sum was complete."""
    if found.step is None:
        raise ClaimFailed("the kill fell between two steps, not into one")
    if found.committed != found.step + found.stood:
        fate = "stands" if found.stood else "was not committed"
        raise ClaimFailed(f"step {found.step} {fate}, and the survivors went on with step {found.committed}")


def lived_on(before: Sequence[MemberView], after: Sequence[MemberView]) -> None:
    """Who is a member before and after is the same process: its incarnation is the same."""
    former = {member.worker: member.incarnation for member in before}
    replaced = [each.worker for each in after if former.get(each.worker, each.incarnation) != each.incarnation]
    if replaced:
        raise ClaimFailed(f"the trainer of {', '.join(replaced)} was restarted")


def fallen(losses: Sequence[float | None]) -> tuple[float, float]:
    """The mean loss of the first and of the last steps, which is lower."""
    first = [loss for loss in losses[:MEAN_OF] if loss is not None]
    last = [loss for loss in losses[-MEAN_OF:] if loss is not None]
    if not first or not last:
        raise ClaimFailed("the loss of the first or of the last steps is not known")
    before, after = round(fmean(first), 4), round(fmean(last), 4)
    if after >= before:
        raise ClaimFailed(f"the loss did not fall: {before} before, {after} after")
    return before, after
