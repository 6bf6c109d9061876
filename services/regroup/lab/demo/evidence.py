"""What the workers' own records say about a kill: where it hit, and when the others went on.

Owns: reading that out of the lines (their shape is in `worker.records`); pure.
Refuses to know: how the records came here, and what the coordinator believes.
Processes of one machine share CLOCK_MONOTONIC, so the records' times can be held against the moment of the kill.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from regroup.lab.audit.lines import lines, worker_of


@dataclass(frozen=True, slots=True)
class Kill:
    """A SIGKILL, and the member that it was meant for."""

    worker: str
    incarnation: str
    generation: int  # that it trained in
    at: float  # seconds since the epoch
    monotonic_ns: int


@dataclass(frozen=True, slots=True)
class Aftermath:
    """Steps count from 0, as in the records."""

    step: int | None  # that was under way: read by somebody, and never applied by the killed; None: none was
    stood: bool  # its sum was complete, so the survivors kept it; else they did it again
    first: str | None  # the survivor that committed first in a newer generation
    committed: int | None  # the step that it committed
    milliseconds: float | None  # from the kill until then


@dataclass(frozen=True, slots=True)
class _Line:
    worker: str
    incarnation: str
    generation: int
    read: int | None
    applied: int | None
    monotonic_ns: int


def aftermath(kill: Kill, pieces: Iterable[tuple[str, str]]) -> Aftermath:
    """`pieces` are (file, text) of all records of the job: pieces of a file come in order."""
    told = [_line(file, text) for file, text in lines(pieces)]
    then = [line for line in told if line.generation == kill.generation]
    step = max((line.read for line in then if line.read is not None), default=None)
    took_in = {line.incarnation for line in then if line.applied == step and step is not None}
    later = (line for line in told if line.applied is not None and line.generation > kill.generation)
    first = min(
        (line for line in later if line.monotonic_ns > kill.monotonic_ns),
        key=lambda line: line.monotonic_ns,
        default=None,
    )
    return Aftermath(
        step=None if kill.incarnation in took_in else step,
        stood=bool(took_in - {kill.incarnation}),
        first=first.worker if first else None,
        committed=first.applied if first else None,
        milliseconds=(first.monotonic_ns - kill.monotonic_ns) / 1e6 if first else None,
    )


def steps_applied(worker: str, pieces: Iterable[tuple[str, str]]) -> int:
    """How many steps a worker committed."""
    return sum(_line(file, text).applied is not None for file, text in lines(pieces) if worker_of(file) == worker)


def _line(file: str, text: str) -> _Line:
    line = json.loads(text)
    return _Line(
        worker=worker_of(file),
        incarnation=line["incarnation"],
        generation=line["generation"],
        read=line.get("read"),
        applied=line.get("applied"),
        monotonic_ns=line.get("monotonic_ns", 0),
    )
