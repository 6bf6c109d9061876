"""Where and with what a benchmark ran: figures without it mean nothing.

Owns: asking the operating system. Does not guarantee: that the machine was idle; its load at the start is told.
"""

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    processor: str
    cores: int  # that this process may use
    memory_gib: float
    system: str
    load: float  # runnable processes in the minute before the start
    python: str
    torch: str
    regroup: str
    commit: str | None  # of the source tree, "+" behind it: with changes; None: not run from one

    def __str__(self) -> str:
        source = f", commit {self.commit}" if self.commit else ""
        return (
            f"{self.processor}, {self.cores} cores, {self.memory_gib:.0f} GiB, load {self.load:.2f} at the start; "
            f"{self.system}, Python {self.python}, torch {self.torch}, regroup {self.regroup}{source}"
        )


def this_machine() -> Machine:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(memory / 2**30, 1),
        system=f"{platform.system()} {platform.release()}",
        load=os.getloadavg()[0],
        python=platform.python_version(),
        torch=version("torch"),
        regroup=version("regroup"),
        commit=_commit(Path(__file__).resolve().parent),
    )


def told_settings(settings: Mapping[str, str]) -> str:
    """How the cluster that was measured differs from a usual one."""
    told = ", ".join(f"REGROUP_{name.upper()}={value}" for name, value in settings.items())
    return f"Set for this: {told}. With the usual limits, workers that are killed so often would be quarantined."


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit(folder: Path) -> str | None:
    def git(*words: str) -> str | None:
        try:
            told = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return told.stdout.strip()

    tracked = git("ls-files", "--error-unmatch", __file__)  # else it lies in somebody else's tree
    commit = git("rev-parse", "--short", "HEAD") if tracked else None
    return commit and commit + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
