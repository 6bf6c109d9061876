"""Who is given up: who does not answer, does not prepare in time, or keeps the others from forming or from a step.

Owns: the order of suspicion (decision 0007), whom a suspicion must spare because it may hold the only state, and who is
heard well enough to be counted on.
Refuses to know: when a round is over or a formation late (`rounds` asks), and the process that is killed (`orders`).
"""

from collections.abc import Mapping
from dataclasses import replace

from regroup.core.cluster import Doubt
from regroup.core.copies import is_at_work, may_be_last_copy
from regroup.core.jobs import Formation, Job, Member
from regroup.core.severed import let_rest, odd_ones
from regroup.core.turn import Turn
from regroup.core.workers import Hang, LoopPhase, TrainerPhase

FRUITLESS = 3  # formations in a row without a step
SELDOM = 5  # formations in a row that fail though all had promised: that an agent is not heard just then is no excuse
DOUBTS = 3  # evictions of one worker's trainers for a suspicion
# The task's own code in a save. To write has a limit of its own: storage that hangs is nobody's hang.
AT_SAVE = frozenset({LoopPhase.LONE_EVALUATION, LoopPhase.STATE, LoopPhase.REPORT})
OUT_OF_STEPS = frozenset({LoopPhase.IDLE, LoopPhase.FORMING})  # what it holds there it told


def evict(turn: Turn, job: Job, member: Member, why: str) -> None:
    """Its trainer is to be killed, which counts as an error of its worker, once: it may have been spared before."""
    _mark_evicted(turn, job, member, why)
    turn.charge(member.worker, member.incarnation, why)


def _leave_out(turn: Turn, job: Job, member: Member, why: str) -> None:
    """The fault may be another's, or the network's between them: no error of its worker, nor of the task."""
    turn.change_watch(job.id, suspected=turn.watch(job.id).suspected | {member})
    _mark_evicted(turn, job, member, why)


def _mark_evicted(turn: Turn, job: Job, member: Member, why: str) -> None:
    turn.change_watch(job.id, evicted=turn.watch(job.id).evicted | {member})
    if member.worker in turn.sightings:
        turn.sightings[member.worker] = replace(turn.sightings[member.worker], to_end=turn.now)
    reason = f"{member.worker} is evicted: {why}"
    turn.note("evicted", reason, job=job.id, worker=member.worker, generation=job.generation)


def _evict_suspect(turn: Turn, job: Job, member: Member, why: str) -> None:
    """Who is suspected again and again takes no more part."""
    _leave_out(turn, job, member, why)
    doubted = turn.watch(job.id).doubted
    times = _doubts(doubted, member.worker) + 1
    turn.change_watch(job.id, doubted={**doubted, member.worker: Doubt(times, turn.now)})
    if times >= DOUBTS:
        reason = f"it was suspected {times} times of keeping the others from training"
        turn.refuse(turn.jobs[job.id], member.worker, reason)


def _doubts(doubted: Mapping[str, Doubt], worker: str) -> int:
    return doubted[worker].times if worker in doubted else 0


def hangs(turn: Turn, job: Job, member: Member, unheld: bool, missing: bool) -> bool:
    """Whether to give up a member that did not answer although nothing goes on without it.

    Its agent must be heard, so that it had its chance. Who may hold the only state gets much longer, from the last sign
    of its trainer on, or since it is back: the `missing`, and those that said they hold one while no answer has any
    (`unheld`). But not who hangs in the task's code at a save, or failed to save, and holds no more than what is
    durable; nor who hangs in no step, where none was made.
    """
    sighting, watch = turn.sightings.get(member.worker), turn.watch(job.id)
    if sighting is None or not (hangs_for_long(turn, member) or had_its_chance(turn, member)):
        return False
    trainer = turn.cluster.trainer(member)
    held = trainer.version if trainer is not None else None
    at_save = hang_at_save(turn, member) is not None or (member in watch.failed_savers and is_stuck(turn, member))
    if at_save and held is not None and held <= job.saved:
        return True
    hang = turn.cluster.hang(member)
    if hang is not None and hang.phase in OUT_OF_STEPS and (held is None or held.step <= job.origin.step):
        return True
    asked = watch.since if watch.disturbed is None else watch.asked.get(member, watch.since)
    # Who was cut off was asked in vain, and is asked again as it comes back; but one that hangs may do so for ever. It
    # may have said nothing new for long before that, as where its job waits.
    began = max(sighting.moved, asked, sighting.hung if turn.cluster.hangs(member) else sighting.since)
    spared = missing or (unheld and held is not None)
    return not spared or turn.waited(began) > turn.policy.detached_limit


def hangs_for_long(turn: Turn, member: Member) -> bool:
    """Whether it hangs by its agent's word of now, and has for as long as anybody is waited for. An agent that is heard
    only now and then, as where its machine swaps, may have been cut off in between each time."""
    patience = turn.policy.detached_limit + turn.policy.detached_margin
    told = turn.cluster.hangs(member) and told_lately(turn, member.worker)
    seen = turn.sightings.get(member.worker)
    return told and seen is not None and turn.waited(seen.hangs_since) > patience


def is_stuck(turn: Turn, member: Member) -> bool:
    trainer = turn.cluster.trainer(member)
    return trainer is not None and trainer.is_stuck


def hang_at_save(turn: Turn, member: Member) -> Hang | None:
    hang = turn.cluster.hang(member)
    return hang if hang is not None and hang.phase in AT_SAVE else None


def hang_words(hang: Hang) -> str:
    how = "; its process stands still" if hang.stands else "; it waits for its data" if hang.fetch else ""
    return f"hangs in phase {hang.phase} since {hang.lasts:.1f} s (limit {hang.limit:.1f} s){how}"


def heard_lately(turn: Turn, worker: str) -> bool:
    sighting = turn.cluster.present(worker)
    return sighting is not None and turn.waited(sighting.seen) <= turn.policy.quiet_limit


def told_lately(turn: Turn, worker: str) -> bool:
    """Whether it is heard, and what is known of its trainer is of now (`Cluster.tells`)."""
    return turn.cluster.tells(worker) and heard_lately(turn, worker)


def is_mute(turn: Turn, worker: str) -> bool:
    """Whether its connection stands, and its agent has said nothing for as long as one may be away."""
    sighting = turn.cluster.present(worker)
    limit = max(turn.policy.absent_limit, turn.policy.quiet_limit)
    return sighting is not None and turn.waited(sighting.seen) > limit


def quiet(turn: Turn) -> frozenset[str]:
    """The workers that are not heard of at the moment: what they said that they hold may be gone."""
    return frozenset(name for name in turn.workers if not heard_lately(turn, name))


def reprieve(turn: Turn, job: Job) -> None:
    """Who was left out on a suspicion, or only did not answer in time, and is not ended yet, may hold by now what
    nobody else does: then it is not."""
    watch = turn.watches.get(job.id)
    for member in watch.evicted if watch is not None else ():
        trainer = turn.cluster.trainer(member)  # None also of a worker that was forgotten
        if trainer is None or turn.workers[member.worker].job != job.id:
            continue
        watch = turn.watch(job.id)
        if member not in watch.suspected | watch.back and not _may_answer(turn, member):
            continue
        lately = turn.waited(watch.since) <= turn.policy.halt_limit  # who owes its promise for longer may never give it
        silent = quiet(turn) | _may_hang(turn)
        if may_be_last_copy(turn.cluster, job, member.worker, trainer, silent, owing=lately):
            left = {name: getattr(watch, name) - {member} for name in ("evicted", "suspected", "back")}
            turn.change_watch(job.id, **left)


def _may_answer(turn: Turn, member: Member) -> bool:
    """Whether it only did not answer in time, though others did, and may do so yet: nobody says that it hangs."""
    seen = turn.sightings[member.worker]
    if is_at_work(turn.cluster, member.worker):
        return False
    return turn.waited(seen.moved) <= turn.policy.detached_limit


def _may_hang(turn: Turn) -> frozenset[str]:
    """The workers whose trainers hang, as their agents say, or promised long ago, and have yet to come back."""
    found = set()
    for name, seen in turn.sightings.items():
        stuck = seen.trainer is not None and seen.trainer.is_stuck
        if seen.hang is not None or (stuck and turn.waited(seen.moved) > turn.policy.halt_limit):
            found.add(name)
    return frozenset(found)


def had_its_chance(turn: Turn, member: Member) -> bool:
    """Whether its agent was there for a while and heard of late, not only as it came, so that its trainer was asked.

    Who is cut off is left out, and may come back with the last copy of the state.
    """
    sighting = turn.cluster.present(member.worker)
    if sighting is None or sighting.seen <= sighting.since:
        return False
    asked = turn.waited(sighting.since) >= turn.policy.halt_limit / 2
    # Where it may be quiet for longer than a round lasts, it must have been heard since it was asked.
    heard = turn.waited(sighting.seen) <= turn.policy.halt_limit
    return asked and heard and told_lately(turn, member.worker)


def evict_unprepared(turn: Turn) -> None:
    """A trainer that prepares for very long hangs, and keeps its worker from others; so does an agent that has none."""
    limit = turn.policy.prepare_limit
    for name, worker in list(turn.workers.items()):
        seen, job = turn.sightings.get(name), turn.jobs.get(worker.job) if worker.job else None
        if job is None or seen is None or not heard_lately(turn, name):
            continue
        # A trainer prepares on while its agent is cut off; what starts none was asked in vain then.
        prepares = seen.trainer is not None and told_lately(turn, name)
        if turn.waited(seen.moved if prepares else max(seen.moved, seen.since)) <= limit:
            continue
        if seen.trainer is None:
            reason = f"its agent started no trainer in {limit:g} s"
            turn.unlend(name, reason)
            turn.count_error(name, reason)
        elif seen.trainer.phase is TrainerPhase.PREPARING:
            member = Member(name, seen.trainer.incarnation)
            if member not in turn.watch(job.id).evicted:
                evict(turn, job, member, f"it did not prepare in {limit:g} s")


def suspect(turn: Turn, job: Job, missing: list[Member]) -> None:
    """Members that keep others from forming twice in a row lose the most suspected one.

    Not where one is away: then that is why, and who is left may have the last copy of the state. But who promises each
    time, and is only seldom heard, is no longer excused. The dead hold nothing, and that nobody reached them says
    nothing of others.
    """
    watch, formation = turn.watch(job.id), job.formation
    assert formation is not None
    if _one_is_away(turn, formation):
        _leave_out_seldom(turn, job, formation, missing)
        return
    counts = {member: watch.stumbled.get(member, 0) + 1 for member in missing}
    turn.change_watch(job.id, stumbled=counts)
    holders = _holders(turn, job, formation)
    sound = {one for one in holders if not turn.cluster.hangs(one)}  # others may never give what they hold

    def may_go(member: Member) -> bool:
        alone = member in holders and sound <= {member}
        return not alone and (counts.get(member, 0) >= SELDOM or had_its_chance(turn, member))

    def suspicion(member: Member) -> tuple[bool, bool, int, Member]:
        """First whoever is no loss, then whoever was silent: to report that it could not form makes a witness."""
        return member not in holders, not _said_so(turn, job, member), counts[member], member

    apart = [pair for pair in watch.severed if watch.dead.keys().isdisjoint(pair)]
    if odd := odd_ones(formation, apart, holders):
        # Who has no state is no loss, and may try again: the others wait for it once, and not twice.
        for member in [one for one in sorted(odd) if counts.get(one, 0) >= 2 or one not in holders]:
            if may_go(member):
                _leave_out(turn, job, member, odd[member])
                unreached = {one.worker for pair in apart if member in pair for one in pair if one != member}
                let_rest(turn, job, member.worker, unreached)
        return
    # The only holder of the state is never given up for a suspicion. Before the first step nobody holds anything.
    suspects = [member for member, count in counts.items() if count >= 2 and may_go(member)]
    if suspects and len(formation.seats) > 1:
        worst = max(suspects, key=suspicion)
        # It may have been the wrong one, so the others' counts stay.
        turn.change_watch(job.id, stumbled={member: count for member, count in counts.items() if member != worst})
        _evict_suspect(turn, job, worst, "the members failed to form together twice, and it is the most suspected")


def _leave_out_seldom(turn: Turn, job: Job, formation: Formation, missing: list[Member]) -> None:
    """Whoever promises each time, does not form, and is not heard just then; unless nobody else is heard to have the
    state that they begin with."""
    watch, holders = turn.watch(job.id), _holders(turn, job, formation)
    before = {one: times for one, times in watch.stumbled.items() if one not in watch.formed}
    counts = {one: before.get(one, 0) + 1 for one in missing if not told_lately(turn, one.worker)}
    turn.change_watch(job.id, stumbled={**before, **counts})
    heard = {one for one in holders if told_lately(turn, one.worker) and not turn.cluster.hangs(one)}
    for member in [one for one, count in counts.items() if count >= SELDOM]:
        if heard or not holders:
            _leave_out(turn, job, member, f"it did not form {SELDOM} times in a row, and is seldom heard")
            let_rest(turn, job, member.worker)


def _holders(turn: Turn, job: Job, formation: Formation) -> list[Member]:
    """Those that live and hold what the formation begins with; nobody, if that was to be read or built."""
    seats, dead = formation.seats, turn.watch(job.id).dead
    return [seat.member for seat in seats if seat.version == formation.base and seat.member not in dead]


def doubt(turn: Turn, job: Job) -> None:
    """Members that form together again and again, and never get through a step, go on without one of them: first
    without a worker that had no part in the last step that was made, then without the one that was suspected least."""
    watch, formation = turn.watch(job.id), job.formation
    assert formation is not None
    stepped = max(watch.committed.values(), default=0) > formation.base.step
    gone = any(member in watch.dead for member in formation.members) or _one_is_away(turn, formation)
    fruitless = 0 if stepped or gone else watch.fruitless + 1
    others = [member for member in formation.members if member != formation.members[formation.leader]]
    suspects = [member for member in others if had_its_chance(turn, member)]

    def suspicion(member: Member) -> tuple[bool, int, Member]:
        return member.worker not in watch.proven, -_doubts(watch.doubted, member.worker), member

    if fruitless >= FRUITLESS and suspects:
        fruitless, why = 0, f"{fruitless} generations in a row broke before their first step, and nobody died"
        _evict_suspect(turn, job, max(suspects, key=suspicion), why)
    turn.change_watch(job.id, fruitless=fruitless)


def _one_is_away(turn: Turn, formation: Formation) -> bool:
    return not all(told_lately(turn, member.worker) for member in formation.members)


def _said_so(turn: Turn, job: Job, member: Member) -> bool:
    """Whether it reported that it could not form: a witness, no suspect."""
    trainer = turn.cluster.trainer(member)
    return trainer is not None and trainer.phase is TrainerPhase.BROKEN and trainer.generation == job.generation
