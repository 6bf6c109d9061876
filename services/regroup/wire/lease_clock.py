"""The clock that leases are counted by, a worker's and the leader's: it goes on while the machine sleeps.

Owns: which clock that is. Whoever sleeps through its lease must not wake with most of it left: others went on without,
and a coordinator that still took itself for the leader would renew leases that its successor counts as over.
Does not guarantee: that it goes on in a virtual machine whose host stopped it.
"""

import time

# Linux's monotonic clock stands still in a sleep. Elsewhere there is only that one.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def lease_clock() -> float:
    """Seconds since some moment; the same for all processes of a machine."""
    return time.clock_gettime(_CLOCK)
