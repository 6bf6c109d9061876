"""What a task reports of its final state, as the JSON that travels to its user.

Owns: what a report may be, how it sees the model, and that whatever else is given or raised costs the report alone.
Refuses to know: how the state is written, and who is told.
Does not guarantee: that `report()` ends, or leaves its process alive. So it is asked when the state is on the disk.
"""

from collections.abc import Callable
from typing import Any

from pydantic_core import from_json, to_json
from torch import nn

from regroup.tasks.contract import Task
from regroup.worker.log import log
from regroup.worker.prepare import USERS
from regroup.worker.read_only import read_only
from regroup.worker.words import said, trace

LIMIT = 1 << 20  # bytes of JSON; it is kept in the job's record, and shown with it
NEST = 16  # levels of JSON around it, at most, on its way


def result_of(task: Task, model: nn.Module, say_why: Callable[[str], None]) -> dict[str, Any] | None:
    """The report in plain JSON values; None if the task has none, or if it cannot be told: then `say_why` is told."""
    try:
        with read_only(model):
            report = task.report(model)
        if report is None:
            return None
        if not isinstance(report, dict):
            raise TypeError(f"report() gave a {type(report).__name__}: it must give a dict, or None")
        text = to_json(report, inf_nan_mode="constants")
        if len(text) > LIMIT:
            raise ValueError(f"report() gave {len(text)} bytes of JSON: at most {LIMIT} are kept")
        from_json(b"[" * NEST + text + b"]" * NEST)  # too deep for a parser is found here, and not on the way
        told: dict[str, Any] = from_json(text)
        return told
    except USERS as error:
        log(f"the state is saved, and nothing is reported of it:\n{trace()}")
        say_why(f"report() failed: {said(error)}")
        return None
