"""Bugs that somebody planted who had not seen the rules, the last two times: those that no rule found, or no life met,
then.

Owns: such mutations of core, session and shell. Refuses to know: how one is planted.
"""

from regroup.lab.sim.planted.planting import Bug

ORDERS = "regroup.core.orders"
ROUNDS = "regroup.core.rounds"
SUSPICION = "regroup.core.suspicion"
TURN = "regroup.core.turn"

BUGS = (
    Bug(
        "a job that is stopped is not asked for its result",
        ORDERS,
        "final = job.wanted is Wanted.STOP or job.complete_at(trainer.version.step)",
        "final = job.complete_at(trainer.version.step)",
    ),
    Bug(
        "files are settled only with a lease",
        "regroup.worker.lease_ledger",
        "if at is None or not (heard.generation or heard.settled):",
        "if at is None or not heard.generation:",
    ),
    Bug(
        "that all are silent depends on what is wanted",
        ROUNDS,
        "silent = passed(turn, replace(job, wanted=Wanted.RUN)) >= {*job.formation.members}",
        "silent = passed(turn, job) >= {*job.formation.members}",
        among="STOP",
    ),
    Bug(
        "a newcomer that was asked and is gone is not known dead",
        TURN,
        "yield from ((job, member) for member in dict.fromkeys((*members, *asked)))",
        "yield from ((job, member) for member in members)",
    ),
    Bug(
        "who answered the last round owes its word since that one",
        ROUNDS,
        "since = {one: turn.now if one in watch.answers else owing.get(one, turn.now) for one in participants}",
        "since = {one: owing.get(one, turn.now) for one in participants}",
        among="hangs unseen",
    ),
    Bug(
        "a lease lasts as the setting says now",
        "regroup.core.roster",
        "else job.formation.detached_limit + policy.detached_margin",
        "else policy.detached_limit + policy.detached_margin",
        among="another limit",
        rule=7,
    ),
    Bug(
        "a held job whose agents end waits for those cut off",
        "regroup.core.leaving",
        "if not any(turn.workers[member.worker].leaving for member in holders):",
        "if not any(turn.workers[member.worker].drained for member in holders):",
        among="all end while held",
    ),
    Bug(
        "all end on purpose, and that is a restart",
        "regroup.core.settling",
        "spared = _meant(turn, job) or (read and base != job.origin)",
        "spared = read and base != job.origin",
    ),
    Bug(
        "who formed has failed to form, in a row",
        SUSPICION,
        "counts = {member: watch.stumbled.get(member, 0) + 1 for member in missing}",
        "counts = {**watch.stumbled, **{member: watch.stumbled.get(member, 0) + 1 for member in missing}}",
        among="STALL",
    ),
    Bug(
        "one of those waited for hangs, and all of them do",
        "regroup.core.hanging",
        "if not unanswered or any(turn.cluster.hang(member) is None for member in unanswered):",
        "if not unanswered or all(turn.cluster.hang(member) is None for member in unanswered):",
    ),
    Bug(
        "a seat goes to who has no state",
        "regroup.core.regroup",
        "key=lambda member: (member != leader, answers[member].version != base.version, member))",
        "key=lambda member: (member != leader, member))",
    ),
    Bug(
        "who is cut off as they form is waited for",
        ROUNDS,
        "return listed and watch.broken is None and not unformed",
        "return listed and watch.broken is None",
        among="cut off as they form",
    ),
    Bug(
        "all are at the boundary, and have a step's time",
        ROUNDS,
        "steps = asked.boundary and not listed.isdisjoint(unanswered) and listed.isdisjoint(watch.answers)",
        "steps = asked.boundary and not listed.isdisjoint(unanswered)",
    ),
    Bug(
        "who saves is cut off for a moment, and is replaced",
        ROUNDS,
        "if saver in watch.dead or is_cut_off(turn, saver, watch.since):",
        "if saver in watch.dead or turn.cluster.trainer(saver) is None:",
    ),
    Bug(
        "who is refused is tried again as soon each time",
        "regroup.core.forgiving",
        "patience = min(turn.policy.absent_limit * 2.0 ** min(watch.retries, 16), LONGEST)",
        "patience = turn.policy.absent_limit",
        among="MISMATCH",
    ),
    Bug(
        "who differs is refused before others have told",
        "regroup.core.likeness",
        "if any(turn.workers[one].job == job.id for one in others):",
        "if any(turn.workers[one].job != job.id for one in others):",
        among="MISMATCH",
    ),
    Bug(
        "a file counts once the dead have made its step",
        "regroup.core.cluster",
        "for member in job.formation.members if member not in watch.dead]",
        "for member in job.formation.members]",
        among="KILL_TRAINER",
    ),
)
