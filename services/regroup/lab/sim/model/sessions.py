"""The trainers' sessions in a simulation: the real ones, and what becomes of what they ask for.

Owns: that a trainer's words leave in the order in which worker/control.py lets them, its progress first.
Refuses to know: what a step loop does next (`steps`), and who carries its words.
"""

from collections.abc import Mapping

from regroup.core.jobs import Job
from regroup.core.messages.trainer_reports import StepsCommitted
from regroup.lab.sim.model import trainer_rules
from regroup.lab.sim.model.ghosts import Ghosts
from regroup.lab.sim.model.trainer import Happening, Trainer
from regroup.worker import happenings as h
from regroup.worker.session import handle


class Sessions:
    jobs: Mapping[str, Job]  # durable

    def __init__(self) -> None:
        self.ghosts = Ghosts()

    def take(self, trainer: Trainer, happening: Happening) -> None:
        before = trainer.session
        trainer.session, actions = handle(before, happening)
        after = trainer.session
        if after.news != before.news:
            trainer.outbox.append(after.status)
        trainer_rules.handled(self.ghosts, trainer, before, happening, self.jobs[trainer.job])
        for action in actions:
            match action:
                case h.Say(report=report):
                    self.post_progress(trainer)
                    trainer.outbox.append(report)
                case h.BreakGroup():
                    trainer.loop.broken = True
                case h.Join() | h.Write():
                    trainer.loop.task = action

    def post_progress(self, trainer: Trainer) -> None:
        version = trainer.session.version
        if version is None:
            trainer.points, trainer.unsaid = (), False
        if trainer.unsaid and version is not None:
            generation, step, points = version.generation, version.step, trainer.points
            trainer.points, trainer.unsaid = (), False
            trainer.outbox.append(trainer.session.status)
            trainer.outbox.append(StepsCommitted(**trainer.who, generation=generation, step=step, points=points))

    def come_back(self, trainer: Trainer, event: h.LoopEvent) -> None:
        """The step loop tells this, and waits for its next task."""
        trainer.loop.at = "idle"
        self.take(trainer, event)
        self.take(trainer, h.CameBack())
