"""A trainer's own records: whole lines, in the file when the call returns, or an error that names the file."""

import errno
import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regroup.worker.records import TAIL, Records


def lines(records: Records) -> list[dict[str, Any]]:
    return [json.loads(line) for line in records.path.read_text().splitlines()]


def test_what_was_read_and_applied_is_in_the_file_at_once(tmp_path: Path) -> None:
    records = Records(tmp_path, "j", "w0", "one")
    records.read(3, 7, [(0, 1, (4, 2)), (0, 5, ())])
    records.applied(3, 7, 0.5, 2.0)
    who = {"generation": 3, "incarnation": "one"}
    *reads, applied = lines(records)
    assert reads == [
        {"read": 7, **who, "epoch": 0, "shard": 1, "indices": [4, 2]},
        {"read": 7, **who, "epoch": 0, "shard": 5, "indices": []},
    ]
    assert applied.pop("monotonic_ns") > 0
    assert applied == {"applied": 7, **who, "loss": 0.5, "weight": 2.0}
    assert records.path == tmp_path / "j" / "w0-one.jsonl"
    records.close()


def test_who_reads_nothing_writes_nothing(tmp_path: Path) -> None:
    records = Records(tmp_path, "j", "w0", "one")
    records.read(1, 0, [])
    assert records.path.read_bytes() == b""
    records.close()


def test_a_full_disk_is_said_with_the_files_name(tmp_path: Path) -> None:
    (tmp_path / "j").mkdir()
    (tmp_path / "j" / "w0-one.jsonl").symlink_to("/dev/full")
    records = Records(tmp_path, "j", "w0", "one")
    with pytest.raises(OSError, match="the records cannot be written: No space left on device") as raised:
        records.applied(1, 0, 0.5, 2.0)
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(records.path))
    records.close()


def test_the_next_trainer_of_a_worker_goes_on_in_its_file(tmp_path: Path) -> None:
    """Else a job that loses trainers for weeks would fill the folder, and the audit would open a file for each."""
    for number, incarnation in enumerate(("one", "two", "three")):
        records = Records(tmp_path, "j", "w0", incarnation)
        records.applied(number + 1, number, 0.5, 2.0)
        records.close()
    assert [path.name for path in (tmp_path / "j").iterdir()] == ["w0-one.jsonl"]
    assert [line["incarnation"] for line in lines(records)] == ["one", "two", "three"]


def test_workers_whose_names_begin_alike_have_files_of_their_own(tmp_path: Path) -> None:
    for worker in ("w0-a", "w0", "w0-a-b"):
        Records(tmp_path, "j", worker, "one").close()
    assert {path.name for path in (tmp_path / "j").iterdir()} == {"w0-one.jsonl", "w0-a-one.jsonl", "w0-a-b-one.jsonl"}


@pytest.mark.parametrize("torn", [b'{"read":1,"gen', b'{"read":1,"indices":[' + b"1," * TAIL])
def test_what_a_killed_trainer_wrote_half_is_gone_before_the_next_one_writes(tmp_path: Path, torn: bytes) -> None:
    first = Records(tmp_path, "j", "w0", "one")
    first.applied(1, 0, 0.5, 2.0)
    os.write(first._file, torn)
    first.close()
    heir = Records(tmp_path, "j", "w0", "two")
    heir.applied(2, 1, 0.5, 2.0)
    assert [line["applied"] for line in lines(heir)] == [0, 1]
    heir.close()


def test_a_file_that_is_half_a_line_and_no_more_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "j").mkdir()
    (tmp_path / "j" / "w0-one.jsonl").write_bytes(b'{"read":0')
    heir = Records(tmp_path, "j", "w0", "two")
    assert heir.path.read_bytes() == b""
    heir.close()


def filling(pipe: Any, folder: Path) -> None:
    """Files may have 150 bytes: the second write is cut off in the middle of a line. Then there is room again."""
    records = Records(folder, "j", "w0", "one")
    records.read(1, 0, [(0, 0, (1, 2, 3))])
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, hard))
    try:
        records.read(1, 1, [(0, 0, (4, 5, 6)), (0, 1, (7, 8, 9))])
    except OSError as error:
        pipe.send(error.errno)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    records.applied(1, 1, None, 0.0)
    pipe.send(lines(records))


def test_half_a_line_is_taken_back(start_rank: Callable[..., Any], tmp_path: Path) -> None:
    """Otherwise the next line would be glued to it, and both be lost to the audit."""
    rank = start_rank("filling", tmp_path)
    assert rank.says() == errno.EFBIG
    first, last = rank.says()
    assert (first["read"], last["applied"]) == (0, 1)


if __name__ == "__rank__":
    globals()[BODY](*ARGS)  # noqa: F821  # given by the test
