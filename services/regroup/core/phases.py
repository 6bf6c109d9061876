"""Which phase may follow which: legality as tables.

Owns: the arrows along which a job's or a trainer's phase changes; everything else is a bug and raises. Ended phases
absorb: no arrow leaves them.
Refuses to know: why a phase changes; that is `decide` (jobs) and the worker's `session` (trainers).
"""

from collections.abc import Mapping
from enum import StrEnum

from regroup.core.jobs import ENDED, JobPhase
from regroup.core.workers import TrainerPhase


class IllegalTransition(Exception):
    """A phase was asked to follow one that it cannot follow; nothing changed."""


_J = JobPhase
JOB_ARROWS: Mapping[JobPhase, frozenset[JobPhase]] = {
    _J.QUEUED: frozenset({_J.PREPARING, _J.PAUSED, *ENDED} - {_J.COMPLETED}),
    _J.PREPARING: frozenset({_J.RUNNING, _J.REGROUPING, _J.WAITING, _J.PAUSED, *ENDED} - {_J.COMPLETED}),
    _J.RUNNING: frozenset({_J.REGROUPING, _J.WAITING, _J.PAUSED, *ENDED}),
    _J.REGROUPING: frozenset({_J.RUNNING, _J.WAITING, _J.PAUSED, *ENDED}),
    _J.WAITING: frozenset({_J.REGROUPING, _J.PAUSED, *ENDED}),
    _J.PAUSED: frozenset({_J.QUEUED, _J.PREPARING, _J.WAITING, _J.REGROUPING, *ENDED} - {_J.COMPLETED}),
    _J.STOPPED: frozenset(),
    _J.COMPLETED: frozenset(),
    _J.FAILED: frozenset(),
}

_T = TrainerPhase
TRAINER_ARROWS: Mapping[TrainerPhase, frozenset[TrainerPhase]] = {
    _T.PREPARING: frozenset({_T.PREPARED}),
    _T.PREPARED: frozenset({_T.HALTED}),
    _T.HALTED: frozenset({_T.HALTED, _T.FORMING, _T.SAVING}),
    _T.FORMING: frozenset({_T.TRAINING, _T.BROKEN, _T.HALTED}),
    _T.TRAINING: frozenset({_T.FINISHED, _T.BROKEN, _T.HALTED}),
    _T.FINISHED: frozenset({_T.BROKEN, _T.HALTED}),
    _T.BROKEN: frozenset({_T.HALTED}),
    _T.SAVING: frozenset({_T.HALTED}),
}


def check_arrow(before: StrEnum, after: StrEnum) -> None:
    """Raise IllegalTransition unless a table allows `after` to follow `before`."""
    if isinstance(before, JobPhase) and isinstance(after, JobPhase):
        legal = after == before or after in JOB_ARROWS[before]
    elif isinstance(before, TrainerPhase) and isinstance(after, TrainerPhase):
        legal = after in TRAINER_ARROWS[before]
    else:
        legal = False
    if not legal:
        raise IllegalTransition(f"{after} cannot follow {before}")
