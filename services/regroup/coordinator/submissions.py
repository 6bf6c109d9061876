"""A job spec out of the body of a request: strictly typed, finite, and sound, or a problem naming each field.

Owns: the limits on a body (size, depth, range of numbers) and the reading of a JobSpec from it.
Refuses to know: what becomes of the spec, and whether its task exists: only a worker can tell.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from fastapi import Request
from pydantic import TypeAdapter, ValidationError

from regroup.coordinator.problems import MALFORMED, TOO_LARGE, Refused, field_problems, invalid
from regroup.core.spec import MAX_KEPT, MAX_SHARDS, MAX_STEP_TIMEOUT, MAX_WORKERS, MIN_STEP_TIMEOUT, JobSpec, Problem
from regroup.wire.rest import SPEC_WORDS

BODY_LIMIT = 2**20  # bytes
DEPTH_LIMIT = 32
PROBLEM_LIMIT = 32  # a body can hold a million faults; nobody reads them

_SPEC = TypeAdapter(JobSpec)
_SURROGATE = re.compile("[\ud800-\udfff]")
_BOUNDS: dict[str, dict[str, Any]] = {
    "name": {"maxLength": 200},
    "steps": {"minimum": 1},
    "epochs": {"minimum": 1},
    "global_batch": {"minimum": 1},
    "shards": {"minimum": 1, "maximum": MAX_SHARDS},
    "micro_batch": {"minimum": 1},
    "seed": {"minimum": 0},
    "min_workers": {"minimum": 1, "maximum": MAX_WORKERS},
    "max_workers": {"minimum": 1, "maximum": MAX_WORKERS},
    "evaluate_every": {"minimum": 1},
    "checkpoint_every": {"minimum": 1},
    "keep_last": {"minimum": 1, "maximum": MAX_KEPT},
    "step_timeout": {"minimum": MIN_STEP_TIMEOUT, "maximum": MAX_STEP_TIMEOUT},
    "max_restarts": {"minimum": 0},
}


async def read_spec(request: Request) -> JobSpec:
    """The spec in the body. Raises Refused: not JSON, too large, or not a sound spec."""
    body = await _read_body(request)
    value = _parse(body)
    if odd := tuple(_odd_values(value)):
        raise invalid(odd)
    if not isinstance(value, dict):
        raise invalid([Problem("body", "must be a JSON object")])
    try:
        spec = _SPEC.validate_json(body, strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=True, include_input=False)
        raise invalid(field_problems(found)[:PROBLEM_LIMIT]) from None
    if problems := spec.problems():
        raise invalid(problems)
    return spec


def body_schema() -> dict[str, Any]:
    """The JSON schema of the body, for OpenAPI: the spec's types with their meaning and bounds."""
    schema = _SPEC.json_schema()
    schema["oneOf"] = [{"required": [one], "properties": {one: {"type": "integer"}}} for one in ("steps", "epochs")]
    for name, declared in schema["properties"].items():
        declared["description"] = SPEC_WORDS[name]
        for part in declared.get("anyOf", [declared]):
            if part.get("type") != "null":
                part.update(_BOUNDS.get(name, {}))
    return schema


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_LIMIT:
            raise Refused(TOO_LARGE, f"a body may have at most {BODY_LIMIT} bytes")
    return bytes(body)


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except RecursionError:
        message = "is nested too deeply"
    except ValueError as error:  # bad JSON, bad UTF-8, a number of thousands of digits
        message = f"is not valid JSON: {error}" if body else "is empty; send a JSON object"
    raise Refused(MALFORMED, f"the body {message}", [Problem("body", message)])


def _odd_values(value: Any) -> Iterator[Problem]:
    """What Python's JSON lets through and no store or worker should meet."""
    left: list[tuple[tuple[str, ...], Any]] = [((), value)]
    found = 0
    while left and found < PROBLEM_LIMIT:
        path, each = left.pop()
        message = None
        match each:
            case bool() | None:
                continue
            case float() if not math.isfinite(each):
                message = "must be a finite number"
            case int() if not -(2**63) <= each < 2**63:
                message = "must fit in 64 bits"
            case str() if _SURROGATE.search(each) or "\0" in each:
                message = "must be valid Unicode text"
            case dict() | list() if len(path) >= DEPTH_LIMIT:
                message = "is nested too deeply"
            case dict() if any(_SURROGATE.search(key) or "\0" in key for key in each):
                message = "must have valid Unicode text as its keys"
            case dict():
                left.extend(((*path, key), inner) for key, inner in each.items())
            case list():
                left.extend(((*path, str(place)), inner) for place, inner in enumerate(each))
        if message:
            found += 1
            yield Problem(".".join(path) or "body", message)
