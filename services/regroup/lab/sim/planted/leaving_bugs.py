"""Bugs in who is lent to a job, and who may go: those that are to leave, and those that hold the last copy.

Owns: mutations of the core's text about loans, farewells and what users ask for. Refuses to know: how one is planted.
"""

from regroup.lab.sim.planted.planting import Bug

REGROUP = "regroup.core.regroup"
COPIES = "regroup.core.copies"
SCHEDULE = "regroup.core.schedule"
LEAVING = "regroup.core.leaving"
SAVES = "regroup.core.saves"
AGENT_REPORTS = "regroup.core.agent_reports"
ROUNDS = "regroup.core.rounds"
ABSENCE = "regroup.core.absence"
COMMANDS = "regroup.core.commands"
DECIDE = "regroup.core.decide"

BUGS = (
    # who is to go
    Bug(
        "who is to go is in the next formation",
        REGROUP,
        "for member, answer in answers.items() if member.worker not in departing}",
        "for member, answer in answers.items()}",
    ),
    Bug("who is to go is lent", SCHEDULE, " or cluster.workers[name].departs)", ")"),
    Bug(
        "the last holder goes before its state is saved",
        LEAVING,
        "            return False\n    return True\n",
        "            return False\n    return False\n",
        among="DRAIN",
    ),
    Bug(
        "who trains may go at once",
        LEAVING,
        "        return True  # it trains, or",
        "        return False  # it trains, or",
    ),
    Bug(
        "who is to go saves although one stays with the same",
        REGROUP,
        "key=lambda member: (member.worker in departing, member))",
        "key=lambda member: member)",
        among="DRAIN",
    ),
    Bug(
        "a job is saved although others stay with its state",
        REGROUP,
        "if holders and staying.keys().isdisjoint(holders):",
        "if holders and not staying.keys() >= set(holders):",
    ),
    Bug(
        "who stays with an older state loses it",
        REGROUP,
        "if _take_over(job, staying, vain=set(holders) <= set(tried)):",
        "if False:",
        among="BREAK",
    ),
    Bug(
        "a job that was saved because all go goes on with them",
        SAVES,
        "elif leaving.is_left_by(turn, job, version):",
        "elif False:",
    ),
    Bug("who saves is sent away because it is to go", LEAVING, "if job.saver == member or (", "if (", among="DRAIN"),
    Bug(
        "a new agent is taken for one that is to leave",
        AGENT_REPORTS,
        "replace(turn.workers[name], leaving=False, meant=meant or known.meant,",
        "replace(turn.workers[name], meant=meant or known.meant,",
    ),
    Bug(
        "who was asked to end is blamed for it",
        AGENT_REPORTS,
        "meant = known.boot == LEFT or known.leaving",
        "meant = known.boot == LEFT",
    ),
    Bug("what is held is lost with those that go", ROUNDS, "    if is_held_by_goers(turn, job):\n", "    if False:\n"),
    # the last copy
    Bug(
        "whoever brings the last copy back is sent away",
        COPIES,
        "job.id if may_be_last_copy(cluster, job, name, trainer, quiet, owing=name in job.refused) else None",
        "None",
        among="CRASH",
    ),
    Bug(
        "a waiting job counts those that are gone",
        SCHEDULE,
        "others = frozenset() if job.phase is JobPhase.WAITING else listed & expected if job.between else listed",
        "others = listed",
    ),
    Bug(
        "what is kept for a job is lent to the next one",
        SCHEDULE,
        "                return loans  # it can start",
        "                continue  # it can start",
    ),
    Bug(
        "a drain is forgotten",
        ABSENCE,
        " or worker.drained or name in listed",
        " or name in listed",
        among="DRAIN",
    ),
    Bug(
        "who rests has no place in the queue until the next tick",
        SCHEDULE,
        "if job.phase is JobPhase.PAUSED and job.wanted is Wanted.YIELD and not",
        "if False and not",
        among="DRAIN",
    ),
    Bug("who submits twice begins anew", DECIDE, "            if job not in turn.jobs:", "            if True:"),
    Bug(
        "a stop can be paused",
        COMMANDS,
        'to hold."""\n    _expect_unstopped(job)\n',
        'to hold."""\n    _expect_open(job)\n',
        among="STOP",
    ),
)
