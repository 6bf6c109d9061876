"""What a process group is: formed for one generation, broken by anybody at any instant, and never used again.

Owns: the contract, the error that ends a group, and the group of one. `Group` is the seam: Gloo is the engine (`gloo`),
and another one (NCCL) is another class with these eight members.
Refuses to know: how a group is formed (`forming`), who ought to be in it, what is exchanged, and what is decided when
it breaks.
Does not guarantee: encryption or authentication (bind it to a trusted address), nor order between tensors: every rank
makes the same calls in the same order.
"""

from collections.abc import Callable
from typing import Protocol

from torch import Tensor


class GroupBroken(Exception):
    """A collective failed, the group could not form, or it was broken on purpose. Form a new one; never retry."""


class Pending(Protocol):
    """A collective in flight."""

    def wait(self) -> None:
        """Return once the tensor holds the result. Raises GroupBroken; the tensor is garbage then."""


class Group(Protocol):
    """Ranks 0 to size - 1 that exchange tensors on the CPU. Everything but `break_` belongs to one thread."""

    rank: int
    size: int

    def all_reduce(self, tensor: Tensor) -> Pending:
        """Start to sum a dense tensor of any shape, in place and bit-identical on every rank. Raises GroupBroken."""

    def send(self, tensor: Tensor, peer: int) -> None:
        """Give a dense tensor to `peer`, which calls `recv`. Blocks until it is on its way. Raises GroupBroken."""

    def recv(self, tensor: Tensor, peer: int) -> None:
        """Fill a dense tensor of the sender's size and dtype. Blocks. Raises GroupBroken."""

    def watch(self, on_broken: Callable[[str], None]) -> None:
        """Call `on_broken(reason)` once, from a thread, when a peer closes its end, cleanly or by dying; at most once
        per group. Not called once this side broke or closed it, or a collective failed. It breaks nothing by itself,
        and must not wait for the thread that closes the group."""

    def break_(self, reason: str = "broken on purpose") -> None:
        """From any thread: whatever waits in this group raises within milliseconds, and so does every later call."""

    def close(self) -> None:
        """Break it and free everything. When it returns, no thread of the group reads or writes a tensor any more."""


class Alone:
    """A group of one: nothing to exchange, nobody to lose."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self._broken: str | None = None

    def all_reduce(self, tensor: Tensor) -> Pending:
        self.wait()
        return self

    def wait(self) -> None:
        if self._broken is not None:
            raise GroupBroken(self._broken)

    def send(self, tensor: Tensor, peer: int) -> None:
        raise ValueError("there is nobody to send to in a group of one")

    def recv(self, tensor: Tensor, peer: int) -> None:
        raise ValueError("there is nobody to receive from in a group of one")

    def watch(self, on_broken: Callable[[str], None]) -> None:
        pass

    def break_(self, reason: str = "broken on purpose") -> None:
        self._broken = self._broken or reason

    def close(self) -> None:
        self.break_("closed")
