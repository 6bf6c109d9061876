"""Finding a task by its name.

Owns: the names of the built-in tasks, and what is said when a name leads nowhere.
Refuses to know: the path it searches (`sys.path`, which the worker's start decides), and what the options mean.
Does not guarantee: that the code it imports is harmless. Whoever may submit jobs may run the code on the workers' path.
"""

import importlib
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from regroup.tasks.contract import OptionError, Task

BUILT_IN: Mapping[str, str] = {
    "digits": "regroup.tasks.digits:Digits",
    "gpt": "regroup.tasks.gpt:Gpt",
}


class TaskNotFound(Exception):
    """No task has this name; the message says what exists."""


def load_task(name: str, options: Mapping[str, Any]) -> Task:
    """The task called `name` ("gpt", "digits" or "module:Class"), constructed with `options`.

    Raises TaskNotFound, or OptionError for options that the constructor does not take. Whatever else the module's
    import or the constructor raises is the user's, and passes through.
    """
    kind = _find(name)
    _check_names(kind, options)
    return kind(**options)


def _find(name: str) -> type[Task]:
    path = BUILT_IN.get(name, name)
    module_name, colon, class_name = path.partition(":")
    if not (module_name and colon and class_name):
        raise TaskNotFound(f"there is no task {name!r}: give {', '.join(BUILT_IN)} or module:Class")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, but one that it imports is not
        if module_name.endswith(".py"):
            raise TaskNotFound(f"{name}: write {module_name.removesuffix('.py')}:{class_name}, without .py") from error
        path = "the workers' path: the folder where each was started, and PYTHONPATH"
        shut = "".join(f"; this worker may not read {folder} (chmod a+rx)" for folder in _unreadable())
        raise TaskNotFound(f"{name}: there is no module {error.name} on {path}{shut}") from error
    found = getattr(module, class_name, None)
    if isinstance(found, type) and issubclass(found, Task):
        return found
    fault = f"has no class {class_name}" if found is None else f"has a {class_name} that is no regroup.tasks.Task"
    tasks = [key for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Task)]
    known = ", ".join(f"{module_name}:{key}" for key in tasks if key != "Task") or "none"
    raise TaskNotFound(f"{name}: module {module_name} {fault}; its tasks: {known}")


def _unreadable() -> Iterator[str]:
    """Folders of the path that an import takes for empty, since it may not look into them."""
    for folder in sys.path:
        try:
            os.listdir(os.path.join(folder, os.curdir))  # asks for both: to list it, and to go in
        except PermissionError:
            yield folder or os.curdir
        except OSError:
            continue  # an archive, or nothing at all


def _check_names(kind: type[Task], options: Mapping[str, Any]) -> None:
    """A constructor with named parameters instead of **options gets the same clear error for a name that is wrong."""
    parameters = inspect.signature(kind).parameters.values()
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for name in options:
        if name not in named and not open_ended:
            raise OptionError(name, f"unknown option; there are {', '.join(sorted(named)) or 'none'}")
    for name, parameter in named.items():
        if parameter.default is parameter.empty and name not in options:
            raise OptionError(name, "is required")
