"""A plan as Python text, to be pasted among those that are kept, and read again by whoever pastes it.

Owns: the wording; what has its default value is left out. Refuses to know: why a plan is kept.
"""

from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

IMPORTS = """from regroup.core.cluster import Policy
from regroup.core.spec import JobSpec
from regroup.lab.sim.lives.plan import Fault, Kind, Plan
"""


def as_code(value: Any, indent: int = 0) -> str:
    """An expression that evaluates to an equal value where IMPORTS were executed."""
    inner = " " * (indent + 4)
    if is_dataclass(value):
        given = [one for one in fields(value) if getattr(value, one.name) != _default(one)]
        words = [f"{one.name}={as_code(getattr(value, one.name), indent + 4)}" for one in given]
        one_line = f"{type(value).__name__}({', '.join(words)})"
        if len(one_line) + indent <= 110 and "\n" not in one_line:
            return one_line
        return f"{type(value).__name__}(\n" + "".join(f"{inner}{word},\n" for word in words) + " " * indent + ")"
    if isinstance(value, tuple) and any(is_dataclass(one) for one in value):
        return "(\n" + "".join(f"{inner}{as_code(one, indent + 4)},\n" for one in value) + " " * indent + ")"
    return repr(value)


def _default(one: Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default
