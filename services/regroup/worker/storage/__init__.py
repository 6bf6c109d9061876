"""How a file gets to where checkpoints are kept, and back: a folder of this machine, or any URL that fsspec knows.

Owns: what is kept, read and deleted where, by way of a scratch folder if that is a URL, and that no call takes longer
than it may.
Refuses to know: what a file means, and which bytes are the right ones; how a folder is written (`folder`), and how
fsspec is asked (`url`). Credentials come from the environment, as each file system reads them; they are never part of a
URL, so that URLs may be shown.
Does not guarantee: that a call which was given up is over. To a URL it may still complete, under the name of its own
content.
"""

import secrets
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeVar

from regroup.worker.place import is_url
from regroup.worker.storage import folder, url
from regroup.worker.storage.outcome import DISK, Absent, StorageFailed, Stored, measure, why
from regroup.worker.storage.patience import Patience

__all__ = ["Absent", "Storage", "StorageFailed", "Stored"]

Given = TypeVar("Given")


class Storage:
    """Where this process keeps files. `scratch` is a folder of its own, for what is on its way to or from a URL."""

    def __init__(self, place: str, scratch: Path, patience: float = 60.0) -> None:
        self.place = place  # a folder or a URL; what is read may lie elsewhere
        self._scratch = scratch
        self._patience = Patience(patience)  # seconds that one file may take to or from where it is kept

    def tidy(self) -> None:
        """Remove what a killed process of the same scratch folder left there."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    def home(self, job: str) -> str:
        """The folder of a job's files."""
        return f"{self.place.rstrip('/')}/{job}"

    def put(self, job: str, name: Callable[[str], str], fill: Callable[[Path], None]) -> Stored:
        """Keep a file for good, under a name made from its checksum. `fill` writes it to the path that it is given.

        Raises StorageFailed, and what `fill` raises beside OSError.
        """
        if is_url(home := self.home(job)):
            return self._patience.give(home, home, "written", lambda late: self._upload(home, name, fill, late))
        path = Path(self.place, job)
        return self._patience.give(str(path), str(path), "written", lambda late: folder.keep(path, name, fill, late))

    def read(self, path: str, size: int, parse: Callable[[IO[bytes]], Given]) -> Given:
        """What `parse` makes of a file of this size, open, on this machine; a copy goes when it is over.

        Raises StorageFailed, Absent, and what `parse` raises.
        """

        def work(_: threading.Event) -> Given:
            with url.fetch(path, size, self._scratch) if is_url(path) else folder.opened(path, size) as file:
                return parse(file)

        return self._patience.give(_home(path), path, "read", work)

    def delete(self, paths: Sequence[str]) -> dict[str, str]:
        """What became of files that are kept together: "" for one that is gone, or was not there; else why it cannot be
        deleted, in one line. Those that it did not come to in time are left out, but never the first one.
        """
        found: dict[str, str] = {}

        def work(late: threading.Event) -> bool:
            remove = url.remover(paths[0]) if is_url(paths[0]) else folder.remove
            for path in paths:
                if late.is_set():
                    break
                try:
                    remove(path)
                    found[path] = ""
                except StorageFailed as error:
                    found[path] = str(error)
            return True

        try:
            self._patience.give(_home(paths[0]), paths[0], "deleted", work)
        except StorageFailed as error:
            return dict(found) or {paths[0]: str(error)}
        return found

    def names(self, job: str) -> dict[str, float]:
        """The files that are there, and how many seconds ago each was written to; 0 where nobody knows. None lie where
        no folder is. Raises StorageFailed."""
        home = self.home(job)
        names = url.names if is_url(home) else folder.names
        return self._patience.give(home, home, "read", lambda _: names(home))

    def _upload(
        self, home: str, name: Callable[[str], str], fill: Callable[[Path], None], late: threading.Event
    ) -> Stored:
        with self._filled(fill) as file:
            checksum, size = measure(file)
            path = f"{home}/{name(checksum)}"
            if late.is_set():  # what it was filled from may have changed meanwhile
                raise StorageFailed(f"{path} was filled too late")
            url.send(file, path, size)
        return Stored(path, checksum, size)

    def _filled(self, fill: Callable[[Path], None]) -> IO[bytes]:
        """A file without a name, which is there until it is closed."""
        draft = self._scratch / secrets.token_hex(8)
        try:
            self._scratch.mkdir(parents=True, exist_ok=True)
            fill(draft)
            return draft.open("rb")
        except OSError as error:
            raise StorageFailed(f"{self._scratch} cannot hold a copy to upload ({why(error)}): {DISK}") from error
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)


def _home(path: str) -> str:
    """The folder that it lies in. What does not answer there holds up only what is asked of the same one."""
    return path.rpartition("/")[0]
