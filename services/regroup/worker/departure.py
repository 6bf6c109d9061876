"""How long an agent that was asked to end waits until others have what its trainer has.

Owns: what ends the wait before it is told to go, in words: nothing to hand over, nobody answers, it took too long.
Refuses to know: who takes over and when; the coordinator says so (`core/leaving.py`). Times are of one clock, seconds.
"""

from dataclasses import dataclass

UNHEARD = 5.0  # seconds without an answer after which it is of no use to wait: about what a successor needs to lead


@dataclass(frozen=True, slots=True)
class Departure:
    since: float
    limit: float  # seconds

    def over(self, now: float, answered: float, has_trainer: bool) -> str | None:
        """Why to wait no longer, or None. `answered`: when a coordinator was last there to answer."""
        if not has_trainer:
            return "it has no trainer"
        if now - self.since >= self.limit:
            return f"its shards were not taken over in {self.limit:g} s"
        if now - max(self.since, answered) >= UNHEARD:
            return f"no coordinator answered in {UNHEARD:g} s, and its shards were not taken over"
        return None
