"""The records that lie on this machine, for whoever audits: which files a job has, and one piece of a file at a time.

Owns: the files `<data>/records/<job>/*.jsonl` of all workers of this machine, also of those that are gone, and that no
name leads out of that folder.
Refuses to know: what a line says (`records`), and who asks.
Does not guarantee: that a file ends where it was read to; its trainer may be writing it.
"""

import re
from pathlib import Path

from regroup.core.messages.agent_reports import RecordsAnswer, RecordsFailed, RecordsListed, RecordsRead
from regroup.core.messages.orders import ListRecords, ReadRecords, RecordsOrder

PIECE = 1 << 18  # bytes, at most
JOB = re.compile(r"[A-Za-z0-9_-]+")
FILE = re.compile(r"[A-Za-z0-9._-]+\.jsonl")


def answer(records: Path, order: RecordsOrder) -> RecordsAnswer:
    """What the folder `records` has to say to an order. It reads from the disk, so not on an event loop."""
    try:
        match order:
            case ListRecords(request, job):
                return RecordsListed(request=request, files=_files(_folder(records, job)))
            case ReadRecords(request, job, file, offset):
                text, end, more = _piece(_folder(records, job) / _checked(FILE, file), offset)
                return RecordsRead(request=request, text=text, end=end, more=more)
    except (OSError, ValueError) as error:
        return RecordsFailed(request=order.request, error=str(error))


def _folder(records: Path, job: str) -> Path:
    return records / _checked(JOB, job)


def _checked(shape: re.Pattern[str], name: str) -> str:
    if not shape.fullmatch(name):
        raise ValueError(f"{name[:70]!r} names no records")
    return name


def _files(folder: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(path.name for path in folder.iterdir() if FILE.fullmatch(path.name)))
    except FileNotFoundError:
        return ()  # no worker of this machine took part


def _piece(path: Path, offset: int) -> tuple[str, int, bool]:
    """Lines from byte `offset` on, the byte after them, and whether to ask on. Raises OSError, ValueError."""
    with path.open("rb") as file:
        file.seek(offset)
        read = file.read(PIECE)
    full = len(read) == PIECE
    size = read.rfind(b"\n") + 1
    if size == 0 and full:
        size = PIECE  # of a line that is longer; else it is one that its trainer is writing, or died in
    return read[:size].decode(errors="replace"), offset + size, full
