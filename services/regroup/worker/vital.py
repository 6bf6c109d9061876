"""What a trainer's life rests on: its step loop, and the threads beside it. None of them dies alone.

A trainer of which one is gone keeps its sockets open and its pulse going: nobody takes it for dead, and all wait for
it. Owns: that what leaves one of them uncaught ends the process at once, with its traceback in the log, whatever other
threads live. Refuses to know: what they do. A task's own threads die as they like.
Does not guarantee: that last words are heard. They have a moment to be on their way.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from regroup.worker.log import log
from regroup.worker.words import trace

STATUS = 1  # of the process

_last_words: Callable[[], None] | None = None  # None: no trainer lives in this process, so nothing ends it


def depend(last_words: Callable[[], None]) -> None:
    """From now on this process ends with any part that it rests on. `last_words` waits until what was said is sent."""
    global _last_words
    _last_words = last_words


@contextmanager
def vital() -> Iterator[None]:
    """What is raised in here and not caught ends the process."""
    try:
        yield
    except BaseException:  # a SystemExit, too: Python would end such a thread without a word
        if _last_words is None:
            raise
        log(f"thread {threading.current_thread().name} died, and this process ends with it:\n{trace()}")
        with suppress(Exception):
            _last_words()
        with suppress(Exception):
            sys.stdout.flush()  # what the task printed
        os._exit(STATUS)  # an orderly end would wait for every thread that is no daemon


class Vital(threading.Thread):
    """A thread that the process does not outlive, should it die of an error; nor does it keep the process alive."""

    def __init__(self, target: Callable[..., object], args: Iterable[object] = (), name: str | None = None) -> None:
        super().__init__(target=target, args=args, name=name, daemon=True)

    def run(self) -> None:
        with vital():
            super().run()
