"""The timeline: why something changed, in words, and the same as data.

Owns: the note that a decision makes, and the event that the note becomes once the store gave it an id and a time.
Refuses to know: where the timeline is kept, how long, and who reads it.
Does not guarantee: that an event is still there; the timeline is capped, and the oldest leave first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that happened or was decided. `kind` is for programs, `reason` for people."""

    kind: str
    reason: str
    job: str | None = None
    worker: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)  # JSON values


@dataclass(frozen=True, slots=True)
class Event:
    """A note in the timeline. Ids are opaque to readers and grow; `at` is seconds since the epoch, for people only."""

    id: str
    at: float
    note: Note
