"""Bugs that somebody planted who had not seen the rules, the last time: those that no rule found, or no life met, then.

Owns: such mutations of core, session and shell. Refuses to know: how one is planted.
"""

from regroup.lab.sim.planted.planting import Bug

ORDERS = "regroup.core.orders"
ROUNDS = "regroup.core.rounds"
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
)
