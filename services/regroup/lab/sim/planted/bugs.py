"""Bugs that are planted, one at a time, to see whether the simulator finds them: a text of the code and another one.

Owns: what is planted, and how: the module is compiled from the changed text, in a process of its own.
Refuses to know: how it is found. A bug whose text is not in the code exactly once is no bug any more: a test says so.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    module: str
    old: str
    new: str


def plant(bug: Bug) -> None:
    """From now on, this process imports the module with the bug in it. It must not have been imported before."""
    assert bug.module not in sys.modules, f"{bug.module} is imported already"
    sys.meta_path.insert(0, _Planter(bug))


class _Planter(MetaPathFinder):
    def __init__(self, bug: Bug) -> None:
        self._bug = bug

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._bug.module:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Changed(fullname, spec.origin, self._bug)
        return spec


class _Changed(SourceFileLoader):
    def __init__(self, name: str, path: str, bug: Bug) -> None:
        super().__init__(name, path)
        self._bug = bug

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path).decode()
        assert source.count(self._bug.old) == 1, f"{self._bug.name}: its text is not in {fullname} once"
        return compile(source.replace(self._bug.old, self._bug.new), self.path, "exec", dont_inherit=True)


REGROUP, ROUNDS, REPORTS = "regroup.core.regroup", "regroup.core.rounds", "regroup.core.reports"
JOBS, SHARDS, SESSION = "regroup.core.jobs", "regroup.core.shards", "regroup.worker.session"
SHELL, TAIL = "regroup.coordinator.shell", "regroup.worker.tail"
ORDERS, BLAME, TURN = "regroup.core.orders", "regroup.core.blame", "regroup.core.turn"
SUSPICION, SCHEDULE, SETTLING = "regroup.core.suspicion", "regroup.core.schedule", "regroup.core.settling"
HANGING, WATCHING = "regroup.core.hanging", "regroup.worker.watching"
COMMANDS, HISTORY, KEEPING = "regroup.core.commands", "regroup.core.history", "regroup.core.keeping"
LEAVING, STRIKING = "regroup.core.leaving", "regroup.core.striking"

BUGS = (
    # rule 1: a Halt is a promise, under a fresh number
    Bug("a number is used again", ROUNDS, "generation = job.generation + 1", "generation = max(job.generation, 1)"),
    Bug(
        "a Halt below the promise is answered",
        SESSION,
        "if session.phase is TrainerPhase.PREPARING or n < session.promised:",
        "if session.phase is TrainerPhase.PREPARING:",
    ),
    # rule 2: fresh answers only
    Bug(
        "a stale answer counts",
        REPORTS,
        "status.phase is TrainerPhase.HALTED and status.promised == job.round.generation:",
        "status.phase is TrainerPhase.HALTED:",
    ),
    Bug(
        "a formation is accepted under another promise",
        SESSION,
        "halted = session.phase is TrainerPhase.HALTED and session.promised == formation.generation",
        "halted = session.phase is TrainerPhase.HALTED",
    ),
    # rule 3: a member is (worker, incarnation)
    Bug(
        "a restarted trainer is the same member",
        JOBS,
        "    worker: str\n    incarnation: str\n",
        "    worker: str\n    incarnation: str = field(compare=False)\n",
    ),
    # rule 4: the highest (generation, step) leads, whoever differs is replaced
    Bug(
        "the highest step leads, whatever its generation",
        REGROUP,
        "best = max(stateful.values(), default=job.origin)",
        "best = max(stateful.values(), default=job.origin, key=lambda version: version.step)",
    ),
    Bug(
        "only who is behind is replaced",
        JOBS,
        "(fresh or seat.version != self.base)",
        "(fresh or seat.version is None or seat.version.step < self.base.step)",
    ),
    Bug(
        "a state takes its generation before it is held",
        SESSION,
        "TrainerPhase.FORMING, at_work=True, **begun",
        "TrainerPhase.FORMING, at_work=True, version=Version(formation.generation, formation.base.step), **begun",
    ),
    # rule 5: staged, and torn states are none
    Bug("a torn state is answered", SESSION, "version=None if torn else session.version", "version=session.version"),
    Bug("a Halt is answered in the middle of a change", SESSION, "    if session.applying:\n", "    if False:\n"),
    # rule 6: an anchor
    Bug(
        "no anchor is needed",
        REGROUP,
        "if best >= job.formation.base and any(member in stateful for member in listed):",
        "if stateful:",
    ),
    Bug(
        "an anchor below the base will do",
        REGROUP,
        "if best >= job.formation.base and any(member in stateful for member in listed):",
        "if any(member in stateful for member in listed):",
    ),
    # rule 7: the lease
    Bug("the lease is not looked at", SESSION, "and self.owed is None and now < self.lease", "and self.owed is None"),
    Bug(
        "an order renews the lease",
        SESSION,
        "TrainerPhase.FORMING, at_work=True, **begun",
        "TrainerPhase.FORMING, at_work=True, heard=1e18, **begun",
    ),
    Bug(
        "any answer renews the lease",
        SESSION,
        "if session.formation is None or session.generation != answered.generation:",
        "if session.formation is None:",
    ),
    Bug(
        "silence is taken for death too soon",
        SETTLING,
        "limit = policy.absent_limit if job.wanted is Wanted.STOP else "
        "job.formation.detached_limit + policy.detached_margin",
        "limit = 1.5",
    ),
    Bug(
        "a restarted coordinator counts silence from before its start",
        SETTLING,
        "else turn.cluster.awake + turn.policy.leader_lease",
        "else -1e18",
    ),
    Bug(
        "an unconfirmed leader renews leases",
        SHELL,
        "if leading or not isinstance(order, Heard):",
        "if True:",
    ),
    # persist first, fenced
    Bug(
        "orders leave before they are saved",
        SHELL,
        "            try:\n                await self._persist(",
        "            self._send(decision)\n            try:\n                await self._persist(",
    ),
    Bug(
        "a fence is forgotten",
        SHELL,
        "                except Fenced as fenced:\n                    raise LeadershipLost(OVERTAKEN) from fenced\n"
        "                except StoreUnavailable as trouble:\n                    self._meet(trouble)",
        "                except Fenced:\n                    break\n"
        "                except StoreUnavailable as trouble:\n                    self._meet(trouble)",
    ),
    Bug(
        "what the store did not confirm is taken for saved",
        SHELL,
        "                    if not patient:\n                        raise\n",
        "                    break\n",
    ),
    # what overtook it makes a report history
    Bug("an overtaken heartbeat is believed", REPORTS, " and report.sequence > sighting.sequence:", ":"),
    Bug(
        "an evicted saver moves the checkpoint",
        REPORTS,
        "if job.saver is None or not (asked or version == wanted):",
        "if False:",
    ),
    # checkpoints beside the training
    Bug(
        "a checkpoint counts before all committed it",
        REPORTS,
        "survives(job.history, state, committed)",
        "survives(job.history, state, state.step)",
    ),
    Bug(
        "a checkpoint beyond what survived counts",
        HISTORY,
        "return generation == state.generation and state.step <= end",
        "return generation == state.generation",
    ),
    Bug("an older checkpoint takes the place of a newer one", REPORTS, "if state > job.saved and", "if"),
    Bug("a checkpoint that is kept is deleted", KEEPING, "one for one in others if one not in kept", "*others"),
    Bug("a best one is deleted", KEEPING, " or one in best]", "]"),
    Bug("the worst are taken for the best", KEEPING, "sorted(scored)[:count]", "sorted(scored, reverse=True)[:count]"),
    # another job's checkpoint
    Bug("a file that a job begins from is deleted", KEEPING, "if not is_needed(cluster.jobs, path)", "if True"),
    Bug("a job begins at its seed, and not where it was to", JOBS, "else self.origin\n", "else ORIGIN\n"),
    # damaged files of checkpoints
    Bug(
        "one worker's word is enough",
        STRIKING,
        "if len(sure) != 1:\n        return len(sure) > 1",
        "if sure:\n        return True",
    ),
    Bug("a word that is told twice counts twice", STRIKING, "if before.generation < report.generation:", "if True:"),
    Bug(
        "who is alone is never believed",
        STRIKING,
        "words[sure[0]].damaged > 1 and",
        "False and",
    ),
    Bug("a job goes back too far", STRIKING, "checkpoint=left, older=job.older[1:],", "checkpoint=None, older=(),"),
    Bug("a storage that does not answer damages files", STRIKING, "counts = report.damaged and not", "counts = not"),
    # who may take part, and whose state is nobody's
    Bug("whoever has other code takes part", BLAME, "if theirs == job.fingerprint:", "if True:"),
    Bug(
        "a replica that differs stays as it is",
        SESSION,
        "return _broke(replace(session, version=None), generation, reason)",
        "return _broke(session, generation, reason)",
    ),
    # going on
    Bug("a shard has two owners", SHARDS, "if owner == rank)", "if owner == rank or v == 0)"),
    Bug(
        "a shard has no owner", SHARDS, "for v in range(shards))\n    return", "for v in range(shards - 1))\n    return"
    ),
    Bug(
        "an epoch ends a batch too early",
        SHARDS,
        "return -(-samples // global_batch)",
        "return samples // global_batch",
    ),
    Bug(
        "one member's proposal is taken for agreement",
        TAIL,
        "return held.pop() if len(held) == 1 and 0 not in held else None",
        "return max(held) or None",
    ),
    Bug(
        "a stopped job is called completed",
        REPORTS,
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
        "return _Base(max(best, job.saved))  #",
        "return _Base(best if job.wanted is Wanted.RUN else min(stateful.values()))  #",
    ),
    Bug(
        "to stop waits for nobody",
        REGROUP,
        "    if missing:\n        whose = ",
        "    if missing and job.wanted is Wanted.RUN:\n        whose = ",
    ),
    Bug(
        "a pause frees the workers before the state is durable",
        SETTLING,
        '        turn.change_watch(job.id, since=turn.now)\n        turn.note("saving"',
        "        if job.wanted is Wanted.PAUSE:\n            turn.pause(turn.jobs[job.id], verdict.reason)\n"
        "            return\n"
        '        turn.change_watch(job.id, since=turn.now)\n        turn.note("saving"',
    ),
    Bug("a resumed job begins anew", REGROUP, "return _Base(job.saved)  #", "return _Base(ORIGIN)  #"),
    Bug("a pause leaves its generation open", TURN, '{"formation": None, "round"', '{"round"'),
    Bug(
        "what is held is forgotten",
        SETTLING,
        "turn.change_job(job, round=None, phase=JobPhase.PAUSED, step=step,",
        "turn.change_job(job, round=None, phase=JobPhase.PAUSED, formation=None, step=step,",
    ),
    Bug("void measurements are shown", SHELL, "return [min(void)] if void else []", "return []"),
    Bug(
        "a command is acknowledged before it is saved",
        SHELL,
        "                self._waiting.discard(done)\n            began",
        "                self._waiting.discard(done)\n                done.set_result(None)\n            began",
    ),
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
    ),
    Bug(
        "who trains may go at once",
        LEAVING,
        "        return True  # it trains, or",
        "        return False  # it trains, or",
    ),
    Bug(
        "a job is saved although others stay with its state",
        REGROUP,
        "if holders and staying.keys().isdisjoint(holders):",
        "if holders and not staying.keys() >= set(holders):",
    ),
    Bug(
        "a job that was saved because all go goes on with them",
        REPORTS,
        "elif leaving.is_left_by(turn, job, version):",
        "elif False:",
    ),
    Bug("who saves is sent away because it is to go", LEAVING, "if job.saver == member or (", "if ("),
    Bug(
        "a new agent is taken for one that is to leave",
        REPORTS,
        "replace(turn.workers[name], leaving=False)\n",
        "turn.workers[name]\n",
    ),
    Bug(
        "who was asked to end is blamed for it",
        REPORTS,
        "meant = known.boot == LEFT or known.leaving",
        "meant = known.boot == LEFT",
    ),
    Bug("what is held is lost with those that go", ROUNDS, "    if is_held_by_goers(turn, job):\n", "    if False:\n"),
    # the last copy
    Bug(
        "whoever brings the last copy back is sent away",
        SCHEDULE,
        "            return None\n    return job.id",
        "            return None\n    return None",
    ),
    Bug(
        "who is cut off is killed when it comes back",
        SUSPICION,
        "return asked and heard_lately(turn, member.worker)",
        "return True",
    ),
    Bug(
        "an answer of the dead counts",
        SETTLING,
        "if member not in watch.dead and present(member.worker)",
        "if present(member.worker)",
    ),
    Bug("an order is sent once", ORDERS, "and trainer.promised < job.round.generation", "and trainer.promised < 1"),
    # what somebody planted who had not seen the rules, and the rules did not find
    Bug(
        "a held job that is resumed is queued",
        COMMANDS,
        "freed = job.phase is JobPhase.PAUSED and job.wanted is Wanted.PAUSE",
        "freed = job.phase is JobPhase.PAUSED",
    ),
    Bug(
        "a shard that failed is tried by the same worker",
        REGROUP,
        "owners=_owners(job, members, base.version.step),",
        "owners=assign(job.spec.shard_count, len(members)),",
    ),
    Bug(
        "who could not save is asked again first",
        REGROUP,
        "saver = min(holders, key=lambda member: (last_try.get(member, -1), member))",
        "saver = min(holders)",
    ),
    Bug(
        "a waiting job counts those that are gone",
        SCHEDULE,
        "others = listed if job.phase is not JobPhase.WAITING else frozenset()",
        "others = listed",
    ),
    Bug("the only holder is suspected as any", SUSPICION, "if member != leader or len(holders) != 1]", "]"),
    Bug(
        "one failure to form is enough",
        SUSPICION,
        "if count >= 2 and had_its_chance",
        "if count >= 1 and had_its_chance",
    ),
    Bug(
        "failures to form of long ago count",
        ROUNDS,
        "disturbed=None, stumbled={}, unable={}, rereads=0, words={}\n",
        "disturbed=None, unable={}, rereads=0, words={}\n",
    ),
    Bug(
        "to repeat a step is progress",
        REPORTS,
        "        if step <= watch.committed.get(member, -1):\n            return  # no news\n"
        "        progressed = turn.now if step > max(watch.committed.values(), default=-1) else watch.progressed\n",
        "        progressed = turn.now\n",
    ),
    Bug(
        "who said goodbye is not known dead",
        REPORTS,
        "            _exited(turn, name, ASKED)\n            turn.sightings",
        "            turn.sightings",
    ),
    Bug(
        "an end that was asked for is an error",
        REPORTS,
        "    if report.asked and not evicted:\n        return\n    if not report.asked:\n",
        "    if report.asked and job is not None and job.ended:\n        return\n    if True:\n",
    ),
    Bug(
        "who is evicted is not killed",
        ORDERS,
        '        return (Kill(job.id, member.incarnation, "evicted from the job"),)\n',
        "        return ()\n",
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
    ),
    Bug(
        "a boundary is kept for the next generation",
        SESSION,
        "session = _enter(session, TrainerPhase.HALTED, promised=n, boundary=None, owed=None)",
        "session = _enter(session, TrainerPhase.HALTED, promised=n, owed=None)",
    ),
    Bug(
        "a lease outlives its formation's limit",
        SESSION,
        "return self.heard + self.formation.detached_limit if",
        "return self.heard + max(9.0, self.formation.detached_limit) if",
    ),
    Bug(
        "leading is counted from the answer",
        SHELL,
        "self._confirmed, self._trouble = asked, None",
        "self._confirmed, self._trouble = self._clock(), None",
    ),
    Bug(
        "a slow store is the members' silence",
        SHELL,
        "            if self._clock() - began > SLOW_STORE:\n",
        "            if False:\n",
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
    ),
    Bug("who waits for others is accused", WATCHING, "if mark.phase in WAITS:", "if False:"),
    Bug(
        "who was blamed for a task is not forgiven", BLAME, "if each.died and each.worker in turn.workers:", "if False:"
    ),
)
