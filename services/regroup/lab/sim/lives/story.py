"""What happened in a life, as lines.

Owns: the hash by which two runs of a seed are the same run, and the wording of a line.
Refuses to know: what the lines mean.
"""

import hashlib
from dataclasses import dataclass, field

from regroup.core.messages.agent_reports import Heartbeat
from regroup.core.messages.events import Report, Reported
from regroup.core.messages.orders import Form, Heard, Order
from regroup.core.messages.trainer_reports import StepsCommitted

QUIET = ("Heartbeat", "Heard")  # what repeats, and says nothing by itself


@dataclass(slots=True)
class Story:
    lines: list[str] = field(default_factory=list)
    begins: float = 0.0  # by the clock of whoever tells: a line says how many seconds later something is

    def tell(self, at: float, who: str, what: str) -> None:
        self.lines.append(f"{at - self.begins:9.3f}  {who:<14}  {what}")

    @property
    def events(self) -> int:
        return len(self.lines)

    @property
    def digest(self) -> str:
        return hashlib.blake2b("".join(self.lines).encode(), digest_size=12).hexdigest()


def about(event: object) -> str:
    """What a decision is about."""
    if isinstance(event, Reported):
        return f"{brief(event.report)} of {event.worker}"
    whom = getattr(event, "worker", None) or getattr(event, "job", None)
    return type(event).__name__ + (f" {whom}" if isinstance(whom, str) else "")


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
