"""Work that waits for a disk, a network or another process, apart from the event loop, not waited for at the end.

Owns: a thread for each piece of work. It is a daemon's: asyncio joins those of its own pool without limit, and one
that hangs would keep its place there from all other work.
Refuses to know: what is done. Does not guarantee: that it ends, nor that it goes on when the process ends.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

Given = TypeVar("Given")


async def apart(work: Callable[[], Given]) -> Given:
    """What `work` gives, or raises. It goes on when this is cancelled."""
    loop = asyncio.get_running_loop()
    given: asyncio.Future[Given] = loop.create_future()

    def run() -> None:
        try:
            tell = partial(given.set_result, work())
        except Exception as error:
            tell = partial(given.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            loop.call_soon_threadsafe(lambda: None if given.done() else tell())

    threading.Thread(target=run, name="apart", daemon=True).start()
    return await given
