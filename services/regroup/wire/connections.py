"""Which connection belongs to which worker, so that a closed one can be named at once. Pure bookkeeping.

A socket's monitor names a connection by its file descriptor, and a descriptor is used again as soon as it is free;
messages, and the monitor's events, arrive by ways that are not ordered with each other. Therefore every connection
gets a number when its key is checked, every message carries that number, and the rule is: a message belongs to the
connection that now has its descriptor, only if its number was issued after that connection was accepted.

Owns: that rule. Refuses to know: sockets, time, and what a closed connection means.
Asks of its caller: tell all events known so far before each `issue` and each `heard`.
"""


class Connections:
    """The open connections of one listening socket."""

    def __init__(self) -> None:
        self._issued = 0
        self._floors: dict[int, int] = {}  # open descriptor -> numbers up to this one belong to earlier connections
        self._carried: dict[int, tuple[str, int]] = {}  # descriptor -> (worker, number) once it spoke
        self._newest: dict[str, int] = {}  # worker -> the number of its newest connection that ever spoke
        self._open: set[str] = set()  # workers whose newest connection is open

    def issue(self) -> int:
        """The number of a connection whose key is being checked."""
        self._issued += 1
        return self._issued

    def accepted(self, descriptor: int) -> str | None:
        """A connection was accepted. The answer is a worker as in `closed`: the descriptor's last user is gone."""
        gone = self.closed(descriptor)
        self._floors[descriptor] = self._issued
        return gone

    def closed(self, descriptor: int) -> str | None:
        """The worker that has no connection any more; None if nobody spoke there, or has a newer one."""
        self._floors.pop(descriptor, None)
        worker, number = self._carried.pop(descriptor, ("", 0))
        if worker not in self._open or self._newest[worker] != number:
            return None
        self._open.discard(worker)
        return worker

    def heard(self, descriptor: int, number: int, worker: str) -> bool:
        """A worker spoke. False: its newest connection is closed by now, so these are its last words."""
        if number < self._newest.get(worker, 0):
            return worker in self._open
        self._newest[worker] = number
        floor = self._floors.get(descriptor)
        if floor is None or number <= floor:
            self._open.discard(worker)
            return False
        self._carried[descriptor] = (worker, number)
        self._open.add(worker)
        return True

    def __contains__(self, worker: str) -> bool:
        """Whether the worker's newest connection that spoke is open."""
        return worker in self._open
