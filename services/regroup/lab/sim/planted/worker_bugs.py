"""Bugs in how a worker keeps its side of the rules: its promise, its state, its lease, its word at a boundary.

Owns: mutations of the texts of the session, the tail, the watch, the ledger of leases and what ended trainers left.
Refuses to know: how one is planted.
"""

from regroup.lab.sim.planted.planting import Bug

SESSION = "regroup.worker.session"
TAIL = "regroup.worker.tail"
UNTOLD = "regroup.worker.untold"
WATCHING = "regroup.worker.watching"
LEDGER = "regroup.worker.lease_ledger"

BUGS = (
    # rule 1: a Halt is a promise, under a fresh number
    Bug(
        "a Halt below the promise is answered",
        SESSION,
        "if session.phase is TrainerPhase.PREPARING or n < session.promised:",
        "if session.phase is TrainerPhase.PREPARING:",
        among="JUMBLED",
        rule=1,
    ),
    Bug(
        "a step is applied below the promise",
        SESSION,
        "return self.phase is TrainerPhase.TRAINING and self.generation == generation and self.owed is None\n\n"
        "    def may_apply(self, now: float) -> bool:\n"
        '        """Whether the optimizer step may begin: nothing higher is promised, and the lease runs."""\n'
        "        return self.phase is TrainerPhase.TRAINING and",
        "return self.phase in (TrainerPhase.TRAINING, TrainerPhase.HALTED) and self.generation == generation\n\n"
        "    def may_apply(self, now: float) -> bool:\n"
        "        return self.phase in (TrainerPhase.TRAINING, TrainerPhase.HALTED) and",
        rule=1,
    ),
    Bug(
        "a Halt breaks no group",
        SESSION,
        "(*(() if at_boundary else (BreakGroup(),)), *_answer(session))",
        "_answer(session)",
        rule=1,
    ),
    Bug(
        "a rendezvous is used again",
        SESSION,
        'return f"{self.address}/{self.member.incarnation}.{self.promised}"',
        'return f"{self.address}/{self.member.incarnation}"',
    ),
    # rule 2: fresh answers only
    Bug(
        "a formation is accepted under another promise",
        SESSION,
        "halted = session.phase is TrainerPhase.HALTED and session.promised == formation.generation",
        "halted = session.phase is TrainerPhase.HALTED",
        rule=2,
        among="SILENCE",
    ),
    # rule 4: the highest (generation, step) leads, whoever differs is replaced
    Bug(
        "a state takes its generation before it is held",
        SESSION,
        "waited_for=True, **begun",
        "waited_for=True, version=Version(formation.generation, formation.base.step), **begun",
        rule=4,
    ),
    # rule 5: staged, and torn states are none
    Bug(
        "a torn state is answered",
        SESSION,
        "version=None if torn else session.version",
        "version=session.version",
        among="STALL",
        rule=5,
    ),
    Bug(
        "a Halt is answered in the middle of a change", SESSION, "    if session.applying:\n", "    if False:\n", rule=5
    ),
    # rule 7: the lease
    Bug(
        "the lease is not looked at",
        SESSION,
        "and self.owed is None and now < self.lease",
        "and self.owed is None",
        rule=7,
    ),
    Bug(
        "an order renews the lease",
        SESSION,
        "waited_for=True, **begun",
        "waited_for=True, heard=1e18, **begun",
        rule=7,
    ),
    Bug(
        "any answer renews the lease",
        SESSION,
        "if session.formation is None or session.generation != answered.generation:",
        "if session.formation is None:",
        rule=7,
    ),
    Bug(
        "a lease counts from the newest heartbeat, whichever was answered",
        LEDGER,
        "at = self._sent.pop(heard.sequence, None)\n",
        "at = max(self._sent.values()) if self._sent.pop(heard.sequence, None) and self._sent else None\n",
        rule=7,
    ),
    # who may take part, and whose state is nobody's
    Bug(
        "a replica that differs stays as it is",
        SESSION,
        "return _broke(replace(session, version=None), generation, reason)",
        "return _broke(session, generation, reason)",
    ),
    # going on
    Bug(
        "one member's proposal is taken for agreement",
        TAIL,
        "return held.pop() if len(held) == 1 and 0 not in held else None",
        "return max(held) or None",
    ),
    Bug(
        "a sum of proposals is taken for agreement",
        TAIL,
        "return held.pop() if len(held) == 1 and 0 not in held else None",
        "return sum(self.flags[:ranks]) or None",
    ),
    Bug(
        "half of a digest is not compared",
        TAIL,
        "high = [float(digest >> HALF) for digest in self.digests]",
        "high = [0.0 for _ in self.digests]",
        among="FLIP",
    ),
    Bug(
        "a boundary is kept for the next generation",
        SESSION,
        "session = _enter(session, TrainerPhase.HALTED, promised=n, boundary=None, owed=None)",
        "session = _enter(session, TrainerPhase.HALTED, promised=n, owed=None)",
    ),
    Bug(
        "who forms waits for no boundary",
        SESSION,
        "if order.boundary and session.phase in (TrainerPhase.FORMING, TrainerPhase.TRAINING):",
        "if order.boundary and session.phase is TrainerPhase.TRAINING:",
        among="told in vain",
    ),
    Bug(
        "who made the last step waits for a boundary",
        SESSION,
        "if order.boundary and session.phase in (TrainerPhase.FORMING, TrainerPhase.TRAINING):",
        "if order.boundary and session.phase in _LIVE:",
    ),
    Bug(
        "a lease outlives its formation's limit",
        SESSION,
        "return self.heard + self.formation.detached_limit if",
        "return self.heard + max(9.0, self.formation.detached_limit) if",
    ),
    # files that were written beside the training
    Bug("only the newest file is told of", SESSION, "return (*others, checkpoint)", "return (checkpoint,)"),
    # the task's own code at a save
    Bug(
        "who hangs in its report answers a Halt",
        SESSION,
        "written=written, at_work=True",
        "written=written",
        among="REPORT_HANGS",
    ),
    Bug(
        "who hangs in its state() answers a Halt",
        SESSION,
        "at_work=True), ()\n        case CameBack",
        "at_work=saved is not None), ()\n        case CameBack",
        among="STATE_HANGS",
    ),
    Bug(
        "a state is not told to be durable before its report is asked for",
        SESSION,
        "written=written, at_work=True",
        "at_work=True",
        among="REPORT_DIES",
    ),
    Bug(
        "who is to save once more is back from its first save",
        SESSION,
        "            if session.waited_for:\n",
        "            if False:\n",
        among="writes for long",
    ),
    Bug(
        "a save is begun under a later promise",
        SESSION,
        "asked = session.phase is TrainerPhase.HALTED and session.promised == order.generation",
        "asked = session.phase is TrainerPhase.HALTED and session.promised >= order.generation",
        among="JUMBLED",
    ),
    Bug(
        "the end of an earlier save is that of this one",
        SESSION,
        "if session.phase is TrainerPhase.SAVING and session.promised == report.generation:",
        "if session.phase is TrainerPhase.SAVING:",
        among="writes for long",
    ),
    Bug("a save is told once", SESSION, "            if isinstance(report, StateSaved):\n", "            if False:\n"),
    Bug(
        "what the dead wrote is not told",
        UNTOLD,
        "return (*untold, ended) if ended is not None and ended.written else untold",
        "return ()",
    ),
    # who hangs
    Bug("who waits for others is accused", WATCHING, "if mark.phase in WAITS:", "if False:"),
    Bug(
        "who is halted lacks its data no more",
        WATCHING,
        "lacks = self.lacks if self.lacks is not None and self.lacks.fetch == mark.fetch else None",
        "lacks = None",
        among="STARVE",
    ),
    Bug(
        "a limit is below the floor",
        WATCHING,
        "min(most, max(floor, TIMES * longest))",
        "min(most, TIMES * longest)",
    ),
    Bug(
        "a lease ends long before its time",
        SESSION,
        "return self.heard + self.formation.detached_limit if",
        "return self.heard + 0.5 * self.formation.detached_limit if",
    ),
    Bug(
        "three of four answers renew no lease",
        LEDGER,
        "if at is None or not (heard.generation or heard.settled):",
        "if at is None or heard.sequence % 4 or not (heard.generation or heard.settled):",
    ),
)
