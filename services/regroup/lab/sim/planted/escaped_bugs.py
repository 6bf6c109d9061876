"""Bugs that somebody planted who had not seen the rules, and that no rule found, or no life met, until then; those that
belong to another table stand there.

Owns: such mutations of core, session and shell, most of them in what is remembered, and forgotten too late or too soon.
Refuses to know: how one is planted.
"""

from regroup.lab.sim.planted.planting import Bug

ABSENCE = "regroup.core.absence"
AGENT_REPORTS = "regroup.core.agent_reports"
COMMANDS = "regroup.core.commands"
FORGIVING = "regroup.core.forgiving"
HANGING = "regroup.core.hanging"
OBSERVING = "regroup.core.observing"
ORDERS = "regroup.core.orders"
REGROUP = "regroup.core.regroup"
ROUNDS = "regroup.core.rounds"
SETTLING = "regroup.core.settling"
SUSPICION = "regroup.core.suspicion"
TURN = "regroup.core.turn"
SESSION = "regroup.worker.session"
SHELL = "regroup.coordinator.shell"
PERSISTENCE = "regroup.coordinator.persistence"

BUGS = (
    Bug("a job that ended asks on", TURN, "reason=reason, round=None, saver=None, savers=(), **", "reason=reason, **"),
    # of a job's watch
    Bug("a formation's first step proves nobody", OBSERVING, "if most <= formation.base", "if most < formation.base"),
    Bug(
        "who failed to save in the last generation failed in this one",
        SETTLING,
        "**fresh, failed_savers=())",
        "**fresh)",
    ),
    Bug(
        "what a worker told before it was cut off counts as told now",
        AGENT_REPORTS,
        "since=turn.now, told=False)",
        "since=turn.now)",
    ),
    Bug(
        "whoever comes back is ended for what it told before it was cut off",
        ORDERS,
        "return cluster.tells(name) and not",
        "return not",
    ),
    Bug(
        "who hangs as it saves is not remembered",
        ROUNDS,
        "        turn.change_watch(job.id, failed_savers=(*watch.failed_savers, saver))\n",
        "",
    ),
    Bug(
        "steps that were lost with who made them are shown on",
        SETTLING,
        "        turn.change_watch(job.id, committed={}, **_made",
        "        turn.change_watch(job.id, **_made",
        among="killed while held",
    ),
    Bug(
        "who was given up is asked once more",
        ROUNDS,
        "in watch.dead and member not in watch.evicted}",
        "in watch.dead}",
    ),
    Bug(
        "who lacks its data is listed because it answered",
        HANGING,
        "for one, said in watch.answers.items() if one != member})",
        "for one, said in watch.answers.items()})",
        among="STARVE",
    ),
    Bug(
        "a death is no reason why a generation broke",
        SUSPICION,
        "fruitless = 0 if stepped or gone else",
        "fruitless = 0 if stepped else",
        among="dies before a step",
    ),
    # of workers
    Bug(
        "a late word of a death takes the next trainer",
        AGENT_REPORTS,
        "if trainer is not None and trainer.incarnation == report.incarnation:\n        preparing",
        "if trainer is not None:\n        preparing",
    ),
    Bug(
        "whoever begins anew is refused for what was",
        TURN,
        "            self.take_back(id, name)",
        "            pass",
        among="begins anew",
    ),
    Bug(
        "who may hold a state is sent away before it tells",
        ORDERS,
        "return (Go(worker.boot),) if _may_end(cluster, name, quiet) else ()",
        "return (Go(worker.boot),)",
        among="goes untold",
    ),
    Bug(
        "who could not read is asked to read again as soon as it began anew",
        REGROUP,
        "(not holders and one.worker in tried_to_read, failed[one.worker])",
        "failed[one.worker]",
        among="reads again",
    ),
    Bug(
        "a holder that is cut off is of no use to its job",
        ABSENCE,
        "(is_mute(turn, name) and name not in trains)",
        "is_mute(turn, name)",
    ),
    Bug(
        "the last that has the state is given up as any",
        SETTLING,
        "had_its_chance(turn, member)) and not last",
        "had_its_chance(turn, member))",
        among="answers and is gone",
    ),
    Bug("the first to break the last generation broke this one", SETTLING, '        "first": None,\n', ""),
    Bug(
        "who has as many errors as are allowed stays in quarantine",
        TURN,
        "if worker.quarantined and worker.errors <= self.policy.error_limit:",
        "if worker.quarantined and worker.errors < self.policy.error_limit:",
    ),
    Bug(
        "newcomers are let in while a member is away",
        ROUNDS,
        "if newcomers and ready >= set(formation.members):",
        "if newcomers:",
    ),
    Bug(
        "all that held a state are said to be gone once one of them is",
        ROUNDS,
        "if held or any(member not in watch.dead",
        "if held or all(member not in watch.dead",
        among="away while held",
    ),
    Bug(
        "late fetches for different steps count together",
        HANGING,
        "if before is not None and before.step == step else frozenset()",
        "if before is not None else frozenset()",
        among="data is slow",
    ),
    Bug(
        "a job grows by what an older one waits for",
        "regroup.core.schedule",
        "                return loans  # it can start",
        "                break  # it can start",
        among="may not grow",
    ),
    Bug(
        "an evaluation takes the place of its step's loss",
        "regroup.coordinator.points",
        "point = point if before is None else replace(before, metrics=point.metrics)",
        "pass",
        among="all killed",
    ),
    # of who may take part
    Bug(
        "who was refused is never tried again",
        FORGIVING,
        "if not job.refused or job.wanted",
        "if True or job.wanted",
    ),
    Bug(
        "who was refused is tried again where enough are left",
        FORGIVING,
        "return len(useful) < job.needs or",
        "return True or",
        among="UNPREPARED",
    ),
    Bug(
        "who was refused long ago is never tried again",
        FORGIVING,
        "if not lacks and waited <=",
        "if not lacks or waited <=",
    ),
    Bug(
        "who was refused is tried again at once",
        TURN,
        "        self.change_watch(job.id, out_since=self.now)\n",
        "",
    ),
    Bug(
        "who was refused is refused after a rest",
        TURN,
        "reason=reason, refused={}, **closed",
        "reason=reason, **closed",
    ),
    Bug(
        "who has yet to tell of its trainer is free",
        "regroup.core.schedule",
        "sighting is not None and sighting.sequence > 0 and sighting.trainer is None",
        "sighting is not None and sighting.trainer is None",
    ),
    Bug(
        "who lost its power with the coordinator is blamed",
        AGENT_REPORTS,
        "heard = name in turn.sightings",
        "heard = True",
    ),
    Bug(
        "who once said goodbye is taken for gone by the next coordinator",
        SETTLING,
        "turn.workers[name] = replace(turn.workers[name], meant=False)",
        "pass",
    ),
    Bug(
        "the lease of who was given up is renewed",
        AGENT_REPORTS,
        "if watch is not None and member in watch.evicted:\n        return 0",
        "if False:\n        return 0",
    ),
    Bug(
        "who connects anew has been there all the while",
        AGENT_REPORTS,
        "connected=True, since=turn.now, told=False)",
        "connected=True, told=False)",
    ),
    Bug(
        "a job completes without its task's report",
        ORDERS,
        "job.wanted is Wanted.STOP or job.complete_at(trainer.version.step)",
        "job.wanted is Wanted.STOP",
    ),
    # of what is shown
    Bug(
        "a stop at once shows steps that are lost",
        COMMANDS,
        "step = before if job.checkpoint is None else job.saved.step",
        "step = before",
        among="STOP_NOW",
    ),
    Bug(
        "what a roll-back alone makes void is shown on",
        SHELL,
        "void = [back] if back is not None else []",
        "void: list[int] = []",
        among="killed while held",
    ),
    Bug(
        "jobs are ordered by what happened to them last", PERSISTENCE, "(job.submitted, job.id)", "(job.since, job.id)"
    ),
    # of a session
    Bug(
        "a promise that is owed is forgotten",
        SESSION,
        "    session, promised = _promise(session, owed)\n    return session, (formed, *promised)",
        "    return replace(session, owed=None), (formed,)",
    ),
    Bug(
        "an evaluation of a state that was left is told on",
        SESSION,
        "**begun, boundary=None, evaluated=0)",
        "**begun, boundary=None)",
    ),
    Bug(
        "a file is told of again by who is in no generation",
        SESSION,
        "    if answered.settled:\n        told",
        "    if answered.settled and answered.generation:\n        told",
    ),
    # of the store
    Bug(
        "a command that is under way is said not to be taken",
        SHELL,
        "                self._waiting.discard(done)\n            began",
        "                pass\n            began",
        among="STORE_AWAY",
    ),
    Bug(
        "what the store may have kept is said not to be taken",
        SHELL,
        "patient=refused is None and not isinstance(event, KeepSteps))",
        "patient=done is None and not isinstance(event, KeepSteps))",
        among="STORE_CUT",
    ),
    Bug(
        "a coordinator that woke up counts what it slept through",
        SHELL,
        "awake=max(self._now, self.time()))",
        "awake=self._now)",
        among="FREEZE",
    ),
    # of what nobody missed
    Bug("no file is ever deleted", "regroup.core.keeping", "        if mine:\n", "        if False:\n"),
    Bug(
        "one member owns all shards",
        "regroup.core.shards",
        "return tuple((rank + turn) % ranks for rank in slices)",
        "return tuple(turn % ranks for rank in slices)",
    ),
    Bug(
        "who lacks its data is said to for ever, though it stands still",
        "regroup.worker.watching",
        "        if mark.phase in WAITS:\n",
        "        if self.lacks is not None:\n            return self.lacks\n        if mark.phase in WAITS:\n",
        among="starves and stands",
    ),
    Bug("no straggler is ever told", "regroup.core.stragglers", "TIMES = 1.5  #", "TIMES = 50.0  #", among="LAG"),
    Bug(
        "a stop waits for who is silent as if it were to train on",
        "regroup.core.roster",
        "limit = policy.absent_limit if job.wanted is Wanted.STOP else",
        "limit = 10 * policy.absent_limit if job.wanted is Wanted.STOP else",
        among="STOP",
    ),
)
