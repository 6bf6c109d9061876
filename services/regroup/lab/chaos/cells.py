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
    BESIDE = "beside"  # it writes a copy of its state, while steps go on
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
    never: frozenset[str] = frozenset()  # kinds that must not follow it
    aftermath: Aftermath = Aftermath.REGROUPS
    word: str = "go"  # what the held trainer is told
    last: bool = False  # the job's last step is the one that is disturbed
    network: bool = False  # it needs each worker behind a cable of its own
    rested: bool = False  # it is done when the state is on disk, and the job rests
    within: float | None = None  # seconds until it is noticed at the latest, where the job trains
    impossible: Mapping[Phase, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Cell:
    fault: Fault
    phase: Phase

    @property
    def name(self) -> str:
        return f"{self.fault.name}/{self.phase}"

    @property
    def noticed(self) -> frozenset[str]:
        """One of these kinds names the fault. A member that does not save is passed over by a halt, and need not be
        evicted for that."""
        passed_over = self.phase is Phase.CHECKPOINT and "evicted" in self.fault.noticed
        return self.fault.noticed | ({"halt"} if passed_over else set())

    @property
    def aftermath(self) -> Aftermath:
        """A write beside the training that fails stops nobody."""
        fails = self.phase is Phase.BESIDE and "checkpoint_failed" in self.fault.noticed
        return Aftermath.GOES_ON if fails else self.fault.aftermath

    @property
    def impossible(self) -> str | None:
        """Why there is no such cell; None: there is."""
        return self.fault.impossible.get(self.phase)


HANG = 6.0  # seconds: the longest limit that can be learned there, the job's step_timeout of three, and three more
_NO_LAST_STEP = dict.fromkeys(
    (Phase.BESIDE, Phase.FORMING, Phase.JOINING), "there is no step in it that could be the last"
)
_NO_USER_CODE = dict.fromkeys((Phase.EXCHANGE, Phase.BESIDE, Phase.FORMING), "no code of the user runs there")
_UNWRITTEN = frozenset({"save_failed", "checkpoint_failed"})
_RAISED = frozenset({"step_failed", "save_failed", "refused"})
_IN_PEACE = frozenset({"exited", "evicted", "rolled_back", "lost_state"})  # what no handing over leads to


def _only(*phases: Phase, why: str) -> dict[Phase, str]:
    return {each: why for each in Phase if each not in phases}


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
    Fault(
        name="store-killed",
        what="SIGKILL to the Redis-compatible store; its coordinator ends, and both start again",
        aftermath=Aftermath.GOES_ON,
    ),
    Fault(
        name="all-killed",
        what="SIGKILL to all trainers of the job at once",
        noticed=frozenset({"rolled_back", "lost_state"}),
        aftermath=Aftermath.RESTARTS,
    ),
    Fault(
        name="second-killed",
        what="SIGKILL to the trainer, and to another one as soon as the job is halted for that",
        noticed=frozenset({"exited"}),
        impossible={
            Phase.CHECKPOINT: "the next member has saved before another one could be killed",
            Phase.FORMING: "trainer-killed is the second fault there already",
            Phase.JOINING: "nobody regroups for a newcomer that is lost",
        },
    ),
    Fault(
        name="last-step-killed",
        what="SIGKILL to the trainer in the job's last step, or while the final state is written",
        noticed=frozenset({"exited"}),
        last=True,
        impossible=_NO_LAST_STEP,
    ),
    Fault(
        name="agent-leaves",
        what="SIGTERM to the agent, as its supervisor does it: it hands over, exits with 0, and is started again",
        noticed=frozenset({"leaving"}),
        never=_IN_PEACE,
    ),
    Fault(
        name="all-leave",
        what="SIGTERM to all agents at once: the state is saved, and the job goes on from it when they are back",
        noticed=frozenset({"leaving"}),
        never=_IN_PEACE,
    ),
    Fault(
        name="rolling-restart",
        what="SIGTERM to one agent after the other, to the next as soon as the one before it has exited",
        noticed=frozenset({"leaving"}),
        never=_IN_PEACE,
    ),
    Fault(
        name="last-step-leaves",
        what="SIGTERM to the agent in the job's last step, or while its trainer writes the final state",
        noticed=frozenset({"leaving"}),
        never=_IN_PEACE,
        last=True,
        impossible=_NO_LAST_STEP,
    ),
    Fault(
        name="worker-drained",
        what="its operator drains the worker, and admits it when it has nothing to do any more",
        noticed=frozenset({"drained"}),
        never=_IN_PEACE,
    ),
    Fault(
        name="trainer-stopped",
        what="SIGSTOP to the trainer, for good: it hangs, and its connections stay open",
        noticed=frozenset({"evicted"}),
        within=HANG,
    ),
    Fault(
        name="collective-hung",
        what="SIGSTOP, for good, to the trainer that all others wait for",
        noticed=frozenset({"evicted"}),
        within=HANG,
        impossible=_only(Phase.EXCHANGE, why="nobody waits in a collective"),
    ),
    Fault(
        name="trainer-paused",
        what="SIGSTOP to the trainer, SIGCONT a second later",
        aftermath=Aftermath.GOES_ON,
    ),
    Fault(
        name="agent-paused",
        what="SIGSTOP to the agent, SIGCONT two seconds later: it misses a heartbeat",
        aftermath=Aftermath.GOES_ON,
    ),
    Fault(
        name="coordinator-paused",
        what="SIGSTOP to the coordinator, SIGCONT two seconds later: its lease is over by then",
        aftermath=Aftermath.GOES_ON,
    ),
    Fault(
        name="exception",
        what="the user's code raises, once",
        noticed=_RAISED,
        word="raise",
        impossible=_NO_USER_CODE,
    ),
    Fault(
        name="segfault",
        what="the user's code reads address 0, once",
        noticed=frozenset({"exited"}),
        word="segfault",
        impossible=_NO_USER_CODE,
    ),
    Fault(
        name="out-of-memory",
        what="the user's code asks for more memory than its process may have, once",
        noticed=_RAISED,
        word="memory",
        impossible=_NO_USER_CODE,
    ),
    Fault(
        name="code-hangs",
        what="the user's code never comes back, while the trainer's other threads answer",
        noticed=frozenset({"evicted"}),
        within=HANG,
        word="hang",
        impossible=_NO_USER_CODE,
    ),
    Fault(
        name="slow-worker",
        what="a pass takes half a second, four times in a row",
        aftermath=Aftermath.GOES_ON,
        word="slow",
        impossible=_NO_USER_CODE,
    ),
    Fault(
        name="clock-jump",
        what="the wall clock that the trainer's Python code reads jumps an hour ahead",
        aftermath=Aftermath.GOES_ON,
        word="clock",
        impossible=_NO_USER_CODE,
    ),
    Fault(
        name="cut-off",
        what="the worker's cable is pulled for eight seconds: nobody hears it, and no connection is closed",
        noticed=frozenset({"lost", "halt", "evicted"}),
        network=True,
    ),
    Fault(
        name="half-open",
        what="the worker's cable is pulled and its agent killed: who was connected to it is never told",
        noticed=frozenset({"lost", "halt", "evicted"}),
        network=True,
    ),
    Fault(
        name="folder-unwritable",
        what="a file lies where the folder of the job's checkpoints must be, until a save failed for it",
        noticed=_UNWRITTEN,
        impossible=_only(Phase.CHECKPOINT, Phase.BESIDE, why="nothing is saved"),
    ),
    Fault(
        name="disk-full",
        what="the file system of the job's checkpoints is full, until a save failed for it",
        noticed=_UNWRITTEN,
        impossible=_only(Phase.CHECKPOINT, Phase.BESIDE, why="nothing is saved"),
    ),
    Fault(
        name="write-hangs",
        what="the write of a checkpoint never ends, as where the server of its folder is gone",
        noticed=_UNWRITTEN,
        within=HANG,
        word="hang",
        impossible=_only(Phase.BESIDE, why="what is written there is written by the step loop: that is code-hangs"),
    ),
    Fault(
        name="checkpoint-truncated",
        what="half of a paused job's checkpoint is gone, and there is an older one",
        noticed=frozenset({"struck"}),
        rested=True,
        impossible=_only(Phase.CHECKPOINT, why="nobody depends on a checkpoint"),
    ),
    Fault(
        name="checkpoint-flipped",
        what="one bit of a paused job's checkpoint is flipped, and there is an older one",
        noticed=frozenset({"struck"}),
        rested=True,
        impossible=_only(Phase.CHECKPOINT, why="nobody depends on a checkpoint"),
    ),
)

CI = (
    "trainer-killed/exchange",
    "agent-killed/optimizer",
    "coordinator-killed/forming",
    "write-hangs/beside",
    "checkpoint-flipped/checkpoint",
)


def cells(faults: Sequence[str] = (), phases: Sequence[str] = ()) -> list[Cell]:
    """The chosen part of the matrix, row by row, with the cells that cannot be; nothing chosen: all of it."""
    return [
        Cell(fault, phase)
        for fault in FAULTS
        for phase in Phase
        if fault.name in (faults or [fault.name]) and phase in (phases or [phase])
    ]


def subset(names: Sequence[str]) -> list[Cell]:
    return [cell for cell in cells() if cell.name in names]
