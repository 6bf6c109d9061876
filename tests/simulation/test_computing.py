"""Processes that compute for a command."""

import os
import signal
import time
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context

import pytest

from regroup.lab.sim.computing import ENDINGS, computing, interruptible

given: list[object] = []


def end_late(seconds):
    time.sleep(seconds)
    return os.getpid()


@pytest.mark.timeout(300)  # to wait for one of them would take an hour
@pytest.mark.parametrize(("method", "fresh"), [("fork", False), ("spawn", False), ("spawn", True)])
def test_who_is_interrupted_waits_for_nothing_and_nothing_computes_on(method, fresh):
    waiting = []

    def interrupted():
        with computing(2, given.append, 1, context=get_context(method), fresh=fresh) as pool:
            waiting.extend(pool.submit(time.sleep, seconds) for seconds in (0.0, *[3600.0] * 8))
            waiting[0].result()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert active_children() == []
    assert all(one.cancelled() or one.exception() is not None for one in waiting[1:])


def begun():
    return signal.getsignal(signal.SIGINT), given


def test_an_interruption_is_not_theirs_to_hear():
    with computing(1, given.append, "begun") as pool:
        process = pool.submit(os.getpid).result()
        interrupted = pool.submit(end_late, 0.2)
        os.kill(process, signal.SIGINT)
        assert interrupted.result() == process
        assert pool.submit(begun).result() == (signal.SIG_IGN, ["begun"])


def test_a_process_that_is_killed_is_said_to_be():
    with computing(1, given.append, 1) as pool:
        process = pool.submit(os.getpid).result()
        waiting = pool.submit(end_late, 3600.0)
        os.kill(process, signal.SIGKILL)
        with pytest.raises(BrokenProcessPool):
            waiting.result()


@pytest.mark.parametrize("number", ENDINGS)
def test_whatever_asks_to_end_is_an_interruption_while_that_is_asked_for(number):
    former = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(number)
    assert signal.getsignal(number) is former
