"""Members that cannot reach each other, as some of them said, and which of them the others go on without.

Owns: what was said since the members last formed together, which side stays, and how long who went is left alone: it
is taken in again by a regroup that costs the others an attempt, so each is later than the one before.
Refuses to know: how they tried, and when somebody is given up (`suspicion`).
Does not guarantee: that who goes is at fault. Of two sides of one size nobody knows which one is cut off; and whoever
says nothing counts among those that were reached.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from math import inf

from regroup.core.cluster import Answer, Rest
from regroup.core.jobs import Formation, Job, Member
from regroup.core.messages.trainer_reports import PeersUnreached
from regroup.core.turn import Turn

LONGEST = 600.0  # seconds between two attempts

Pair = tuple[Member, Member]  # who said it, and whom it did not reach


def take_in(turn: Turn, job: Job, member: Member, report: PeersUnreached) -> None:
    """Kept until all form together: it stays true of a later formation of the same trainers."""
    members = job.formation.members if job.formation is not None else ()
    pairs = {(member, peer) for peer in report.peers if peer in members and peer != member}
    before = turn.watch(job.id).severed
    if not turn.watch(job.id).formed.isdisjoint((member, *report.peers)):
        return  # told late: who formed has reached all
    if member in members and not pairs <= before:
        turn.change_watch(job.id, severed=before | pairs)
        names = ", ".join(sorted(peer.worker for _, peer in pairs))
        reason = f"{member.worker} cannot reach {names}"
        turn.note("unreached", reason, job=job.id, worker=member.worker, generation=report.generation)


def let_rest(turn: Turn, job: Job, worker: str, unreached: Iterable[str] = ()) -> None:
    resting = turn.watch(job.id).resting
    times = resting[worker].times + 1 if worker in resting else 1
    until = turn.now + min(turn.policy.form_limit * 2.0 ** min(times - 1, 16), LONGEST)
    turn.change_watch(job.id, resting={**resting, worker: Rest(times, until, frozenset(unreached), turn.now)})


def apart(turn: Turn, job: Job, names: Collection[str]) -> frozenset[str]:
    """Those of them without whom none is left that could not reach another one, by what was found since they all formed
    together: first the one that most of them are apart from. Two that were each tried with it have never met."""
    resting = turn.watch(job.id).resting
    pairs = {frozenset((one, other)) for one, rest in resting.items() for other in rest.unreached}
    pairs = {pair for pair in pairs if pair <= {*names}}
    found = set[str]()
    while pairs:
        times = Counter(one for pair in pairs for one in pair)
        odd = max(times, key=lambda one: (times[one], one in resting, one))
        found.add(odd)
        pairs = {pair for pair in pairs if odd not in pair}
    return frozenset(found)


def rests(turn: Turn, job: Job, worker: str) -> bool:
    rest = turn.watch(job.id).resting.get(worker)
    return rest is not None and turn.now < rest.until


def soon_again(turn: Turn, job: Job, answers: Mapping[Member, Answer], formation: Formation) -> str:
    """Why these wait before they form this, if they do: they need somebody whom others could not reach, or who did not
    answer, a moment ago. Each try in vain costs a trainer, and whoever lost its own cannot be tried with the others."""
    leader = formation.members[formation.leader]  # who is to go may lead once more
    stay = {one: said.version for one, said in answers.items() if one == leader or not turn.workers[one.worker].departs}
    away = sorted(one.worker for one, version in stay.items() if version is None and rests(turn, job, one.worker))
    last = max((rest.since for rest in turn.watch(job.id).resting.values()), default=-inf)
    few = away and 0 < len(stay) - len(away) < job.needs
    if not few or turn.waited(last) > turn.policy.form_limit:
        return ""
    return f"the others need {', '.join(away)}, and did not reach it, or had no answer: they soon try again"


def left_alone(turn: Turn, job: Job) -> frozenset[str]:
    """Those for whom nobody gives up a place: each was tried in vain, and the more there are, the later again. Else
    they would take turns in stopping those that train."""
    resting = turn.watch(job.id).resting
    later = LONGEST * len(resting)
    return frozenset(name for name, rest in resting.items() if turn.now < rest.until + later)


def formed_together(turn: Turn, job: Job) -> None:
    """All members reached each other."""
    watch, formation = turn.watch(job.id), job.formation
    names = {member.worker for member in formation.members} if formation is not None else set()
    resting = {name: rest for name, rest in watch.resting.items() if name not in names}
    turn.change_watch(job.id, severed=frozenset(), resting=resting)


def odd_ones(formation: Formation, severed: Collection[Pair], holders: Collection[Member]) -> dict[Member, str]:
    """Without whom nobody is left that cannot reach another, as far as was said; and why each.

    All meet at the leader, so those that cannot reach it go, if they are not most, and else the leader, unless it
    alone holds the state. Of other pairs the one goes that is in most of them.
    """
    members = formation.members
    leader = members[formation.leader]
    pairs = [pair for pair in severed if pair[0] in members and pair[1] in members]
    away = {one for pair in pairs if leader in pair for one in pair if one != leader}
    if 2 * len(away) > len(members) and (not holders or not away.isdisjoint(holders)):
        return {leader: f"{len(away)} of {len(members)} members cannot reach it"}
    if away:
        return dict.fromkeys(away, f"it cannot reach {leader.worker}, as others can")
    times = Counter(one for pair in {frozenset(pair) for pair in pairs} for one in pair)
    if not times:
        return {}
    odd = max(times, key=lambda one: (times[one], one not in holders, one))
    others = sorted(one.worker for pair in pairs if odd in pair for one in pair if one != odd)
    return {odd: f"it and {', '.join(dict.fromkeys(others))} cannot reach each other"}
