"""Who is gone, whatever the order in which a connection's events and its messages come to be read."""

from collections import deque
from dataclasses import dataclass

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.strategies import data, sampled_from

from regroup.wire.connections import Connections

WORKERS = ["a", "b"]


def test_a_closed_connection_names_its_worker() -> None:
    connections = Connections()
    connections.accepted(7)
    assert connections.heard(7, connections.issue(), "a")
    assert connections.closed(7) == "a"
    assert "a" not in connections


def test_a_connection_that_never_spoke_names_nobody() -> None:
    connections = Connections()
    connections.accepted(7)
    connections.issue()
    assert connections.closed(7) is None


def test_a_worker_that_came_back_on_another_descriptor_is_not_gone_when_the_old_one_closes() -> None:
    connections = Connections()
    for descriptor in (7, 8):
        connections.accepted(descriptor)
        connections.heard(descriptor, connections.issue(), "a")
    assert connections.closed(7) is None
    assert connections.closed(8) == "a"


def test_a_descriptor_used_again_is_not_taken_for_its_former_user() -> None:
    connections = Connections()
    connections.accepted(7)
    first = connections.issue()
    connections.closed(7)
    connections.accepted(7)
    second = connections.issue()
    assert not connections.heard(7, first, "a")  # its last words, read late
    assert connections.heard(7, second, "b")
    assert connections.closed(7) == "b"


@dataclass(eq=False)
class Wire:
    worker: str
    descriptor: int
    number: int = 0
    spoke: bool = False  # and it was read
    open: bool = True


class AnyOrder(RuleBasedStateMachine):
    """A world of connections with reused descriptors, and a reader that is late by different amounts on each queue."""

    def __init__(self) -> None:
        super().__init__()
        self.connections = Connections()
        self.wires: list[Wire] = []
        self.free = [1, 2, 3]
        self.events: deque[tuple[str, int]] = deque()
        self.questions: deque[Wire] = deque()
        self.messages: deque[Wire] = deque()
        self.status: dict[str, bool] = {}  # what the reader was told last: connected, or gone

    @precondition(lambda self: self.free)
    @rule(worker=sampled_from(WORKERS))
    def connect(self, worker: str) -> None:
        wire = Wire(worker, self.free.pop(0))
        self.wires.append(wire)
        self.events.append(("accepted", wire.descriptor))
        self.questions.append(wire)

    @precondition(lambda self: any(wire.number and wire.open for wire in self.wires))
    @rule(draw=data())
    def speak(self, draw: data) -> None:  # type: ignore[valid-type]
        self.messages.append(draw.draw(sampled_from([w for w in self.wires if w.number and w.open])))  # type: ignore[attr-defined]

    @precondition(lambda self: any(wire.open for wire in self.wires))
    @rule(draw=data())
    def close(self, draw: data) -> None:  # type: ignore[valid-type]
        wire = draw.draw(sampled_from([wire for wire in self.wires if wire.open]))  # type: ignore[attr-defined]
        wire.open = False
        self.events.append(("closed", wire.descriptor))
        self.free.insert(0, wire.descriptor)

    @rule()
    def read_events(self) -> None:
        while self.events:
            kind, descriptor = self.events.popleft()
            gone = self.connections.accepted(descriptor) if kind == "accepted" else self.connections.closed(descriptor)
            if gone is not None:
                assert self.status[gone], "told twice that it is gone"
                self.status[gone] = False

    @precondition(lambda self: self.questions)
    @rule()
    def answer(self) -> None:
        self.read_events()
        self.questions.popleft().number = self.connections.issue()

    @precondition(lambda self: self.messages)
    @rule(draw=data())
    def read_message(self, draw: data) -> None:  # type: ignore[valid-type]
        wire = draw.draw(sampled_from(list(self.messages)))  # type: ignore[attr-defined]
        self.messages.remove(wire)
        self.read_events()
        wire.spoke = True
        self.status[wire.worker] = self.connections.heard(wire.descriptor, wire.number, wire.worker)

    @invariant()
    def what_was_told_is_true_once_all_events_are_read(self) -> None:
        if self.events:
            return
        for worker in WORKERS:
            spoke = [wire for wire in self.wires if wire.worker == worker and wire.spoke]
            expected = bool(spoke) and max(spoke, key=lambda wire: wire.number).open
            assert self.status.get(worker, False) == expected
            assert (worker in self.connections) == expected


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
