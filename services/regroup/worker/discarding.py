"""Deleting the files of checkpoints that are kept no longer.

Owns: that nothing else is ever deleted: a file has a checkpoint's name, and lies in its job's folder where this worker
keeps checkpoints.
Refuses to know: why a checkpoint is not kept. A file that is not there is as good as deleted.
"""

import re
from pathlib import Path

from regroup.core.messages.agent_reports import Discarded
from regroup.core.messages.orders import Discard
from regroup.worker.storage import Storage, StorageFailed

NAME = re.compile(r"checkpoint-g\d{6,}-s\d{8,}-[0-9a-f]{8}\.safetensors")


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
    return Discarded(job=order.job, paths=order.paths, error="; ".join(errors) or None)
