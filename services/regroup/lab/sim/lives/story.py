"""What happened in a life, as lines: hashed always, kept for whoever asks.

Owns: the hash by which two runs of a seed are the same run, and the wording of a line.
Refuses to know: what the lines mean.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from regroup.core.messages.agent_reports import Heartbeat
from regroup.core.messages.events import Report
from regroup.core.messages.orders import Form, Heard, Order
from regroup.core.messages.trainer_reports import StepsCommitted

QUIET = ("Heartbeat", "Heard")  # what repeats, and says nothing by itself


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


def brief(message: Report | Order) -> str:
    """The kind of a message and what tells it from others of its kind. Called for each message, so it is quick."""
    match message:
        case Heartbeat(sequence=sequence, trainer=None):
            return f"Heartbeat {sequence}"
        case Heartbeat(sequence=sequence, trainer=trainer):
            assert trainer is not None
            version = trainer.version and (trainer.version.generation, trainer.version.step)
            return f"Heartbeat {sequence} {trainer.phase} {trainer.promised} {version}"
        case Heard(sequence=sequence, generation=generation):
            return f"Heard {sequence} {generation}"
        case StepsCommitted(generation=generation, step=step):
            return f"StepsCommitted {generation} {step}"
        case Form(formation=formation):
            return f"Form {formation.generation}"
    told = [getattr(message, name) for name in ("generation", "step", "cause") if hasattr(message, name)]
    return " ".join([type(message).__name__, *map(str, told)])
