"""Who is given up: members that do not answer, and members that keep the others from forming.

Owns: the order of suspicion (decision 0007), and whom a suspicion must spare because it may hold the only state.
Refuses to know: when a round is over or a formation late (`rounds` asks), and the process that is killed (`orders`).
"""

from regroup.core.jobs import Job, Member
from regroup.core.turn import Turn
from regroup.core.workers import TrainerPhase


def evict(turn: Turn, job: Job, member: Member, why: str) -> None:
    """Its trainer is to be killed, which counts as an error of its worker."""
    turn.change_watch(job.id, evicted=turn.watch(job.id).evicted | {member})
    reason = f"{member.worker} is evicted: {why}"
    turn.note("evicted", reason, job=job.id, worker=member.worker, generation=job.generation)
    turn.count_error(member.worker, why)


def hangs(turn: Turn, job: Job, member: Member, unheld: bool, missing: bool) -> bool:
    """Whether to give up a member that did not answer although nothing goes on without it.

    Its agent must be heard, so that it had its chance. Who may hold the only state gets much longer, from the last sign
    of its trainer on: the `missing`, and those that said they hold one while no answer has any (`unheld`).
    """
    if not had_its_chance(turn, member):
        return False
    sighting, watch = turn.sightings[member.worker], turn.watch(job.id)
    began = max(sighting.moved, watch.since if watch.disturbed is None else watch.disturbed)
    spared = missing or (unheld and sighting.trainer is not None and sighting.trainer.version is not None)
    return not spared or turn.now - began > turn.policy.detached_limit


def had_its_chance(turn: Turn, member: Member) -> bool:
    """Whether its agent was heard of late, so that its trainer was asked.

    Who is cut off is left out, and may come back with the last copy of the state.
    """
    sighting = turn.cluster.present(member.worker)
    return sighting is not None and turn.now - sighting.seen <= turn.policy.halt_limit / 2


def evict_unprepared(turn: Turn) -> None:
    """A trainer that prepares for very long hangs, and keeps its worker from others."""
    for name, worker in list(turn.workers.items()):
        seen, job = turn.sightings.get(name), turn.jobs.get(worker.job) if worker.job else None
        if job is None or seen is None or seen.trainer is None or seen.trainer.phase is not TrainerPhase.PREPARING:
            continue
        member = Member(name, seen.trainer.incarnation)
        late = turn.now - seen.moved > turn.policy.prepare_limit and had_its_chance(turn, member)
        if late and member not in turn.watch(job.id).evicted:
            evict(turn, job, member, f"it did not prepare in {turn.policy.prepare_limit:g} s")


def suspect(turn: Turn, job: Job, missing: list[Member]) -> None:
    """Members that keep others from forming twice in a row lose the most suspected one."""
    watch, formation = turn.watch(job.id), job.formation
    assert formation is not None
    counts = {member: watch.stumbled.get(member, 0) + 1 for member in missing}
    turn.change_watch(job.id, stumbled=counts)
    holders = [seat.member for seat in formation.seats if seat.version == formation.base]
    leader = formation.seats[formation.leader].member

    def suspicion(member: Member) -> tuple[bool, bool, int, Member]:
        """First whoever is no loss, then whoever was silent: to report that it could not form makes a witness."""
        return member not in holders, not _said_so(turn, job, member), counts[member], member

    # The only holder of the state is never given up for a suspicion. Before the first step nobody holds anything.
    twice = [member for member, count in counts.items() if count >= 2 and had_its_chance(turn, member)]
    suspects = [member for member in twice if member != leader or len(holders) != 1]
    if suspects and len(formation.seats) > 1:
        worst = max(suspects, key=suspicion)
        # It may have been the wrong one, so the others' counts stay.
        turn.change_watch(job.id, stumbled={member: count for member, count in counts.items() if member != worst})
        evict(turn, job, worst, "the members failed to form together twice, and it is the most suspected")


def _said_so(turn: Turn, job: Job, member: Member) -> bool:
    """Whether it reported that it could not form: a witness, no suspect."""
    trainer = turn.cluster.trainer(member)
    return trainer is not None and trainer.phase is TrainerPhase.BROKEN and trainer.generation == job.generation
