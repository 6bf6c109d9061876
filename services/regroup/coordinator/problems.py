"""Errors as RFC 9457 problem details (application/problem+json): which there are, and what becomes one.

Owns: the kinds of problems, the wording of what is wrong with a field, and the handlers that answer.
Refuses to know: the routes. Whatever they raise ends here; a traceback goes to the log and never into an answer.
"""

import difflib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from regroup.coordinator.json_line import JsonLine
from regroup.coordinator.persistence import StoreUnavailable, Unconfirmed
from regroup.core.cluster import CannotBegin, Conflict, JobEnded, NoSuchJob, NoSuchWorker, Refusal
from regroup.core.jobs import JobPhase
from regroup.core.spec import BeginFrom, JobSpec, Problem
from regroup.wire.rest import ProblemView

log = logging.getLogger("regroup.coordinator")

MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem. Its type is the URI reference `/problems/<slug>`, which the coordinator answers."""

    slug: str
    status: int
    title: str


MALFORMED = Kind("malformed-body", 400, "The body is not JSON")
UNAUTHORIZED = Kind("unauthorized", 401, "A valid bearer token is needed")
NOT_FOUND = Kind("not-found", 404, "There is nothing at this path")
NO_SUCH_JOB = Kind("no-such-job", 404, "There is no job with this id")
NO_SUCH_WORKER = Kind("no-such-worker", 404, "There is no worker with this name")
NOT_ALLOWED = Kind("method-not-allowed", 405, "This path does not know this method")
JOB_ENDED = Kind("job-ended", 409, "The job has ended")
KEY_TAKEN = Kind("key-taken", 409, "Another job was submitted under this key")
CONFLICT = Kind("conflict", 409, "The job is where this cannot be done")
CANNOT_BEGIN = Kind("cannot-begin", 409, "The job cannot begin from that checkpoint")
REFUSED = Kind("refused", 409, "The command cannot be carried out")
TOO_LARGE = Kind("body-too-large", 413, "The body is too large")
INVALID = Kind("invalid-request", 422, "The request is not valid")
INTERNAL = Kind("internal-error", 500, "The coordinator has a fault")
UNAVAILABLE = Kind("unavailable", 503, "The coordinator cannot serve this now")
STANDBY = Kind("standby", 503, "This coordinator does not lead")
UNCONFIRMED = Kind("unconfirmed", 503, "The command may have been taken")
KINDS: Mapping[str, Kind] = {kind.slug: kind for kind in list(globals().values()) if isinstance(kind, Kind)}


class Refused(Exception):
    """The API's own refusal, to be raised by routes."""

    def __init__(self, kind: Kind, detail: str, errors: Iterable[Problem] = ()) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.errors = tuple(errors)


def invalid(errors: Iterable[Problem]) -> Refused:
    found = tuple(errors)
    return Refused(INVALID, "; ".join(f"{each.field}: {each.message}" for each in found), found)


def documented(*kinds: Kind) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that may answer with these problems, beside those that every route may."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for kind in (*kinds, UNAUTHORIZED, INVALID, UNAVAILABLE):
        schema = {"$ref": "#/components/schemas/ProblemView"}
        before = by_status.get(kind.status)
        title = f"{before['description']}; or: {kind.title}" if before else kind.title
        by_status[kind.status] = {"description": title, "content": {MEDIA_TYPE: {"schema": schema}}}
    return by_status


def respond(
    kind: Kind,
    detail: str,
    errors: tuple[Problem, ...] = (),
    *,
    phase: JobPhase | None = None,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> JsonLine:
    view = ProblemView(
        type=f"/problems/{kind.slug}",
        title=kind.title,
        status=status or kind.status,
        detail=detail,
        errors=errors,
        phase=phase,
    )
    said = {name: value for name, value in asdict(view).items() if value is not None}
    again = {"Retry-After": "1"} if view.status == 503 else {}
    return JsonLine(said, view.status, {**again, **(headers or {})}, media_type=MEDIA_TYPE)


def field_problems(found: Iterable[Mapping[str, Any]]) -> tuple[Problem, ...]:
    """pydantic's error list as fields and words: the path of the field, and what it must be."""
    return tuple(Problem(_field(each["loc"]), _words(each)) for each in found)


def _field(location: tuple[int | str, ...]) -> str:
    path = location[1:] if location and location[0] in ("query", "path", "header", "body") else location
    return ".".join(str(part) for part in path) or "body"


_WORDS = {
    "missing": "is required",
    "string_pattern_mismatch": "must match {pattern}",
    "value_error": "is not usable: {error}",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be a string",
    "bool_parsing": "must be true or false",
    "dict_type": "must be an object",
    "mapping_type": "must be an object",
    "dataclass_type": 'must be a JSON object, such as {{"job": "j-k3v7p2mxda", "step": 200}}',  # begin_from
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
}


def _words(error: Mapping[str, Any]) -> str:
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        *above, given = map(str, error["loc"])
        kind, owner = (BeginFrom, "begin_from") if above[-1:] == ["begin_from"] else (JobSpec, "a job")
        names = [each.name for each in fields(kind)]
        near = [name for name in names if given in name.split("_")] or difflib.get_close_matches(given, names, 1)
        return f"is not a field of {owner}" + (f"; did you mean {' or '.join(near)}?" if near else "")
    words = _WORDS.get(error["type"])
    return words.format(**error.get("ctx", {})) if words else str(error["msg"])


def install(app: FastAPI) -> None:
    """Let every error of `app` leave as a problem."""
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(Refusal, _refusal)
    app.add_exception_handler(StoreUnavailable, _unavailable)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _fault)


async def _refused(request: Request, error: Exception) -> JsonLine:
    assert isinstance(error, Refused)
    headers = {"WWW-Authenticate": 'Bearer realm="regroup"'} if error.kind is UNAUTHORIZED else None
    return respond(error.kind, error.detail, error.errors, headers=headers)


async def _refusal(request: Request, error: Exception) -> JsonLine:
    kind = REFUSED
    phase = None
    if isinstance(error, NoSuchJob):
        kind = NO_SUCH_JOB
    elif isinstance(error, NoSuchWorker):
        kind = NO_SUCH_WORKER
    elif isinstance(error, JobEnded | Conflict):
        kind = JOB_ENDED if isinstance(error, JobEnded) else CONFLICT
        job = request.app.state.context.desk.cluster.jobs.get(request.path_params.get("job"))
        phase = job.phase if job else None
    elif isinstance(error, CannotBegin):
        return respond(CANNOT_BEGIN, str(error), error.problems)
    return respond(kind, str(error) or kind.title, phase=phase)


async def _unavailable(request: Request, error: Exception) -> JsonLine:
    kind = UNCONFIRMED if isinstance(error, Unconfirmed) else UNAVAILABLE
    return respond(kind, str(error) or kind.title)


async def _invalid(request: Request, error: Exception) -> JsonLine:
    assert isinstance(error, RequestValidationError)
    return await _refused(request, invalid(field_problems(error.errors())))


async def _http(request: Request, error: Exception) -> JsonLine:
    assert isinstance(error, HTTPException)
    known = {404: NOT_FOUND, 405: NOT_ALLOWED, 413: TOO_LARGE}
    phrase = HTTPStatus(error.status_code).phrase
    kind = known.get(error.status_code, Kind("http", error.status_code, phrase))
    detail = f"{request.method} {request.url.path}: {phrase}"
    headers = {"Allow": _allowed(request)} if error.status_code == 405 else error.headers
    return respond(kind, detail, headers=headers)


def _allowed(request: Request) -> str:
    """The methods of all routes at this path; the router itself names those of the first alone."""
    described: Mapping[str, Mapping[str, Any]] = request.app.openapi()["paths"]
    route = request.scope.get("route")
    path = getattr(route, "path", request.url.path)
    return ", ".join(sorted(method.upper() for method in described.get(path, {})))


async def _fault(request: Request, error: Exception) -> JsonLine:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return respond(INTERNAL, "something unexpected happened; the coordinator's log says what")
