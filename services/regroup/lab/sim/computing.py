"""Processes that compute for a command, and end with it.

Owns: that an interruption is the command's alone to hear, and that nothing computes on when nobody waits for it.
Refuses to know: what is computed.
"""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import active_children
from multiprocessing.context import BaseContext


@contextmanager
def computing(
    processes: int,
    begin: Callable[..., object],
    *given: object,
    context: BaseContext | None = None,
    fresh: bool = False,
) -> Iterator[ProcessPoolExecutor]:
    """`begin` is called with what is `given` in each, before its first task; `fresh`: each has one task alone.

    Whoever leaves the block by an exception waits for nothing. A process that was killed raises BrokenProcessPool.
    """
    each = 1 if fresh else None
    started = partial(_begin, begin, *given)
    pool = ProcessPoolExecutor(processes, context, started, max_tasks_per_child=each)
    try:
        yield pool
    except BaseException:
        for child in active_children():
            child.terminate()
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def _begin(begin: Callable[..., object], *given: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all of its processes
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    begin(*given)
