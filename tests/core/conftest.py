"""A coordinator in the test's hand: events in, decisions out, and workers that answer as a healthy trainer would."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from regroup.core.cluster import Cluster, Policy
from regroup.core.decide import Decision, decide
from regroup.core.jobs import Checkpoint, Fingerprint, Job, Member, Version
from regroup.core.messages.agent_reports import AgentRegistered, Heartbeat, TrainerExited
from regroup.core.messages.commands import SubmitJob
from regroup.core.messages.events import Disconnected, Event, Report, Reported, Tick
from regroup.core.messages.orders import Order
from regroup.core.messages.trainer_reports import GroupBroke, StateSaved, StepFailed
from regroup.core.notes import Note
from regroup.core.spec import JobSpec
from regroup.core.workers import TrainerPhase, TrainerStatus

PRINT = Fingerprint("code", "data", 100)
POLICY = Policy(
    detached_limit=60.0,
    detached_margin=5.0,
    leader_lease=2.0,
    halt_limit=4.0,
    form_limit=6.0,
    absent_limit=10.0,
    save_retry=1.0,
    read_retry=3.0,
)


class Scene:
    """Most of its workers have names of one letter: "ab" are two. Where they have longer ones, `names` is a list."""

    def __init__(self, **policy: Any) -> None:
        self.policy = replace(POLICY, **policy)
        self.now = 100.0
        self.cluster = Cluster(started=self.now)
        self.orders: list[tuple[str, Order]] = []  # of the last event
        self.notes: list[Note] = []  # of all events
        self.sequence = 0

    # --- events

    def does(self, event: Event) -> Decision:
        decision = decide(self.cluster, event, self.now, self.policy)
        self.cluster, self.orders = decision.cluster, list(decision.orders)
        self.notes += decision.notes
        return decision

    def says(self, name: str, report: Report) -> Decision:
        return self.does(Reported(name, report))

    def after(self, seconds: float, heard: str = "") -> Decision:
        """Time passed, and the coordinator looks. `heard` as in `passes`."""
        self.passes(seconds, heard)
        return self.does(Tick())

    def passes(self, seconds: float, heard: str) -> None:
        """`heard`: the workers whose agents spoke all the while, whatever their trainers do."""
        self.now += seconds
        known = self.cluster.sightings
        spoke = {name: replace(known[name], seen=self.now, told=True) for name in heard}
        self.cluster = replace(self.cluster, sightings={**known, **spoke})

    def submit(self, job: str = "j", **spec: Any) -> None:
        asked = {"task": "digits", "steps": 10, "global_batch": 8, "shards": 4, "max_workers": 2, **spec}
        self.does(SubmitJob(job, JobSpec(**asked), 0.0))

    def register(self, *names: str, boot: str = "b1") -> None:
        """A new agent says in the same breath that it has no trainer; one that is known only connects again."""
        for name in names:
            known = self.cluster.workers.get(name)
            self.says(name, AgentRegistered(boot=boot, device="cpu", host="h", pid=1, version="1"))
            if known is None or known.boot != boot:
                self.beat(name)

    def restart(self) -> None:
        """The coordinator is gone, and another one begins with what was durable."""
        self.cluster = Cluster(started=self.now, jobs=self.cluster.jobs, workers=self.cluster.workers)

    # --- workers

    def beat(
        self,
        name: str,
        phase: TrainerPhase | None = None,
        incarnation: str = "i1",
        left: tuple[TrainerStatus, ...] = (),
        **facts: Any,
    ) -> Decision:
        """A heartbeat; without a phase, no trainer runs. `left`: last words of those that ended."""
        self.sequence += 1
        trainer = None
        if phase is not None:
            known = {"fingerprint": PRINT, "job": "j", "store": f"{name}:1/{facts.get('promised', 0)}"} | facts
            if phase is TrainerPhase.PREPARING:
                known["fingerprint"] = None
            trainer = TrainerStatus(incarnation=incarnation, phase=phase, **known)
        boot = self.cluster.workers[name].boot
        return self.says(name, Heartbeat(boot=boot, sequence=self.sequence, trainer=trainer, left=left))

    def prepare(self, *names: str, incarnation: str = "i1", **facts: Any) -> None:
        for name in names:
            self.beat(name, TrainerPhase.PREPARED, incarnation, **facts)

    def halt(self, names: Iterable[str], version: tuple[int, int] | None, incarnation: str = "i1") -> None:
        """They hold this state and wait, one after the other, each in the round that is under way by then."""
        state = Version(*version) if version else None
        facts = {"generation": state.generation if state else 0, "version": state}
        for name in names:
            self.beat(name, TrainerPhase.HALTED, incarnation, promised=self.job.generation, **facts)

    def train(self, names: Iterable[str], step: int | None = None, incarnation: str = "i1", evaluated: int = 0) -> None:
        """They train in the last formation and committed `step` steps; by default they just formed."""
        for name in names:
            formation = self.job.formation
            assert formation is not None
            n = formation.generation
            version = Version(n, formation.base.step if step is None else step)
            facts = {"promised": n, "generation": n, "version": version, "evaluated": evaluated}
            self.beat(name, TrainerPhase.TRAINING, incarnation, **facts)

    def saved(self, name: str, version: tuple[int, int], generation: int | None = None) -> Decision:
        checkpoint = Checkpoint(Version(*version), "/c/j", "sum", 1)
        n = self.job.generation if generation is None else generation
        return self.says(name, StateSaved(job="j", incarnation="i1", generation=n, checkpoint=checkpoint))

    def exits(
        self,
        name: str,
        incarnation: str = "i1",
        cause: str = "killed by SIGKILL",
        asked: bool = False,
        job: str = "j",
        **where: int,
    ) -> Decision:
        """Its trainer is gone; `where`: the step and the shard whose passes ran."""
        return self.says(name, TrainerExited(job=job, incarnation=incarnation, cause=cause, asked=asked, **where))

    def breaks(self, name: str, generation: int, incarnation: str = "i1") -> Decision:
        reason = "a neighbour is gone"
        return self.says(name, GroupBroke(job="j", incarnation=incarnation, generation=generation, reason=reason))

    def raises(
        self, name: str, generation: int = 1, step: int = 3, shard: int = 2, incarnation: str = "i1"
    ) -> Decision:
        """The task's own code raised in its trainer."""
        where = {"generation": generation, "step": step, "shard": shard}
        error, traceback = "ValueError: bad sample", "Traceback ...\nValueError: bad sample"
        return self.says(name, StepFailed(job="j", incarnation=incarnation, **where, error=error, traceback=traceback))

    def finished(self, *names: str) -> None:
        """A job j of ten steps, all committed, whose state is about to be saved."""
        self.running(*names)
        n = self.job.generation
        for name in names:
            self.beat(name, TrainerPhase.FINISHED, promised=n, generation=n, version=Version(n, 10))
        self.halt(names, (1, 10))
        assert self.job.saver is not None

    def parted(self) -> None:
        """a and b train to step 3 of a job j; then b is cut off, and a is to go on alone in generation 2."""
        self.running("a", "b", min_workers=1)
        self.train("ab", 3)
        self.does(Disconnected("b"))
        self.breaks("a", 1)
        self.halt("a", (1, 3))
        assert self.members == ["a"]

    def lost_behind(self, gone: str, leads: str, more: str) -> None:
        """One that trains alone is cut off for as long as rule 7 takes; two newcomers go on from what is durable, the
        first of them before the other one is prepared."""
        there = leads + more
        self.does(Disconnected(gone))
        self.register(leads, more)
        self.after(1, heard=there)
        self.prepare(leads)
        self.after(self.policy.detached_limit + self.policy.detached_margin + 1, heard=there)
        self.halt(leads, None)
        self.after(self.policy.halt_limit + 0.1, heard=there)
        assert self.members == [leads]
        self.after(0.2, heard=there)
        self.prepare(more)

    def left_behind(self, gone: str, others: str, step: int) -> None:
        """All hold step 3 of generation 1; this one is cut off, and the others go on without it to `step`."""
        self.does(Disconnected(gone))
        self.breaks(others[0], 1)
        self.halt(others, (1, 3))
        self.train(others, step)

    def forms(self, names: str, generation: int) -> None:
        """They halt with step 3 of generation 1, and are to form this one."""
        self.halt(names, (1, 3))
        facts = {"promised": generation, "generation": generation, "version": Version(1, 3)}
        for name in names:
            self.beat(name, TrainerPhase.FORMING, **facts)

    def unanswered(self) -> None:
        """a and b train to step 3 of a job j; b does not answer the next round, is heard all the while, and evicted."""
        self.running("a", "b", min_workers=1, step=3)
        self.passes(self.policy.halt_limit, heard="ab")
        self.breaks("a", 1)
        self.halt("a", (1, 3))
        self.after(self.policy.halt_limit + 0.1, heard="ab")
        assert [note.worker for note in self.noted("evicted")] == ["b"]

    def holds_on(self, name: str) -> None:
        """It says again that its group of generation 1 broke after step 3, which it holds."""
        self.beat(name, TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, 3))

    def running(self, *names: str, step: int | None = None, **spec: Any) -> None:
        """A job j that these workers train, all of them in generation 1, also if fewer could."""
        asked = {"min_workers": len(names), "max_workers": len(names), **spec}
        self.submit(**{**asked, "min_workers": len(names)})
        self.register(*names)
        self.prepare(*names)
        self.halt(names, None)
        self.train(names, step)
        settled = replace(self.job, spec=replace(self.job.spec, min_workers=asked["min_workers"]))
        self.cluster = replace(self.cluster, jobs={**self.cluster.jobs, "j": settled})
        assert self.members == sorted(names)

    # --- what came of it

    @property
    def job(self) -> Job:
        return self.cluster.jobs["j"]

    @property
    def members(self) -> list[str]:
        return [member.worker for member in self.job.formation.members] if self.job.formation else []

    def told(self, name: str, kind: type) -> list[Any]:
        return [order for worker, order in self.orders if worker == name and isinstance(order, kind)]

    def noted(self, kind: str) -> list[Note]:
        return [note for note in self.notes if note.kind == kind]

    def dead(self, name: str, incarnation: str = "i1") -> bool:
        watch = self.cluster.watches.get("j")
        return watch is not None and Member(name, incarnation) in watch.dead


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def make_scene() -> type[Scene]:
    return Scene
