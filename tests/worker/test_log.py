"""A trainer's log, in a process of its own: all that is printed, and no trainer dies of a full disk."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regroup.worker.log import log, log_to


def printing(pipe: Any, path: Path) -> None:
    log_to(path)
    print("from Python", flush=True)
    os.write(2, b"from C\n")
    log("said")
    pipe.send("done")


def test_it_holds_whatever_its_process_prints(start_rank: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "job" / "w0-one.log"
    assert start_rank("printing", path).says() == "done"
    assert path.read_text() == "from Python\nfrom C\nsaid\n"
    assert path.stat().st_mode & 0o077 == 0


def test_a_full_disk_costs_lines_only(start_rank: Callable[..., Any]) -> None:
    assert start_rank("printing_in_vain").says() == "alive"


def printing_in_vain(pipe: Any) -> None:
    log_to(Path("/dev/full"))
    for _ in range(3):
        log("nobody reads this")
    pipe.send("alive")


if __name__ == "__rank__":
    globals()[BODY](*ARGS)  # noqa: F821  # given by the test
