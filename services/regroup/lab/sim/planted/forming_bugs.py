"""Bugs in how a generation comes to be: its number, whose answers count, who leads, who is replaced, who owns what.

Owns: mutations of the core's text along rules 1, 2, 3, 4 and 6, of the shards, and of members that cannot reach each
other. Refuses to know: how one is planted.
"""

from regroup.lab.sim.planted.planting import Bug

ROUNDS = "regroup.core.rounds"
OBSERVING = "regroup.core.observing"
JOBS = "regroup.core.jobs"
BRANCHES = "regroup.core.branches"
REGROUP = "regroup.core.regroup"
SHARDS = "regroup.core.shards"
SEVERED = "regroup.core.severed"

BUGS = (
    Bug(
        "to read a checkpoint takes no time",
        "regroup.core.rounds",
        "turn.policy.form_limit + (job.spec.step_timeout if formation.checkpoint is not None else 0.0)",
        "turn.policy.form_limit",
    ),
    # rule 1: a Halt is a promise, under a fresh number
    Bug(
        "a number is used again",
        ROUNDS,
        "generation = job.generation + 1",
        "generation = max(job.generation, 1)",
        rule=1,
    ),
    # rule 2: fresh answers only
    Bug(
        "a stale answer counts",
        OBSERVING,
        "status.phase is TrainerPhase.HALTED and status.promised == job.round.generation:",
        "status.phase is TrainerPhase.HALTED:",
        rule=2,
    ),
    # rule 3: a member is (worker, incarnation)
    Bug(
        "a restarted trainer is the same member",
        JOBS,
        "    worker: str\n    incarnation: str\n",
        "    worker: str\n    incarnation: str = field(compare=False)\n",
        rule=3,
    ),
    # rule 4: the highest (generation, step) leads, whoever differs is replaced
    Bug(
        "the highest step leads, whatever its generation",
        BRANCHES,
        "return max([*line, job.saved])  #",
        "return max([*told.values(), job.saved], key=lambda state: state.step)  #",
        among="BREAK",
        rule=4,
    ),
    Bug(
        "only who is behind is replaced",
        JOBS,
        "(fresh or seat.version != self.base)",
        "(fresh or seat.version is None or seat.version.step < self.base.step)",
        among="BREAK",
        rule=4,
    ),
    # rule 6: an anchor
    Bug(
        "no anchor is needed",
        REGROUP,
        "if anchored(job, stateful):",
        "if stateful:",
        rule=6,
    ),
    Bug(
        "an anchor below the base will do",
        REGROUP,
        "if anchored(job, stateful):",
        "if any(member in stateful for member in listed):",
        rule=6,
    ),
    Bug(
        "who is lent beyond what is asked for is kept",
        ROUNDS,
        "        unlend_surplus(turn, job, formation.members)\n",
        "",
        among="ISOLATE",
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
        "a short batch is cut as if all were whole",
        SHARDS,
        "range(shard * batch // shards, (shard + 1) * batch // shards)",
        "range(shard * (batch // shards), (shard + 1) * (batch // shards))",
    ),
    Bug(
        "who is late at a boundary has no time once the first is there",
        ROUNDS,
        "began = max(watch.since, watch.answered) if asked.boundary else watch.since",
        "began = watch.since",
    ),
    # members that cannot reach each other
    Bug(
        "those that reach the leader go",
        SEVERED,
        "    if 2 * len(away) > len(members)",
        "    away = {*members} - {*away, leader} if away else away\n    if 2 * len(away) > len(members)",
        among="SEVER",
    ),
    Bug(
        "a shard that failed is tried by the same worker",
        REGROUP,
        "owners=_owners(job, members, base.version.step),",
        "owners=assign(job.spec.shard_count, len(members)),",
    ),
    Bug(
        "who was apart is apart though all formed together",
        SEVERED,
        "severed=frozenset(), resting=resting)",
        "resting=resting)",
        among="SEVER",
    ),
)
