"""What no process of a real cluster remembers: every state that ever was, every formation ever issued.

Owns: that memory, and where a state descends from. Rules write into it what they have seen and ask for later; what
machines do to files is written by the models of agents and disks.
Refuses to know: what must hold (`decision_rules`, `trainer_rules`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from regroup.core.jobs import ORIGIN, Formation, Job, Link, Member, Version
from regroup.core.messages.orders import Discard
from regroup.lab.sim.model.trainer import History
from regroup.lab.sim.model.world import extent


@dataclass(slots=True)
class Ghosts:
    states: dict[tuple[str, Version], History] = field(default_factory=dict)
    formations: dict[tuple[str, int], Formation] = field(default_factory=dict)
    rolled_back: set[tuple[str, int]] = field(default_factory=set)
    commits: dict[str, dict[int, set[int]]] = field(default_factory=dict)  # job -> generation -> steps
    # Coordinator, by when it began, job and generation -> steps that a trainer told of.
    told: dict[tuple[float, str, int], int] = field(default_factory=dict)
    restarted: dict[tuple[str, int], int] = field(default_factory=dict)  # job, generation -> the step gone back to
    late: dict[tuple[str, int], set[int]] = field(default_factory=dict)  # steps of a generation after a later one's
    written: set[tuple[str, Version]] = field(default_factory=set)
    writers: set[tuple[Member, Version]] = field(default_factory=set)
    # Who was to save which state, since the job's last formation.
    savers: dict[str, dict[Member, Version]] = field(default_factory=dict)
    closed: dict[tuple[str, Version], int] = field(default_factory=dict)  # what a pause left, and the number by then
    deleted: set[str] = field(default_factory=set)  # files of checkpoints
    damaged: set[str] = field(default_factory=set)  # likewise
    places: dict[str, set[str]] = field(default_factory=dict)  # file -> machines whose folder has it; "": all see it
    words: dict[str, set[tuple[str, int]]] = field(default_factory=dict)  # file -> (worker, generation) that said so
    asked: dict[str, set[str]] = field(default_factory=dict)  # file -> workers that could not read it
    blamed: dict[str, float] = field(default_factory=dict)  # when an error of a worker was last counted or forgiven
    out_since: dict[str, float] = field(default_factory=dict)  # when a job last refused somebody, or took all back
    rested: dict[str, float] = field(default_factory=dict)  # when a job last rested, or was to
    unpreparable: set[str] = field(default_factory=set)  # jobs of which a trainer said, or showed, that they are wrong
    cut_short: set[str] = field(default_factory=set)  # jobs that a user wanted to end at once
    unheard: set[Member] = field(default_factory=set)  # evicted trainers whose agents were not heard since
    hung: dict[tuple[float, Member], float] = field(default_factory=dict)  # since when, as a coordinator heard
    owes: dict[Member, float] = field(default_factory=dict)  # since when it owes its answer, by the coordinator's clock
    fetches: dict[tuple[str, str, int], set[tuple[str, int]]] = field(
        default_factory=dict
    )  # accused: job, worker, step

    def let_go_by(self, order: Discard) -> set[str]:
        """The files beside those that it names which an order lets go."""
        files = {file_name(job, version) for job, version in self.written if job == order.job and version < order.below}
        return files.difference(order.keep)

    def goes_on(self, job: str, generation: int, state: Version) -> bool:
        """Whether a state goes on from the base of the formation that was issued before this one."""
        last = max((n for id, n in self.formations if id == job and n < generation), default=0)
        base = self.formations[job, last].base if last else ORIGIN
        while state.generation > base.generation:
            state = self.formations[job, state.generation].base
        return state >= base

    def best(self, job: Job, told: Mapping[Member, Version]) -> Version:
        """What is gone on from: the highest version that goes on from the last formation's base, where one of its
        members is there with a state; else the most steps, of these and of what is durable."""
        there = job.formation is not None and not told.keys().isdisjoint(job.formation.members)
        line = [state for state in told.values() if there and self.goes_on(job.id, job.generation, state)]
        if line:
            return max([*line, job.saved])
        return max([*told.values(), job.saved], key=lambda state: extent(job, state))

    def is_void(self, job: str, base: Version, held: Version) -> bool:
        """Whether a state is of before a pause that left this base."""
        return held.generation <= self.closed.get((job, base), -1)

    def copy(self) -> "Ghosts":
        """For another future."""
        return Ghosts(
            dict(self.states),
            dict(self.formations),
            set(self.rolled_back),
            {job: {n: set(steps) for n, steps in each.items()} for job, each in self.commits.items()},
            dict(self.told),
            dict(self.restarted),
            {which: set(steps) for which, steps in self.late.items()},
            set(self.written),
            set(self.writers),
            {job: dict(members) for job, members in self.savers.items()},
            dict(self.closed),
            set(self.deleted),
            set(self.damaged),
            {file: set(each) for file, each in self.places.items()},
            {file: set(each) for file, each in self.words.items()},
            {file: set(each) for file, each in self.asked.items()},
            dict(self.blamed),
            dict(self.out_since),
            dict(self.rested),
            set(self.unpreparable),
            set(self.cut_short),
            set(self.unheard),
            dict(self.hung),
            dict(self.owes),
            {which: set(each) for which, each in self.fetches.items()},
        )


def file_name(job: str, version: Version) -> str:
    """The same state has the same name, whoever wrote it; on storage that all share it is one file."""
    return f"{job}-g{version.generation}-s{version.step}"


def surviving(history: tuple[Link, ...], version: Version, begins: int = 0) -> History:
    """In which generation each step of a state was reduced, by the chain of history (rule 8); 0: in another job, whose
    checkpoint this one begins from at the step `begins`."""
    links = {link.generation: link for link in history}
    generation, step = version.generation, version.step
    found: list[int] = []
    while generation:
        assert generation in links, f"{version} comes from generation {generation}, and history does not tell of it"
        link = links[generation]
        assert step >= link.base_step, f"{version} is below its own generation's base"
        assert link.parent < generation, f"generation {generation} comes from {link.parent}, which is no older one"
        found = [generation] * (step - link.base_step) + found
        generation, step = link.parent, link.base_step
    assert step == begins, f"{version} begins with {step} steps that no generation committed"
    return (0,) * begins + tuple(found)
