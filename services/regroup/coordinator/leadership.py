"""How a coordinator comes to lead: at once, or after the lease of one that died.

Owns: the difference between a dead holder, whose lease runs out, and a living one, which renews it.
Refuses to know: which store keeps the lease, and what leading means.
Does not guarantee that the leadership lasts: whoever leads must renew in time, and every save shows the fence.
"""

from collections.abc import Awaitable, Callable

from regroup.coordinator.persistence import Store

LOOKS = 20  # how often a waiting starter looks within one lease


class AnotherLeads(Exception):
    """Another coordinator lives and leads; there is nothing to do here."""

    def __init__(self, holder: str) -> None:
        super().__init__(f"another coordinator leads this cluster ({holder}): stop it first, or use another store")
        self.holder = holder


async def lead(store: Store, holder: str, lease: float, sleep: Callable[[float], Awaitable[object]]) -> int:
    """Wait for the leadership and return its fence. `lease` is in seconds, and so is what `sleep` gets.

    A held lease is watched until it runs out (its holder died: it takes at most the lease) or is seen to be renewed.
    Raises AnotherLeads, StoreUnavailable.
    """
    first = None
    while (fence := await store.acquire(holder, lease)) is None:
        held = await store.lease()
        if held is None:
            continue  # it ran out between the two questions
        first = first or held
        if (held.holder, held.fence, held.renewals) != (first.holder, first.fence, first.renewals):
            raise AnotherLeads(held.holder)
        await sleep(min(held.remaining + lease / 1000, lease / LOOKS))
    return fence
