"""The training loop: for each generation join, hold the leader's state, and step until somebody says halt.

Owns: the order of things within a step. Read it top to bottom.
Refuses to know: the coordinator, other jobs, whether a Halt is right; it asks the session (through `control`) whether
it may form, contribute and apply, and leaves the moment that the answer is no.
Does not guarantee: anything after its process dies; what it applied is in its records, and the others hold the state.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from regroup.core.jobs import IN_LOAD, IN_STATE, Formation, Member, StepPoint, Version
from regroup.core.messages.trainer_reports import PeersUnreached, ReplicasDiffered
from regroup.core.replicas import sound
from regroup.core.shards import owned
from regroup.core.spec import JobSpec
from regroup.core.workers import LoopPhase
from regroup.worker.beside import Beside
from regroup.worker.control import Control
from regroup.worker.data import DataFailed, Loader, StepData, Superseded, draw_seed
from regroup.worker.forming import Forming
from regroup.worker.group import Group, GroupBroken
from regroup.worker.happenings import (
    CollectiveBroke,
    Join,
    LastStepDone,
    LoopFailed,
    StateDiscarded,
    StateHeld,
    TaskPrepared,
    Write,
)
from regroup.worker.log import log
from regroup.worker.measuring import Measuring
from regroup.worker.nursery import Birth
from regroup.worker.position import Position
from regroup.worker.prepare import USERS, Bench
from regroup.worker.pulse import Pulse
from regroup.worker.records import Records
from regroup.worker.reduce import Interrupted
from regroup.worker.saving import Saving
from regroup.worker.state import State
from regroup.worker.storage import Storage
from regroup.worker.tail import Tail
from regroup.worker.transfer import give, take
from regroup.worker.trouble import Raised, Trouble
from regroup.worker.waiting import Waiting

FORM_TIMEOUT = 10.0  # seconds; the coordinator's own limit for forming is above it
DIGEST_EVERY = 100  # steps between comparisons of the replicas; the first step of a generation always compares


@dataclass(frozen=True, slots=True)
class _Breaker:
    """What the step loop may be blocked in: a collective, or a dataset that is slow."""

    forming: Forming
    loader: Loader

    def break_(self) -> None:
        self.forming.break_()
        self.loader.revoke()


class Trainer:
    def __init__(
        self, job: str, spec: JobSpec, birth: Birth, control: Control, bench: Bench, records: Records, pulse: Pulse
    ) -> None:
        self.job, self.spec, self.birth, self.control, self.records = job, spec, birth, control, records
        self.pulse = pulse
        self.bench, self.task, self.replica, self.exchange = bench, bench.task, bench.replica, bench.exchange
        self.group: Group | None = None
        self.position = Position(birth.position)
        bench.loader.fetching = pulse.fetching
        # sooner than the coordinator gives up, so that it hears why
        storage = Storage(birth.checkpoints, birth.scratch, patience=0.9 * spec.step_timeout)
        storage.tidy()
        self.state = State(job, spec, bench.replica, bench.evaluation, storage)
        self.trouble = Trouble(job, birth.incarnation, self.replica, self.position)
        self.measuring = Measuring(spec, control, bench, self.state, pulse, self.trouble)
        self.saving = Saving(job, birth.incarnation, control, bench, self.state, pulse, self.trouble)
        self.beside = Beside(
            spec.checkpoint_every, self.state.write, self.saving.wrote_beside, self.saving.failed_beside
        )

    def run(self) -> NoReturn:
        """Do what the session was ordered to, one thing after another, for ever."""
        self.control.happened(TaskPrepared(self.bench.fingerprint))
        while True:
            self.pulse.enter(LoopPhase.IDLE, whole=False)
            task = self.control.next_task()
            self._leave_group()
            if isinstance(task, Join):
                self._train(task.formation, task.steps)
            else:
                self._save(task)

    # ----- one generation

    def _train(self, formation: Formation, steps: int) -> None:
        generation = formation.generation
        self.measuring.begin(steps, formation.micro_batch)
        try:
            group = self._connect(formation)
            self.pulse.enter(LoopPhase.LOADING)
            self._hold_state(formation, group)
            self.bench.loader.own(owned(formation.owners, group.rank), self.replica.step, steps, formation.micro_batch)
            first = True
            while self.control.trains_in(generation):
                # once in a while: evaluate the state that everybody holds
                self.measuring.together(formation, group)
                if self.replica.step >= steps:
                    self.control.happened(LastStepDone(generation))
                    return
                # once in a while: a checkpoint, which the step loop waits for no longer than its copy takes
                if group.rank == formation.leader and (not first or formation.base_in_memory):
                    self._copy_if_due(formation.base if first else Version(generation, self.replica.step))
                # otherwise: one step
                self.pulse.enter(LoopPhase.FIRST_BATCH if first else LoopPhase.DATA)
                self._step(formation, group, steps, compare=first or self.replica.step % DIGEST_EVERY == 0)
                first = False
            self.control.happened(CollectiveBroke(generation, "a neighbour closed its connection"))
        except (GroupBroken, Interrupted, Superseded) as broken:
            self.control.happened(CollectiveBroke(generation, str(broken)))
        except Raised as raised:
            self.control.happened(LoopFailed(raised.report, raised.torn))
        finally:
            self.position.leave()
            self._forget_step(generation)

    def _forget_step(self, generation: int) -> None:
        """What a step that was left has moved goes back. Where a task made that impossible, the state is torn."""
        try:
            with self.trouble.told(generation, torn=True):
                self.bench.moving.restore()
        except Raised as raised:
            self.control.happened(LoopFailed(raised.report, raised.torn))

    def _copy_if_due(self, version: Version) -> None:
        if self.beside.due(version, self.control.may_write(version.generation)):
            with self.pulse.within(LoopPhase.COPY), self.trouble.outside():  # it may not fit in memory twice
                self.beside.take(version, self.saving.tree)

    def _connect(self, formation: Formation) -> Group:
        generation, members = formation.generation, formation.members
        rank = members.index(Member(self.birth.worker, self.birth.incarnation))
        self.pulse.enter(LoopPhase.FORMING)
        # An honest slow step must not break the group: the coordinator suspects first, and says halt.
        patience = 3 * self.spec.step_timeout
        host = self.birth.host

        def unreached(ranks: Sequence[int]) -> None:
            who = {"job": self.job, "incarnation": self.birth.incarnation}
            self.control.say(PeersUnreached(**who, generation=generation, peers=tuple(members[one] for one in ranks)))

        forming = Forming(
            formation.store,
            rank,
            len(members),
            host=host,
            timeout=FORM_TIMEOUT,
            patience=patience,
            leader=formation.leader,
            on_unreached=unreached,
        )
        if not self.control.hold(_Breaker(forming, self.bench.loader), generation):
            forming.break_()
        self.group = group = Waiting(forming.group(), self.pulse)
        group.watch(lambda reason: self.control.neighbour_lost(generation, reason))
        self.exchange.join(group)
        self.exchange.interrupted = lambda: self.control.interrupted(generation)
        return group

    def _hold_state(self, formation: Formation, group: Group) -> None:
        """Rules 4 and 5: the leader keeps its state; whoever differs takes it, beside its own, and swaps at the end."""
        generation, receivers = formation.generation, formation.receivers
        if group.rank == formation.leader and formation.checkpoint is not None:
            try:
                with self.trouble.outside(IN_LOAD, formation.base.step):
                    tree = self.state.read(formation.checkpoint, first=formation.base.generation == 0)
            except USERS as error:
                raise self.trouble.unreadable(generation, formation.checkpoint, error) from error
            if receivers:
                give(group, tree, receivers)
            self._swap_in(formation, tree)
        elif group.rank == formation.leader:
            if formation.base.generation == 0:
                with self.trouble.told(generation), self.trouble.outside():
                    self.state.reset()
            if receivers:
                with self.trouble.told(generation, IN_STATE):
                    tree = self.saving.tree()
                with self.trouble.told(generation):
                    give(group, tree, receivers)
        elif group.rank in receivers:
            step = formation.base.step  # there it may be too large for this machine
            with self.trouble.told(generation, IN_LOAD, step=step), self.trouble.outside(IN_LOAD, step):
                tree = take(group, formation.leader)
            self._swap_in(formation, tree)
        self.control.happened(StateHeld(formation.generation))
        leads, own = group.rank == formation.leader, group.rank not in receivers and formation.checkpoint is None
        self.control.begin_telling(leads, self.replica.step, own)

    def _swap_in(self, formation: Formation, tree: Mapping[str, Any]) -> None:
        """No collective may follow before StateHeld: until then no Halt is answered."""
        generation, step = formation.generation, formation.base.step  # the replica's own is an older one, or none
        if not self.control.begin_load(generation):
            raise Interrupted(f"generation {generation} is over")
        with self.trouble.told(generation, IN_LOAD, torn=True, step=step), self.trouble.outside(IN_LOAD, step):
            self.state.load(tree)

    # ----- one step

    def _step(self, formation: Formation, group: Group, steps: int, compare: bool) -> None:
        generation, step, started = formation.generation, self.replica.step, time.perf_counter()
        try:
            with self.trouble.outside():  # a sample may end the process in the loader's thread
                data = self.bench.loader.take(step)
        except DataFailed as error:
            raise self.trouble.raised(generation, error.shard, error.__cause__ or error) from error
        # written down before any gradient is given away
        with self.trouble.told(generation):
            self.records.read(generation, step, ((read.epoch, read.shard, read.indices) for read in data.reads))
        self.pulse.enter(LoopPhase.COMPUTE)
        digest = self._digest(generation) if compare else 0
        weight, loss = self._gradients(generation, data)
        self.pulse.enter(LoopPhase.EXCHANGE, whole=False)  # what the last pass left over is none
        own = Tail.of(
            group.rank, self.spec.max_workers, weight=weight, loss=loss, flag=self.control.flag(), digest=digest
        )
        with self.trouble.told(generation):  # a gradient may be of a kind or a shape that is not covered
            summed = self.exchange.finish(torch.tensor(own.slots(), dtype=torch.float64))
        total = Tail.read(summed.tolist(), self.spec.max_workers)
        if compare and total.differing(group.size):
            self._differ(formation, group, total)
            return
        # from here on nothing in place has been done with the gradient, and the session may still say no
        self.pulse.enter(LoopPhase.LEASE)
        if not self.control.begin_apply(generation):
            return
        self.pulse.enter(LoopPhase.OPTIMIZER)
        self._apply(generation, total)
        mean = total.loss * self.replica.nominal_weight / total.weight if total.weight > 0 else None
        try:
            self.records.applied(generation, step, mean, total.weight)
        except OSError as error:  # the state has changed already; the audit will miss this line and say so
            log(error)
        agreed = total.agreed(group.size)
        if agreed is not None:
            agreed = generation + agreed if self.replica.step < steps else None
        self.control.applied(self.replica.step, self._point(data, mean, total.weight, started), agreed)

    def _digest(self, generation: int) -> int:
        """Of the replica. A module may tell more of its state than tensors, by code of its own."""
        with self.trouble.told(generation), self.trouble.outside():
            return self.replica.digest()

    def _gradients(self, generation: int, data: StepData) -> tuple[float, float]:
        """Forward and backward of every pass. Returns the weight, and the loss divided by the nominal weight."""
        weight, loss, seconds = 0.0, torch.zeros((), dtype=torch.float64), 0.0
        with self.trouble.told(generation):
            self.exchange.begin()
            self.bench.moving.start()
        for number, one in enumerate(data.passes):
            last = number + 1 == len(data.passes)
            self.position.enter(data.step, one.shard)
            if self.control.interrupted(generation):
                raise Interrupted(f"generation {generation} is over")
            with self.trouble.told(generation, one.shard):
                torch.manual_seed(draw_seed(self.spec.seed, data.epoch, data.step, one.shard, one.number))
                summed, pass_weight = self.task.loss(self.replica.model, one.batch)
                if not 0 <= pass_weight < float("inf"):
                    raise ValueError(f"loss() gave the weight {pass_weight}: it must be finite and not negative")
                scaled = summed / self.replica.nominal_weight
                if last:
                    self.exchange.expect_last_pass()
                scaled.backward()  # type: ignore[no-untyped-call]
                weight += float(pass_weight)
                loss += scaled.detach()
            seconds += self.pulse.enter(LoopPhase.COMPUTE)  # each pass by itself: how many there are may change
            if last or data.passes[number + 1].shard != one.shard:
                with self.trouble.told(generation, one.shard):  # a buffer may have gone, or changed its shape
                    self.bench.moving.end_shard(sum(p.samples for p in data.passes if p.shard == one.shard))
        self.position.leave()
        self.pulse.stepped(seconds, sum(one.samples for one in data.passes))
        return weight, float(loss)

    def _apply(self, generation: int, total: Tail) -> None:
        """The update, the same on every member: divide by the summed weight, clip, step. Weight 0 commits no update."""
        with self.trouble.told(generation, torn=True), self.trouble.outside():
            if total.weight > 0:
                self.exchange.scale(self.replica.nominal_weight / total.weight)
                if self.task.clip is not None:
                    self.exchange.clip(self.task.clip)
                self.replica.optimizer.step()
                self.exchange.apply_moving()
            if self.replica.scheduler is not None:
                self.replica.scheduler.step()
            self.replica.step += 1

    def _point(self, data: StepData, loss: float | None, weight: float, started: float) -> StepPoint:
        return StepPoint(
            step=data.step,
            loss=loss,
            weight=weight,
            samples=data.samples,
            seconds=time.perf_counter() - started,
            exchange_seconds=self.exchange.seconds,
        )

    def _differ(self, formation: Formation, group: Group, total: Tail) -> None:
        """Members' states are not the same bits: whoever differs from the sound one gives its own up."""
        digests = tuple(f"{digest:012x}" for digest in total.digests[: group.size])
        if group.rank == formation.leader:
            report = ReplicasDiffered(
                job=self.job,
                incarnation=self.birth.incarnation,
                generation=formation.generation,
                step=self.replica.step,
                digests=digests,
            )
            self.control.say(report)
        if digests[group.rank] != (kept := sound(digests, formation, self.replica.step)):
            reason = f"its digest {digests[group.rank]} is not {kept}, which is kept"
            self.control.happened(StateDiscarded(formation.generation, reason))
        else:
            self.control.happened(CollectiveBroke(formation.generation, "replicas differed"))

    # ----- the end

    def _save(self, task: Write) -> None:
        try:
            self.measuring.alone(task.generation)
        except Interrupted:
            return  # whoever is told to save next, ends it: what would be written here has no score
        self.control.begin_telling(True, self.replica.step)
        self.saving.save(task)

    # ----- small things

    def _leave_group(self) -> None:
        """Only now: at a boundary, others may have been reading the last sums until this order came."""
        if self.group is not None:
            self.exchange.join(None)
            self.group.close()
            self.group = None
