"""A trainer's log, in a process of its own: all that is printed, and no trainer dies of a full disk."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regroup.worker.log import KEPT, log, log_to


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


def test_the_newest_logs_of_a_worker_are_kept_and_no_other_workers_touched(
    start_rank: Callable[..., Any], tmp_path: Path
) -> None:
    for number in range(KEPT + 3):
        for worker in ("w0", "w0-a"):
            path = tmp_path / f"{worker}-{number:02}.log"
            path.touch()
            os.utime(path, (number, number))
    assert start_rank("printing", tmp_path / "w0-new.log").says() == "done"
    kept = sorted(path.name for path in tmp_path.iterdir() if path.name.count("-") == 1)
    assert kept == [*(f"w0-{number:02}.log" for number in range(4, KEPT + 3)), "w0-new.log"]
    assert len(list(tmp_path.glob("w0-a-*.log"))) == KEPT + 3


def test_a_full_disk_costs_lines_only(start_rank: Callable[..., Any]) -> None:
    assert start_rank("printing_in_vain").says() == "alive"


def printing_in_vain(pipe: Any) -> None:
    log_to(Path("/dev/full"))
    for _ in range(3):
        log("nobody reads this")
    pipe.send("alive")


if __name__ == "__rank__":
    globals()[BODY](*ARGS)  # noqa: F821  # given by the test
