"""What is done to the processes, by the name of the fault.

Owns: the deed alone. Refuses to know: phases, and what must come of it.
"""

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from regroup.lab.chaos.bed import Bed, ChaosFailed


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a fault is done. `pid` is the victim's trainer."""

    bed: Bed
    job: str
    victim: str
    pid: int


Undo = Callable[[], None]
Deed = Callable[[Scene], Undo | None]  # what it gives is called once the held trainer was told to go on


def kill_trainer(scene: Scene) -> None:
    os.kill(scene.pid, signal.SIGKILL)


def kill_agent(scene: Scene) -> None:
    os.kill(scene.bed.cluster.agents[scene.victim].process.pid, signal.SIGKILL)


def kill_coordinator(scene: Scene) -> None:
    os.kill(coordinator(scene), signal.SIGKILL)


def coordinator(scene: Scene) -> int:
    process = scene.bed.cluster.coordinator
    if process is None:
        raise ChaosFailed("there is no coordinator to disturb")
    return process.process.pid


DEEDS: Mapping[str, Deed] = {
    "trainer-killed": kill_trainer,
    "agent-killed": kill_agent,
    "coordinator-killed": kill_coordinator,
}
