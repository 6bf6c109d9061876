"""The units of systemd: it can read them, they are confined, and an agent has the time to hand over."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from regroup.coordinator.settings import Settings
from regroup.worker.settings import LEAVE_LIMIT, AgentSettings

ROOT = Path(__file__).parents[2]
UNITS = {"regroup-coordinator.service": Settings, "regroup-agent@.service": AgentSettings}
EXPOSURE = {
    "regroup-coordinator.service": 20,
    "regroup-agent@.service": 25,
}  # tenths, as systemd judges; 100 is the worst


@pytest.fixture(params=UNITS)
def unit(request):
    return request.param


def settings(unit):
    """What a unit sets, key by key; a key may be there several times."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "systemd" / unit).read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


@pytest.fixture
def installed(unit, tmp_path):
    """The unit with commands that are here, under a name of its own, as systemd would be given it."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NOT READ by systemd, which is not here")
    text = (ROOT / "systemd" / unit).read_text().replace("/opt/regroup/bin", str(Path(sys.executable).parent))
    path = tmp_path / unit.replace("@", "@0")
    path.write_text(text)
    return path


def test_systemd_knows_every_key_and_finds_the_command(installed):
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", installed], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(installed) not in done.stderr, done.stderr


def test_systemd_judges_it_to_be_confined(installed, unit):
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE[unit]}", installed]
    done = subprocess.run(command, capture_output=True, text=True)
    if "Unknown operation" in done.stderr or "unrecognized option" in done.stderr:
        pytest.skip("NOT JUDGED: this systemd cannot judge a unit that is not loaded")
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


def test_it_is_not_root_and_is_started_again_but_not_for_ever(unit):
    found = settings(unit)
    assert found["User"] == ["regroup"]
    assert found["NoNewPrivileges"] == ["yes"]
    assert found["ProtectSystem"] == ["strict"]
    assert found["Restart"] == ["always"]
    assert int(found["StartLimitBurst"][0]) * int(found["RestartSec"][0]) < int(found["StartLimitIntervalSec"][0])


def test_a_trainer_gets_no_signal_while_its_agent_hands_over():
    found = settings("regroup-agent@.service")
    assert found["KillMode"] == ["mixed"]
    assert float(found["TimeoutStopSec"][0]) >= LEAVE_LIMIT + 15


def test_every_variable_is_a_setting_of_its_process(unit):
    names = {value.partition("=")[0] for value in settings(unit)["Environment"]}
    known = {f"REGROUP_{name.upper()}" for name in UNITS[unit].model_fields}
    assert names <= known
