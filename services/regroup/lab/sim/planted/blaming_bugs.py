"""Bugs in whom the core blames: a worker for what its task does, the task for what a worker does, anybody for chance.

Owns: such mutations. Refuses to know: how one is planted.
"""

from regroup.lab.sim.planted.planting import Bug

ABSENCE = "regroup.core.absence"
AGENT_REPORTS = "regroup.core.agent_reports"
BLAME = "regroup.core.blame"
FAILURES = "regroup.core.failures"
LIKENESS = "regroup.core.likeness"
REPLICAS = "regroup.core.replicas"
SUSPICION = "regroup.core.suspicion"

BUGS = (
    Bug(
        "whose code is another takes a job over before who trained it says which it has",
        LIKENESS,
        "if taken := not (others or _prepares_again(turn, job, name)):",
        "if taken := True:",
        among="MISMATCH",
    ),
    Bug(
        "who is quarantined stays lent",
        "regroup.core.turn",
        "        if not succeeded:\n",
        "        if False:\n",
    ),
    Bug(
        "a pass that kills one worker after the other is nobody's failure",
        "regroup.core.agent_reports",
        "        blame_task(turn, job, failure)",
        "        pass",
        among="POISON",
    ),
    Bug(
        "who cannot take the state that others hold fails the job",
        BLAME,
        "taken, trained = _was_taken(turn, job, failure.worker), ",
        "taken, trained = False, ",
        among="UNFIT",
    ),
    Bug(
        "one worker's state() may fail nine times",
        BLAME,
        "TRIES_OF_ONE = 4  #",
        "TRIES_OF_ONE = 9  #",
        among="raises again",
    ),
    Bug(
        "who fails in step after step is kept for ever",
        BLAME,
        "    if times <= TRIES_OF_ONE:\n",
        "    if True:\n",
        "UNFIT",
    ),
    Bug(
        "what one worker alone cannot do fails a job that needs it",
        BLAME,
        "_others_hold(turn, job, failure.worker) and (enough or trained):",
        "_others_hold(turn, job, failure.worker) and enough:",
        among="unfit and needed",
    ),
    Bug(
        "newcomers fail a job whose members are not heard of",
        BLAME,
        " or _others_are_away(turn, job, name)\n",
        "\n",
        among="newcomers die",
    ),
    Bug(
        "those that were just tried in vain are tried again at once",
        "regroup.core.settling",
        "if isinstance(verdict, Train) and (why := soon_again(turn, job, answers, verdict.formation)):",
        "if isinstance(verdict, Train) and (why := ''):",
        among="nobody reaches one",
    ),
    Bug(
        "who is back with the state is refused for code that nobody trained with",
        LIKENESS,
        "if _brings_back(turn, job, Member(name, status.incarnation), status):",
        "if False:",
        among="MISMATCH",
    ),
    Bug("whoever has other code takes part", LIKENESS, "if theirs == job.fingerprint:", "if True:"),
    Bug(
        "of two replicas that differ the leader's is the odd one",
        LIKENESS,
        "sound(digests, formation, report.step)",
        "(sound(digests, formation, report.step) if len(digests) > 2 else digests[0])",
        among="FLIP",
    ),
    Bug(
        "all are killed once, and that is the task's doing",
        BLAME,
        "if preparing else len({f.generation for f in (*same, failure)})",
        "if preparing else len(same) + 1",
        among="all killed",
    ),
    Bug(
        "a state that nobody took cannot be taken by one alone",
        BLAME,
        "return any(member != built for member in holders)",
        "return bool(holders)",
        among="nobody takes it",
    ),
    Bug(
        "a formation in which nobody gave its state forgets that state() failed",
        FAILURES,
        "(saved(job) if gave else job.failures)",
        "saved(job)",
        among="raises again",
    ),
    Bug(
        "others that fail in between do not end a row",
        BLAME,
        "            break\n        generations.add",
        "            continue\n        generations.add",
        among="not alone",
    ),
    Bug(
        "what may be chance counts as any death",
        BLAME,
        "return max(chances.count(False), len(chances) - 1), told",
        "return len(chances), told",
        among="killed as it prepares",
    ),
    Bug(
        "what failed in any step failed in this one",
        BLAME,
        "if f.shard == failure.shard and (kept or f.step == failure.step)]",
        "if f.shard == failure.shard]",
    ),
    Bug(
        "that one prepared forgives the deaths of the others",
        FAILURES,
        "if one.worker != name or not beside_others(one))",
        "if not beside_others(one))",
        among="killed as it prepares",
    ),
    Bug(
        "data that stall for a moment are the task's doing",
        BLAME,
        "bool(others)) or stalls:",
        "bool(others)):",
        among="data stalls",
    ),
    Bug(
        "who dies once as it prepares takes no part",
        BLAME,
        "    if times > 1 and _enough(job, others):",
        "    if times and _enough(job, others):",
    ),
    Bug(
        "who has yet to say what code it has does not count",
        LIKENESS,
        "others = {*untold(turn)} - {name}",
        "others = set()",
        among="odd and anew",
    ),
    Bug(
        "the leader's replica is always the sound one",
        REPLICAS,
        "return digest if 2 * count > len(witnesses) else",
        "return",
        among="FLIP",
    ),
    Bug(
        "data of all are taken for the workers' own",
        LIKENESS,
        "(why in job.refused.values() or not others_to_try(turn, job, name))",
        "(why in job.refused.values() and not others_to_try(turn, job, name))",
        among="other data",
    ),
    Bug(
        "who was refused counts as one that could still try",
        ABSENCE,
        "one != name and one not in job.refused and not is_useless",
        "one != name and not is_useless",
        among="refused and failing",
    ),
    Bug(
        "who goes for a generation without steps goes again",
        SUSPICION,
        "member.worker not in watch.proven, -_doubts(watch.doubted, member.worker), member",
        "member.worker not in watch.proven, _doubts(watch.doubted, member.worker), member",
        among="never a step",
    ),
    Bug(
        "to form is a step",
        SUSPICION,
        "stepped = max(watch.committed.values(), default=0) > formation.base.step",
        "stepped = max(watch.committed.values(), default=0) >= formation.base.step",
        among="never a step",
    ),
    Bug(
        "that a step was made since is forgotten with whoever told of it",
        "regroup.core.observing",
        "(left := made(job, status.version)) is not job.failures",
        "(left := made(job, status.version)) is None",
        among="RAISE",
    ),
    Bug(
        "what failed before its agent began anew still counts",
        "regroup.core.turn",
        "                left = tuple(one for one in self.jobs[id].failures if one.worker != name)\n"
        "                self.change_job(self.jobs[id], failures=left)\n",
        "",
        among="killed as it prepares",
    ),
    Bug(
        "whoever begins anew is suspected for what was",
        "regroup.core.turn",
        "if name in watch.doubted or name in watch.resting:",
        "if name in watch.doubted and name in watch.resting:",
        among="nobody reaches one",
    ),
    Bug("a death of one that hung is chance", AGENT_REPORTS, '"killed by SIGKILL" and not hung', '"killed by SIGKILL"'),
    Bug(
        "who was evicted is blamed again as it dies",
        AGENT_REPORTS,
        "turn.charge(name, report.incarnation, report.cause, succeeded)",
        "turn.count_error(name, report.cause, succeeded)",
        among="hangs as it forms",
    ),
    Bug(
        "who was spared is blamed as often as it is evicted",
        SUSPICION,
        "turn.charge(member.worker, member.incarnation, why)",
        "turn.count_error(member.worker, why)",
        among="late and alone",
    ),
    Bug(
        "what a job lost all of binds whoever begins it anew",
        LIKENESS,
        "not _is_left(turn, job, name):",
        "not (job.history or _is_left(turn, job, name)):",
    ),
    Bug(
        "a struck file is a restart",
        "regroup.core.settling",
        "spared = _meant(turn, job) or (read and base != job.origin)",
        "spared = _meant(turn, job)",
        among="DAMAGE",
    ),
    Bug(
        "who was suspected and ended is the task's failure",
        AGENT_REPORTS,
        "hung = evicted and job is not None and member not in turn.watch(job.id).suspected",
        "hung = evicted and job is not None",
    ),
)
