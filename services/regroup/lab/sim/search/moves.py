"""What could happen next in a small cluster: everything that any process, the network, time or a user could do.

Owns: which happenings are possible in a state, and of what kind each is. There are only so many faults.
Refuses to know: what they do (`small`).
"""

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import NamedTuple

from regroup.core.jobs import Job, JobPhase, Wanted
from regroup.core.messages.events import Report
from regroup.core.messages.orders import Form, Order
from regroup.core.workers import Worker
from regroup.lab.sim.model.trainer import Trainer
from regroup.lab.sim.search.near import Near
from regroup.lab.sim.search.small import Small

Do = Callable[[Small], None]


class Sort(Enum):
    DUE = auto()  # what is under way arrives, who can go on does: of these only so many follow each other
    BEAT = auto()  # possible again and again, like the next three
    TIME = auto()
    RESUME = auto()  # by the user, who paused the job
    ADMIT = auto()  # by the operator, who drained every worker; while another one is left, the job must not need it
    FAULT = auto()  # it need not happen; also what a user or an operator asks for, as often as the bounds say


class Move(NamedTuple):
    name: str
    kind: Sort
    do: Do  # to a copy of the state


def moves(state: Small) -> Iterator[Move]:
    for agent in state.agents.values():
        yield from _of_agent(state, agent)
        if agent.trainer is not None:
            yield from _of_trainer(state, agent, agent.trainer)
    if state.cluster is None:
        yield Move("the coordinator starts", Sort.DUE, Small.start_coordinator)
        return
    yield Move("all short limits are over", Sort.TIME, Small.pass_time)
    if state.left["crashes"]:
        yield _fault("the coordinator dies", "crashes", Small.crash_coordinator)
    if state.left["leaps"]:
        yield _fault("the leases are over", "leaps", Small.leap)
    for job in state.jobs.values():
        yield from _of_user(state, job)
    for worker in state.workers.values():
        yield from _of_operator(state, worker)


def _of_user(state: Small, job: Job) -> Iterator[Move]:
    """What would be refused, or is asked for already, is left out."""
    wanted, left = job.wanted, state.left
    if job.ended or wanted is Wanted.STOP:
        return
    if left["stops"]:
        yield _fault("the user stops the job", "stops", Small.stop_job)
    if left["pauses"] and wanted is not Wanted.PAUSE:
        yield _fault("the user pauses the job", "pauses", Small.pause_job)
    if left["holds"] and wanted is not Wanted.HOLD and job.phase not in (JobPhase.QUEUED, JobPhase.PAUSED):
        yield _fault("the user holds the job", "holds", Small.hold_job)
    if wanted in (Wanted.PAUSE, Wanted.HOLD):
        yield Move("the user resumes the job", Sort.RESUME, Small.resume_job)


def _of_operator(state: Small, worker: Worker) -> Iterator[Move]:
    """Likewise."""
    name = worker.name
    if worker.drained:
        kind = Sort.ADMIT if state.all_drained else Sort.FAULT
        yield Move(f"{name} is admitted", kind, _on(name, Small.admit))
    elif state.left["drains"]:
        yield _fault(f"{name} is drained", "drains", _on(name, Small.drain))


def _of_agent(state: Small, agent: Near) -> Iterator[Move]:
    name, up, left = agent.name, state.cluster is not None, state.left
    if agent.orders:
        yield Move(f"{name} hears {_words(agent.orders[0])}", Sort.DUE, _on(name, Small.hear_order))
    if agent.answered:
        yield Move(f"{name} is answered", Sort.DUE, _on(name, Small.hear_answer))
    if up and agent.reports and not agent.greets and (agent.link or (agent.heard and not agent.alive)):
        yield Move(f"{name} says {_words(agent.reports[0])}", Sort.DUE, _on(name, Small.hear_report))
    if not agent.alive:
        yield Move(f"{name}: its agent starts", Sort.DUE, _on(name, Small.start_agent))
    elif up and not agent.link:
        yield Move(f"{name} connects", Sort.DUE, _on(name, Small.connect))
    elif up and (agent.greets or not agent.reports):
        yield Move(f"{name} beats", Sort.DUE if agent.greets else Sort.BEAT, _on(name, Small.beat))
    if up and agent.heard and not agent.link:
        yield Move(f"{name}: its closed connection is noticed", Sort.DUE, _on(name, Small.notice_closed))
    if agent.link and left["cuts"]:
        yield _fault(f"{name}: its connection is cut", "cuts", _on(name, Small.disconnect))
    if agent.link and left["leaves"]:
        yield _fault(f"{name} leaves in good order", "leaves", _on(name, Small.go))
    if agent.link and not agent.leaving and left["departures"]:
        yield _fault(f"{name} is asked to end", "departures", _on(name, Small.ask_to_leave))
    if agent.leaving and agent.trainer is None:
        yield Move(f"{name} has nothing to hand over", Sort.DUE, _on(name, Small.go))
    if agent.alive and left["losses"]:
        yield _fault(f"{name}: its agent dies", "losses", _on(name, Small.lose))


def _of_trainer(state: Small, agent: Near, trainer: Trainer) -> Iterator[Move]:
    name, at, left = agent.name, trainer.loop.at, state.left
    if state.goes_on(trainer):
        yield Move(f"{name} goes on: {at}", Sort.DUE, _on(name, Small.go_on))
    if at in ("connecting", "connected", "contributed"):
        if state.is_alone(trainer):
            yield Move(f"{name} sees that a neighbour is gone", Sort.DUE, _on(name, Small.break_group))
        elif left["breaks"]:
            yield _fault(f"{name}: its group breaks", "breaks", _on(name, Small.break_group))
    if trainer.beside is not None:
        yield Move(f"{name} has written beside", Sort.DUE, _on(name, Small.write_copy))
    if at == "writing" and left["failed_saves"]:
        yield _fault(f"{name} cannot write", "failed_saves", _on(name, Small.write_in_vain))
    if at == "reading" and left["unreadable"]:
        yield _fault(f"{name} cannot read", "unreadable", _on(name, Small.read_in_vain))
    if left["deaths"]:
        yield _fault(f"{name}: its trainer dies", "deaths", _on(name, Small.kill_trainer))


def _on(name: str, what: Callable[[Small, Near], None]) -> Do:
    return lambda state: what(state, state.agents[name])


def _fault(name: str, fault: str, what: Do) -> Move:
    def spend(state: Small) -> None:
        state.left[fault] -= 1
        what(state)

    return Move(name, Sort.FAULT, spend)


def _words(message: Report | Order) -> str:
    number = message.formation.generation if isinstance(message, Form) else getattr(message, "generation", None)
    return type(message).__name__ + ("" if number is None else f" {number}")
