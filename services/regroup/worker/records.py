"""A trainer's own records: what it read before it gave a gradient away, and what it applied. The audit reads these.

Owns: the file `<data>/records/<job>/<worker>-<incarnation>.jsonl`, one JSON object a line, and its two kinds of line:

    {"read": step, "generation", "incarnation", "epoch", "shard", "indices": [...]}      before the exchange of a step
    {"applied": step, "generation", "incarnation", "loss", "weight", "monotonic_ns"}     after its optimizer step

Steps count from 0: line {"applied": 7} says that 8 steps are committed.
A worker has one trainer at a time, and one file of a job on a machine: each trainer goes on in the file that its
predecessor left, which has the name of the first one's incarnation. So files are as many as workers, not as deaths, and
no two machines have files of one name.
Refuses to know: the order of the data and the ownership of shards; it writes down what it is handed.
Does not guarantee: to survive the machine. A line is in the kernel before the call returns, so it survives the process.
"""

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

TAIL = 1 << 16  # bytes that are read at once in search of the last end of line


def file_of(place: Path, worker: str) -> Path | None:
    """The file of a worker in the folder of a job; None: it has none. An incarnation has no dash, a name may have."""
    return next((path for path in sorted(place.glob("*.jsonl")) if path.stem.rpartition("-")[0] == worker), None)


class Records:
    def __init__(self, folder: Path, job: str, worker: str, incarnation: str) -> None:
        """Raises OSError if the folder cannot be written."""
        place = folder / job
        place.mkdir(parents=True, exist_ok=True)
        self.path = file_of(place, worker) or place / f"{worker}-{incarnation}.jsonl"
        self._incarnation = incarnation
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._end_last_line()

    def read(self, generation: int, step: int, reads: Iterable[tuple[int, int, tuple[int, ...]]]) -> None:
        """Before the step's gradient is given away: (epoch, shard, indices as the dataset was asked for them).

        All of it or nothing: raises OSError, with the file's name, if it cannot be written.
        """
        lines = (
            {"read": step, **self._who(generation), "epoch": epoch, "shard": shard, "indices": indices}
            for epoch, shard, indices in reads
        )
        self._append(lines)

    def applied(self, generation: int, step: int, loss: float | None, weight: float) -> None:
        """After the optimizer step: the state is now (generation, step). Raises OSError as `read` does."""
        line = {"applied": step, **self._who(generation), "loss": loss, "weight": weight}
        self._append([{**line, "monotonic_ns": time.monotonic_ns()}])

    def close(self) -> None:
        os.close(self._file)

    def _end_last_line(self) -> None:
        """Who was killed while it wrote left half a line, on which nothing depends: it would spoil the next one."""
        end = size = os.fstat(self._file).st_size
        while end:
            start = max(0, end - TAIL)
            if found := os.pread(self._file, end - start, start).rfind(b"\n") + 1:
                end = start + found
                break
            end = start
        if end < size:
            os.ftruncate(self._file, end)

    def _who(self, generation: int) -> dict[str, object]:
        return {"generation": generation, "incarnation": self._incarnation}

    def _append(self, lines: Iterable[dict[str, object]]) -> None:
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
        end, rest = os.fstat(self._file).st_size, memoryview(text)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            if len(rest) < len(text):
                os.ftruncate(self._file, end)  # half a line would spoil the next one
            message = f"the records cannot be written: {error.strerror}"
            raise OSError(error.errno, message, str(self.path)) from error
