"""Deafness to SIGTERM and SIGINT: they are the agent's to hear, also where they are sent to all of its processes.

A terminal's Ctrl-C reaches the whole process group, systemd's stop the whole control group. A trainer that ended by it
could hand nothing over any more.
Owns: that what the agent starts is deaf from its first instruction on, and what a trainer's own children inherit.
Refuses to know: who is told to end by what. A trainer is killed; its fork server ends with its agent.
Does not guarantee: that a task's own processes are deaf. Their SIGTERM is theirs again, since Python ends its pools
and its data loaders by it.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def born_deaf() -> Iterator[None]:
    """What this thread starts in here inherits that both are blocked. The other threads of this process hear them."""
    resource_tracker.ensure_running()  # deaf by itself, but to start it in here would unblock both
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stay_deaf() -> None:
    """For a process that was born deaf: hear and do nothing, so that nothing it starts has them blocked."""
    signal.signal(signal.SIGTERM, _do_nothing)  # a handler, since a program that is executed inherits what is ignored
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.register_at_fork(before=_wait_with_signals, after_in_parent=_take_signals, after_in_child=_hear_again)
    _take_signals()


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    pass


def _hear_again() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _take_signals()


def _wait_with_signals() -> None:
    """So that a child that is ended as soon as it is forked does not take that for its parent's."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _take_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
