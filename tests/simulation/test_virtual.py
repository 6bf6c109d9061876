"""Virtual time, and that nothing in it asks the machine."""

import asyncio
import datetime
import os
import pickle
import random
import secrets
import socket
import sys
import threading
import time
import uuid
from types import ModuleType

import pytest

from regroup.lab.sim.lives.ledger import ROOT, UNDER_TEST
from regroup.lab.sim.lives.virtual import ASK, ASK_FOR_MORE, NothingLeft, Unreal, VirtualLoop, sealed

BEFORE = datetime.datetime(2001, 1, 1)
BESIDE = (
    "coordinator/memory_store.py",
    "worker/pulse.py",
    "worker/tail.py",
    "lab/sim/lives/**/*.py",
    "lab/sim/model/*.py",
)


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


ASKING = {
    "time.time": lambda: time.time(),
    "time.monotonic": lambda: time.monotonic(),
    "time.perf_counter_ns": lambda: time.perf_counter_ns(),
    "time.clock_gettime": lambda: time.clock_gettime(time.CLOCK_MONOTONIC),
    "time.process_time": lambda: time.process_time(),
    "time.thread_time": lambda: time.thread_time(),
    "time.sleep": lambda: time.sleep(0),
    "time.localtime": lambda: time.localtime(),
    "time.gmtime": lambda: time.gmtime(None),
    "time.ctime": lambda: time.ctime(),
    "time.strftime": lambda: time.strftime("%H"),
    "datetime.datetime.now": lambda: datetime.datetime.now(),
    "datetime.datetime.utcnow": lambda: datetime.datetime.utcnow(),
    "datetime.datetime.today": lambda: datetime.datetime.today(),
    "datetime.date.today": lambda: datetime.date.today(),
    "os.urandom": lambda: os.urandom(1),
    "os.getrandom": lambda: os.getrandom(1),
    "os.getpid": lambda: os.getpid(),
    "os.times": lambda: os.times(),
    "random.random": lambda: random.random(),
    "random.choice": lambda: random.choice([1]),
    "random.gauss": lambda: random.gauss(),
    "random.expovariate": lambda: random.expovariate(1.0),
    "random.randbytes": lambda: random.randbytes(1),
    "random.seed": lambda: random.seed(),
    "Random.seed": lambda: random.Random(),
    "SystemRandom.random": lambda: random.SystemRandom().random(),
    "SystemRandom.getrandbits": lambda: random.SystemRandom().randrange(2),
    "SystemRandom.randbytes": lambda: secrets.token_hex(),
    "SystemRandom.getrandbits, as secrets.choice": lambda: secrets.choice([1]),
    "SystemRandom.getrandbits, as secrets.randbelow": lambda: secrets.randbelow(2),
    "uuid.uuid1": lambda: uuid.uuid1(),
    "uuid.uuid4": lambda: uuid.uuid4(),
    "socket.__init__": lambda: socket.socket().close(),
    "socket.socketpair": lambda: [one.close() for one in socket.socketpair()],
    "socket.gethostname": lambda: socket.gethostname(),
    "socket.getaddrinfo": lambda: socket.getaddrinfo("127.0.0.1", 80),
}


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
@pytest.mark.parametrize("name", ASKING)
def test_whatever_asks_the_machine_is_told_and_only_inside(name):
    with sealed(), pytest.raises(Unreal, match=name.partition(",")[0]):
        ASKING[name]()
    ASKING[name]()


def test_all_of_the_global_generator_is_refused():
    """As its own methods name them: whatever another Python adds is among them."""
    mine = random.Random(1)
    names = [name for name in dir(random) if callable(getattr(mine, name, None)) and not name.startswith("_")]
    assert {"gauss", "getstate", "vonmisesvariate", "seed"} <= set(names)
    with sealed():
        for name in names:
            with pytest.raises(Unreal, match=f"random.{name}"):
                getattr(random, name)()


def test_what_is_given_all_that_it_needs_asks_nobody():
    with sealed():
        assert random.Random(7).gauss(0, 1) == random.Random(x=7).gauss(0, 1)
        mine = random.Random(7)
        mine.seed(a=8)
        assert mine.random() == random.Random(8).random()
        assert time.gmtime(0).tm_year == 1970
        assert time.strftime("%Y", (2001, 1, 1, 0, 0, 0, 0, 1, 0)) == "2001"
        told = datetime.datetime.fromtimestamp(0, datetime.UTC)
        assert told + datetime.timedelta(days=1) == datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC)
        assert isinstance(BEFORE, datetime.datetime)
        assert not isinstance("2001-01-01", datetime.date)
        assert datetime.date.fromisoformat("2001-01-01").year == 2001


def test_other_threads_go_on_as_they_did():
    """A server that lives beside a simulation, as in these tests, needs its time, its sockets and its chance."""
    told = []

    def ask():
        for name in ASKING:
            if name != "datetime.datetime.utcnow":  # a later Python warns of it
                ASKING[name]()
        told.append(pickle.loads(pickle.dumps(BEFORE)) == BEFORE)  # noqa: S301 - our own
        told.append(datetime.datetime is type(BEFORE))

    with sealed():
        other = threading.Thread(target=ask)
        other.start()
        other.join()
    assert told == [True, True]


def test_two_threads_are_sealed_each_for_itself():
    """Whoever comes out first leaves the other one sealed, and who comes out last leaves nothing behind."""
    inside, outside = threading.Event(), threading.Event()
    told = []

    def other():
        with sealed():
            inside.set()
            outside.wait()
            with pytest.raises(Unreal):
                time.time()
            told.append("sealed")
        told.append(time.time())

    thread = threading.Thread(target=other)
    real = time.time
    with sealed():
        thread.start()
        inside.wait()
    assert time.time() > 0
    outside.set()
    thread.join()
    assert told[0] == "sealed"
    assert len(told) == 2
    assert time.time is real


def test_a_seal_within_a_seal_ends_with_the_outer_one():
    with sealed():
        with sealed():
            pass
        with pytest.raises(Unreal):
            time.time()
    time.time()


def test_what_raises_inside_leaves_no_refusal_behind():
    real = vars(time).copy()
    with pytest.raises(KeyError), sealed():
        raise KeyError
    assert vars(time) == real
    assert type(datetime) is ModuleType


def test_what_a_system_does_not_have_need_not_be_refused(monkeypatch):
    monkeypatch.delattr(os, "getrandom", raising=False)  # only Linux has it
    with sealed(), pytest.raises(Unreal):
        os.urandom(1)
    assert not hasattr(os, "getrandom")


def test_nothing_that_a_life_runs_holds_a_function_that_asks_by_its_own_name(lived):
    """Such a name was bound before anything was sealed, and would not be refused."""
    lived(0)
    files = [path for part in (*UNDER_TEST, *BESIDE) for path in ROOT.glob(part)]
    dotted = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files]
    parts = {f"regroup.{name.removesuffix('.__init__')}" for name in dotted}
    places = [(owner, name) for table in (ASK, ASK_FOR_MORE) for owner in table for name in table[owner]]
    asking = {id(getattr(owner, name)) for owner, name in places if hasattr(owner, name)}
    asking |= {id(datetime.datetime), id(datetime.date), id(random.SystemRandom)}
    asking |= {id(getattr(secrets, name)) for name in secrets.__all__}
    looked_at = parts & sys.modules.keys()
    held = {name: [key for key, value in vars(sys.modules[name]).items() if id(value) in asking] for name in looked_at}
    assert len(looked_at) > 100
    assert {name: keys for name, keys in held.items() if keys} == {}
