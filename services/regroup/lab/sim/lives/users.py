"""The users of a life: they submit jobs, stop and pause them, look after workers, and sometimes ask for what cannot be.

Owns: what is asked of which coordinator, and the rule that what was acknowledged is durable, and a mistake is refused.
Refuses to know: which of it a plan wants, and when (`faults`); what a decision makes of it.
"""

import asyncio
from collections.abc import Set
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from regroup.coordinator.persistence import EVENTS_KEPT, Saved, StoreUnavailable
from regroup.core.cluster import NoSuchJob, Refusal
from regroup.core.jobs import Job, JobPhase, Wanted
from regroup.core.messages.commands import (
    AdmitWorker,
    ClearWorker,
    Command,
    DrainWorker,
    PauseJob,
    ResumeJob,
    StopJob,
    SubmitJob,
)
from regroup.core.notes import Note
from regroup.core.spec import BeginFrom, JobSpec
from regroup.lab.sim.lives.mistakes import mistake
from regroup.lab.sim.model.likeness_rules import OTHER_DATA_WORDS

if TYPE_CHECKING:
    from regroup.lab.sim.lives.life import Life
    from regroup.lab.sim.lives.process import Process

PATIENCE = 2.0  # seconds until an answer is not waited for any more
AGAIN = 0.5  # seconds between two tries to submit a job
TWICE = 0.1  # of the jobs are submitted once more when they are known
UNLIKE = "from the other workers'"  # in the words of a refusal
_WAITS = (JobPhase.QUEUED, JobPhase.PREPARING, JobPhase.WAITING)


class Users:
    def __init__(self, life: "Life") -> None:
        self._life = life
        # Dice of their own, so that the others fall as they would without.
        self._begins = Random(f"{life.plan.seed} begins")
        self.dice = Random(f"{life.plan.seed} asks")
        self._free = asyncio.Event()  # the first job is over
        self._kept = asyncio.Event()  # it has a checkpoint, or will have none any more
        self._to_ask = 0  # what they will still ask for

    def begin(self) -> list["asyncio.Task[None]"]:
        life = self._life
        return [life.spawn(self._submit(f"j{number}", spec)) for number, spec in enumerate(life.plan.jobs)]

    @property
    def busy(self) -> bool:
        return self._to_ask > 0

    def look(self) -> None:
        """What they do about what they see; once in a while."""
        leader, first = self._life.leader, self._life.jobs.get("j0")
        if leader is not None:
            self._administer(leader)
        if first is not None and first.ended:
            self._free.set()
        if first is not None and (first.ended or first.checkpoint is not None):
            self._kept.set()

    # --- what they ask for

    def ask(self, command: Command) -> None:
        """A word to whoever leads, if anybody does."""
        if self._life.leader is not None:
            self._command(self._life.leader, command)

    def ask_later(self, seconds: float, command: Command) -> None:
        self._to_ask += 1
        self._life.later(seconds, self._ask_now, command)

    def ask_wrongly(self) -> None:
        """For what must be refused, with a reason."""
        life = self._life
        if life.leader is not None:
            command = mistake(self.dice, life.plan.jobs[0], life.jobs.get("j0"))
            life.spawn(self._say(life.leader, command, wrong=True))

    def _ask_now(self, command: Command) -> None:
        self._to_ask -= 1
        self.ask(command)

    def _administer(self, leader: "Process") -> None:
        """Clear workers in quarantine, some time later. Once all is well, jobs that can never go on are stopped."""
        life = self._life
        for name, worker in life.workers.items():
            if worker.quarantined and (life.healed or life.dice.random() < 0.1):
                self._command(leader, ClearWorker(name))
            if worker.drained and life.healed:
                self._command(leader, AdmitWorker(name))
        for job in life.jobs.values() if life.healed else ():
            if job.wanted in (Wanted.HOLD, Wanted.PAUSE):
                self._command(leader, ResumeJob(job.id))
            unlike = _unlike(job) if self._is_of_code(job) else set()
            able = life.agents.keys() - unlike - life.gone  # who is refused for anything else tries again
            lacks = len(able) < job.spec.min_workers or not self._may_be_read(job, able)
            if lacks and job.phase in _WAITS and job.wanted is Wanted.RUN:
                self._command(leader, StopJob(job.id))

    def _is_of_code(self, job: Job) -> bool:
        """Whether anything of its code and data is left, or may be: else it takes others, as they are now."""
        alive = any(one.job == job.id and one.session.fingerprint == job.fingerprint for one in self._life.trainers())
        silent = job.formation is not None and any(one.worker in self._life.gone for one in job.formation.members)
        return alive or silent or job.checkpoint is not None or job.beginning is not None

    def _may_be_read(self, job: Job, able: Set[str]) -> bool:
        """Whether one of these workers is on a machine where the file lies that the job is to begin from."""
        places = self._life.ghosts.places.get(job.latest.path, ()) if job.latest is not None else None
        return places is None or any(self._life.folder(name) in places for name in able)

    async def _submit(self, job: str, spec: JobSpec) -> None:
        life = self._life
        if job != "j0":  # others come while the first is under way, or when it is over
            wait = life.dice.choice((0.0, 4.0, 8.0, None))
            await (asyncio.sleep(wait) if wait is not None else self._free.wait())
        begins = life.plan.begins and job != "j0"
        if begins:
            await self._kept.wait()
        again = Random(f"{life.plan.seed} again {job}")
        twice = again.random() < TWICE
        while twice or job not in life.jobs:
            if job in life.jobs:
                twice = False
                await asyncio.sleep(again.uniform(0.0, 8.0))
            if life.leader is not None:
                asked = self._begun(spec) if begins else spec
                await self._say(life.leader, SubmitJob(job, asked, life.now))
            await asyncio.sleep(AGAIN)

    def _begun(self, spec: JobSpec) -> JobSpec:
        """A job that goes on from the first one's newest checkpoint, for some steps more."""
        newest = self._life.jobs["j0"].checkpoint
        if newest is None:
            return spec
        steps = newest.version.step + self._begins.choice((1, 4, spec.steps or 13))
        return replace(spec, begin_from=BeginFrom("j0"), steps=steps, epochs=None)

    # --- what becomes of it

    def _command(self, process: "Process", command: Command) -> None:
        self._life.spawn(self._say(process, command))

    async def _say(self, process: "Process", command: Command, wrong: bool = False) -> None:
        life = self._life
        assert process.shell is not None
        began = life.now
        try:
            async with asyncio.timeout(PATIENCE):
                await process.shell.command(command)
        except Refusal as refusal:
            life.reasons.add(str(refusal))
            assert process.store.kept >= began, f"{command} is refused by one that may have been overtaken"
            if isinstance(refusal, NoSuchJob) and process is life.leader:
                assert getattr(command, "job", "") not in life.store.holds.jobs, f"there is a job for {command}"
            return
        except (StoreUnavailable, TimeoutError):
            return  # whoever asked may ask again
        assert process.store.kept >= began, f"{command} is acknowledged by one that may have been overtaken"
        assert not wrong, f"nothing can be made of {command}, and it is acknowledged"
        # Another one may have gone on from what can be taken back.
        if process is life.leader or isinstance(command, SubmitJob | StopJob):
            done = _is_done(command, life.store.holds) or await self._was_cleared(command, began)
            assert done, f"{command} is acknowledged, and the store does not know it"

    async def _was_cleared(self, command: Command, since: float) -> bool:
        """Whether the timeline tells it: who was cleared may be quarantined anew in the same decision."""
        if not isinstance(command, ClearWorker):
            return False
        cleared = Note("cleared", f"{command.worker} was cleared by its operator", worker=command.worker)
        told = await self._life.store.events(limit=EVENTS_KEPT)
        return any(event.note == cleared for event in told if event.at >= since)


def _unlike(job: Job) -> set[str]:
    """The workers whose code or data stay others than the job's. Two that have not the data that it begins from fail
    it before it is trained, so its user need not."""
    unlike = {name for name, why in job.refused.items() if UNLIKE in why}
    other = {name for name, why in job.refused.items() if OTHER_DATA_WORDS in why}
    return unlike | other if job.history or len(other) == 1 else unlike


def _is_done(command: Command, kept: Saved) -> bool:
    """Whether what was asked is durable: it may be acknowledged only then."""
    if isinstance(command, ClearWorker):
        return command.worker not in kept.workers or not kept.workers[command.worker].quarantined
    if isinstance(command, DrainWorker | AdmitWorker):
        drains = isinstance(command, DrainWorker)
        return command.worker not in kept.workers or kept.workers[command.worker].drained is drains
    job = kept.jobs.get(command.job)
    if job is None or job.ended or isinstance(command, SubmitJob):
        return job is not None
    match command:
        case StopJob(now=now):
            return job.wanted is Wanted.STOP and not now
        case PauseJob(hold=hold):
            # What is held by those alone that are to go is saved at once.
            return job.wanted in ((Wanted.HOLD, Wanted.PAUSE) if hold else (Wanted.PAUSE,))
        case ResumeJob():
            return job.wanted in (Wanted.RUN, Wanted.YIELD)
