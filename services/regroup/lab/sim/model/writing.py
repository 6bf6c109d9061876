"""What simulated trainers write: states beside their training, and those that they are ordered to save.

Owns: when a copy is due, the files, and the moves of a save, in which the task's own code may fail.
Refuses to know: whether a disk takes it, and when (who moves them does). What must hold is in `trainer_rules`.
"""

from regroup.core.jobs import Checkpoint, Version
from regroup.core.messages.trainer_reports import CheckpointFailed, SaveFailed, StateSaved
from regroup.core.workers import TrainerPhase
from regroup.lab.sim.model import trainer_rules
from regroup.lab.sim.model.ghosts import file_name
from regroup.lab.sim.model.sessions import Sessions
from regroup.lab.sim.model.trainer import Trainer
from regroup.worker import happenings as h


class Writers(Sessions):
    chunks = 0  # of an evaluation; whoever saves a final state ends that alone

    def folder(self, worker: str) -> str:
        """The machine whose folder its files are in; "": one that all share."""
        return ""

    def copy_if_due(self, trainer: Trainer, version: Version) -> None:
        every = self.jobs[trainer.job].spec.checkpoint_every
        due = every is not None and version.step % every == 0 and version.step < trainer.loop.steps
        may = version != trainer.wrote and trainer.session.may_write(version.generation)
        if due and may and trainer.rank == trainer.group.leader and trainer.beside is None:
            trainer.beside = version

    def file(self, trainer: Trainer, version: Version) -> Checkpoint:
        path = file_name(trainer.job, version)
        self.ghosts.deleted.discard(path)
        self.ghosts.damaged.discard(path)
        self.ghosts.places.setdefault(path, set()).add(self.folder(trainer.member.worker))
        score = float(version.step * 7 % 5) if self.jobs[trainer.job].spec.keep_best else None
        return Checkpoint(version, path, "c", 1, score=score)

    def write_beside(self, trainer: Trainer) -> None:
        """What it copied is durable, wherever its step loop is by now."""
        version, trainer.beside = trainer.beside, None
        assert version is not None
        trainer.wrote = version
        trainer_rules.wrote_beside(self.ghosts, trainer, version)
        self.take(trainer, h.WroteBeside(self.file(trainer, version)))

    def fail_beside(self, trainer: Trainer) -> None:
        version, trainer.beside = trainer.beside, None
        assert version is not None
        trainer.outbox.append(CheckpointFailed(**trainer.who, step=version.step, error="OSError: disk full"))

    def begin_save(self, trainer: Trainer, task: h.Write) -> None:
        trainer.loop.at, trainer.loop.write = "evaluating", task
        if not task.final or not self.chunks_left(trainer):
            self._tell(trainer)

    def chunks_left(self, trainer: Trainer) -> int:
        """Of the evaluation of its state."""
        step, done = trainer.evaluated
        return self.chunks - (done if step == len(trainer.state) else 0)

    def end_chunk(self, trainer: Trainer) -> None:
        done = self.chunks - self.chunks_left(trainer) + 1
        trainer.evaluated = len(trainer.state), done
        self.take(trainer, h.ChunkEvaluated(done))
        trainer.outbox.append(trainer.session.status)

    def evaluated(self, trainer: Trainer) -> None:
        """A chunk is measured. Who was given up meanwhile saves nothing, and may go on with the next one later."""
        session, task = trainer.session, trainer.loop.write
        assert task is not None
        self.end_chunk(trainer)
        if session.phase is not TrainerPhase.SAVING or session.promised != task.generation:
            trainer.loop.at = "idle"
            self.take(trainer, h.CameBack())
        elif not self.chunks_left(trainer):
            self._tell(trainer)

    def _tell(self, trainer: Trainer) -> None:
        trainer.loop.at = "telling"
        self.take(trainer, h.EntersTask())

    def told(self, trainer: Trainer) -> None:
        trainer.loop.at = "writing"
        self.take(trainer, h.CameBack())

    def fail_to_tell(self, trainer: Trainer) -> None:
        """The task's state() raises."""
        task = trainer.loop.write
        assert task is not None
        failed = SaveFailed(**trainer.who, generation=task.generation, error="E: no", traceback="T\nE: no")
        self._end_writing(trainer, failed)

    def written(self, trainer: Trainer) -> None:
        loop, task = trainer.loop, trainer.loop.write
        assert task is not None
        trainer_rules.wrote(self.ghosts, trainer, task.version)
        loop.file = self.file(trainer, task.version)
        if not task.final:
            self.reported(trainer)
            return
        loop.at = "reporting"
        self.take(trainer, h.EntersTask(loop.file))
        trainer_rules.reports(trainer, task.version)

    def reported(self, trainer: Trainer) -> None:
        task, file = trainer.loop.write, trainer.loop.file
        assert task is not None
        assert file is not None
        result = {"steps": len(trainer.state)} if task.final else None
        saved = StateSaved(**trainer.who, generation=task.generation, checkpoint=file, result=result)
        self._end_writing(trainer, saved)

    def fail_to_write(self, trainer: Trainer) -> None:
        task = trainer.loop.write
        assert task is not None
        self._end_writing(trainer, SaveFailed(**trainer.who, generation=task.generation, error="OSError: disk full"))

    def _end_writing(self, trainer: Trainer, report: StateSaved | SaveFailed) -> None:
        self.come_back(trainer, h.SaveEnded(report))
