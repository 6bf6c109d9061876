"""What follows from a Halt round that is over: a formation is issued, a state is saved, the job rests or waits.

Owns: what each verdict changes, and who is given up because it did not answer.
Refuses to know: the verdict itself (`regroup.conclude`), who is there (`roster`), and when a round is over (`rounds`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from regroup.core.branches import as_far
from regroup.core.cluster import ASKED, Answer, Watch, furthest, reached
from regroup.core.copies import anchors, is_at_work
from regroup.core.jobs import Formation, Job, JobPhase, Link, Member, Version, Wanted
from regroup.core.regroup import ASKED_TO, RESTED, Hold, NothingToSave, SaveState, Train, Verdict, Wait, conclude
from regroup.core.roster import away, candidates, is_silent, passed, untold
from regroup.core.severed import apart, let_rest, soon_again
from regroup.core.suspicion import (
    evict,
    had_its_chance,
    hang_words,
    hangs,
    hangs_for_long,
    heard_lately,
    is_mute,
    is_stuck,
    told_lately,
)
from regroup.core.turn import Turn
from regroup.core.workers import TrainerStatus


def verdict_on(
    turn: Turn, job: Job, answers: Mapping[Member, Answer], unheard: Mapping[Member, Version] = MappingProxyType({})
) -> Verdict:
    """What these answers mean. Before a generation is given up, whoever just connected may tell what it holds, and
    whoever was cut off a moment ago may come back with what it held."""
    watch = turn.watch(job.id)
    unheard = {**away(turn, job), **unheard}
    goers = frozenset(name for name, worker in turn.workers.items() if worker.departs)
    tried, unable = watch.failed_savers, watch.unable
    severed = apart(turn, job, [member.worker for member in answers])
    gone = passed(turn, job)
    leased = job.wanted is Wanted.STOP and not gone <= passed(turn, replace(job, wanted=Wanted.RUN))
    verdict = conclude(job, job.generation, answers, gone, tried, unheard, unable, goers, severed, leased)
    yet = untold(turn) if not isinstance(verdict, Wait) and verdict.rolled_back else []
    if yet:
        return Wait(f"the last generation is lost, and {', '.join(yet)} has yet to tell what it holds")
    return verdict


def gathered(turn: Turn, job: Job) -> tuple[dict[Member, Answer], list[Member], Verdict]:
    """Who could answer a round now, whose step loops do not come back, and what the words of the first would mean."""
    told = candidates(turn.cluster, job)
    stuck = [member for member in told if is_at_work(turn.cluster, member.worker)]
    present = {one: said for one, said in told.items() if one not in stuck and not is_mute(turn, one.worker)}
    return present, stuck, verdict_on(turn, job, present, _unheard(turn, job, present))


def answers_of(turn: Turn, job: Job) -> tuple[dict[Member, Answer], Verdict]:
    """Who answered the round and is there, and what that means."""
    watch = turn.watch(job.id)
    present = turn.cluster.present
    there = (one for one in watch.answers if one not in watch.dead and present(one.worker))
    answers = {one: watch.answers[one] for one in there if turn.workers[one.worker].job == job.id}
    return answers, verdict_on(turn, job, answers, _unheard(turn, job, answers))


def _unheard(turn: Turn, job: Job, answers: Mapping[Member, Answer]) -> dict[Member, Version]:
    """What the others are known to hold that are connected, but for those that have said nothing for very long."""
    told = candidates(turn.cluster, job)
    hold = {member: said.version for member, said in told.items() if member not in answers and said.version is not None}
    return {member: version for member, version in hold.items() if not is_silent(turn, job, member)}


def settle(turn: Turn, job: Job, unanswered: list[Member]) -> None:
    answers, verdict = answers_of(turn, job)
    stuck = [member for member in unanswered if is_stuck(turn, member)]
    give_up(turn, job, verdict, unanswered, answers)
    if isinstance(verdict, Train) and (why := soon_again(turn, job, answers, verdict.formation)):
        wait(turn, turn.change_job(job, round=None), why)
    elif isinstance(verdict, Train):
        _let_rest(turn, job, unanswered)
        _issue(turn, job, verdict)
    elif isinstance(verdict, SaveState):
        job = _gone_back(turn, job, verdict, verdict.version)  # more only once it is saved: it may be lost, too
        if job.ended:
            return
        savers = tuple(dict.fromkeys((*job.savers, verdict.saver)))
        turn.change_job(job, round=None, saver=verdict.saver, savers=savers, reason=verdict.reason)
        turn.change_watch(job.id, since=turn.now, writing=None)
        turn.note("saving", verdict.reason, job=job.id, worker=verdict.saver.worker, generation=job.generation)
    elif isinstance(verdict, NothingToSave) and not (back := _come_back(turn, job, answers)):
        rest(turn, job, verdict)
    elif isinstance(verdict, NothingToSave):
        wait(turn, turn.change_job(job, round=None), may_go_on(job, back))
    elif isinstance(verdict, Hold):
        job = _gone_back(turn, job, verdict, verdict.version)
        if job.ended:
            return
        turn.change_job(job, round=None, phase=JobPhase.PAUSED, reason=verdict.reason)
        turn.change_watch(job.id, disturbed=None)
        turn.note("paused", verdict.reason, job=job.id, step=job.step)
    else:
        wait(turn, turn.change_job(job, round=None), verdict.reason, stuck)


def _let_rest(turn: Turn, job: Job, unanswered: Sequence[Member]) -> None:
    """The others stood still for them in vain: each next time is later. Not for who trained with them until now."""
    told = candidates(turn.cluster, job)
    for member in unanswered:
        held = told[member].version if member in told else None
        trained = held is not None and anchors(job, member, held)
        if member in told and not trained:
            let_rest(turn, job, member.worker)


def _come_back(turn: Turn, job: Job, answers: Mapping[Member, Answer]) -> list[str]:
    """Who stays, is heard, and says that it holds what is durable, or more, though it was not there in time to answer,
    of a job that is to run and whose others leave: it need not read that again, if it can at all. And who may do so
    soon."""
    told = candidates(turn.cluster, job) if job.wanted is Wanted.RUN else {}
    others = {one: said.version for one, said in told.items() if one not in answers}
    holds = [one for one, held in others.items() if held is not None and as_far(job, held, job.saved)]
    late = [one.worker for one in holds if not is_at_work(turn.cluster, one.worker)]
    heard = [name for name in late if heard_lately(turn, name) and not turn.workers[name].departs]
    return [*heard, *returning(turn, job)]


def returning(turn: Turn, job: Job) -> list[str]:
    """Who stays in a job that is to run, and may be back in a moment with what is durable, or more, in its memory."""
    told = away(turn, job) if job.wanted is Wanted.RUN else {}
    names = (member.worker for member, version in told.items() if as_far(job, version, job.saved))
    return [name for name in names if turn.workers[name].job == job.id and not turn.workers[name].departs]


def give_up(
    turn: Turn, job: Job, verdict: Verdict | None, unanswered: Sequence[Member], answers: Mapping[Member, Answer]
) -> None:
    """Evict those that had their chance to answer; where nothing goes on without them, only after much longer.

    Who answered and tells nothing any more may be gone with what it held: then nobody else is ended who holds as much.
    """
    held = [one for one, answer in answers.items() if answer.version is not None]
    for member in unanswered:
        if member.worker in turn.workers and turn.workers[member.worker].job != job.id:
            continue  # it was taken off the job, and is released, not asked
        trainer = turn.cluster.trainer(member)
        sound = [one for one in held if told_lately(turn, one.worker) and not turn.cluster.hangs(one)]
        unheld = not any(_has(job, one, answers[one].version, trainer) for one in sound)
        if isinstance(verdict, Wait):
            over = hangs(turn, job, member, unheld, member in verdict.missing)
        else:
            # Where it was settled that nobody's state is gone on from, all that may hold one were looked at.
            last = (held or verdict is None) and unheld and trainer is not None and trainer.version is not None
            over = (hangs_for_long(turn, member) or had_its_chance(turn, member)) and not last
        if over:
            hang = turn.cluster.hang(member)
            late = f"it did not answer the Halt in {turn.policy.halt_limit:g} s"
            why = "it did not come back from the task's code" if is_stuck(turn, member) else late
            evict(turn, job, member, why if hang is None else f"it {hang_words(hang)}")


def give_up_left_out(turn: Turn, job: Job, formation: Formation) -> None:
    """Evict those that hung as the others went on, and were left out alive, now that those told that they train; and
    newcomers that hang for long, and keep their places from others."""
    there = candidates(turn.cluster, job)
    others = [one for one in there if one not in formation.members and turn.cluster.hang(one) is not None]
    long = [one for one in others if turn.waited(turn.sightings[one.worker].hangs_since) > turn.policy.absent_limit]
    hung = [one for one in others if there[one].version is not None or one in long]
    if hung:
        give_up(turn, job, None, hung, {one: there[one] for one in formation.members if one in there})


def _has(job: Job, member: Member, held: Version | None, trainer: TrainerStatus | None) -> bool:
    """Whether it holds a state for which this trainer's is not waited for. A member's other branch, which gives way to
    the base once that comes, is none, however many steps it has: more is asked than by `copies.makes_up_for`."""
    lost = trainer.version if trainer is not None else None
    if held is None or lost is None or job.formation is None:
        return held is not None
    return anchors(job, member, held) if member in job.formation.members else as_far(job, held, lost)


def _issue(turn: Turn, job: Job, verdict: Train) -> None:
    formation = replace(verdict.formation, detached_limit=turn.policy.detached_limit)
    watch = turn.watch(job.id)
    committed = reached(job, watch)
    if verdict.rolled_back:
        job = _count_restart(turn, job, formation.base)
        if job.ended:
            return
    left = _of_those_left(turn, watch, job.formation)
    phase = JobPhase.PREPARING if job.phase is JobPhase.PREPARING else JobPhase.REGROUPING
    job = turn.change_job(
        job,
        phase=phase,
        round=None,
        savers=(),
        formation=formation,
        history=(*job.history, Link(formation.generation, formation.base.generation, formation.base.step)),
        step=formation.base.step if verdict.rolled_back else committed,
        reason=verdict.reason,
    )
    fresh: dict[str, Any] = {
        "answers": {},
        "progressed": turn.now,
        "formed": frozenset(),
        "committed": {},
        "evaluated": {},
        "first": None,
        "finished": False,
        "broken": None,
    }
    fresh |= (_made_anew(job, watch) if verdict.rolled_back else {}) | left
    # Who answered owes nothing any more: in the next round it does so from then on.
    owing = {one: since for one, since in watch.asked.items() if one not in watch.answers}
    turn.change_watch(job.id, since=turn.now, asked=owing, **fresh, failed_savers=())
    for name in [one.worker for one in formation.members if turn.workers[one.worker].meant]:
        turn.workers[name] = replace(turn.workers[name], meant=False)
    names = [member.worker for member in formation.members]
    kind, base_step = "rolled_back" if verdict.rolled_back else "form", formation.base.step
    turn.note(kind, verdict.reason, job=job.id, generation=formation.generation, base_step=base_step, workers=names)


def _of_those_left(turn: Turn, watch: Watch, last: Formation | None) -> dict[str, Any]:
    """What is remembered, without trainers that are long gone: a job may lose one with each try, for weeks."""
    there = {
        Member(name, seen.trainer.incarnation) for name, seen in turn.sightings.items() if seen.trainer is not None
    }
    gone = watch.dead.keys() - there - {*(last.members if last is not None else ())}
    return {
        "dead": {member: cause for member, cause in watch.dead.items() if member not in gone},
        "severed": frozenset(pair for pair in watch.severed if gone.isdisjoint(pair)),
        "stumbled": {member: times for member, times in watch.stumbled.items() if member not in gone},
        **{name: getattr(watch, name) - gone for name in ("evicted", "suspected", "back")},
    }


def _made_anew(job: Job, watch: Watch) -> dict[str, Any]:
    """What is remembered once it goes back: steps are made anew that were made, and chunks evaluated."""
    late = {name: one for name, one in watch.late.items() if one.step >= furthest(job, watch)}
    return {"late": late, "furthest": (0, 0)}


def _count_restart(turn: Turn, job: Job, base: Version) -> Job:
    """To go back to this state is a restart if it loses steps that somebody made, and that nobody meant to be lost; too
    many of them end the job."""
    watch, last = turn.watch(job.id), job.formation
    made = furthest(job, watch)
    # A checkpoint that was struck is no loss of workers; but to begin anew is one of all state, however that came.
    read = last is not None and last.checkpoint is not None and made <= last.base.step  # and did nothing else
    # All may have been ended on purpose, as when their cluster is stopped: that is no failure of the job.
    spared = _meant(turn, job) or (read and base != job.origin)
    if made <= base.step or spared:
        return job
    job = turn.change_job(job, restarts=job.restarts + 1)
    if job.restarts > job.spec.max_restarts:
        turn.end(job, JobPhase.FAILED, f"all state was lost more often than max_restarts ({job.spec.max_restarts})")
    return turn.jobs[job.id]


def _meant(turn: Turn, job: Job) -> bool:
    dead = turn.watch(job.id).dead
    return job.formation is not None and all(dead.get(member) == ASKED for member in job.formation.members)


def rest(turn: Turn, job: Job, verdict: NothingToSave) -> None:
    if job.wanted is Wanted.STOP and job.checkpoint is None:
        turn.end(job, JobPhase.STOPPED, verdict.reason)  # the steps that it reached are still worth knowing
        return
    job = _gone_back(turn, job, verdict, job.saved)
    if job.ended:
        return
    if job.wanted is Wanted.STOP:
        turn.end(job, JobPhase.STOPPED, verdict.reason, step=job.saved.step)
    else:
        turn.pause(job, job.wanted if job.wanted in RESTED else Wanted.YIELD, verdict.reason)


def _gone_back(turn: Turn, job: Job, verdict: SaveState | NothingToSave | Hold, state: Version) -> Job:
    """A job that rests or is saved with this state, and the steps that it shows; if some are lost by that, it is told,
    and may end it."""
    before = reached(job, turn.watch(job.id))
    if verdict.rolled_back and state.step < before:
        if job.wanted not in (Wanted.STOP, Wanted.YIELD):  # its user, or the scheduler, means it to end, or to rest
            job = _count_restart(turn, job, state)
        if job.ended:
            return job
        reason, generation = verdict.reason, job.generation
        turn.note("rolled_back", reason, job=job.id, generation=generation, base_step=state.step)
        lost = job.formation.generation if job.formation is not None else 0
        turn.change_watch(job.id, committed={}, **_made_anew(job, turn.watch(job.id)))
        job = turn.change_job(job, given_up=lost)
    return turn.change_job(job, step=min(before, state.step))


def may_go_on(job: Job, names: Sequence[str]) -> str:
    return f"{', '.join(names)} may go on from step {job.saved.step}"


def wait(turn: Turn, job: Job, reason: str, stuck: Sequence[Member] = ()) -> None:
    if stuck:
        reason += f"; {', '.join(member.worker for member in stuck)} did not come back from the task's code"
    runs = job.wanted is Wanted.RUN
    reason = reason if runs else f"asked to {ASKED_TO[job.wanted]}; {reason}"
    phase = JobPhase.PREPARING if job.formation is None else JobPhase.WAITING
    if job.phase is JobPhase.RUNNING and not runs:
        phase = job.phase
    if (job.phase, job.reason) != (phase, reason):
        turn.change_job(job, phase=phase, reason=reason)
        turn.note("waiting", reason, job=job.id)
