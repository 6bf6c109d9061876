"""When faults strike: those of the plan, at their times and borders, in a life.

Owns: which faults are armed, which last at the moment, and what was met: each kind with each phase of a job and with
what was under way, and pairs that overlapped.
Refuses to know: why these faults (`plan`), what each does to whom it strikes (`strikes`), and what follows.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from regroup.lab.sim.lives.plan import LASTING, OF_ALL, Fault, Kind
from regroup.lab.sim.lives.strikes import can_strike, strike, undo
from regroup.lab.sim.lives.underway import Activity, under_way
from regroup.lab.sim.model.limits import NAMES

if TYPE_CHECKING:
    from regroup.lab.sim.lives.life import Life

# Users', and what is no harm to anybody else.
GENTLE = frozenset(
    {Kind.STOP, Kind.STOP_NOW, Kind.PAUSE, Kind.HOLD, Kind.MISTAKE, Kind.DIVERGE, Kind.LAG, Kind.UNDELETABLE}
)
DOOMS = frozenset({Kind.CRASH_UNSAVED, Kind.CRASH_UNSENT, Kind.STORE_CRASH})  # they wait for a save


class Faults:
    def __init__(self, life: "Life") -> None:
        self._life = life
        self._armed: list[Fault] = []  # they wait for their border
        self._lasting: list[tuple[Fault, tuple[str, ...]]] = []  # and the workers that each strikes
        self._kinds: frozenset[Kind] = frozenset()  # of those
        self._dooms: dict[Kind, Fault] = {}
        self._over = False
        self._was: dict[tuple[Kind, str], float] = {}  # when each was last there, by whom it struck; "": anybody
        self._harmed = 0.0
        self._to_come = len(life.plan.faults)
        self.severed: dict[tuple[str, str], float] = {}  # pairs of workers -> when there was last no way between them
        self.lagged: set[str] = set()  # workers that were slow at some time
        self.met: Counter[tuple[Kind, str]] = Counter()  # (kind, a job's phase)
        self.during: Counter[tuple[Kind, frozenset[Activity]]] = Counter()
        self.pairs: Counter[tuple[Kind, Kind]] = Counter()  # (kind, another that lasts), in the order of their names

    def begin(self) -> None:
        for fault in self._life.plan.faults:
            self._life.loop.call_later(fault.at, self._arm, fault)

    def end(self) -> None:
        """All that lasts is over, and nothing strikes any more."""
        self._over = True
        for fault in self._armed:
            self._strikes_nobody(fault, f"nobody came to '{fault.border}'")
        self._armed.clear()
        self._dooms.clear()
        for fault, struck in list(self._lasting):
            self._lift(fault, struck)
        self._life.stir()

    def border(self, name: str, worker: str | None) -> None:
        """Something reached a border: what waited for it strikes, mostly whoever stands there."""
        for fault in [one for one in self._armed if one.border == name]:
            self._armed.remove(fault)
            struck = _struck(fault)
            if fault.arrival:
                left = fault.arrival - (worker == struck[0])
                if left:
                    self._armed.append(replace(fault, arrival=left))
                    continue
            elif worker is not None and can_strike(self._life, fault.kind, worker) and self._life.dice.random() < 0.7:
                struck = (worker, *(one for one in struck[1:] if one != worker))
            self._life.loop.call_soon(self._strike, fault, struck)

    # --- what lasts

    @property
    def pending(self) -> bool:
        """Whether anything goes wrong at the moment, or will."""
        return not self._over and bool(self._to_come or self._armed or self._lasting)

    @property
    def harmed(self) -> float:
        """When anything last went wrong: now, if it still does."""
        return self._life.now if self._kinds - GENTLE else self._harmed

    def lasts(self, kind: Kind, worker: str | None = None) -> bool:
        if kind not in self._kinds:
            return False
        return worker is None or any(fault.kind is kind and worker in struck for fault, struck in self._lasting)

    def last(self, kinds: Sequence[Kind], worker: str | None = None) -> float:
        """When one of these was last there, for this worker or for anybody: now, if one lasts; -inf, if none was."""
        if any(self.lasts(kind, worker) for kind in kinds):
            return self._life.now
        return max((self._was.get((kind, worker or ""), -inf) for kind in kinds), default=-inf)

    def severs(self, one: str, other: str) -> bool:
        """Whether there is no way between these two: those that a fault strikes reach each other, and nobody else."""
        if Kind.SEVER not in self._kinds:
            return False
        return any(
            fault.kind is Kind.SEVER and (one in struck) is not (other in struck) for fault, struck in self._lasting
        )

    def dooms(self, kind: Kind) -> bool:
        """Whether the coordinator, or the store, dies here; once."""
        fault = self._dooms.pop(kind, None)
        if fault is not None:
            self._life.story.tell(self._life.now, "FAULT", f"{kind}, now")
            self._count(kind)
            self._remember(kind, ())
            if kind in LASTING:
                self._begin(fault, ())
        return fault is not None

    def loses(self, worker: str, up: bool) -> bool:
        """Whether a message of this worker, or to it, is lost."""
        if not self._lasting:
            return False
        one_way = Kind.SILENCE if up else Kind.DEAFEN
        if self.lasts(Kind.ISOLATE, worker) or self.lasts(one_way, worker):
            return True
        return self.lasts(Kind.LOSSY) and self._life.dice.random() < 0.3

    def doubles(self) -> bool:
        """Whether a message arrives twice."""
        return self.lasts(Kind.DOUBLING) and self._life.dice.random() < 0.3

    def delay(self) -> float:
        """Seconds that a message travels."""
        most = 1.5 if self.lasts(Kind.SLOW) else 0.8 if self.lasts(Kind.JUMBLED) else 0.008
        return self._life.dice.uniform(0.0005, most)

    # --- striking

    def _arm(self, fault: Fault) -> None:
        self._to_come -= 1
        if self._over:
            return
        if fault.border is not None:
            self._armed.append(fault)
        else:
            self._strike(fault, _struck(fault))

    def _strike(self, fault: Fault, workers: tuple[str, ...]) -> None:
        life = self._life
        struck = tuple(worker for worker in workers if can_strike(life, fault.kind, worker))
        if self._over:
            return
        if not struck:
            self._strikes_nobody(fault, "nobody is there for it")
            return
        who = "cluster" if fault.kind in OF_ALL else ", ".join(struck)
        life.story.tell(life.now, "FAULT", f"{fault.kind}: {who}" + (f", {fault.seconds:g} s" if fault.seconds else ""))
        if fault.kind in DOOMS:  # at a save to come
            self._dooms[fault.kind] = fault
            return
        self._count(fault.kind)
        self._remember(fault.kind, struck)
        if fault.kind in LASTING:
            self._begin(fault, struck)
        for worker in struck:
            strike(life, fault.kind, life.agents[worker])
            life.read_soon(life.agents[worker])
        life.stir()

    def _strikes_nobody(self, fault: Fault, why: str) -> None:
        self._life.story.tell(self._life.now, "FAULT", f"{fault.kind}: {why}")

    def _count(self, kind: Kind) -> None:
        """What it meets; before anything is done, because that changes it."""
        for job in self._life.jobs.values():
            self.met[kind, str(job.phase)] += 1
        self.during[kind, under_way(self._life)] += 1
        for other, _ in self._lasting:
            first, second = sorted((kind, other.kind))
            self.pairs[first, second] += 1

    def _remember(self, kind: Kind, workers: tuple[str, ...]) -> None:
        if kind not in GENTLE:
            self._harmed = self._life.now
        self._was |= {(kind, one): self._life.now for one in ("", *(() if kind in OF_ALL else workers))}

    def _begin(self, fault: Fault, struck: tuple[str, ...]) -> None:
        self._lasting.append((fault, struck))
        self._kinds |= {fault.kind}
        if fault.kind is Kind.LAG:
            self.lagged.update(struck)
        if fault.kind is Kind.SEVER:
            names = self._life.agents
            self.severed |= {(a, b): inf for a in names for b in names if (a in struck) is not (b in struck)}
        self._life.loop.call_later(fault.seconds, self._lift, fault, struck)

    def _lift(self, fault: Fault, struck: tuple[str, ...]) -> None:
        if (fault, struck) not in self._lasting:
            return
        self._lasting.remove((fault, struck))
        self._remember(fault.kind, struck)
        self._kinds = frozenset(other.kind for other, _ in self._lasting)
        now = self._life.now
        self.severed = {pair: until if self.severs(*pair) else min(until, now) for pair, until in self.severed.items()}
        self._life.story.tell(self._life.now, "FAULT", f"{fault.kind} is over")
        undo(self._life, fault.kind, struck)
        self._life.stir()


def _struck(fault: Fault) -> tuple[str, ...]:
    return tuple(NAMES[number] for number in fault.workers)
