"""What is measured of a cluster that rests between two regroups: one number of each series.

Owns: the series, their units and the floors below which a rise is none. Refuses to know: what is flat (`flat`).
Of each kind of process one is looked at that lives throughout; trainers that are young have not grown yet.
Of shared memory every name counts that was not there at first, whoever made it: torch's, Python's and our own. So
nothing else that uses shared memory should begin on the machine meanwhile.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regroup.lab.footprint import Footprint, footprint, parts
from regroup.lab.local import LocalCluster

MIB = 1 << 20
SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    unit: str
    floor: float  # that it may rise, in its unit
    judged: bool = True


def series(survivor: str) -> list[Series]:
    """`survivor` is a worker whose processes live throughout."""
    found = []
    for part in ("coordinator", "store", f"agent {survivor}", f"trainer {survivor}", "all processes"):
        # The timeline (10 000 events) and the losses (50 000 steps) are capped, and fill up while a soak runs.
        found.append(Series(f"{part}: memory", "MiB", 32.0 if part in ("store", "all processes") else 8.0))
        if part != "all processes":
            found += [Series(f"{part}: descriptors", "", 3), Series(f"{part}: threads", "", 3)]
    return [
        *found,
        Series("processes", "", 2),
        Series("shared memory: segments", "", 3),
        Series("files of records", "", 0),
        Series("files of logs", "", 20),  # each worker's newest are kept: this fills up, too
        Series("files of checkpoints", "", 3),
        Series("other files", "", 3),
        Series("records", "MiB", 0.0, judged=False),  # the evidence: a line for each shard of each step
        Series("logs", "MiB", 8.0),
    ]


def segments() -> frozenset[str]:
    """The names in shared memory, of all processes of the machine."""
    return frozenset(os.listdir(SHARED_MEMORY))


def sample(cluster: LocalCluster, survivor: str, strangers: frozenset[str] = frozenset()) -> dict[str, float]:
    """By the names of `series`. `strangers`: the segments that were there before the cluster."""
    found, total = {}, Footprint()
    for part, pids in parts(cluster).items():
        one = footprint(pids)
        total += one
        if part in ("coordinator", "store", f"agent {survivor}", f"trainer {survivor}"):
            found[f"{part}: memory"] = one.memory / MIB
            found[f"{part}: descriptors"] = float(one.descriptors)
            found[f"{part}: threads"] = float(one.threads)
    found["all processes: memory"], found["processes"] = total.memory / MIB, float(total.processes)
    found["shared memory: segments"] = float(len(segments() - strangers))
    sizes: dict[str, list[int]] = {"records": [], "logs": [], "checkpoints": [], "other": []}
    for path, size in _files(cluster.data_dir):
        place = path.relative_to(cluster.data_dir).parts[0]
        sizes[place if place in sizes else "other"].append(size)
    for place, each in sizes.items():
        found["other files" if place == "other" else f"files of {place}"] = float(len(each))
    found["records"], found["logs"] = sum(sizes["records"]) / MIB, sum(sizes["logs"]) / MIB
    return found


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            try:
                yield path, path.lstat().st_size
            except FileNotFoundError:
                continue
