"""Every way in which a task's name can lead to a task, or to a clear error."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from regroup.tasks import OptionError
from regroup.tasks.digits import Digits
from regroup.tasks.gpt import Gpt
from regroup.tasks.loading import TaskNotFound, load_task

NOBODY = 65534  # a user that owns nothing

USERS = """
import torch
from regroup.tasks import Task

class Mine(Task):
    def __init__(self, *, rate: float, depth: int = 1) -> None:
        self.rate = rate

class Broken(Task):
    def __init__(self, **options):
        raise ZeroDivisionError("by design")

class Stranger:
    pass

number = 3
"""


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module on the path; each test gets a fresh one, since Python imports a name once."""
    name = f"users_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(USERS)
    (tmp_path / f"{name}_needy.py").write_text("import no_such_package_anywhere\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_built_in_tasks_are_found_by_name() -> None:
    assert isinstance(load_task("gpt", {}), Gpt)
    digits = load_task("digits", {"hidden": [5]})
    assert isinstance(digits, Digits)
    assert digits.options.hidden == (5,)


def test_a_users_task_is_found_as_module_and_class(users: str) -> None:
    task = load_task(f"{users}:Mine", {"rate": 0.5})
    assert type(task).__name__ == "Mine"
    assert vars(task) == {"rate": 0.5}


def test_an_unknown_name_hears_what_exists() -> None:
    with pytest.raises(TaskNotFound, match="digits, gpt or module:Class"):
        load_task("bert", {})


@pytest.mark.parametrize("name", ["", ":", "gpt:", ":Gpt", "regroup.tasks.gpt"])
def test_a_name_of_no_class_is_not_found(name: str) -> None:
    with pytest.raises(TaskNotFound):
        load_task(name, {})


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o111, 0o555], ids=oct)
def test_a_folder_that_may_not_be_read_is_named(monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    me = os.geteuid()
    with TemporaryDirectory() as folder:  # below one that everybody may read
        monkeypatch.syspath_prepend(folder)
        os.chmod(folder, mode)
        if me == 0:
            os.seteuid(NOBODY)  # root reads what nobody may
        try:
            with pytest.raises(TaskNotFound, match=r"no module hidden on the workers' path") as found:
                load_task("hidden:Mine", {})
        finally:
            os.seteuid(me)
            os.chmod(folder, 0o700)
    assert (f"; this worker may not read {folder} (chmod a+rx)" in str(found.value)) == (mode != 0o555)


@pytest.mark.parametrize("module", ["no_such_module", "no_such_package.module", "regroup.tasks.nothing"])
def test_a_module_that_is_not_there_is_named(module: str) -> None:
    with pytest.raises(TaskNotFound, match="there is no module"):
        load_task(f"{module}:Mine", {})


def test_a_file_given_for_a_module_hears_how_to_name_it() -> None:
    with pytest.raises(TaskNotFound, match=r"^lines\.py:Lines: write lines:Lines, without \.py$"):
        load_task("lines.py:Lines", {})


def test_a_module_that_lacks_a_dependency_raises_its_own_error(users: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_package_anywhere"):
        load_task(f"{users}_needy:Mine", {})


def test_a_class_that_is_not_there_hears_which_tasks_are(users: str) -> None:
    with pytest.raises(TaskNotFound, match=rf"has no class Yours; its tasks: {users}:Mine, {users}:Broken$"):
        load_task(f"{users}:Yours", {})


@pytest.mark.parametrize("name", ["Stranger", "number", "torch"])
def test_what_is_no_task_is_refused(users: str, name: str) -> None:
    with pytest.raises(TaskNotFound, match=f"has a {name} that is no regroup.tasks.Task"):
        load_task(f"{users}:{name}", {})


@pytest.mark.parametrize(
    ("options", "field", "message"),
    [({"rate": 1, "speed": 2}, "speed", "there are depth, rate"), ({}, "rate", "is required")],
)
def test_options_that_a_constructor_does_not_take_are_named(
    users: str, options: dict[str, float], field: str, message: str
) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        load_task(f"{users}:Mine", options)
    assert caught.value.field == field


def test_a_constructors_own_exception_passes_through(users: str) -> None:
    with pytest.raises(ZeroDivisionError, match="by design"):
        load_task(f"{users}:Broken", {})
