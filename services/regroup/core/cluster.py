"""The whole state that decisions read: durable jobs and workers, volatile sightings and watches.

Owns: the shape of the cluster's state and the limits it lives by.
Refuses to know: how it changes. `jobs` and `workers` are persisted before anything is done about them; `sightings`
and `watches` are lost with the coordinator. The workers' next heartbeats tell anew what is so now; what was so before,
such as who was suspected, or failed to save, begins anew.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

from regroup.core.jobs import Checkpoint, Job, Member, Version
from regroup.core.spec import Problem
from regroup.core.workers import Hang, Sighting, TrainerStatus, Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The limits of a cluster, in seconds unless said otherwise."""

    heartbeat_interval: float = 1.0
    tick: float = 0.2  # between two looks at what took too long, when nothing else happens
    detached_limit: float = 300.0  # a worker whose heartbeats go unanswered for so long stops committing
    detached_margin: float = 15.0  # added before anybody may roll back past such a worker
    leader_lease: float = 5.0
    prepare_limit: float = 600.0  # import a task, build its model, look at its data
    halt_limit: float = 10.0  # a round ends without those who did not answer in this time
    hang_floor: float = 4.0  # a phase of a trainer's own may last so long, however short it was before
    form_limit: float = 15.0  # connect and take the leader's state, before a new try
    absent_limit: float = 30.0  # a disconnected worker that no formation lists is taken off its job
    forget_limit: float = 86400.0  # a disconnected worker that no job holds is forgotten
    save_retry: float = 2.0  # after the first failed try to write a state; then twice as long, up to 32 times
    read_retry: float = 10.0  # until a checkpoint that no worker could read is tried again
    error_limit: int = 5  # more errors than this quarantine a worker
    error_forget: float = 21600.0  # for each so long time without another, one error less is counted

    @property
    def quiet_limit(self) -> float:
        """Seconds without a word of an agent after which it is not there all the time."""
        return max(self.halt_limit / 2, 2.5 * self.heartbeat_interval)


ASKED = "its agent ended it"  # how it is known that a trainer is dead whose end was meant


@dataclass(frozen=True, slots=True)
class Answer:
    """What a participant answered to the Halt of the round under way."""

    version: Version | None
    store: str


@dataclass(frozen=True, slots=True)
class Word:
    """What a worker said of the file from which its job was to begin."""

    generation: int  # the last in which it was to read it
    damaged: int  # in how many it found it damaged, or unfit to begin from; 0: it could not tell


@dataclass(frozen=True, slots=True)
class Rest:
    """A worker that is not to be tried again for a while, because it and others could not reach each other."""

    times: int  # in a row
    until: float
    unreached: frozenset[str] = frozenset()  # those workers, by the last try
    since: float = field(default=-inf, compare=False)


@dataclass(frozen=True, slots=True)
class Doubt:
    """How often a worker's trainers were evicted for a suspicion, less those that time forgave."""

    times: int
    last: float  # when one of them was, or was forgiven


@dataclass(frozen=True, slots=True)
class Late:
    """Fetches of data for one step, on one worker, that each took longer than the job's step_timeout."""

    step: int
    fetches: frozenset[tuple[str, int]]  # the trainer's incarnation, and which of its fetches


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What is being watched of one job. Times are the coordinator's monotonic clock."""

    since: float  # when the stage began: the round, the formation, the running
    progressed: float  # when a step was last seen committed, or a chunk of an evaluation done
    disturbed: float | None = None  # when the regroup under way began, also over several rounds
    asked: Mapping[Member, float] = field(default_factory=dict)  # since when each owes its answer, over several rounds
    answers: Mapping[Member, Answer] = field(default_factory=dict)  # to the round's generation alone
    answered: float = 0.0  # when the last of them came
    formed: frozenset[Member] = frozenset()
    finished: bool = False  # a member of the last formation committed its last step
    broken: str | None = None  # why a member of the last formation reported a broken group
    dead: Mapping[Member, str] = field(default_factory=dict)  # known dead, and how it is known
    evicted: frozenset[Member] = frozenset()  # to be killed
    suspected: frozenset[Member] = frozenset()  # of them, those that may be sound: no error of theirs, nor of the task
    back: frozenset[Member] = frozenset()  # likewise, those that were heard again since, in good health
    committed: Mapping[Member, int] = field(default_factory=dict)  # steps, of the last formation's members
    evaluated: Mapping[Member, tuple[Version, int]] = field(default_factory=dict)  # chunks of this state's evaluation
    furthest: tuple[int, int] = (0, 0)  # the last step of which chunks were evaluated, and how many at most
    proven: frozenset[str] = frozenset()  # the workers that made the last step that was made
    first: tuple[float, int] | None = None  # when all of them had told theirs, and the step that they had reached
    stumbled: Mapping[Member, int] = field(default_factory=dict)  # how often it kept others from forming, in a row
    severed: frozenset[tuple[Member, Member]] = frozenset()  # who could not reach whom, since all formed together
    resting: Mapping[str, Rest] = field(default_factory=dict)  # workers that others could not reach
    fruitless: int = 0  # generations in a row that formed, and broke before their first step
    doubted: Mapping[str, Doubt] = field(default_factory=dict)  # workers whose trainers were evicted for a suspicion
    writing: Member | None = None  # the saver, once it was heard without the file that it is to write
    failed_savers: tuple[Member, ...] = ()  # the last try last
    written: tuple[Checkpoint, ...] = ()  # beside the last formation's training, and not known to count yet
    unable: Mapping[Member, str] = field(default_factory=dict)  # to read the checkpoint, and why
    rereads: int = 0  # how often all of them were to try again
    questioned: str = ""  # the file of the checkpoint that could not be read
    words: Mapping[str, Word] = field(default_factory=dict)  # of each worker that could not read it
    retries: int = 0  # how often those that may take no part were to try again, since all formed together
    out_since: float = -inf  # when one was last refused
    late: Mapping[str, Late] = field(default_factory=dict)  # by worker: data that did not come in time
    differed: int = 0  # the last generation whose replicas differed
    slow: Mapping[str, int] = field(default_factory=dict)  # looks in a row at which a worker was slower than the others
    diverged: bool = False  # a loss was no number, and that was said

    def has_lost(self, member: Member) -> bool:
        """Whether it is known dead, or given up and not known to be sound: nothing is to be had of it any more."""
        return member in self.dead or member in self.evicted - self.suspected - self.back


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Everything that `decide` reads and gives back."""

    started: float  # when this coordinator began, on its monotonic clock
    release: str = ""  # of this coordinator, for people
    awake: float = -inf  # since when it hears and is heard, if it stood still after it began, or its store did
    jobs: Mapping[str, Job] = field(default_factory=dict)  # in the order of their submission
    workers: Mapping[str, Worker] = field(default_factory=dict)
    sightings: Mapping[str, Sighting] = field(default_factory=dict)
    watches: Mapping[str, Watch] = field(default_factory=dict)

    @cached_property
    def live(self) -> Mapping[str, Job]:
        """The jobs that are not over, in their order. All that ever were are kept: no decision may look at each."""
        return {id: job for id, job in self.jobs.items() if not self.over(job)}

    def over(self, job: Job) -> bool:
        """Whether it ended, with no file left that anybody could delete: nothing is decided of it any more, unless one
        is told of late, or a writer comes back that was forgotten."""
        return job.ended and not any(one.worker in self.workers or "://" in one.path for one in job.doomed)

    def having(self, jobs: Iterable[Job]) -> "Cluster":
        """The same, with these of its live jobs as they are now. Which are live is known, and not looked for again."""
        now = {job.id: job for job in jobs}
        after = replace(self, jobs={**self.jobs, **now})
        vars(after)["live"] = {**self.live, **now}
        return after

    def present(self, worker: str) -> Sighting | None:
        """What is known of a worker that is connected; None of any other."""
        sighting = self.sightings.get(worker)
        return sighting if sighting is not None and sighting.connected else None

    def tells(self, worker: str) -> bool:
        """Whether it is connected, and what is known of its trainer is neither from before it was cut off nor from
        before this coordinator stood still. Anything older is a reason to wait, and none to end what another holds."""
        sighting = self.present(worker)
        return sighting is not None and sighting.told and sighting.seen >= max(self.started, self.awake)

    def trainer(self, member: Member) -> TrainerStatus | None:
        """What it said of itself, if its worker is connected and it is the trainer that runs there."""
        sighting = self.present(member.worker)
        trainer = sighting.trainer if sighting is not None else None
        return trainer if trainer is not None and trainer.incarnation == member.incarnation else None

    def hang(self, member: Member) -> Hang | None:
        """Where it hangs, by the word of its agent, if that is connected."""
        return self.sightings[member.worker].hang if self.trainer(member) is not None else None

    def hangs(self, member: Member) -> bool:
        """Whether it hangs, so that it does not answer. Whoever only waits for its data does."""
        hang = self.hang(member)
        return hang is not None and not hang.fetch


def reached(job: Job, watch: Watch | None) -> int:
    """The steps that all members of the last formation are known to have committed; never below what is persisted.

    Each step takes a part of every member, so that one that any of them made says that all had made the one before.
    While a state is being saved they are fixed: what is saved may be an older one, and whoever comes back with more
    steps comes too late.
    """
    if job.formation is None or watch is None or job.saver is not None:
        return job.step
    told = [watch.committed.get(member, -1) for member in job.formation.members]
    return max(job.step, min(told), max(told) - 1)


def behind_all(job: Job, watch: Watch | None) -> int:
    """The steps that are behind all that may still hold a state of the last generation, as far as is known: the dead
    hold none."""
    known = reached(job, watch)
    if job.formation is None or watch is None or job.saver is not None:
        return known
    told = [watch.committed.get(member, -1) for member in job.formation.members if member not in watch.dead]
    return max(known, min(told, default=-1))


def furthest(job: Job, watch: Watch) -> int:
    """The steps of whoever is known to have most: it may be the only one, but each takes a part of all members."""
    return max([reached(job, watch), *watch.committed.values()])


class Refusal(Exception):
    """A command that cannot be carried out; nothing was changed."""


class NoSuchJob(Refusal):
    """There is no job with this id."""


class NoSuchWorker(Refusal):
    """There is no worker with this name."""


class JobEnded(Refusal):
    """The job has ended; ended states absorb."""


class CannotBegin(Refusal):
    """A job cannot begin from the checkpoint that it names."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{each.field}: {each.message}" for each in problems))
        self.problems = tuple(problems)


class Conflict(Refusal):
    """The job is where this cannot be done. The message says what to do instead."""
