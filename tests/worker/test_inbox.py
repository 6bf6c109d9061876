"""What is read of a pipe while nobody waits for it, and what is had of it in the end."""

import multiprocessing
import os
import struct
import threading

from regroup.worker.inbox import Inbox


def test_messages_are_given_once_and_in_their_order_and_half_a_one_is_waited_for_by_nobody() -> None:
    ours, theirs = multiprocessing.Pipe()
    came = threading.Semaphore(0)
    inbox = Inbox(ours, came.release)
    for message in (b"a", b"b" * 20_000):
        theirs.send_bytes(message)
    os.write(theirs.fileno(), struct.pack("!i", 3) + b"c")
    assert came.acquire(timeout=30)
    assert came.acquire(timeout=30)
    assert list(inbox.take()) == [b"a", b"b" * 20_000]
    assert list(inbox.take()) == []
    os.write(theirs.fileno(), b"cc")
    assert came.acquire(timeout=30)
    assert list(inbox.take()) == [b"ccc"]
    theirs.close()
    inbox.finish()
    ours.close()


def test_the_last_words_are_had_while_another_process_holds_the_dead_ones_end() -> None:
    ours, theirs = multiprocessing.Pipe()
    inherited = os.dup(theirs.fileno())
    sent = [bytes([number]) * 20_000 for number in range(5)]
    for message in sent:
        theirs.send_bytes(message)
    os.write(theirs.fileno(), struct.pack("!i", 20_000) + b"half")
    theirs.close()
    inbox = Inbox(ours, lambda: None)
    inbox.finish()
    assert list(inbox.take()) == sent
    ours.close()
    os.close(inherited)
