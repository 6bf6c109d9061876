"""A trainer's own records: what it read before it gave a gradient away, and what it applied. The audit reads these.

Owns: the file `<data>/records/<job>/<worker>-<incarnation>.jsonl`, one JSON object a line, and its two kinds of line:

    {"read": step, "generation", "incarnation", "epoch", "shard", "indices": [...]}      before the exchange of a step
    {"applied": step, "generation", "incarnation", "loss", "weight", "monotonic_ns"}     after its optimizer step

Steps count from 0: line {"applied": 7} says that 8 steps are committed.
Refuses to know: the order of the data and the ownership of shards; it writes down what it is handed.
Does not guarantee: to survive the machine. A line is in the kernel before the call returns, so it survives the process.
"""

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path


class Records:
    def __init__(self, folder: Path, job: str, worker: str, incarnation: str) -> None:
        """Raises OSError if the folder cannot be written."""
        place = folder / job
        place.mkdir(parents=True, exist_ok=True)
        self.path = place / f"{worker}-{incarnation}.jsonl"
        self._incarnation = incarnation
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

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
