"""The files that trainers wrote before they ended, and that no coordinator answered yet: their agent tells of them on.

Owns: which of what ended trainers last told of themselves is kept, and for how long.
Refuses to know: what a file counts for, and how it is told. Pure.
Does not guarantee: that it outlives the agent. The file is then one that nobody told of.
"""

from collections.abc import Collection
from dataclasses import replace

from regroup.core.workers import TrainerStatus

Untold = tuple[TrainerStatus, ...]  # the last words of each, the oldest first


def left_by(untold: Untold, ended: TrainerStatus | None) -> Untold:
    """With what a trainer that ended now left, if it did."""
    return (*untold, ended) if ended is not None and ended.written else untold


def answered(untold: Untold, settled: Collection[str]) -> Untold:
    """Without the files that a coordinator knows by now."""
    if not untold or not settled:
        return untold
    rest = (replace(one, written=tuple(file for file in one.written if file.path not in settled)) for one in untold)
    return tuple(one for one in rest if one.written)
