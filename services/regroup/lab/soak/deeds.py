"""What is done to a cluster in a soak, drawn by weight: to its processes, and as its users.

Owns: the deeds. One returns whether it hit somebody: between two faults a trainer may not be there yet.
Refuses to know: what comes of it, and whether anybody waits for that.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from regroup.client.errors import ApiError
from regroup.core.jobs import JobPhase
from regroup.lab.chaos.bed import Bed, ChaosFailed
from regroup.lab.chaos.faults import DEEDS, Scene
from regroup.lab.trainers import trainer_of

BRIEF = (0.1, 0.6)  # seconds that a process stands still without being suspected
SPREAD = 0.4  # seconds between two kills that are one deed, at most


@dataclass(frozen=True, slots=True)
class Target:
    bed: Bed
    job: str
    victims: Sequence[str]  # the workers that may be hit
    draw: random.Random

    def trainers(self) -> dict[str, int]:
        """Of the victims that have one now, in the order of their names."""
        found = {name: trainer_of(self.bed.cluster.data_dir, name) for name in sorted(self.victims)}
        return {name: pid for name, pid in found.items() if pid is not None}


@dataclass(frozen=True, slots=True)
class Deed:
    do: Callable[[Target], bool]
    weight: int  # how often, beside the others
    regroups: bool = True  # somebody is lost or made to rest, so that a newer generation must come of it
    kills: bool = False  # by SIGKILL


def kill_trainer(target: Target) -> bool:
    return _signal(target, signal.SIGKILL, 1)


def kill_two(target: Target) -> bool:
    return _signal(target, signal.SIGKILL, 2)


def stop_trainer(target: Target) -> bool:
    """It hangs until it is evicted."""
    return _signal(target, signal.SIGSTOP, 1)


def stop_briefly(target: Target) -> bool:
    found = target.trainers()
    if not found:
        return False
    pid = found[target.draw.choice(list(found))]
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(target.draw.uniform(*BRIEF))
        os.kill(pid, signal.SIGCONT)
    return True


def kill_agent(target: Target) -> bool:
    """With its trainer, by one signal."""
    try:
        target.bed.cluster.agents[target.draw.choice(sorted(target.victims))].kill()
    except ProcessLookupError:
        return False
    return True


def hold(target: Target) -> bool:
    return _rest(target, hold=True)


def pause(target: Target) -> bool:
    """All trainers are freed, and others begin from the checkpoint."""
    return _rest(target, hold=False)


def _rest(target: Target, hold: bool) -> bool:
    bed = target.bed
    with suppress(ApiError):  # it ends, or there is nobody to hold
        bed.ask(lambda client: client.pause(target.job, hold=hold))
        with suppress(ChaosFailed):  # while faults go on, it may take until somebody is back
            bed.until(lambda: bed.job(target.job).phase is JobPhase.PAUSED, "the job rests", limit=20.0)
        bed.ask(lambda client: client.resume(target.job))
        return True
    return False


def of_chaos(name: str) -> Callable[[Target], bool]:
    """One of the faults that `regroup chaos` does in a held phase, done here at any instant."""

    def do(target: Target) -> bool:
        found = target.trainers()
        if not found:
            return False
        victim = target.draw.choice(list(found))
        other = target.draw.choice([each for each in target.victims if each != victim])
        with suppress(ProcessLookupError):
            DEEDS[name](Scene(target.bed, target.job, victim, found[victim], other))()
        return True

    return do


def _signal(target: Target, number: signal.Signals, many: int) -> bool:
    found, hit = target.trainers(), False
    if len(found) < many:
        return False
    for name in target.draw.sample(list(found), many):
        with suppress(ProcessLookupError):
            os.kill(found[name], number)
            hit = True
        if many > 1:
            time.sleep(target.draw.uniform(0, SPREAD))
    return hit


# One after the other, each awaited: what regroups a job while its coordinator and one worker live on.
REGROUPS: Mapping[str, Deed] = {
    "trainer killed": Deed(kill_trainer, 6, kills=True),
    "two trainers killed": Deed(kill_two, 1, kills=True),
    "trainer stopped until it is evicted": Deed(stop_trainer, 1),
    "trainer paused": Deed(stop_briefly, 1, regroups=False),
    "agent killed": Deed(kill_agent, 1, kills=True),
    "held and resumed": Deed(hold, 2),
}

# At any instant, whatever the last one has left.
STORM: Mapping[str, Deed] = {
    "trainer killed": Deed(kill_trainer, 6),
    "two trainers killed": Deed(kill_two, 2),
    "trainer stopped": Deed(stop_trainer, 1),
    "trainer paused": Deed(of_chaos("trainer-paused"), 2),
    "agent killed": Deed(of_chaos("agent-killed"), 2),
    "agent paused": Deed(of_chaos("agent-paused"), 1),
    "coordinator killed": Deed(of_chaos("coordinator-killed"), 1),
    "coordinator paused": Deed(of_chaos("coordinator-paused"), 1),
    "store killed": Deed(of_chaos("store-killed"), 1),
    "all trainers killed": Deed(of_chaos("all-killed"), 1),
    "held and resumed": Deed(hold, 1),
    "paused and resumed": Deed(pause, 1),
}


def draw_deed(deeds: Mapping[str, Deed], draw: random.Random) -> str:
    return draw.choices(list(deeds), [deed.weight for deed in deeds.values()])[0]
