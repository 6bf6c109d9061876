"""Two agents that go by one name, each of which takes the other's place whenever it registers.

Owns: how that shows (whoever was displaced registers again, as alive as before), and the words.
Refuses to know: connections, and what is decided about the jobs of either.
Does not guarantee: that more than two are told apart.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Boots:
    """The agent that registered last under a name, and the one before; each with its host."""

    last: tuple[str, str]
    former: tuple[str, str] | None = None
    told: bool = False


class Namesakes:
    def __init__(self) -> None:
        self._seen: dict[str, _Boots] = {}

    def met(self, worker: str, boot: str, host: str) -> str | None:
        """What to log when this boot registers as `worker`; None: nothing is odd. It is said once of two agents."""
        known, it = self._seen.get(worker), (boot, host)
        if known is None or known.last == it:
            self._seen[worker] = known or _Boots(it)
            return None
        back = known.former == it
        self._seen[worker] = _Boots(it, known.last, told=back)
        if not back or known.told:
            return None
        both = host if host == known.last[1] else f"{host} and {known.last[1]}"
        return (
            f"two agents call themselves {worker} (on {both}), and each takes the other's place: "
            "set REGROUP_WORKER of one of them to another name"
        )
