"""What the decision hears: what users ask, what workers say, and what the shell itself notices.

Owns: the two unions that the rest speaks of, Report and Event, and the events that nobody says.
Refuses to know: what each of them means (`core.decide`).
"""

from dataclasses import dataclass

from regroup.core.messages.agent_reports import AgentReport
from regroup.core.messages.commands import Command
from regroup.core.messages.trainer_reports import TrainerReport

Report = AgentReport | TrainerReport


@dataclass(frozen=True, slots=True)
class Reported:
    """A report, with the name of the worker that the link knows it came from."""

    worker: str
    report: Report


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The link to a worker's agent closed. Alone this is no death."""

    worker: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed."""


@dataclass(frozen=True, slots=True)
class KeepSteps:
    """Take into the record of each job the steps that it is known to have committed."""


Event = Command | Reported | Disconnected | Tick | KeepSteps
