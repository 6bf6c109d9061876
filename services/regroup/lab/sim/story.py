"""What happened in a life, as lines: hashed always, kept for whoever asks.

Owns: the hash by which two runs of a seed are the same run, and the wording of a line.
Refuses to know: what the lines mean.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Story:
    """`kept`: the lines stay in memory. The hash is over all of them, kept or not."""

    kept: bool = False
    lines: list[str] = field(default_factory=list)
    events: int = 0
    _hash: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=12))

    def tell(self, at: float, who: str, what: str) -> None:
        line = f"{at:9.3f}  {who:<14}  {what}"
        self.events += 1
        self._hash.update(line.encode())
        if self.kept:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        return str(self._hash.hexdigest())
