"""A group that marks when a trainer waits for the others: who waits in it is a witness, and hangs by nobody's word.

Owns: the marks around what blocks. Refuses to know: which engine the group has, and what is exchanged.
"""

from collections.abc import Callable

from torch import Tensor

from regroup.core.workers import LoopPhase
from regroup.worker.group import Group, Pending
from regroup.worker.pulse import Pulse


class _Awaited:
    """A collective in flight."""

    def __init__(self, pending: Pending, pulse: Pulse) -> None:
        self._pending, self._pulse = pending, pulse

    def wait(self) -> None:
        if self._pulse.waits:
            self._pending.wait()
        else:
            with self._pulse.within(LoopPhase.EXCHANGE):
                self._pending.wait()


class Waiting:
    """A group whose every wait is marked."""

    def __init__(self, group: Group, pulse: Pulse) -> None:
        self.rank, self.size = group.rank, group.size
        self._group, self._pulse = group, pulse

    def all_reduce(self, tensor: Tensor) -> Pending:
        return _Awaited(self._group.all_reduce(tensor), self._pulse)

    def send(self, tensor: Tensor, peer: int) -> None:
        with self._pulse.within(LoopPhase.EXCHANGE):
            self._group.send(tensor, peer)

    def recv(self, tensor: Tensor, peer: int) -> None:
        with self._pulse.within(LoopPhase.EXCHANGE):
            self._group.recv(tensor, peer)

    def watch(self, on_broken: Callable[[str], None]) -> None:
        self._group.watch(on_broken)

    def break_(self, reason: str = "broken on purpose") -> None:
        self._group.break_(reason)

    def close(self) -> None:
        self._group.close()
