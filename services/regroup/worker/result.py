"""What a task reports of its final state, as the JSON that travels to its user.

Owns: what a report may be, and that whatever else the task gives or raises costs the report and never the state.
Refuses to know: how the state is written, and who is told.
Does not guarantee: that `report()` ends. While it runs, the state is in memory only.
"""

from traceback import format_exc
from typing import Any

from pydantic_core import from_json, to_json
from torch import nn

from regroup.tasks.contract import Task
from regroup.worker.log import log
from regroup.worker.prepare import USERS

LIMIT = 1 << 20  # bytes of JSON; it is kept in the job's record, and shown with it
NEST = 16  # levels of JSON around it, at most, on its way


def result_of(task: Task, model: nn.Module) -> tuple[dict[str, Any] | None, str | None]:
    """(the report, why there is none): the report in plain JSON values, or None; then the reason, or None."""
    try:
        report = task.report(model)
        if report is None:
            return None, None
        if not isinstance(report, dict):
            raise TypeError(f"report() gave a {type(report).__name__}: it must give a dict, or None")
        text = to_json(report, inf_nan_mode="constants")
        if len(text) > LIMIT:
            raise ValueError(f"report() gave {len(text)} bytes of JSON: at most {LIMIT} are kept")
        from_json(b"[" * NEST + text + b"]" * NEST)  # too deep for a parser is found here, and not on the way
        return from_json(text), None
    except USERS as error:
        log(format_exc())
        return None, f"{type(error).__name__}: {error}"
