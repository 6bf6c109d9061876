"""How long a storage may take: file systems wait as long as they like, also for a server that is gone.

Owns: that each call ends in time, on a thread that is left behind when it takes too long; and that one at most is left
behind for a place: each may hold a whole state, in memory or on the disk.
Refuses to know: what is done.
Does not guarantee: that what was given up ends. Until it does, nothing else is begun at the same place.
"""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from regroup.worker.place import is_url
from regroup.worker.storage.outcome import NETWORK, SLOW, StorageFailed

Given = TypeVar("Given")


class Patience:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._hung: dict[str, threading.Thread] = {}  # by place, what was given up there

    def give(self, place: str, what: str, done: str, call: Callable[[threading.Event], Given]) -> Given:
        """What `call` gives or raises; StorageFailed if it does not in time. `what` was to be `done`, for people.

        `call` is given an event that is set once nobody waits for it.
        """
        until, late = time.monotonic() + self._seconds, threading.Event()
        given: list[Given] = []
        failed: list[Exception] = []

        def work() -> None:
            try:
                given.append(call(late))
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=work, name=f"storage {what}", daemon=True)
        former = self._hung.get(place)
        if former is not None:
            former.join(self._seconds)
        if former is None or not former.is_alive():
            thread.start()
            thread.join(max(0.0, until - time.monotonic()))
        late.set()
        if failed:
            raise failed[0]
        if not given:
            if thread.is_alive():
                self._hung[place] = thread
            advice = NETWORK if is_url(what) else SLOW
            raise StorageFailed(f"{what} could not be {done} in {self._seconds:g} s: {advice}")
        return given[0]
