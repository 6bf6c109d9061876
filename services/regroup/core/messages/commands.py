"""What users ask, as they ask it over REST. Imperative.

Owns: the commands. Refuses to know: who may give them, and what becomes of them (`core.commands`).
Does not guarantee: that a command can be done; what it names may be gone, or never have been.
"""

from dataclasses import dataclass

from regroup.core.spec import JobSpec


@dataclass(frozen=True, slots=True)
class SubmitJob:
    """Queue a job under an id that the caller made."""

    job: str
    spec: JobSpec
    at: float  # seconds since the epoch, for people to read


@dataclass(frozen=True, slots=True)
class StopJob:
    """End a job at its next step, with a checkpoint of its state if it has one; or `now`, with what is durable."""

    job: str
    now: bool = False


@dataclass(frozen=True, slots=True)
class PauseJob:
    """Rest at the next step until ResumeJob: save the state and free the workers, or `hold` it in their memory."""

    job: str
    hold: bool = False


@dataclass(frozen=True, slots=True)
class ResumeJob:
    """Go on where a pause left off."""

    job: str


@dataclass(frozen=True, slots=True)
class ClearWorker:
    """Forgive a worker's errors and lift its quarantine."""

    worker: str


@dataclass(frozen=True, slots=True)
class DrainWorker:
    """Let others take over what a worker has, and lend it to nobody until AdmitWorker."""

    worker: str


@dataclass(frozen=True, slots=True)
class AdmitWorker:
    """Lend a drained worker again."""

    worker: str


Command = SubmitJob | StopJob | PauseJob | ResumeJob | ClearWorker | DrainWorker | AdmitWorker
