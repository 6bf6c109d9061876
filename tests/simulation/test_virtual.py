"""Virtual time, and that nothing in it asks the machine."""

import asyncio
import os
import random
import secrets
import socket
import threading
import time

import pytest

from regroup.lab.sim.lives.virtual import NothingLeft, Unreal, VirtualLoop, sealed


def run(what):
    loop = VirtualLoop(100.0)
    try:
        return loop.run_until_complete(what(loop))
    finally:
        loop.close()


def test_time_jumps_to_the_next_timer():
    order = []

    async def sleep(name, seconds, loop):
        await asyncio.sleep(seconds)
        order.append((name, loop.time()))

    async def both(loop):
        await asyncio.gather(sleep("long", 3600.0, loop), sleep("short", 0.5, loop))

    began = time.monotonic()
    run(both)
    assert order == [("short", 100.5), ("long", 3700.0)]
    assert time.monotonic() - began < 5


def test_waiting_for_nothing_is_an_error_and_no_hang():
    async def wait(loop):
        await loop.create_future()

    with pytest.raises(NothingLeft, match="no timer is set"):
        run(wait)


def test_a_circle_in_which_no_time_passes_is_an_error_and_no_hang():
    async def spin(loop):
        while True:  # noqa: ASYNC110 - a circle is what is wanted
            await asyncio.sleep(0)

    with pytest.raises(NothingLeft, match="time stands still"):
        run(spin)


def test_of_two_timers_for_one_instant_the_first_that_was_set_comes_first():
    order = []

    async def both(loop):
        loop.call_later(1.0, order.append, "asyncio's")
        loop.at(loop.now + 1.0, order.append, "ours")
        loop.call_later(1.0, order.append, "asyncio's again")
        await loop.sleep(2.0)

    run(both)
    assert order == ["asyncio's", "ours", "asyncio's again"]


def test_a_timer_that_was_cancelled_does_nothing():
    order = []

    async def cancel(loop):
        loop.call_later(1.0, order.append, "cancelled").cancel()
        await asyncio.sleep(2.0)

    run(cancel)
    assert order == []


def test_what_fails_in_a_timer_is_told():
    told = []

    async def fail(loop):
        loop.set_exception_handler(lambda loop, context: told.append(context["exception"]))
        loop.at(loop.now + 1.0, lambda: 1 // 0)
        await loop.sleep(2.0)

    run(fail)
    assert [type(error) for error in told] == [ZeroDivisionError]


def test_a_sleep_that_is_cancelled_ends_at_once():
    async def cancel(loop):
        sleeper = loop.create_task(asyncio.wait_for(loop.sleep(100.0), 200.0))
        await asyncio.sleep(1.0)
        sleeper.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeper
        assert loop.now == 101.0
        await asyncio.sleep(200.0)  # its timer finds it gone

    run(cancel)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: time.time(),
        lambda: time.monotonic(),
        lambda: time.sleep(0),
        lambda: socket.socket().close(),
        lambda: random.random(),
        lambda: random.choice([1]),
        lambda: secrets.token_hex(),
        lambda: os.urandom(1),
    ],
)
def test_whatever_asks_the_machine_is_told_and_only_inside(ask):
    with sealed(), pytest.raises(Unreal):
        ask()
    ask()


def test_other_threads_go_on_as_they_did():
    """A server that lives beside a simulation, as in these tests, needs its time and its sockets."""
    told = []

    def ask():
        with socket.socket() as real:
            told.append((time.monotonic() > 0, isinstance(real, socket.socket)))

    with sealed():
        other = threading.Thread(target=ask)
        other.start()
        other.join()
    assert told == [(True, True)]
