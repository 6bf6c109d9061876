"""Every error that the client raises. Catch `RegroupError` for all of them.

RegroupError
├── Unreachable            nothing answers, or not in time
│   └── NotRunning         no coordinator was found or listens there
├── BadAddress             the URL or the token file that was given cannot be used
├── NoRegroup              something answers that is no coordinator
├── WaitedTooLong          `wait` reached its timeout; the job goes on
└── ApiError               the coordinator said no
    ├── Invalid            400, 413, 422: the request is wrong, field by field
    ├── Unauthorized       401: the token is missing or wrong
    ├── NotFound           404
    ├── Conflict           409: for instance, the job has ended
    └── Unavailable        503: it does not serve now, since its store does not answer
        └── NotLeading     503: it stands by; another one leads, or none
"""

from regroup.core.spec import Problem
from regroup.wire.rest import ProblemView


class RegroupError(Exception):
    """Anything that went wrong between this client and the cluster."""


class Unreachable(RegroupError):
    """The coordinator did not answer."""


class NotRunning(Unreachable):
    """No coordinator runs where one was looked for."""


class BadAddress(RegroupError):
    """What was given to find the coordinator by cannot be used."""


class NoRegroup(RegroupError):
    """What answered is no coordinator of Regroup."""


class WaitedTooLong(RegroupError):
    """The job did not end in the time given."""


class ApiError(RegroupError):
    """The coordinator's problem details."""

    def __init__(self, problem: ProblemView) -> None:
        super().__init__(problem.detail)
        self.problem = problem

    @property
    def status(self) -> int:
        return self.problem.status

    @property
    def errors(self) -> tuple[Problem, ...]:
        """What is wrong, field by field."""
        return self.problem.errors


class Invalid(ApiError):
    """The request is wrong; `errors` names each field."""


class Unauthorized(ApiError):
    """The token is missing, or not the coordinator's."""


class NotFound(ApiError):
    """There is no such job, worker or path."""


class Conflict(ApiError):
    """It cannot be done in this state; `problem.phase` is that of a job which has ended."""


class Unavailable(ApiError):
    """The coordinator lives and cannot serve this now."""


class NotLeading(Unavailable):
    """The coordinator stands by; nothing was done."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    404: NotFound,
    409: Conflict,
    413: Invalid,
    422: Invalid,
    503: Unavailable,
}


def from_problem(problem: ProblemView) -> ApiError:
    if problem.type == "/problems/standby":
        return NotLeading(problem)
    return _BY_STATUS.get(problem.status, ApiError)(problem)
