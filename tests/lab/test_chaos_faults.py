"""Asking an agent to end, as chaos does it: what it must come to, on processes that stand for agents."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from regroup.lab.chaos import faults
from regroup.lab.chaos.bed import Bed, ChaosFailed
from regroup.lab.chaos.faults import Scene, ask_all_to_end, ask_to_end, restart_in_turn

ENDS = "signal.signal(signal.SIGTERM, lambda *_: sys.exit({code}))"
STAYS = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


@pytest.fixture
def scene():
    """Of agents that do so at SIGTERM; the first one is the victim."""
    started = []

    def make(*deeds):
        agents = {}
        for number, deed in enumerate(deeds):
            code = f"import signal, sys; {deed}; print('ready', flush=True); signal.pause()"
            process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
            started.append(process)
            assert process.stdout.readline() == "ready\n"
            agents[f"w{number}"] = SimpleNamespace(process=process)
        return Scene(Bed(SimpleNamespace(agents=agents)), "j", "w0", 1, "w1")

    yield make
    for process in started:
        process.kill()
        process.communicate()


def ended(scene):
    return [agent.process.poll() for agent in scene.bed.cluster.agents.values()]


def test_one_agent_is_asked_and_its_end_awaited(scene):
    made = scene(ENDS.format(code=0), ENDS.format(code=0))
    ask_to_end(made)()
    assert ended(made) == [0, None]


def test_an_agent_that_ends_badly_fails_the_cell(scene):
    gone = ask_to_end(scene(ENDS.format(code=3)))
    with pytest.raises(ChaosFailed, match="w0's agent was asked to end, and exited with 3"):
        gone()


def test_an_agent_that_does_not_end_in_time_fails_the_cell(scene, monkeypatch):
    monkeypatch.setattr(faults, "HANDED_OVER", 0.2)
    gone = ask_to_end(scene(STAYS))
    with pytest.raises(ChaosFailed, match=r"w0's agent hands over and exits: this did not happen in 0\.2 s"):
        gone()


def test_all_are_asked_before_anyone_is_awaited(scene):
    made = scene(ENDS.format(code=0), ENDS.format(code=0), ENDS.format(code=0))
    gone = ask_all_to_end(made)
    for agent in made.bed.cluster.agents.values():
        agent.process.wait(20)
    gone()
    assert ended(made) == [0, 0, 0]


def test_in_turn_the_next_one_is_asked_when_the_one_before_it_is_gone(scene, monkeypatch):
    monkeypatch.setattr(faults, "HANDED_OVER", 0.2)
    made = scene(STAYS, ENDS.format(code=0))
    with pytest.raises(ChaosFailed):
        restart_in_turn(made)()
    assert ended(made) == [None, None], "the second one was not asked"
    monkeypatch.setattr(faults, "HANDED_OVER", 20.0)
    made = scene(ENDS.format(code=0), ENDS.format(code=0))
    restart_in_turn(made)()
    assert ended(made) == [0, 0]
