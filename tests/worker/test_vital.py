"""What a trainer's life rests on, in a process of its own: it ends with the first part that dies."""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from regroup.worker.vital import Vital, depend, vital


def fail() -> None:
    raise KeyError("label 17")


def lives_on(pipe: Any, kind: str) -> None:
    """A thread that waits for ever, as a task may have one, and another one that dies."""
    threading.Thread(target=threading.Event().wait).start()
    depend(partial(pipe.send, "its last words"))
    if kind == "vital":
        Vital(target=fail, name="orders").start()
    elif kind == "loop":
        with vital():
            raise SystemExit(0)
    elif kind == "mute":

        def broken() -> None:
            raise OSError("nobody hears it")

        depend(broken)
        Vital(target=fail).start()
    else:
        dying = threading.Thread(target=fail)
        dying.start()
        dying.join()
        pipe.send("it goes on")
    time.sleep(60)


@pytest.mark.parametrize("kind", ["vital", "loop"])
def test_a_part_that_dies_takes_the_process_along_whatever_threads_live(start_rank: Callable[..., Any], kind: str):
    rank = start_rank("lives_on", kind)
    assert rank.says() == "its last words"
    rank.process.join(20)
    assert rank.process.exitcode == 1


def test_last_words_that_fail_do_not_keep_it_alive(start_rank: Callable[..., Any]):
    rank = start_rank("lives_on", "mute")
    rank.process.join(20)
    assert rank.process.exitcode == 1


def test_a_thread_of_the_tasks_own_dies_alone(start_rank: Callable[..., Any]):
    rank = start_rank("lives_on", "own")
    assert rank.says() == "it goes on"
    assert rank.process.is_alive()


def test_where_no_trainer_lives_nothing_is_ended():
    with pytest.raises(KeyError), vital():
        fail()


if __name__ == "__rank__":
    globals()[BODY](*ARGS)  # noqa: F821  # given by the test
