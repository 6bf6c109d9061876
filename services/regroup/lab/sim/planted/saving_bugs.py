"""Bugs in what becomes of a state: which checkpoint counts, is kept, believed or begun from; how a job ends or rests.

Owns: mutations of the core's text about files, ends, pauses and what is held. Refuses to know: how one is planted.
"""

from regroup.lab.sim.planted.planting import Bug

SAVES = "regroup.core.saves"
CLUSTER = "regroup.core.cluster"
WRITTEN = "regroup.core.written"
BRANCHES = "regroup.core.branches"
HISTORY = "regroup.core.history"
BEGINNING = "regroup.core.beginning"
KEEPING = "regroup.core.keeping"
JOBS = "regroup.core.jobs"
STRIKING = "regroup.core.striking"
REGROUP = "regroup.core.regroup"
SETTLING = "regroup.core.settling"
TURN = "regroup.core.turn"
COMMANDS = "regroup.core.commands"
SUSPICION = "regroup.core.suspicion"
OBSERVING = "regroup.core.observing"
ROUNDS = "regroup.core.rounds"

BUGS = (
    # reports that something newer has overtaken
    Bug(
        "an evicted saver moves the checkpoint",
        SAVES,
        "if job.saver is None or not (asked or version == wanted):",
        "if False:",
    ),
    # checkpoints beside the training
    Bug(
        "a checkpoint counts before all committed it",
        WRITTEN,
        "survives(job.history, state, committed)",
        "survives(job.history, state, state.step)",
    ),
    Bug("what one member made is taken for made by all", CLUSTER, "max(told) - 1)", "max(told))"),
    Bug(
        "a checkpoint beyond what survived counts",
        HISTORY,
        "return generation == state.generation and state.step <= end",
        "return generation == state.generation",
    ),
    Bug(
        "a checkpoint that is due where a generation begins is left out",
        JOBS,
        "return self.base.generation > 0 and",
        "return False and",
    ),
    Bug(
        "an older checkpoint takes the place of a newer one",
        WRITTEN,
        "return state > job.saved and not (gone",
        "return not (gone",
    ),
    Bug("a checkpoint that is kept is deleted", KEEPING, "one for one in others if one not in kept", "*others"),
    Bug("what is kept is swept away with what nobody told of", KEEPING, "keep=_to_keep(cluster, job)", "keep=()"),
    Bug("a best one is deleted", KEEPING, " or one in best]", "]"),
    Bug("the worst are taken for the best", KEEPING, "sorted(scored)[:count]", "sorted(scored, reverse=True)[:count]"),
    Bug(
        "a file that was overtaken before it was told is named by nobody", WRITTEN, "    if late:\n", "    if False:\n"
    ),
    Bug(
        "what was told of a file is not known any more when the training goes on from beyond it",
        "regroup.core.rounds",
        "take_committed(turn, job.id)",
        "pass",
        among="told in vain",
    ),
    Bug("a file that may yet count is told of no more", WRITTEN, "one.path in kept or _is_over(job, one)", "True"),
    # another job's checkpoint
    Bug("a file that a job begins from is deleted", KEEPING, "if not is_needed(cluster.live, path)", "if True"),
    Bug(
        "a file that a job may have to begin from again is deleted",
        BEGINNING,
        "checkpoint.path == path and not job.ended for",
        "checkpoint.path == path and job.checkpoint is None and not job.ended for",
        among="KILL_TRAINER",
    ),
    Bug("a job begins at its seed, and not where it was to", JOBS, "else self.origin\n", "else ORIGIN\n"),
    # damaged files of checkpoints
    Bug(
        "one worker's word is enough",
        STRIKING,
        "if len(sure) != 1:\n        return len(sure) > 1",
        "if len(sure) < 2:\n        return bool(sure)",
    ),
    Bug(
        "a word that is told twice counts twice",
        STRIKING,
        "if before.generation < report.generation:",
        "if True:",
        among="UNREADABLE",
    ),
    Bug("who is alone is never believed", STRIKING, "words[sure[0]].damaged > 1 and", "False and", among="DAMAGE"),
    Bug(
        "a job goes back too far",
        STRIKING,
        "checkpoint=left, older=job.older[1:],",
        "checkpoint=None, older=(),",
        among="DAMAGE",
    ),
    Bug(
        "what a forgotten worker wrote is damaged where it does not lie",
        STRIKING,
        "and checkpoint.host != turn.workers[name].host",
        "and checkpoint.worker in turn.workers and checkpoint.host != turn.workers[name].host",
        among="AWAY",
    ),
    Bug(
        "a file is looked for where its writer's name is now",
        STRIKING,
        "checkpoint.host != turn.workers[name].host",
        "turn.workers.get(checkpoint.worker, turn.workers[name]).host != turn.workers[name].host",
        among="MOVE",
    ),
    Bug("a storage that does not answer damages files", STRIKING, "(report.damaged and not waits)", "(not waits)"),
    # going on
    Bug(
        "a stopped job is called completed",
        SAVES,
        "if job.complete_at(version.step):",
        "if True:",
    ),
    Bug(
        "a job is finished a step early",
        REGROUP,
        "job.complete_at(base.version.step)",
        "job.complete_at(base.version.step + 1)",
    ),
    Bug(
        "a job is completed before its state is durable",
        SETTLING,
        "    elif isinstance(verdict, SaveState):\n",
        "    elif isinstance(verdict, SaveState):\n        turn.end(job, JobPhase.COMPLETED, verdict.reason)\n"
        "        return\n    elif isinstance(verdict, SaveState):\n",
    ),
    # saved, paused, held
    Bug(
        "the least of the answers is saved",
        REGROUP,
        "        return _Base(best)\n    missing",
        "        return _Base(best if job.wanted is Wanted.RUN else min(stateful.values()))\n    missing",
        among="STOP",
    ),
    Bug(
        "to stop waits for nobody",
        REGROUP,
        "    if missing:\n        whose = ",
        "    if missing and job.wanted is Wanted.RUN:\n        whose = ",
        among="STOP",
    ),
    Bug(
        "a pause frees the workers before the state is durable",
        SETTLING,
        '        turn.change_watch(job.id, since=turn.now, writing=None)\n        turn.note("saving"',
        "        if job.wanted is Wanted.PAUSE:\n"
        "            turn.pause(turn.jobs[job.id], job.wanted, verdict.reason)\n"
        "            return\n"
        '        turn.change_watch(job.id, since=turn.now, writing=None)\n        turn.note("saving"',
    ),
    Bug("a resumed job begins anew", REGROUP, "return _Base(job.saved)  #", "return _Base(ORIGIN)  #"),
    Bug("a pause leaves its generation open", TURN, '{"formation": None, "round"', '{"round"'),
    Bug(
        "what is held is forgotten",
        SETTLING,
        "turn.change_job(job, round=None, phase=JobPhase.PAUSED, reason",
        "turn.change_job(job, round=None, phase=JobPhase.PAUSED, formation=None, reason",
    ),
    Bug(
        "a held job that is resumed is queued",
        COMMANDS,
        "freed = job.phase is JobPhase.PAUSED and job.wanted is Wanted.PAUSE",
        "freed = job.phase is JobPhase.PAUSED",
        among="HOLD",
    ),
    Bug(
        "who could not save is asked again first",
        REGROUP,
        "saver = min(holders, key=lambda member: last_try.get(member, -1))",
        "saver = holders[0]",
        among="UNWRITABLE",
    ),
    Bug(
        "a newer state that is durable is forgotten for what is answered",
        BRANCHES,
        "return max([*line, job.saved])  #",
        "return max(line)  #",
        among="a step more",
    ),
    Bug(
        "a saver that was given up is not believed once another one was",
        SETTLING,
        "tuple(dict.fromkeys((*job.savers, verdict.saver)))",
        "(verdict.saver,)",
        among="told late",
    ),
    Bug(
        "a saver that comes late brings an older state",
        SAVES,
        "    if version < job.saved:\n",
        "    if False:\n",
        among="told late",
    ),
    Bug(
        "steps that are lost after a checkpoint was read are no restart",
        SETTLING,
        " and made <= last.base.step",
        "",
        among="unheard",
    ),
    # the task's own code at a save
    Bug(
        "what state() raises is nobody's error",
        SAVES,
        "    if report.traceback:\n",
        "    if False:\n",
        among="STATE_RAISES",
    ),
    Bug(
        "who saved and hangs in its report is waited for as the only holder",
        SUSPICION,
        "held is not None and held <= job.saved:",
        "False:",
        among="REPORT_HANGS",
    ),
    Bug(
        "a final state that nobody holds is to be saved",
        REGROUP,
        "ends, alone = rests or (finished and holders),",
        "ends, alone = rests or finished,",
        among="REPORT_DIES",
    ),
    Bug(
        "who goes on with its evaluation at a save is given up",
        OBSERVING,
        "turn.now if saves else watch.since",
        "watch.since",
    ),
    Bug(
        "an evaluation that goes on is broken off",
        OBSERVING,
        "        progressed=turn.now,\n        since",
        "        since",
    ),
    Bug("to stop at once waits", COMMANDS, "    elif at_once:\n", "    elif False:\n", among="STOP_NOW"),
    Bug("jobs that come at once change places", COMMANDS, "submitted=next_moment(turn.jobs, at)", "submitted=at"),
    Bug(
        "what was told to be whole is given up with what was held in memory",
        ROUNDS,
        "if not isinstance(verdict, Wait) and verdict.rolled_back:",
        "if False:",
        among="told and over",
    ),
    Bug(
        "a save that failed is tried again at once",
        ROUNDS,
        "if (ends or isinstance(verdict, SaveState)) and failed_lately(turn, job):",
        "if False:",
    ),
    Bug(
        "what was told to be whole is given up by who stops at once",
        COMMANDS,
        "    job = take_told(turn, job.id)\n",
        "",
        among="told and over",
    ),
    Bug(
        "all state of a job at rest is lost as often as it likes",
        "regroup.core.settling",
        "        if job.wanted not in (Wanted.STOP, Wanted.YIELD):  #",
        "        if False:  #",
    ),
)
