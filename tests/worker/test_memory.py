"""A file on no disk: other processes of this user open it by its path, as long as somebody here holds it."""

import gc
import subprocess
import sys

from regroup.worker.memory import MemoryFile


def test_another_process_writes_what_this_one_reads():
    file = MemoryFile("note")
    code = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_bytes(b'here')"
    subprocess.run([sys.executable, "-c", code, str(file.path)], check=True, timeout=60)
    assert file.path.read_bytes() == b"here"


def test_it_is_gone_with_whoever_holds_it():
    file = MemoryFile("note")
    path = file.path
    target = path.readlink()
    del file
    gc.collect()
    assert not path.is_symlink() or path.readlink() != target
