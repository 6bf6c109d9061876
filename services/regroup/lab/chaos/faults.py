"""What is done to the processes and the files, by the name of the fault.

Owns: the deed, and what ends it. Refuses to know: phases, and what must come of it. What the user's code does, it is
told by a word (`held`), so there is no deed here for that.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from regroup.lab.chaos import network
from regroup.lab.chaos.bed import Bed, ChaosFailed
from regroup.lab.chaos.cells import Cell
from regroup.lab.chaos.network import Network
from regroup.lab.trainers import trainer_of

CUT_OFF = 8.0  # seconds: longer than it takes the others to go on without the worker
HANDED_OVER = 10.0  # seconds until who leaves is gone; less than REGROUP_LEAVE_LIMIT, after which it goes in any case

Undo = Callable[[], None]  # called once, after the held trainer was told to go on


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a fault is done. `pid` is the victim's trainer; `other` is a worker whose trainer is held with it."""

    bed: Bed
    job: str
    victim: str
    pid: int
    other: str

    def trainer(self, worker: str) -> int:
        return self.bed.until(lambda: trainer_of(self.bed.cluster.data_dir, worker), f"{worker} has a trainer")

    @property
    def coordinator(self) -> int:
        process = self.bed.cluster.coordinator
        if process is None:
            raise ChaosFailed("there is no coordinator to disturb")
        return process.process.pid

    @property
    def agent(self) -> int:
        return self.bed.cluster.agents[self.victim].process.pid

    @property
    def network(self) -> Network:
        if self.bed.network is None:
            raise ChaosFailed("this cluster has no cables to pull")
        return self.bed.network

    def checkpoints(self) -> Path:
        return self.bed.cluster.data_dir / "checkpoints" / self.job

    def await_event(self, *kinds: str) -> None:
        what = f"the timeline tells of {' or '.join(kinds)}"
        self.bed.until(lambda: any(each.kind in kinds for each in self.bed.events(self.job) if each.job), what)


def nothing() -> None:
    pass


def leave(scene: Scene) -> Undo:
    """The word alone does it."""
    return nothing


def kill_trainer(scene: Scene) -> Undo:
    os.kill(scene.pid, signal.SIGKILL)
    return nothing


def kill_agent(scene: Scene) -> Undo:
    os.kill(scene.agent, signal.SIGKILL)
    return nothing


def kill_coordinator(scene: Scene) -> Undo:
    os.kill(scene.coordinator, signal.SIGKILL)
    return nothing


def kill_store(scene: Scene) -> Undo:
    """It works in its own folder, and writes its title over its environment."""
    home = scene.bed.cluster.data_dir / "redis"
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit() and (process / "cwd").readlink() == home:
                os.kill(int(process.name), signal.SIGKILL)
                return nothing
    raise ChaosFailed(f"no process works in {home}: the store was not found")


def kill_all(scene: Scene) -> Undo:
    for pid in {scene.pid, *(scene.trainer(worker) for worker in scene.bed.cluster.agents)}:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return nothing


def kill_second(scene: Scene) -> Undo:
    """The other one dies while the job is halted for the first; an earlier halt does not count."""
    other, killed = scene.trainer(scene.other), time.time()
    os.kill(scene.pid, signal.SIGKILL)

    def halted() -> bool:
        return any(each.kind == "halt" and each.at >= killed for each in scene.bed.events(scene.job))

    scene.bed.until(halted, "the job is halted")
    os.kill(other, signal.SIGKILL)
    return nothing


def ask_to_end(scene: Scene) -> Undo:
    return _ask_to_end(scene, scene.victim)


def ask_all_to_end(scene: Scene) -> Undo:
    return _each([_ask_to_end(scene, worker) for worker in scene.bed.cluster.agents])


def restart_in_turn(scene: Scene) -> Undo:
    """What is started again may not be back yet when the next one is asked."""
    gone = _ask_to_end(scene, scene.victim)

    def go_on() -> None:
        gone()
        for worker in scene.bed.cluster.agents:
            if worker != scene.victim:
                _ask_to_end(scene, worker)()

    return go_on


def drain(scene: Scene) -> Undo:
    bed, name = scene.bed, scene.victim
    bed.ask(lambda client: client.drain(name))

    def admit() -> None:
        try:
            spared = f"{name} has nothing to do any more"
            bed.until(lambda: bed.ask(lambda client: client.worker(name)).job is None, spared, HANDED_OVER)
        finally:
            bed.ask(lambda client: client.admit(name))

    return admit


def stop_trainer(scene: Scene) -> Undo:
    os.kill(scene.pid, signal.SIGSTOP)
    return nothing


def stop_other(scene: Scene) -> Undo:
    os.kill(scene.trainer(scene.other), signal.SIGSTOP)
    return nothing


def pause_trainer(scene: Scene) -> Undo:
    return _pause(scene.pid, 1.0)


def pause_agent(scene: Scene) -> Undo:
    return _pause(scene.agent, 2.0)


def pause_coordinator(scene: Scene) -> Undo:
    return _pause(scene.coordinator, 2.0)


def cut_off(scene: Scene) -> Undo:
    cables, victim, plugged = scene.network, scene.victim, time.monotonic() + CUT_OFF
    cables.pull(victim)

    def plug() -> None:
        time.sleep(max(0.0, plugged - time.monotonic()))
        cables.plug(victim)

    return plug


def leave_half_open(scene: Scene) -> Undo:
    plug = cut_off(scene)
    os.kill(scene.agent, signal.SIGKILL)
    return plug


def block_folder(scene: Scene) -> Undo:
    folder = scene.checkpoints()
    aside = folder.with_name(f"{folder.name}-aside")
    folder.parent.mkdir(exist_ok=True)
    if folder.is_dir():
        folder.rename(aside)
    folder.write_text("in the way")

    def clear() -> None:
        if folder.is_file():
            scene.await_event("save_failed", "checkpoint_failed")
            folder.unlink()
            if aside.is_dir():
                aside.rename(folder)

    return clear


def fill_disk(scene: Scene) -> Undo:
    """A small file system of its own, full to the last byte."""
    folder = scene.checkpoints()
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], check=True)
    with suppress(OSError), (folder / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))

    def clear() -> None:
        if folder.is_mount():
            try:
                scene.await_event("save_failed", "checkpoint_failed")
            finally:
                subprocess.run(["umount", "--lazy", str(folder)], check=True)

    return clear


def truncate(scene: Scene) -> Undo:
    return _damage(scene, lambda whole: whole[: len(whole) // 2])


def flip(scene: Scene) -> Undo:
    return _damage(scene, lambda whole: whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])


def _damage(scene: Scene, change: Callable[[bytes], bytes]) -> Undo:
    """Of the newest, for good: the job goes back to the one before it."""
    path = max(scene.checkpoints().glob("*.safetensors"))
    path.write_bytes(change(path.read_bytes()))
    return nothing


def _ask_to_end(scene: Scene, worker: str) -> Undo:
    """It is started again once it has exited."""
    process = scene.bed.cluster.agents[worker].process
    process.send_signal(signal.SIGTERM)

    def gone() -> None:
        what = f"{worker}'s agent hands over and exits"
        scene.bed.until(lambda: process.poll() is not None, what, HANDED_OVER)
        if process.returncode != 0:
            raise ChaosFailed(f"{worker}'s agent was asked to end, and exited with {process.returncode}")

    return gone


def _each(undos: Sequence[Undo]) -> Undo:
    def undo() -> None:
        for one in undos:
            one()

    return undo


def _pause(pid: int, seconds: float) -> Undo:
    """The process stands still for so long, also while the others are let go."""
    os.kill(pid, signal.SIGSTOP)
    until = time.monotonic() + seconds

    def go_on() -> None:
        time.sleep(max(0.0, until - time.monotonic()))
        os.kill(pid, signal.SIGCONT)

    return go_on


DEEDS: Mapping[str, Callable[[Scene], Undo]] = {
    "trainer-killed": kill_trainer,
    "agent-killed": kill_agent,
    "coordinator-killed": kill_coordinator,
    "store-killed": kill_store,
    "all-killed": kill_all,
    "second-killed": kill_second,
    "last-step-killed": kill_trainer,
    "agent-leaves": ask_to_end,
    "all-leave": ask_all_to_end,
    "rolling-restart": restart_in_turn,
    "last-step-leaves": ask_to_end,
    "worker-drained": drain,
    "trainer-stopped": stop_trainer,
    "collective-hung": stop_other,
    "trainer-paused": pause_trainer,
    "agent-paused": pause_agent,
    "coordinator-paused": pause_coordinator,
    "cut-off": cut_off,
    "half-open": leave_half_open,
    "folder-unwritable": block_folder,
    "disk-full": fill_disk,
    "checkpoint-truncated": truncate,
    "checkpoint-flipped": flip,
}


def not_allowed(cell: Cell) -> str | None:
    """Why this machine does not allow the fault; None: it does."""
    if cell.fault.network:
        return network.not_allowed()
    if cell.fault.name == "disk-full" and os.geteuid() != 0:
        return "needs root, to mount a small file system"
    return None
