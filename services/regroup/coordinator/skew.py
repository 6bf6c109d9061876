"""Whether an agent's wall clock and the coordinator's show the same time, said for those who will compare logs.

Owns: from which difference on it is told, and the words.
Refuses to know: leases and limits, which no wall clock enters.
Does not guarantee: the difference itself; a word that was long on its way makes the other clock look late.
"""

TOLD = 30.0  # seconds; less is no riddle in a log, and a busy machine may read a word that late


def skew(worker: str, host: str, theirs: float | None, ours: float) -> str | None:
    """What to log of two clocks, both in seconds since the epoch; None: they agree, or the agent told nothing."""
    if theirs is None or abs(theirs - ours) < TOLD:
        return None
    side = "ahead of" if theirs > ours else "behind"
    return (
        f"the clock of {worker} on {host} is {abs(theirs - ours):.0f} s {side} this coordinator's: no step depends on "
        "it, but times in logs do, and S3 and certificates may refuse; set both by NTP"
    )
