"""Patience with a store that is not there yet: where a machine comes up, it and the coordinator start in any order.

Owns: for how long a coordinator that starts goes on asking, and that it says so once.
Refuses to know: what is asked, and which trouble passes by itself (the store tells that as StoreAway).
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from regroup.coordinator.persistence import STORE_RETRY, StoreAway

T = TypeVar("T")

log = logging.getLogger("regroup.coordinator")


async def patiently(ask: Callable[[], Awaitable[T]], limit: float) -> T:
    """What `ask` returns, which is called again while nothing answers, for `limit` seconds. Raises what it raises."""
    until = time.monotonic() + limit
    told = False
    while True:
        try:
            return await ask()
        except StoreAway as away:
            left = until - time.monotonic()
            if left <= 0:
                raise
            if not told:
                log.warning("waiting for the store, %g s at most: %s", limit, away)
            told = True
            await asyncio.sleep(min(STORE_RETRY, left))
