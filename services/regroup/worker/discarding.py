"""Deleting the files of checkpoints that are kept no longer, and what killed writers left in the job's folder.

Owns: that nothing else is ever deleted: a file has a checkpoint's name, and lies in its job's folder where this worker
keeps checkpoints. One that nobody told of is of a state below the newest that counts, and not among those to keep.
Refuses to know: why a checkpoint is not kept. A file that is not there is as good as deleted.
Does not guarantee: to find what killed writers left behind a URL: it looks into folders of this machine alone.
"""

import os
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from regroup.core.jobs import Version
from regroup.core.messages.agent_reports import Discarded
from regroup.core.messages.orders import Discard
from regroup.worker.place import is_url
from regroup.worker.storage import Storage, StorageFailed

NAME = re.compile(r"checkpoint-g(\d{6,})-s(\d{8,})-[0-9a-f]{8}\.safetensors")
HALF = re.compile(r"\.[0-9a-f]{16}")
DEAD = 3600.0  # seconds after which nobody writes on in half a file


def discard(place: str, scratch: Path, order: Discard) -> Discarded:
    """Delete these files. It waits for the disk and the network, so not on an event loop."""
    storage, errors = Storage(place, scratch), list[str]()
    for path in order.paths:
        folder, _, name = path.rpartition("/")
        if folder != f"{place.rstrip('/')}/{order.job}" or not NAME.fullmatch(name):
            errors.append(f"{path} is no checkpoint of this job in {place}")
            continue
        try:
            storage.delete(path)
        except StorageFailed as error:
            errors.append(str(error))
    if not is_url(place):
        _sweep(Path(place, order.job), order.below, {path.rpartition("/")[2] for path in order.keep})
    return Discarded(job=order.job, paths=order.paths, error="; ".join(errors) or None)


def _sweep(folder: Path, below: Version, keep: Collection[str]) -> None:
    """Names are compared, not paths: a folder may be known by others, and what has one name has one content."""
    with (
        suppress(OSError),
        TemporaryFile(dir=folder) as fresh,
    ):  # what cannot be deleted now is met again by the next order
        now = os.fstat(fresh.fileno()).st_mtime  # by the clock of whoever keeps the folder
        for file in folder.iterdir():
            if match := NAME.fullmatch(file.name):
                dead = Version(*map(int, match.groups())) < below and file.name not in keep
            else:
                dead = HALF.fullmatch(file.name) is not None and now - file.stat().st_mtime > DEAD
            if dead:
                file.unlink()
