"""Processes that compute for a command, and end with it.

Owns: that an interruption is the command's alone to hear, and that nothing computes on when nobody waits for it.
Refuses to know: what is computed. Does not allow: that a task which waits is cancelled (on Python 3.11 a pool that
breaks over one leaves all others unanswered).
"""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import active_children
from multiprocessing.context import BaseContext

ENDINGS = (signal.SIGTERM, signal.SIGHUP)  # what else is an interruption, so that what was found until then is told

LOOK = 0.05  # seconds that a pool is given to notice that its processes ended


@contextmanager
def interruptible() -> Iterator[None]:
    """Whatever asks this process to end raises KeyboardInterrupt, as Ctrl-C does."""
    former = {number: signal.signal(number, signal.default_int_handler) for number in ENDINGS}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


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
    started, each, others = partial(_begin, begin, *given), 1 if fresh else None, set(active_children())
    pool = ProcessPoolExecutor(processes, context, started, max_tasks_per_child=each)
    try:
        yield pool
    except BaseException:
        with suppress(BrokenProcessPool):
            while True:  # until the pool knows that it is broken: before, it may begin another process
                for child in set(active_children()) - others:
                    child.terminate()
                    child.join()
                wait([pool.submit(os.getpid)], LOOK)
        raise
    finally:
        pool.shutdown()


def _begin(begin: Callable[..., object], *given: object) -> None:
    for number in (signal.SIGINT, signal.SIGHUP):  # a terminal sends them to all of its processes
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    begin(*given)
