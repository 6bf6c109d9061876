"""Folders that refuse, and what is said of them."""

import sys
from collections.abc import Callable
from errno import EACCES, ENOSPC, EROFS
from pathlib import Path

import pytest

from regroup.wire.folders import Unwritable, expect_writable, told

TRY = """
import sys, pathlib
from regroup.wire.folders import Unwritable, expect_writable
try:
    expect_writable(pathlib.Path(sys.argv[1]), "it", "go")
except Unwritable as error:
    sys.exit(str(error))
"""


def test_a_trial_leaves_nothing_and_makes_nothing(tmp_path: Path) -> None:
    expect_writable(tmp_path, "it", "go")
    expect_writable(tmp_path / "to" / "be" / "made", "it", "go")
    assert list(tmp_path.iterdir()) == []


def test_a_file_where_a_folder_should_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unwritable, match=r"^cannot write to it .*/file/in \(Not a directory\): go elsewhere$"):
        expect_writable(tmp_path / "file" / "in", "it", "go elsewhere")


def test_a_folder_of_another_user_is_told_with_whose_it_is(tmp_path: Path, refusal: Callable[..., str]) -> None:
    tmp_path.chmod(0o500)
    us = f"uid {tmp_path.stat().st_uid}"
    assert refusal(tmp_path, sys.executable, "-c", TRY, str(tmp_path)) == (
        f"cannot write to it {tmp_path} (Permission denied: it is {us}'s, mode 0500, and this is {us}): go"
    )
    tmp_path.chmod(0o700)


def test_a_folder_that_is_mounted_read_only_is_told(
    tmp_path: Path, refusal: Callable[..., str], mounted: Callable[..., list[str]]
) -> None:
    command = mounted("-o", "ro", "-t", "tmpfs", "none", str(tmp_path))
    said = refusal(tmp_path, *command, sys.executable, "-c", TRY, str(tmp_path))
    assert said == f"cannot write to it {tmp_path} (Read-only file system): go"


def test_a_folder_that_is_full_is_told(
    tmp_path: Path, refusal: Callable[..., str], mounted: Callable[..., list[str]]
) -> None:
    fill = f"open({str(tmp_path / 'all')!r}, 'wb', 0).write(bytes(8192))\n"
    command = mounted("-o", "size=8k", "-t", "tmpfs", "none", str(tmp_path))
    said = refusal(tmp_path, *command, sys.executable, "-c", fill + TRY, str(tmp_path))
    assert said == f"cannot write to it {tmp_path} (No space left on device): go"


@pytest.mark.parametrize(
    ("number", "advice"),
    [(EACCES, "give it to that user (chown), or start this as its owner"), (EROFS, "mount it"), (ENOSPC, "make room")],
)
def test_an_error_of_a_file_is_told_with_what_to_do(number: int, advice: str, tmp_path: Path) -> None:
    said = told(OSError(number, "So it is", str(tmp_path)))
    assert said.startswith(f"cannot use {tmp_path} (So it is")
    assert f"): {advice}" in said


def test_an_error_that_has_its_own_words_keeps_them() -> None:
    assert told(OSError("no way leads there")) == "no way leads there"
