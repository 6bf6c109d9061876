"""What a finished Halt round means: who trains on, from which state; or who saves; or what is waited for.

The heart of the protocol. It owns rules 2, 3, 4, 6 and 7 of docs/protocol.md: who leads, who is replaced, whether the
answers hold an anchor, when all is lost. It is given answers and gives a verdict with its reason; what a waiting job
shows as its reason comes from the same function.
It refuses to know: how long a round lasts and who takes part (`rounds`), and anything of processes or sockets.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType

from regroup.core.branches import anchored, best_of
from regroup.core.cluster import Answer
from regroup.core.jobs import (
    IN_LOAD,
    IN_STATE,
    ORIGIN,
    OUTSIDE,
    Formation,
    Job,
    Member,
    Seat,
    StepFailure,
    Version,
    Wanted,
)
from regroup.core.shards import assign


@dataclass(frozen=True, slots=True)
class Train:
    """Issue this formation. `rolled_back`: the last generation's state is lost; this is the most advanced left."""

    formation: Formation
    rolled_back: bool
    reason: str


@dataclass(frozen=True, slots=True)
class SaveState:
    """Ask this member to write its state, the job's most advanced: it ends, pauses, or all that hold it leave.

    `rolled_back`: as in Train."""

    saver: Member
    version: Version
    rolled_back: bool
    reason: str


@dataclass(frozen=True, slots=True)
class NothingToSave:
    """A job that is to stop or to rest, and what is durable of it is all there is. `rolled_back`: as in Train."""

    rolled_back: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Hold:
    """The job rests, and its state stays in the workers' memory. `rolled_back`: as in Train."""

    version: Version
    rolled_back: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be formed from these answers; they are kept in the workers' memory. `missing` may hold the state."""

    reason: str
    missing: tuple[Member, ...] = ()


ASKED_TO = {Wanted.STOP: "stop", Wanted.PAUSE: "pause", Wanted.YIELD: "make room", Wanted.HOLD: "hold"}
RESTED = {Wanted.STOP: "stopped", Wanted.PAUSE: "paused", Wanted.YIELD: "made room"}
Verdict = Train | SaveState | NothingToSave | Hold | Wait


@dataclass(frozen=True, slots=True)
class _Base:
    version: Version
    rolled_back: bool = False


def conclude(
    job: Job,
    generation: int,
    answers: Mapping[Member, Answer],
    passed: Set[Member],
    tried: Sequence[Member] = (),
    unheard: Mapping[Member, Version] = MappingProxyType({}),
    unable: Mapping[Member, str] = MappingProxyType({}),
    departing: Set[str] = frozenset(),
    apart: Set[str] = frozenset(),
    leased: bool = False,
) -> Verdict:
    """Decide from the answers to the Halt of `generation`: nothing is formed or saved but what they hold.

    `passed` are the members of the last formation that rule 7 lets us roll back past: known dead, or silent for the
    detached limit and its margin. `tried` are the members that failed to save the state, in the order of their tries:
    whoever failed last is asked again only after all others. `unheard` are there and have not answered, or were not
    asked yet, and this is what they last said they hold: none of it is rolled back past while they may still answer.
    `unable` could not read the checkpoint, each with its reason: where nobody holds the state, they do not lead.
    `departing` workers are to go: they take no part in what is formed, and what they alone hold is saved. But where
    others stay with an older state, one of them leads once more, until those have its state. `apart` are workers that
    others of them could not reach: they take no part where nobody holds the state, if enough others can build or read
    it. `leased`: one of the `passed` may train on, since a stop does not wait for its lease: nobody else trains then.
    """
    base = _base(job, answers, passed, unheard)
    if isinstance(base, Wait):
        return base
    finished = job.complete_at(base.version.step)
    have = (member for member, answer in answers.items() if answer.version == base.version)
    holders = sorted(have, key=lambda member: (member.worker in departing, member))  # a file lies best where one stays
    rests = job.wanted in RESTED
    if rests and base.version == job.saved:
        verb = RESTED[job.wanted]
        where = "without a checkpoint" if base.rolled_back and job.checkpoint is None else durable(job)
        left = "newer state" if job.checkpoint is not None else "state"
        reason = f"{verb} {where}" + (f": no {left} is left" if base.rolled_back else "")
        return NothingToSave(base.rolled_back, reason)
    # A final state that nobody holds is durable, and is read once more for the task's report alone.
    ends, alone = rests or (finished and holders), base.rolled_back and leased
    if ends and (alone or not _another_saves(job, answers, holders, tried, departing)):
        return _save(job, base, holders, finished, tried)
    if job.wanted is Wanted.HOLD:
        kept = f"at step {base.version.step}, in the memory of {_named(holders)}" if holders else durable(job)
        lost = ": no newer state is left" if base.rolled_back else ""
        return Hold(base.version, base.rolled_back, f"held {kept}{lost}")
    vain = f": {_named(holders)} could not save it" if ends else ""
    staying = {member: answer for member, answer in answers.items() if member.worker not in departing}
    failed = Counter(one.worker for one in job.failures if _as_leader(one, base.version.step))
    if holders and staying.keys().isdisjoint(holders):
        if _take_over(job, staying, vain=set(holders) <= set(tried)):
            giver = min(holders, key=lambda one: failed[one.worker])
            return _train(job, generation, {**staying, giver: answers[giver]}, base, giver, vain)
        if base.version == job.saved:
            return NothingToSave(base.rolled_back, f"rests {durable(job)}: all that hold it leave")
        return _save(job, base, holders, finished, tried)
    if not holders:
        staying = _within_reach(job, staying, apart, unable)
    if len(staying) < job.needs:
        kept = f"; step {base.version.step} is kept in memory" if holders else ""
        return Wait(f"waits for workers: {len(staying)} of {job.needs} are ready{kept}{_refused(job)}")
    tried_to_read = {member.worker for member in unable}
    readers = [member for member in sorted(staying) if member not in unable]
    leaders = [one for one in holders if one in staying] or readers
    if not leaders:
        why = "; ".join(f"{member.worker}: {error}" for member, error in sorted(unable.items()))
        return Wait(f"no worker can read the checkpoint of step {base.version.step}: {why}")
    leader = min(leaders, key=lambda one: (not holders and one.worker in tried_to_read, failed[one.worker]))
    return _train(job, generation, staying, base, leader, vain)


def _another_saves(
    job: Job, answers: Mapping[Member, Answer], holders: Sequence[Member], tried: Sequence[Member], departing: Set[str]
) -> bool:
    """Whether nobody that holds what is to be saved could save it, and others are there to take it, and may."""
    staying = [member for member in answers if member.worker not in departing]
    takers = [member for member in staying if member not in holders]
    held = len(staying) - len(takers)
    enough = len(staying) + (held == 0) >= job.needs  # one that goes leads once more (`_take_over`)
    room = bool(takers) and enough and job.spec.max_workers > held
    return room and set(holders) <= set(tried)


def _within_reach(
    job: Job, staying: dict[Member, Answer], apart: Set[str], unable: Mapping[Member, str]
) -> dict[Member, Answer]:
    near = {member: answer for member, answer in staying.items() if member.worker not in apart}
    enough = len(near) >= job.needs and not near.keys() <= unable.keys()
    return near if enough else staying


def _as_leader(failure: StepFailure, step: int) -> bool:
    """Whether it may have failed to give the state of this step to others, or to build it, or to read it."""
    return failure.shard == IN_STATE or (failure.shard in (OUTSIDE, IN_LOAD) and failure.step == step)


def _refused(job: Job) -> str:
    """Who may not take part, as what is waited for may never come."""
    if not job.refused:
        return ""
    (name, why), *others = job.refused.items()
    more = f", and {len(others)} more" if others else ""
    return f"; {name}{more} may not take part: {why}"


def _take_over(job: Job, staying: Mapping[Member, Answer], vain: bool) -> bool:
    """Whether those that stay train on from what the leavers hold. To save it would cost them their own state, which is
    a step older, for a file that may lie where they cannot read it; or all that hold it tried that in vain."""
    takes = bool(staying) if vain else any(answer.version is not None for answer in staying.values())
    return takes and job.needs <= len(staying) + 1 and job.spec.max_workers > 1


def durable(job: Job) -> str:
    """How far a job is that nobody trains, in words."""
    if job.latest is None:
        return "before its first step"
    return f"at step {job.saved.step}; its state is in {job.latest.path}"


def _save(job: Job, base: _Base, holders: list[Member], finished: bool, tried: Sequence[Member]) -> SaveState:
    last_try = {member: number for number, member in enumerate(tried)}
    saver = min(holders, key=lambda member: last_try.get(member, -1))
    why = f"to {ASKED_TO[job.wanted]}" if job.wanted in RESTED else "because all that hold it leave"
    what = "the final state" if finished else f"the state of step {base.version.step}, {why}"
    back = "the last generation is lost: " if base.rolled_back else ""
    return SaveState(saver, base.version, base.rolled_back, f"{back}{saver.worker} saves {what}")


def _base(
    job: Job, answers: Mapping[Member, Answer], passed: Set[Member], unheard: Mapping[Member, Version]
) -> _Base | Wait:
    """The state to go on from: rule 4's leader if there is an anchor (rule 6), else what rule 7 leaves."""
    if job.formation is None:
        return _Base(job.saved)  # whatever any trainer still holds of a generation that a pause closed is void
    stateful = {member: answer.version for member, answer in answers.items() if answer.version is not None}
    listed = job.formation.members
    best = best_of(job, stateful)
    # A listed member's promise ends the last generation; but one that never got its base, and answers with an older
    # state of its own, or with one of another branch, must not put the others back to that.
    if anchored(job, stateful):
        return _Base(best)
    missing = tuple(member for member in listed if member not in answers and member not in passed)
    if missing:
        whose = f"the state of generation {job.formation.generation} may live on {_named(missing)}"
        patient = job.wanted in (Wanted.HOLD, Wanted.PAUSE)  # nothing is given up for a rest (`roster.passed`)
        way_out = "resume or stop the job to go on without it" if patient else "or for its lease to be over"
        reason = f"{whose}: waiting for it to answer, {way_out}"
        return Wait(reason, missing)
    better = tuple(member for member, version in unheard.items() if best_of(job, {**stateful, member: version}) != best)
    if better:
        whose = f"the last generation is lost, and the most advanced state left may be {_named(better)}'s"
        return Wait(f"{whose}: waiting for it to answer", better)
    return _Base(best, rolled_back=True)


def _named(members: Sequence[Member]) -> str:
    return ", ".join(sorted(member.worker for member in members))


def _train(
    job: Job, generation: int, answers: Mapping[Member, Answer], base: _Base, leader: Member, vain: str
) -> Train:
    """`vain`: why others are to take a state that is to be saved."""
    # The leader first, then those that need no transfer.
    by_worth = sorted(answers, key=lambda member: (member != leader, answers[member].version != base.version, member))
    members = sorted(by_worth[: job.spec.max_workers])
    held = answers[leader].version == base.version
    formation = Formation(
        generation=generation,
        seats=tuple(Seat(member, answers[member].version) for member in members),
        leader=members.index(leader),
        base=base.version,
        owners=_owners(job, members, base.version.step),
        store=answers[leader].store,
        micro_batch=job.spec.micro_batch,
        checkpoint=None if held else job.latest,
    )
    names = ", ".join(member.worker for member in members)
    lost = "the last generation is lost: " if base.rolled_back else ""
    if base.version == ORIGIN:
        start = "no state is left: from the seed, at step 0, on" if lost else "from the seed on"
    elif base.version == job.origin and job.beginning is not None:
        start = f"{lost}from the checkpoint of step {base.version.step} of job {job.beginning.job} on"
    elif not held:
        start = f"{lost}from the checkpoint of step {base.version.step} on"
    elif lost:
        start = f"{lost}from step {base.version.step}, the most advanced state left, on"
    else:
        start = f"from step {base.version.step} on"
    return Train(formation, base.rolled_back, f"{start} {names}{vain}")


def _owners(job: Job, members: Sequence[Member], step: int) -> tuple[int, ...]:
    """Who owns each shard: another one than before, and a shard that failed in this step, whoever has not tried it.

    Where not all can be had that way, the latest failure counts most.
    """
    failed = [(each.shard, each.worker) for each in reversed(job.failures) if each.step == step and each.shard >= 0]
    turns = (assign(job.spec.shard_count, len(members), turn=len(job.history) + turn) for turn in range(len(members)))
    return min(turns, key=lambda owners: [members[owners[shard]].worker == worker for shard, worker in failed])
