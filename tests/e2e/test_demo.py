"""`regroup demo` as its user runs it: a process of its own, its output in a pipe."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

COMMAND = [str(Path(sys.executable).with_name("regroup")), "demo", "--steps", "300"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the demo makes its data directory, and all else that is temporary."""
    place = tmp_path / "temporary"
    place.mkdir()
    return place


def processes_of(folder: Path) -> list[str]:
    """The command lines of all processes whose environment names a folder."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and str(folder).encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            pass  # it ended meanwhile, or is somebody else's
    return found


def test_the_demo_shows_what_it_claims_and_leaves_nothing_behind(place: Path, tmp_path: Path) -> None:
    another = {"REGROUP_REDIS_URL": "redis://127.0.0.1:1", "REGROUP_TOKEN": "of-another-cluster"}
    file, environ = tmp_path / "facts.json", {**os.environ, "TMPDIR": str(place), **another}
    done = subprocess.run([*COMMAND, "--json", str(file)], env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    facts: dict[str, Any] = json.loads(file.read_text())
    assert facts["ok"]
    assert facts["failed"] is None
    assert not facts["kept"]
    assert facts["killed"]["worker"] == "w1"
    assert 0 < facts["killed"]["regrouped"] < facts["killed"]["committed"] < 60_000
    assert facts["joined"]["worker"] == "w3"
    assert facts["joined"]["steps"] > 0
    assert facts["audit"]["ok"]
    assert facts["audit"]["samples"] == 300 * 36
    assert facts["loss_after"] < facts["loss_before"]
    assert facts["sample"].startswith("def ")
    lines = done.stdout.splitlines()
    for word in ("killed", "halt", "regrouped", "committed", "new worker", "completed", "audit"):
        assert any(word in line for line in lines), word
    assert "\x1b" not in done.stdout
    assert all(line == line.rstrip() for line in lines)
    assert list(place.iterdir()) == []
    assert processes_of(place) == []


def test_ctrl_c_stops_everything_that_the_demo_started(place: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(place)}
    with subprocess.Popen(COMMAND, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        assert any(" started " in line for line in demo.stdout)
        assert any("regroup.worker" in command for command in processes_of(place))
        demo.send_signal(signal.SIGINT)
        _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert errors == "regroup: interrupted; everything that was started is stopped\n"
    assert processes_of(place) == []
    assert list(place.iterdir()) == []
