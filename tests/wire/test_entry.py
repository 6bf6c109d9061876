"""What a process says before it begins."""

import subprocess
import sys

import pytest

from regroup.wire import entry


@pytest.mark.parametrize(("module", "program"), [("coordinator", "regroup-coordinator"), ("worker", "regroup-agent")])
def test_help_is_given_and_a_wrong_argument_begins_nothing(module, program):
    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", f"regroup.{module}", *arguments], capture_output=True, text=True, timeout=60
        )

    helped = run("--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert "REGROUP_*" in helped.stdout
    assert run("--version").stdout.startswith(f"{program} ")
    wrong = run("--port", "1")
    assert wrong.returncode == 2
    assert "unrecognized arguments: --port 1" in wrong.stderr


def test_what_the_base_install_lacks_is_named_with_the_command_that_brings_it(monkeypatch, capsys):
    assert entry.not_installed(("coordinator", "worker")) is None
    monkeypatch.setattr(entry, "EXTRAS", {"coordinator": ("json",), "worker": ("json", "no_such_package")})
    monkeypatch.setattr(sys, "argv", ["regroup-agent"])
    with pytest.raises(SystemExit) as end:
        entry.begin("regroup-agent", "A worker.", "coordinator", "worker")
    assert end.value.code == "regroup-agent: this needs more than the base install: pip install 'regroup[worker]'"


def test_a_flag_is_a_setting_that_is_there_only_if_it_was_given(monkeypatch):
    flags = {"standby": "where another leads, wait"}
    monkeypatch.setattr(sys, "argv", ["regroup-coordinator"])
    assert entry.begin("regroup-coordinator", "Decisions.", flags=flags) == {}
    monkeypatch.setattr(sys, "argv", ["regroup-coordinator", "--standby"])
    assert entry.begin("regroup-coordinator", "Decisions.", flags=flags) == {"standby": True}


@pytest.mark.parametrize("check", ["regroup.coordinator.check", "regroup.worker.health"])
def test_a_health_check_imports_nothing_that_takes_long(check):
    asked = f"import sys, regroup.wire.entry, {check}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    assert check in loaded
    assert not {"pydantic", "httpx", "zmq", "torch", "importlib.metadata"} & set(loaded)
