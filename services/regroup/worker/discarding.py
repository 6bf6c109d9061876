"""Deleting the files of checkpoints that are kept no longer, and what killed writers left in the job's folder.

Owns: that nothing else is ever deleted: a file has a checkpoint's name, and lies in its job's folder where this worker
keeps checkpoints. One that nobody told of is of a state below the newest that counts, and not among those to keep. And
that a job's files are deleted one after another: of the orders that wait meanwhile, the newest is carried out.
Refuses to know: why a checkpoint is not kept. A file that is not there is as good as deleted.
Does not guarantee: to find what is still on its way there when it looks.
"""

import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from regroup.core.jobs import Version
from regroup.core.messages.agent_reports import Discarded
from regroup.core.messages.orders import Discard
from regroup.worker.apart import apart
from regroup.worker.storage import Storage, StorageFailed

NAME = re.compile(r"checkpoint-g(\d{6,})-s(\d{8,})-[0-9a-f]{8}\.safetensors")
HALF = re.compile(r"\.[0-9a-f]{16}")
DEAD = 3600.0  # seconds after which nobody writes on in half a file
REMEMBERED = 100  # files of a job that were deleted last


class Discarding:
    """What an agent deletes. `discard` waits for the disk and the network, on a thread; `report` gets what it gives."""

    def __init__(self, discard: Callable[[Discard], Discarded], report: Callable[[Discarded], None]) -> None:
        self._discard, self._report = discard, report
        self._newest: dict[str, Discard] = {}  # of each job whose files are being deleted

    async def carry_out(self, order: Discard) -> None:
        """An order comes again and again until its answer is heard, and grows meanwhile: no file is deleted twice."""
        job, told = order.job, set[str]()
        begun = job in self._newest
        self._newest[job] = order
        try:
            while not begun and (left := [path for path in self._newest[job].paths if path not in told]):
                report = await apart(partial(self._discard, replace(self._newest[job], paths=tuple(left))))
                self._report(report)
                told.update(report.paths)
        finally:
            if not begun:
                del self._newest[job]


class Sweeper:
    """Deletes in one storage. What it cannot delete it names once, and does not try again unless it is ordered to.

    An order for what is deleted already is done: it was on its way when that was told, or the word of a file that was
    swept came after all. Should such a file be written anew, it is swept once more.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._left = set[str]()  # what was named
        self._gone: dict[str, deque[str]] = {}  # of each job

    def discard(self, order: Discard) -> Discarded:
        """Delete these files. Those that it does not come to in time are not in the answer, and are ordered again."""
        folder = self._storage.home(order.job)
        gone = self._gone.setdefault(order.job, deque(maxlen=REMEMBERED))
        ours = [path for path in order.paths if _is_checkpoint(path, folder)]
        due = [path for path in ours if path not in gone]
        found = {path: "" for path in ours if path in gone} | (self._storage.delete(due) if due else {})
        gone.extend(path for path in due if found.get(path) == "")
        for path in set(order.paths).difference(ours):
            found[path] = f"{path} is no checkpoint of this job in {self._storage.place}"
        told = tuple(path for path in order.paths if path in found)
        errors = [found[path] for path in told if found[path]]
        self._left.update(path for path in told if found[path])
        if told == order.paths:
            errors += self._sweep(order, folder)
        return Discarded(job=order.job, paths=told, error="; ".join(errors) or None)

    def _sweep(self, order: Discard, folder: str) -> list[str]:
        """What killed writers left. Names are compared, not paths: a folder may be known by others, and what has one
        name has one content."""
        keep = {path.rpartition("/")[2] for path in order.keep}
        try:
            there = self._storage.names(order.job)
        except StorageFailed as error:
            return self._once({folder: str(error)})
        names = [name for name, age in there.items() if _is_dead(name, age, order.below) and name not in keep]
        dead = [path for name in names if (path := f"{folder}/{name}") not in self._left]
        found = self._storage.delete(dead) if dead else {}
        self._gone[order.job].extend(path for path, error in found.items() if not error)
        return self._once(found)

    def _once(self, said: Mapping[str, str]) -> list[str]:
        """What is wrong, where that was not said before."""
        errors = {path: error for path, error in said.items() if error and path not in self._left}
        self._left.update(errors)
        return list(errors.values())


def _is_checkpoint(path: str, folder: str) -> bool:
    home, _, name = path.rpartition("/")
    return home == folder and NAME.fullmatch(name) is not None


def _is_dead(name: str, age: float, below: Version) -> bool:
    if match := NAME.fullmatch(name):
        return Version(*map(int, match.groups())) < below
    return HALF.fullmatch(name) is not None and age > DEAD
