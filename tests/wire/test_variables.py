"""One setting, found without the library that reads them all, and where that one finds it."""

import os

import pytest

from regroup.coordinator.settings import Settings
from regroup.wire.environment import read
from regroup.wire.variables import said


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "regroup_port").write_text("1234\n")
    (tmp_path / "regroup_host").write_bytes(b"\xff")
    (tmp_path / "regroup_worker").mkdir()
    return str(tmp_path)


def test_what_nobody_set_says_nothing(folder):
    assert said("DEVICE", {}) is None
    assert said("DEVICE", {"REGROUP_SECRETS_DIR": folder}) is None
    assert said("DEVICE", {"REGROUP_DEVICE": "", "DEVICE": "cuda"}) is None


def test_a_setting_may_be_a_file_and_the_variable_goes_first(folder):
    assert said("PORT", {"REGROUP_SECRETS_DIR": folder}) == "1234"
    assert said("PORT", {"REGROUP_SECRETS_DIR": folder, "REGROUP_PORT": "1"}) == "1"


@pytest.mark.parametrize("name", ["REGROUP_PORT", "regroup_port", "Regroup_Port"])
@pytest.mark.parametrize("where", ["environment", "file"])
def test_it_is_found_in_letters_of_any_case_as_it_is_by_whoever_reads_them_all(name, where, tmp_path, monkeypatch):
    if where == "file":
        (tmp_path / name).write_text("4321\n")
    monkeypatch.delenv("REGROUP_PORT", raising=False)
    monkeypatch.setenv("REGROUP_SECRETS_DIR", str(tmp_path))
    if where == "environment":
        monkeypatch.setenv(name, "4321")
    assert said("PORT") == str(read(Settings).port) == "4321"


@pytest.mark.parametrize("name", ["HOST", "WORKER"])
def test_a_file_that_cannot_be_read_says_nothing(name, folder):
    assert said(name, {"REGROUP_SECRETS_DIR": folder}) is None


def test_a_folder_that_is_not_there_says_nothing(tmp_path):
    assert said("PORT", {"REGROUP_SECRETS_DIR": str(tmp_path / "none")}) is None


def test_it_is_this_processs_environment_that_counts_unless_another_is_given(monkeypatch):
    monkeypatch.setitem(os.environ, "REGROUP_PORT", "4321")
    assert said("PORT") == "4321"
