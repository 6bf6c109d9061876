"""Which heartbeats were sent and not answered yet: a lease counts from when the answered one was sent (rule 7).

Owns: when each was sent. Refuses to know: clocks, what a heartbeat says, and who is told of the renewal.
"""

from regroup.core.messages.orders import Heard, RenewLease

KEPT = 100  # heartbeats; an answer to an older one renews nothing any more


class LeaseLedger:
    def __init__(self) -> None:
        self._sent: dict[int, float] = {}

    def sent(self, sequence: int, at: float) -> None:
        """`at`: on this machine's clock, in seconds."""
        self._sent[sequence] = at
        self._sent.pop(sequence - KEPT, None)

    def renewed_by(self, heard: Heard) -> RenewLease | None:
        """What a trainer is told, if this is the first answer to a heartbeat and says anything to it."""
        at = self._sent.pop(heard.sequence, None)
        if at is None or not (heard.generation or heard.settled):
            return None
        return RenewLease(heard.generation, at, heard.settled)
