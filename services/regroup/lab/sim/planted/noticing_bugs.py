"""Bugs in what is noticed of the living and the dead: silence, suspicion, blame, hangs, ends, and orders that are due.

Owns: mutations of the core's text about who is given up, and about what is heard and said again.
Refuses to know: how one is planted.
"""

from regroup.lab.sim.planted.planting import Bug

ROSTER = "regroup.core.roster"
SETTLING = "regroup.core.settling"
AGENT_REPORTS = "regroup.core.agent_reports"
OBSERVING = "regroup.core.observing"
BLAME = "regroup.core.blame"
SUSPICION = "regroup.core.suspicion"
ORDERS = "regroup.core.orders"
ROUNDS = "regroup.core.rounds"
TURN = "regroup.core.turn"
HANGING = "regroup.core.hanging"
FORGIVING = "regroup.core.forgiving"
DECIDE = "regroup.core.decide"

BUGS = (
    # errors that time forgives
    Bug("an error is forgiven at once", FORGIVING, " or turn.waited(sighting.blamed) < limit:", ":"),
    Bug("no error is ever forgiven", DECIDE, "            forgive_in_time(turn)\n", ""),
    Bug("time lifts a quarantine", FORGIVING, " or worker.quarantined or", " or"),
    # rule 7: the lease
    Bug("who is cut off is not waited for", SETTLING, "{**away(turn, job), **unheard}", "{**unheard}", "comes back"),
    Bug(
        "who was given up is taken for one whose lease is renewed",
        AGENT_REPORTS,
        "    if watch is not None and member in watch.evicted:\n        return 0\n",
        "    turn.sightings[name] = replace(sighting, renewed=turn.now)\n"
        "    if watch is not None and member in watch.evicted:\n        return 0\n",
        among="UNKILLABLE",
        rule=7,
    ),
    Bug(
        "silence is taken for death too soon",
        ROSTER,
        "job.formation.detached_limit + policy.detached_margin",
        "1.5",
        among="ISOLATE",
        rule=7,
    ),
    Bug(
        "a restarted coordinator counts silence from before its start",
        ROSTER,
        "return turn.now - heard > limit",
        "return turn.now - heard > limit or "
        "(job.wanted is not Wanted.STOP and not (sighting and sighting.seen >= turn.cluster.awake))",
        among="CRASH",
        rule=7,
    ),
    # reports that something newer has overtaken
    Bug("an overtaken heartbeat is believed", AGENT_REPORTS, " and report.sequence > sighting.sequence:", ":"),
    # agents of another release
    Bug(
        "whoever speaks another protocol is let in",
        AGENT_REPORTS,
        "if report.protocol != PROTOCOL:",
        "if False:",
        among="STRANGER",
    ),
    Bug(
        "the heartbeat of one that was turned away is believed",
        AGENT_REPORTS,
        "if isinstance(report, Heartbeat) and report.boot != worker.boot:",
        "if False:",
        among="STRANGER",
    ),
    # the last copy
    Bug(
        "who is cut off is killed when it comes back",
        SUSPICION,
        "return asked and heard and told_lately(turn, member.worker)",
        "return True",
    ),
    Bug(
        "an answer of the dead counts",
        SETTLING,
        "if one not in watch.dead and present(one.worker)",
        "if present(one.worker)",
    ),
    Bug("an order is sent once", ORDERS, "and trainer.promised < job.round.generation", "and trainer.promised < 1"),
    Bug(
        "the only holder is suspected as any",
        SUSPICION,
        "        return not alone and (",
        "        return (",
        among="STALL",
    ),
    Bug(
        "one failure to form is enough",
        SUSPICION,
        "if count >= 2 and may_go",
        "if count >= 1 and may_go",
    ),
    Bug(
        "failures to form of long ago count",
        ROUNDS,
        "        stumbled={},\n        unable={},\n",
        "        unable={},\n",
    ),
    Bug(
        "who formed and is not heard of breaks what makes steps",
        ROUNDS,
        "    if stepped or watch.formed",
        "    if watch.formed",
        among="ISOLATE",
    ),
    Bug(
        "to repeat a step is progress",
        OBSERVING,
        " or step <= watch.committed.get(member, -1):\n        return  # no news\n"
        "    if formation.generation == job.given_up"
        " and (member in watch.dead or turn.cluster.trainer(member) is None):\n"
        "        return  # nor this: it is lost, and that was told\n"
        "    most = max(watch.committed.values(), default=-1)\n"
        "    progressed = turn.now if step > most else watch.progressed\n",
        ":\n        return\n    most, progressed = -1, turn.now\n",
    ),
    Bug(
        "a step that is told with an answer alone does not count",
        OBSERVING,
        "    _take_step(turn, job, member, status)  #",
        "    if job.round is None:\n        _take_step(turn, job, member, status)  #",
    ),
    Bug(
        "who said goodbye is not known dead",
        AGENT_REPORTS,
        "            _exited(turn, name, ASKED)\n            turn.sightings",
        "            turn.sightings",
        among="LEAVE",
    ),
    Bug(
        "an end that was asked for is an error",
        AGENT_REPORTS,
        "    if report.asked and not hung:\n        return\n    if not report.asked:\n",
        "    if report.asked and job is not None and job.ended:\n        return\n    if True:\n",
    ),
    Bug(
        "who is evicted is not killed",
        ORDERS,
        'return (Kill(job.id, member.incarnation, "evicted from the job"),) if end else ()',
        "return ()",
    ),
    Bug(
        "a halt is due to members alone",
        ORDERS,
        "asked = member in job.round.participants and trainer.promised",
        "asked = (job.formation is None or member in job.formation.members) and trainer.promised",
    ),
    Bug(
        "a rest keeps what was watched",
        TURN,
        "        self.watches.pop(job.id, None)\n        for name",
        "        for name",
    ),
    Bug(
        "what a coordinator slept through is silence",
        TURN,
        "return self.now - max(since, self.cluster.awake)",
        "return self.now - since",
        among="FREEZE",
    ),
    # who hangs
    Bug(
        "who hangs is waited for as any",
        ROUNDS,
        "vain = not asked.boundary and waits_in_vain(turn, job, unanswered)",
        "vain = False",
    ),
    Bug(
        "who hangs has no time to come back",
        HANGING,
        "    if turn.waited(max(watch.since, watch.answered)) <= GRACE:\n        return False\n    verdict",
        "    verdict",
    ),
    Bug(
        "who lacks data is given up for the dead",
        HANGING,
        "for one, said in watch.answers.items() if one not in watch.dead and turn.cluster.trainer(one)}",
        "for one, said in watch.answers.items()}",
        among="STARVE",
    ),
    Bug("data that is late once is the task's error", HANGING, "STARVED = 3  #", "STARVED = 1  #", among="STARVE"),
    Bug("who hangs has too little time to come back", HANGING, "GRACE = 1.0  #", "GRACE = 0.05  #", among="HANG"),
    Bug(
        "generation after generation may break before its first step",
        "regroup.core.suspicion",
        "FRUITLESS = 3  #",
        "FRUITLESS = 9  #",
        among="never a step",
    ),
    Bug(
        "data that is late for the second time is the task's error",
        HANGING,
        "if len(late.fetches) >= STARVED:",
        "if len(late.fetches) >= STARVED - 1:",
        among="STARVE",
    ),
    Bug(
        "who was blamed for a task is not forgiven",
        BLAME,
        "if each.died and not its and each.worker in turn.workers:",
        "if False:",
        among="POISON",
    ),
    Bug(
        "who is about to come back need not tell",
        SETTLING,
        "    yet = untold(turn) if",
        "    yet = [] if",
        among="CRASH",
    ),
    Bug(
        "a death under a boundary round waits",
        ROUNDS,
        "    if asked.boundary and trouble is not None:\n",
        "    if False:\n",
    ),
    Bug(
        "who is lent had its time before",
        DECIDE,
        "replace(turn.sightings[name], moved=turn.now)  # from now on",
        "turn.sightings[name]  # from now on",
    ),
    Bug(
        "who rests because nobody reaches it is let in",
        ROUNDS,
        " or rests(turn, job, one.worker))",
        ")",
        among="SEVER",
    ),
    Bug(
        "who had no part in the last step stays",
        SUSPICION,
        "return member.worker not in watch.proven, -_doubts",
        "return member.worker in watch.proven, -_doubts",
        among="BREAK",
    ),
    Bug(
        "to go back and lose nothing is a restart",
        SETTLING,
        "if made <= base.step or spared:",
        "if spared:",
    ),
    Bug(
        "a failure that is told twice counts twice",
        BLAME,
        "    if failure.generation and failure in job.failures:\n        return  # told twice\n",
        "",
        among="DOUBLING",
    ),
    Bug(
        "who hangs is a holder as any",
        SETTLING,
        "told_lately(turn, one.worker) and not turn.cluster.hangs(one)]",
        "told_lately(turn, one.worker)]",
        among="answers and hangs",
    ),
    Bug(
        "who only did not answer in time is ended with the only state",
        SUSPICION,
        "and not _may_answer(turn, member):",
        "and True:",
        among="late and alone",
    ),
    Bug(
        "who answered owes its next answer since long ago",
        SETTLING,
        "turn.change_watch(job.id, since=turn.now, asked=owing, **fresh",
        "turn.change_watch(job.id, since=turn.now, **fresh",
        among="hangs as it forms",
    ),
    Bug(
        "who is back was asked all the while",
        SUSPICION,
        ", sighting.hung if turn.cluster.hangs(member) else sighting.since)",
        ")",
        among="answers and hangs",
    ),
)
