"""The cells of the matrix: which fault is done in which phase of a job, as frozen values.

Owns: the faults' names, what each must be noticed by, what it may cost, and where it makes no sense, with the reason.
Refuses to know: how a fault is done (`faults`), and when a cell passes (`verdict`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Phase(StrEnum):
    """Where the victim is held when the fault is done."""

    FORWARD = "forward"  # in a pass, before any gradient
    EXCHANGE = "exchange"  # it gave its gradient, and waits for a member that is held before its own
    OPTIMIZER = "optimizer"  # all sums are there; others may have applied them already
    CHECKPOINT = "checkpoint"  # it writes the state down, for a pause
    FORMING = "forming"  # another worker was just lost; it is about to connect to who is left
    JOINING = "joining"  # a newcomer that prepares, while the others train


class Aftermath(StrEnum):
    """What a fault comes to, at most."""

    GOES_ON = "goes on"  # in the same generation: a regroup would be a false alarm
    REGROUPS = "regroups"
    RESTARTS = "restarts"  # no state is left: from the seed, once


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    name: str
    what: str
    noticed: frozenset[str] = frozenset()  # kinds of the timeline, one of which must name it; none: it need not be told
    aftermath: Aftermath = Aftermath.REGROUPS
    word: str = "go"  # what the held trainer is told
    last: bool = False  # the job's last step is the one that is disturbed
    impossible: Mapping[Phase, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    fault: Fault
    phase: Phase

    @property
    def name(self) -> str:
        return f"{self.fault.name}/{self.phase}"

    @property
    def impossible(self) -> str | None:
        """Why there is no such cell; None: there is."""
        return self.fault.impossible.get(self.phase)


FAULTS = (
    Fault(
        name="trainer-killed",
        what="SIGKILL to the trainer",
        noticed=frozenset({"exited"}),
    ),
    Fault(
        name="agent-killed",
        what="SIGKILL to the agent; its trainer dies with it",
        noticed=frozenset({"lost", "registered"}),
    ),
    Fault(
        name="coordinator-killed",
        what="SIGKILL to the coordinator; its store dies with it",
        aftermath=Aftermath.GOES_ON,
    ),
)


def cells(faults: Sequence[str] = (), phases: Sequence[str] = ()) -> list[Cell]:
    """The chosen part of the matrix, row by row, with the cells that cannot be; nothing chosen: all of it."""
    return [
        Cell(fault, phase)
        for fault in FAULTS
        for phase in Phase
        if fault.name in (faults or [fault.name]) and phase in (phases or [phase])
    ]


CI = ("trainer-killed/exchange", "agent-killed/forward", "coordinator-killed/forming", "trainer-killed/checkpoint")


def subset(names: Sequence[str]) -> list[Cell]:
    return [cell for cell in cells() if cell.name in names]
