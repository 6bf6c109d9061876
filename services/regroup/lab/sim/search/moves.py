"""What could happen next in a small cluster: everything that any process, the network, time or a user could do.

Owns: which happenings are possible in a state, and which of them are faults, of which there are only so many.
Refuses to know: what they do (`small`).
"""

from collections.abc import Callable, Iterator

from regroup.core import messages as m
from regroup.lab.sim.model.trainer import Trainer
from regroup.lab.sim.search.small import Near, Small

Do = Callable[[Small], None]
Move = tuple[str, bool, Do]  # its name; whether it is a fault; what it does to a copy of the state


def moves(state: Small) -> Iterator[Move]:
    for agent in state.agents.values():
        yield from _of_agent(state, agent)
        if agent.trainer is not None:
            yield from _of_trainer(state, agent, agent.trainer)
    if state.cluster is None:
        yield "the coordinator starts", False, Small.start_coordinator
        return
    yield "all short limits are over", False, Small.pass_time
    if state.left["crashes"]:
        yield "the coordinator dies", True, _spend("crashes", Small.crash_coordinator)
    if state.left["leaps"]:
        yield "the leases are over", True, _spend("leaps", Small.leap)
    if state.left["stops"]:
        yield "the user stops the job", True, _spend("stops", Small.stop_job)


def _of_agent(state: Small, agent: Near) -> Iterator[Move]:
    name, up, left = agent.name, state.cluster is not None, state.left
    if agent.orders:
        yield f"{name} hears {_words(agent.orders[0])}", False, _on(name, Small.hear_order)
    if agent.answered:
        yield f"{name} is answered", False, _on(name, Small.hear_answer)
    if up and agent.reports and (agent.link or (agent.heard and not agent.alive)):
        yield f"{name} says {_words(agent.reports[0])}", False, _on(name, Small.hear_report)
    if not agent.alive:
        yield f"{name}: its agent starts", False, _on(name, Small.start_agent)
    elif up and not agent.link:
        yield f"{name} connects", False, _on(name, Small.connect)
    elif up and not agent.reports:
        yield f"{name} beats", False, _on(name, Small.beat)
    if up and agent.heard and not agent.link:
        yield f"{name}: its closed connection is noticed", False, _on(name, Small.notice_closed)
    if agent.link and left["cuts"]:
        yield f"{name}: its connection is cut", True, _spend("cuts", _on(name, Small.disconnect))
    if agent.link and left["leaves"]:
        yield f"{name} leaves in good order", True, _spend("leaves", _on(name, Small.leave_cluster))
    if agent.alive and left["losses"]:
        yield f"{name}: its agent dies", True, _spend("losses", _on(name, Small.lose))


def _of_trainer(state: Small, agent: Near, trainer: Trainer) -> Iterator[Move]:
    name, at, left = agent.name, trainer.loop.at, state.left
    if state.goes_on(trainer):
        yield f"{name} goes on: {at}", False, _on(name, Small.go_on)
    if at in ("connecting", "connected", "contributed"):
        if state.is_alone(trainer):
            yield f"{name} sees that a neighbour is gone", False, _on(name, Small.break_group)
        elif left["breaks"]:
            yield f"{name}: its group breaks", True, _spend("breaks", _on(name, Small.break_group))
    if at == "writing" and left["failed_saves"]:
        yield f"{name} cannot write", True, _spend("failed_saves", _on(name, Small.write_in_vain))
    if left["deaths"]:
        yield f"{name}: its trainer dies", True, _spend("deaths", _on(name, Small.kill_trainer))


def _on(name: str, what: Callable[[Small, Near], None]) -> Do:
    return lambda state: what(state, state.agents[name])


def _spend(fault: str, what: Do) -> Do:
    def spend(state: Small) -> None:
        state.left[fault] -= 1
        what(state)

    return spend


def _words(message: m.Report | m.Order) -> str:
    number = message.formation.generation if isinstance(message, m.Form) else getattr(message, "generation", None)
    return type(message).__name__ + ("" if number is None else f" {number}")
