"""What must hold of everything that a trainer does. Each breach raises AssertionError and names the rule.

Owns: the rules for sessions and step loops. Refuses to know: what coordinators decide (`decision_rules`).
"""

from collections.abc import Mapping, Sequence

from regroup.core.jobs import Formation, Job, Version
from regroup.core.messages.orders import Form, Halt, RenewLease, Save
from regroup.core.messages.trainer_reports import WORKER, StateSaved
from regroup.core.spec import JobSpec
from regroup.core.workers import TrainerPhase
from regroup.lab.sim.model import beginning_rules, saving_rules
from regroup.lab.sim.model.ghosts import Ghosts
from regroup.lab.sim.model.trainer import CHANGING, ELSEWHERE, Contribution, Happening, History, Trainer, consumed
from regroup.worker import happenings as h
from regroup.worker import session as s


def handled(ghosts: Ghosts, trainer: Trainer, before: s.Session, happening: Happening, job: Job) -> None:
    """A session took something in. `job`: its own, as the coordinator keeps it."""
    after = trainer.session
    assert after.promised >= before.promised, "a promise is taken back"
    assert after.generation >= before.generation, "a trainer goes back to an older generation"
    if isinstance(happening, h.StateHeld | h.LastStepDone | h.CollectiveBroke | h.StateDiscarded):
        same = (after.phase, after.version) == (before.phase, before.version)
        assert same or happening.generation == before.generation, "what happened in another generation counts"
    if isinstance(happening, Halt) and not happening.boundary and before.phase is not TrainerPhase.PREPARING:
        kept = after.promised >= happening.generation or trainer.loop.at in CHANGING
        assert kept, f"a plain Halt of {happening.generation} is not answered"
    if (
        isinstance(happening, Halt)
        and happening.boundary
        and before.phase in (TrainerPhase.FORMING, TrainerPhase.TRAINING)
    ):
        assert after.phase is before.phase, "a step may follow, and its boundary is not waited for"
    if isinstance(happening, Save) and after.phase is not before.phase:
        assert happening.generation == after.promised, f"a save for {happening.generation} begins under another promise"
    if isinstance(happening, h.StepApplied) and happening.agreed is not None:
        assert after.promised >= happening.agreed, "all agreed on the boundary, and yet it goes on"
        held = before.boundary is not None and before.boundary >= happening.agreed  # a newer one may have come since
        assert held, "an agreement is on what this member held when it contributed"
    finished = after.phase is TrainerPhase.FINISHED
    assert not finished or after.boundary is None, "it made its last step, and waits for a boundary"
    if before.owed is not None and after.owed is None:
        assert after.promised >= before.owed, f"{before.owed} was owed, and {after.promised} is promised"
    if not after.at_work:
        assert trainer.loop.task is None or not after.waited_for, "its step loop is said to be back, and has work to do"
        assert trainer.loop.at in ELSEWHERE, "its step loop is in a formation, and is said to be back"
    if after.promised > before.promised:
        assert trainer.loop.at not in CHANGING, "a Halt is answered in the middle of a change"
        assert after.boundary is None or after.boundary > after.promised, "a boundary that is over is kept"
        most = job.generation
        assert after.promised <= most, f"{after.promised} is promised, and nobody asked for more than {most}"
    if after.heard != before.heard:
        assert isinstance(happening, RenewLease), "an order never renews the lease"
        assert happening.generation == after.generation, "an answer that names another generation renewed the lease"
    if isinstance(happening, h.StateDiscarded) and after.phase is not before.phase:
        assert after.version is None, "a state that is not the sound one is kept"
    if isinstance(happening, h.LoopFailed) and happening.torn:
        assert after.version is None, "a state that is torn is kept"
    if after.generation > before.generation:
        assert isinstance(happening, Form), "only a Form takes a trainer into a generation"
        assert before.promised == after.generation, "a formation is accepted under another promise"
        assert not after.evaluated, f"{after.evaluated} chunks of an evaluation are told, and it forms"
    if isinstance(happening, RenewLease):
        again = {one.path for one in after.written} & set(happening.settled)
        assert not again, f"{again} are told of again, though that was answered"
    if after.written != before.written or isinstance(happening, h.SaveEnded):
        _tells(ghosts, before, after, happening, job)
    if after.version is not None and after.version != before.version:
        _holds(ghosts, trainer.job, after.version, trainer.history)


def _tells(ghosts: Ghosts, before: s.Session, after: s.Session, happening: Happening, job: Job) -> None:
    """A file is told of until its job names it: as one that is kept, was struck or is to be deleted."""
    told = {one.path for one in before.written}
    if isinstance(happening, h.WroteBeside):
        told.add(happening.checkpoint.path)
    if isinstance(happening, h.SaveEnded) and isinstance(happening.report, StateSaved):
        told.add(happening.report.checkpoint.path)
    saving_rules.forgotten(ghosts, job, told - {one.path for one in after.written})


def _holds(ghosts: Ghosts, job: str, version: Version, history: History | None) -> None:
    assert history is not None, f"{version} is called a state, and nothing is held"
    assert len(history) == version.step, f"{version} is not what is held: {history}"
    known = ghosts.states.setdefault((job, version), history)
    assert known == history, f"two states are called {version}: {known} and {history}"


def read(ghosts: Ghosts, trainer: Trainer, formation: Formation) -> None:
    """The leader reads the checkpoint from which its generation begins."""
    assert formation.checkpoint is not None, "there is nothing to read"
    version, path = formation.checkpoint.version, formation.checkpoint.path
    if formation.base.generation == 0:
        beginning_rules.read(ghosts, trainer.job, formation)
        return
    assert version == formation.base, f"{version} is read, and the generation begins from {formation.base}"
    assert (trainer.job, version) in ghosts.written, f"{version} is read, and was never written"
    assert path not in ghosts.deleted, f"{path} is read, and was deleted"


def read_in_vain(ghosts: Ghosts, trainer: Trainer, formation: Formation, damaged: bool) -> None:
    """It could not read the checkpoint; `damaged`: it says that this is the file's fault.

    That there is none of that name on its machine is no word against one that is whole where it lies.
    """
    assert formation.checkpoint is not None, "there is nothing to read"
    path, worker = formation.checkpoint.path, trainer.member.worker
    ghosts.asked.setdefault(path, set()).add(worker)
    if damaged:
        ghosts.words.setdefault(path, set()).add((worker, formation.generation))


def replaced(ghosts: Ghosts, trainer: Trainer, formation: Formation) -> None:
    assert trainer.session.phase is TrainerPhase.FORMING, "a state is replaced after it was answered"
    assert trainer.session.generation == formation.generation, "a state of another generation is swapped in"
    mine = trainer.session.version
    if mine is None or (trainer.job, formation.generation) in ghosts.rolled_back:
        return
    counts = ghosts.goes_on(trainer.job, formation.generation, mine)
    counts = counts and not ghosts.is_void(trainer.job, formation.base, mine)
    assert mine <= formation.base or not counts, f"{trainer.member} is put back from {mine} to {formation.base}"


def reduced(trainer: Trainer, slots: Mapping[int, Contribution], spec: JobSpec) -> None:
    states = {one.history for one in slots.values()}
    assert states == {trainer.history}, f"replicas differ: {states}"
    samples = [sample for one in slots.values() for sample in one.samples]
    assert len(set(samples)) == len(samples), "a sample is trained twice in one step"
    whole = consumed(spec, len(trainer.state), tuple(range(spec.shard_count)))
    assert set(samples) == set(whole), "a sample of the step is trained by nobody"


def begins_to_apply(trainer: Trainer, now: float) -> None:
    """`now`: on its machine's clock."""
    generation, promised = trainer.group.generation, trainer.session.promised
    assert promised <= generation, f"{trainer.member} commits in {generation}, and promised {promised}"
    assert now < trainer.session.lease, f"{trainer.member} changes its state, and its lease is over"


def waits(trainer: Trainer, since: float) -> None:
    """It makes no step, though all did their part: it promised more, or its lease is over, which lasts for the limit of
    its formation, whether a coordinator is there or not. `since`: seconds since the last heartbeat of this generation
    left that was answered."""
    session, group = trainer.session, trainer.group
    free = session.phase is TrainerPhase.TRAINING and session.owed is None and session.promised <= group.generation
    leased = since < group.detached_limit
    assert not (free and leased), f"{trainer.member} makes no step, and its lease began {since:.1f} s ago"


def applies(slots: Mapping[int, Contribution], agreed: int | None) -> None:
    """A step is applied: its members' replicas are the same, and `agreed` is the proposal that all of them held."""
    assert len({one.tail.digests[rank] for rank, one in slots.items()}) == 1, "replicas that differ train on"
    held = {one.tail.flags[rank] for rank, one in slots.items()}
    wanted = held.pop() if len(held) == 1 and 0 not in held else None
    assert agreed == wanted, f"{agreed} is taken for agreed, and {wanted} is what all held"


def committed(ghosts: Ghosts, trainer: Trainer, formation: Formation) -> None:
    g, step = formation.generation, len(trainer.state) - 1
    commits = ghosts.commits.setdefault(trainer.job, {})
    commits.setdefault(g, set()).add(step)
    # The first formation after g went on from its base; a step below that was another member's before it.
    after = min((n for job, n in ghosts.formations if job == trainer.job and n > g), default=g)
    floor = ghosts.formations[trainer.job, after].base.step if after > g else 0
    if g < max(commits) and step >= floor:
        late = ghosts.late.setdefault((trainer.job, g), set())
        late.add(step)
        assert len(late) < 2, f"split brain: generation {g} went on after {max(commits)}"


def wrote(ghosts: Ghosts, trainer: Trainer, version: Version) -> None:
    assert ghosts.states[trainer.job, version] == trainer.history, "wrote another state than was ordered"
    ghosts.written.add((trainer.job, version))
    ghosts.writers.add((trainer.member, version))


def reports(trainer: Trainer, version: Version) -> None:
    """The task is asked what it reports of its final state."""
    told = [one.version for one in trainer.session.written]
    assert version in told, f"the task is asked for its report of {version} before anybody could know of its file"


def begins(ghosts: Ghosts, trainer: Trainer, every: int | None) -> None:
    """A checkpoint that is due where a generation begins is written, is being written, or another one still is."""
    group = trainer.group
    trained = group.base.generation > 0 and group.base.step < trainer.loop.steps
    due = every is not None and group.base.step % every == 0 and trained and trainer.rank == group.leader
    full = not trainer.session.may_write(group.base.generation)
    taken = full or trainer.beside is not None or (trainer.job, group.base) in ghosts.written
    assert taken or not due, f"{group.base} is due, and {trainer.member} begins with it and takes no copy"


def wrote_beside(ghosts: Ghosts, trainer: Trainer, version: Version) -> None:
    assert (trainer.job, version) in ghosts.states, f"{version} is written, and was never a state"
    ghosts.written.add((trainer.job, version))
    ghosts.writers.add((trainer.member, version))


def unprepared(ghosts: Ghosts, trainer: Trainer, field: str) -> None:
    """A trainer says that it cannot prepare, and whose fault that is."""
    if field != WORKER:
        ghosts.unpreparable.add(trainer.job)


def discards(trainer: Trainer, group: Formation, step: int, digests: Sequence[int]) -> None:
    """Nobody gives up a replica that most have, not counting those that were just given the leader's."""
    own = [digest for rank, digest in enumerate(digests) if step > group.base.step or rank not in group.receivers]
    like = own.count(digests[trainer.rank])
    assert 2 * like <= len(own), f"{trainer.member} gives up its replica, which {like} of {len(own)} have"
