"""What a cluster of this machine's processes takes: memory, descriptors, threads, processor time. Read from /proc.

Owns: which process plays which part, and the sums. Refuses to know: what the processes do, and what is too much.
Memory is what the processes made themselves: the PSS of their anonymous and shared pages. A page that several share
counts in parts that add up to one, as with the forks of one server. Pages of files, such as torch's libraries, are left
out: how many processes of anybody else share them changes their parts.
Does not guarantee: that a process which ends meanwhile is counted; nor the time of one that ended and whose parent
ended, too.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from regroup.lab.local import LocalCluster
from regroup.lab.trainers import trainer_of

MADE = ("Pss_Anon:", "Pss_Shmem:")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Footprint:
    """Of one process, or of several together."""

    processes: int = 0  # ended ones that nobody buried among them
    memory: int = 0  # bytes
    descriptors: int = 0
    threads: int = 0

    def __add__(self, other: "Footprint") -> "Footprint":
        return Footprint(
            self.processes + other.processes,
            self.memory + other.memory,
            self.descriptors + other.descriptors,
            self.threads + other.threads,
        )


def footprint(pids: Iterable[int]) -> Footprint:
    total = Footprint()
    for pid in pids:
        with suppress(OSError):
            total += _one(Path(f"/proc/{pid}"))
    return total


def parts(cluster: LocalCluster) -> dict[str, list[int]]:
    """The processes of each part: coordinator, store, and of each worker its agent (with fork server and spare) and
    its trainer (with what that started)."""
    children = _children()
    found: dict[str, list[int]] = {}
    if cluster.coordinator is not None:
        pid = cluster.coordinator.process.pid
        found["coordinator"], found["store"] = [pid], [each for each in _below(pid, children) if each != pid]
    for worker, agent in sorted(cluster.agents.items()):
        trainer = trainer_of(cluster.data_dir, worker)
        found[f"trainer {worker}"] = list(_below(trainer, children)) if trainer is not None else []
        found[f"agent {worker}"] = [
            pid for pid in _below(agent.process.pid, children) if pid not in found[f"trainer {worker}"]
        ]
    return found


def processor_seconds(cluster: LocalCluster) -> float:
    """That all processes of the cluster have used so far, those that ended among them."""
    ticks = 0
    for pid in {pid for pids in parts(cluster).values() for pid in pids}:
        with suppress(OSError):
            ticks += sum(map(int, _stat(Path(f"/proc/{pid}"))[11:15]))  # own and buried children's, user and system
    return ticks / TICKS


def _one(process: Path) -> Footprint:
    threads = int(_stat(process)[17])
    try:
        rollup = (process / "smaps_rollup").read_text()
        memory = sum(int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith(MADE))
        return Footprint(1, memory, len(os.listdir(process / "fd")), threads)
    except OSError:  # it ended, and its parent has not looked yet
        return Footprint(1)


def _stat(process: Path) -> list[str]:
    """The fields of its line from the third on: what stands before may hold blanks."""
    return (process / "stat").read_text().rpartition(")")[2].split()


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                found.setdefault(int(_stat(process)[1]), []).append(int(process.name))
    return found


def _below(pid: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    """The process and all that descend from it."""
    yield pid
    for child in children.get(pid, ()):
        yield from _below(child, children)
