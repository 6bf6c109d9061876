"""An agent's looks at its trainer, at their times: the marks are read, and what changes in the judgement is told.

Owns: when it looks, and the judgement of now. Refuses to know: the judgement itself (`watching`), heartbeats, stacks.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from regroup.core.workers import Hang
from regroup.worker.pulse import last_mark
from regroup.worker.watching import LOOK, Watching, is_news


class Watch:
    """`changed` is called when a trainer begins to hang, or hangs otherwise, with how; with None when it comes back."""

    def __init__(self, changed: Callable[[Hang | None], None]) -> None:
        self._changed = changed
        self._pulse = Path()
        self._watching: Watching | None = None  # None: there is no trainer

    @property
    def hang(self) -> Hang | None:
        return self._watching.hang if self._watching is not None else None

    @property
    def pace(self) -> float | None:
        mark = self._watching.mark if self._watching is not None else None
        return mark.pace if mark is not None else None

    def begin(self, pulse: Path, floor: float, most: float) -> None:
        """Another trainer. Limits in seconds: the least that is learned, and the job's step_timeout."""
        self._pulse = pulse
        self._watching = Watching(floor, most)

    def end(self) -> None:
        self._watching = None

    def look(self) -> None:
        if self._watching is None:
            return
        before = self._watching.hang
        self._watching = self._watching.look(last_mark(self._pulse), time.monotonic())
        if is_news(before, self._watching.hang):
            self._changed(self._watching.hang)

    async def keep(self) -> None:
        """Look, again and again."""
        while True:
            self.look()
            await asyncio.sleep(LOOK)
