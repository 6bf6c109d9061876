"""The stages that a job goes through between two formations, and what moves it from one to the next.

    gathering -> halting -> forming -> training -> halting ...        (and halting -> saving -> ended)

Owns: when a Halt round begins, whom it waits for, when it is over; each new try takes a fresh generation (rules 1, 2
of docs/protocol.md).
Refuses to know: what the answers mean (`regroup.conclude`), what is done about that (`settling`), and who sent what
(`observing`).
`advance` is level-triggered: it reads the state and may be called at any time.
"""

from collections.abc import Set
from dataclasses import replace
from enum import Enum, auto

from regroup.core import failures
from regroup.core.cluster import furthest
from regroup.core.hanging import GRACE, awaits_data, set_aside, starve, waits_in_vain, worth_a_round
from regroup.core.jobs import Formation, Job, JobPhase, Member, Round, Wanted
from regroup.core.leaving import departs, is_held_by_goers, owes_word
from regroup.core.places import read_elsewhere, unlend_older, unlend_surplus
from regroup.core.regroup import ASKED_TO, RESTED, NothingToSave, SaveState, Train, Verdict, Wait, durable
from regroup.core.roster import candidates, is_cut_off, passed
from regroup.core.settling import (
    answers_of,
    gathered,
    give_up,
    give_up_left_out,
    may_go_on,
    rest,
    returning,
    settle,
    wait,
)
from regroup.core.severed import formed_together, rests, soon_again
from regroup.core.suspicion import doubt, hang_at_save, hang_words, is_mute, is_stuck, suspect, told_lately
from regroup.core.turn import Turn
from regroup.core.workers import TrainerPhase
from regroup.core.written import take_committed, take_told

LONGEST_RETRY = 6  # failed saves, after which the time until the next try is not doubled any more


class Stage(Enum):
    IDLE = auto()  # queued, paused or ended
    GATHERING = auto()  # no round, no formation of this generation: too few workers, or nobody holds the state
    HALTING = auto()
    FORMING = auto()
    TRAINING = auto()
    SAVING = auto()


def stage(job: Job) -> Stage:
    if job.ended or job.phase in (JobPhase.QUEUED, JobPhase.PAUSED):
        return Stage.IDLE
    if job.saver is not None:
        return Stage.SAVING
    if job.round is not None:
        return Stage.HALTING
    if job.formation is None or job.between:
        return Stage.GATHERING
    return Stage.TRAINING if job.phase is JobPhase.RUNNING else Stage.FORMING


def advance(turn: Turn, job_id: str) -> None:
    """Take the job as far as what is known now allows."""
    job, watch = turn.jobs[job_id], turn.watches.get(job_id)
    if watch is not None and watch.written and _is_given_up(turn, job):
        job = take_told(turn, job_id)
    match stage(job):
        case Stage.IDLE:
            _rest(turn, job)
        case Stage.GATHERING:
            _gather(turn, job)
        case Stage.HALTING:
            _halt(turn, job)
        case Stage.FORMING:
            _form(turn, job)
        case Stage.TRAINING:
            _train(turn, job)
        case Stage.SAVING:
            _save(turn, job)
    if stage(job) is not Stage.IDLE and stage(turn.jobs[job_id]) is Stage.IDLE:
        _rest(turn, turn.jobs[job_id])


def _is_given_up(turn: Turn, job: Job) -> bool:
    """Whether all that the last generation had in memory is lost, though too few may be there to go on: each member is
    dead, or was silent for as long as anybody is waited for."""
    return job.formation is not None and passed(turn, job) >= {*job.formation.members}


def begin_round(turn: Turn, job: Job, reason: str, *, boundary: bool = False) -> None:
    """Take a fresh generation and ask everybody for its promise."""
    watch = turn.watch(job.id)
    listed = job.formation.members if job.formation else ()
    living = {member for member in listed if member not in watch.dead and member not in watch.evicted}
    participants = tuple(sorted(living | _candidates_for(turn, job, living)))
    generation = job.generation + 1
    asked = Round(generation, boundary, participants, reason)
    orderly = boundary or job.formation is None or watch.failed_savers  # no training is interrupted
    phase = job.phase if orderly else JobPhase.REGROUPING
    turn.change_job(job, round=asked, generation=generation, saver=None, phase=phase, reason=reason)
    disturbed = turn.now if watch.disturbed is None else watch.disturbed
    # Whoever answered the last round owes its word from now on, not since that one.
    owing = {} if watch.disturbed is None else watch.asked
    since = {one: turn.now if one in watch.answers else owing.get(one, turn.now) for one in participants}
    turn.change_watch(job.id, since=turn.now, answers={}, disturbed=disturbed, asked=since)
    turn.note("halt", reason, job=job.id, generation=generation, boundary=boundary)
    advance(turn, job.id)  # a round without participants is over at once


def _candidates_for(turn: Turn, job: Job, living: Set[Member]) -> Set[Member]:
    """Who cannot reach the others is left alone for a while, unless they cannot go on without it: they are too few, or
    none of them can read the checkpoint."""
    there = candidates(turn.cluster, job)
    fit = {one for one, answer in there.items() if one in living or answer.version or not rests(turn, job, one.worker)}
    # Nobody waits for a pass of a group that was.
    fit = {one for one in fit if one in living or not is_stuck(turn, one)}
    stay = {one for one in fit if not (departs(turn, one) or is_mute(turn, one.worker))}
    enough = len(stay) >= job.needs and not stay <= turn.watch(job.id).unable.keys()
    return fit if enough else set(there)


def _rest(turn: Turn, job: Job) -> None:
    """What is held is saved if all that have it go; and it is said when they are gone."""
    if is_held_by_goers(turn, job):
        reason = "what it holds is saved: all that have it are to go"
        turn.note("pausing", reason, job=job.id)
        turn.change_job(job, wanted=Wanted.PAUSE, phase=JobPhase.WAITING, reason=reason)
        advance(turn, job.id)
        return
    if job.phase is not JobPhase.PAUSED or job.formation is None:
        return
    unlend_older(turn, job)
    watch = turn.watch(job.id)
    held = any(answer.version is not None for answer in candidates(turn.cluster, job).values())
    if held or any(member not in watch.dead for member in job.formation.members):
        return
    lost = job.step > job.saved.step
    gone = f"held, but all that had step {job.step} in memory are gone; what is left: {durable(job)}"
    reason = gone if lost else f"held {durable(job)}"
    if job.reason != reason:
        turn.change_job(job, reason=reason)
        if lost:
            turn.note("lost_state", reason, job=job.id)


def _gather(turn: Turn, job: Job) -> None:
    watch = turn.watch(job.id)
    if watch.unable:
        read_elsewhere(turn, job)
    present, stuck, verdict = gathered(turn, job)
    ends = isinstance(verdict, Train) and (job.wanted in RESTED or job.complete_at(verdict.formation.base.step))
    if (ends or isinstance(verdict, SaveState)) and failed_lately(turn, job):
        return  # it is too soon, also for others that are to take it, and save
    if isinstance(verdict, Wait):
        if untold := [member.worker for member in present if owes_word(turn, job, member)]:
            begin_round(turn, job, f"{', '.join(untold)} may go, once it told what it holds")
            return
        # Whoever promised, and is still in a pass, may take as long as a step, here as in a round.
        long = turn.waited(watch.progressed) > job.spec.step_timeout
        give_up(turn, job, verdict, [one for one in stuck if long or turn.cluster.hangs(one)], present)
        wait(turn, turn.jobs[job.id], verdict.reason, stuck)
    elif isinstance(verdict, NothingToSave) and not present:  # else what they said is no answer: they may hold more now
        job = _with_all_that_is_left(turn, job, verdict)
        _, _, verdict = gathered(turn, job)
        assert isinstance(verdict, NothingToSave)
        rest(turn, job, verdict)
    elif isinstance(verdict, NothingToSave) and (back := returning(turn, job)):
        wait(turn, job, may_go_on(job, back))
    elif isinstance(verdict, Train) and (why := soon_again(turn, job, present, verdict.formation)):
        wait(turn, job, why)
    else:
        begin_round(turn, job, "enough workers are ready" if job.formation is None else verdict.reason)


def _with_all_that_is_left(turn: Turn, job: Job, verdict: Verdict) -> Job:
    if not isinstance(verdict, Wait) and verdict.rolled_back:
        return take_told(turn, job.id)
    return turn.jobs[job.id]


def failed_lately(turn: Turn, job: Job) -> bool:
    """Whether to save was tried in vain a moment ago; the longer it has been, the more often it was."""
    watch = turn.watch(job.id)
    tries = min(len(watch.failed_savers), LONGEST_RETRY)
    return tries > 0 and turn.waited(watch.since) < turn.policy.save_retry * 2 ** (tries - 1)


def _halt(turn: Turn, job: Job) -> None:
    asked, watch = job.round, turn.watch(job.id)
    assert asked is not None
    trouble = _trouble(turn, job)
    if asked.boundary and trouble is not None:
        begin_round(turn, job, trouble)
        return
    unanswered = [member for member in asked.participants if _awaited(turn, job, member)]
    starved = awaits_data(turn, job) if job.wanted is Wanted.RUN and not asked.boundary else []
    listed = frozenset(job.formation.members) if job.formation is not None else frozenset()
    at_work = not listed.isdisjoint(unanswered) or any(_at_work(turn, member) for member in unanswered)
    # Members may be in the middle of a long step, until one is at the boundary: then all are.
    steps = asked.boundary and not listed.isdisjoint(unanswered) and listed.isdisjoint(watch.answers)
    limit = job.spec.step_timeout if steps else turn.policy.halt_limit
    began = max(watch.since, watch.answered) if asked.boundary else watch.since
    # Whoever promised, and is still in a pass, may take as long as a step, if the others need it.
    stuck, left = any(is_stuck(turn, member) for member in unanswered), _are_left_out(turn, job, unanswered)
    patient = stuck and not left and turn.waited(watch.progressed) <= job.spec.step_timeout
    if asked.boundary and at_work and (hang := worth_a_round(turn, job)):
        begin_round(turn, job, hang)
        return
    vain = not asked.boundary and waits_in_vain(turn, job, unanswered)
    if unanswered and not vain and (patient or turn.waited(began) <= limit):
        return
    if starved and turn.waited(max(watch.since, watch.answered)) <= GRACE:
        return
    names = ", ".join(member.worker for member in unanswered)
    if asked.boundary and at_work:  # else only newcomers are missing, and those that are there go on without
        begin_round(turn, job, f"no boundary was reached in {limit:g} s: {names} did not get there")
        return
    if left:
        unanswered = []  # they have yet to come back from a pass of long ago, and are taken in after that
    made = max(furthest(job, watch), job.formation.base.step if job.formation is not None else 0)
    set_aside(turn, job, starved)
    if not turn.jobs[job.id].ended:
        _, verdict = answers_of(turn, turn.jobs[job.id])
        settle(turn, _with_all_that_is_left(turn, turn.jobs[job.id], verdict), unanswered)
        if (after := turn.jobs[job.id]).formation is not job.formation:
            turn.change_job(after, failures=failures.gone_back(after, made))
        take_committed(turn, job.id)  # what a new formation has behind it


def _are_left_out(turn: Turn, job: Job, members: list[Member]) -> bool:
    """Whether all that a plain round waits for were left out before, are in a pass that they began with others, and are
    not needed: those that answered would stand still for as long as that takes."""
    listed = job.formation.members if job.formation is not None else ()
    plain = job.round is not None and not job.round.boundary
    if not (plain and members) or not all(is_stuck(turn, one) and one not in listed for one in members):
        return False
    return not isinstance(answers_of(turn, job)[1], Wait)


def _at_work(turn: Turn, member: Member) -> bool:
    """Whether it is in a group, if only in one of long ago, or comes back from one that broke: then it answers at the
    boundary, or to a plain Halt."""
    trainer = turn.cluster.trainer(member)
    if trainer is None:
        return False
    leaves = trainer.phase is TrainerPhase.BROKEN and trainer.at_work
    return leaves or trainer.phase in (TrainerPhase.FORMING, TrainerPhase.TRAINING)


def _awaited(turn: Turn, job: Job, member: Member) -> bool:
    """Whether the round still waits for this participant."""
    watch = turn.watch(job.id)
    if member in watch.answers or member in watch.dead:
        return False
    listed = job.formation is not None and member in job.formation.members
    sighting = turn.sightings.get(member.worker)
    if sighting is None:
        return listed  # this coordinator is young: it has not re-attached yet
    if sighting.connected:
        return True
    # A closed connection alone is no death. It ends the wait when a member reports a broken collective, or when
    # the group was not even formed: leaving somebody out is safe as long as an anchor answers (rules 4 and 6).
    unformed = job.formation is not None and set(job.formation.members) - watch.formed
    return listed and watch.broken is None and not unformed


def _trouble(turn: Turn, job: Job) -> str | None:
    """Why the last formation cannot go on, if it cannot."""
    watch = turn.watch(job.id)
    if job.formation is None:
        return None
    deaths = [f"{m.worker}: {watch.dead[m]}" for m in job.formation.members if m in watch.dead]
    if told := "; ".join(deaths) or watch.broken:
        return told
    # None may commit any more, however long a step takes, and whatever is wanted of the job.
    silent = passed(turn, replace(job, wanted=Wanted.RUN)) >= {*job.formation.members}
    return "none of its members was heard for as long as its lease lasts" if silent else None


def _form(turn: Turn, job: Job) -> None:
    watch, formation = turn.watch(job.id), job.formation
    assert formation is not None
    # Every step needs every member: one that any of them made says that all have formed, heard of or not.
    stepped = max(watch.committed.values(), default=-1) > formation.base.step
    if stepped or watch.formed >= set(formation.members):
        _run(turn, job)
        return
    trouble = _trouble(turn, job)
    # To read a checkpoint may take as long as a step.
    limit = turn.policy.form_limit + (job.spec.step_timeout if formation.checkpoint is not None else 0.0)
    late = turn.waited(watch.since) > limit
    hang = worth_a_round(turn, job, formed=False)
    if trouble is None and hang is None and not late:
        return
    missing = sorted(set(formation.members) - watch.formed - set(watch.dead))
    if late or (hang is None and not any(member in watch.dead for member in formation.members)):
        suspect(turn, job, missing)
    names = ", ".join(member.worker for member in missing)
    begin_round(turn, turn.jobs[job.id], trouble or hang or f"{names} did not form in {limit:g} s")


def _run(turn: Turn, job: Job) -> None:
    watch, formation = turn.watch(job.id), job.formation
    assert formation is not None
    first = formation.base == job.origin and len(job.history) == 1
    names = ", ".join(member.worker for member in formation.members)
    reason = f"{'started' if first else 'regrouped'} in generation {formation.generation}: {names}"
    step = max(job.step, formation.base.step)
    turn.change_job(job, phase=JobPhase.RUNNING, reason=reason, step=step, failures=failures.formed(job, formation))
    seconds = turn.now - watch.disturbed if watch.disturbed is not None else 0.0
    turn.change_watch(
        job.id,
        since=turn.now,
        progressed=turn.now,
        disturbed=None,
        formed=frozenset(formation.members),
        stumbled={},
        unable={},
        rereads=0,
        words={},
        retries=0,
    )
    formed_together(turn, job)
    kind = "started" if first else "regrouped"
    turn.note(kind, reason, job=job.id, generation=formation.generation, seconds=round(seconds, 4))


def _train(turn: Turn, job: Job) -> None:
    watch, formation = turn.watch(job.id), job.formation
    assert formation is not None
    trouble = _trouble(turn, job)
    if trouble is not None:
        doubt(turn, job)
        begin_round(turn, turn.jobs[job.id], trouble)
    elif watch.finished:
        begin_round(turn, job, "the last step is committed", boundary=True)
    elif hang := worth_a_round(turn, job):
        begin_round(turn, job, hang)
    elif turn.waited(watch.progressed) > job.spec.step_timeout:
        starve(turn, job)
        if not turn.jobs[job.id].ended:
            if all(turn.cluster.hang(member) is None for member in formation.members):
                doubt(turn, job)
            chunk = ", and no chunk evaluated," if job.spec.evaluate_every is not None else ""
            begin_round(turn, turn.jobs[job.id], f"no step was committed{chunk} for {job.spec.step_timeout:g} s")
    elif job.wanted is not Wanted.RUN:
        begin_round(turn, job, f"asked to {ASKED_TO[job.wanted]}", boundary=True)
    elif goers := [one.worker for one in formation.members if departs(turn, one)]:
        begin_round(turn, job, f"after this step {', '.join(goers)} may go", boundary=True)
    else:
        give_up_left_out(turn, job, formation)
        job = turn.jobs[job.id]
        unlend_surplus(turn, job, formation.members)
        if len(formation.seats) < job.spec.max_workers:
            _take_in_newcomers(turn, job, formation)


def _take_in_newcomers(turn: Turn, job: Job, formation: Formation) -> None:
    ready = set(candidates(turn.cluster, job))
    there = (one for one in ready - set(formation.members) if turn.cluster.hang(one) is None)
    fit = (one for one in there if told_lately(turn, one.worker) and not is_stuck(turn, one))
    newcomers = sorted(one for one in fit if not (departs(turn, one) or rests(turn, job, one.worker)))
    if newcomers and ready >= set(formation.members):
        names = ", ".join(member.worker for member in newcomers)
        begin_round(turn, job, f"prepared to join: {names}", boundary=True)


def _save(turn: Turn, job: Job) -> None:
    watch, saver = turn.watch(job.id), job.saver
    assert saver is not None
    if saver in watch.dead or is_cut_off(turn, saver, watch.since):
        begin_round(turn, job, f"{saver.worker} is gone and did not save: another member will")
        return
    why = ""
    if (hang := hang_at_save(turn, saver)) is not None:
        why = f"{saver.worker} {hang_words(hang)}, and was to save"
    elif turn.waited(watch.since) > job.spec.step_timeout:
        why = f"{saver.worker} did not save in {job.spec.step_timeout:g} s"
    if why:
        turn.change_watch(job.id, failed_savers=(*watch.failed_savers, saver))
        begin_round(turn, job, why)
