"""Who may use the API: a bearer token on every route below /v1, and on /metrics.

Owns: the check of the Authorization header.
Refuses to know: how the token was made, and what a caller does with it: who has
it may do everything. What reads /metrics alone has a lesser one (`exposition`).
"""

from typing import Annotated

from fastapi import Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from regroup.coordinator.desk import InContext
from regroup.coordinator.problems import UNAUTHORIZED, Refused
from regroup.coordinator.tokens import matches

WHERE = (
    "it is in the file token of the coordinator's data directory, if it was given no REGROUP_TOKEN; "
    "the command line takes it from REGROUP_TOKEN, or by --token-file"
)
bearer = HTTPBearer(auto_error=False, description="the token in the coordinator's data directory")


async def authorize(
    context: InContext, given: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]
) -> None:
    """Raises Refused (401) unless the request carries the token."""
    check(given, context.token)


def check(given: HTTPAuthorizationCredentials | None, *tokens: str) -> None:
    """Raises Refused (401) unless this is one of the tokens."""
    if given is None:
        raise Refused(UNAUTHORIZED, f"send the header Authorization: Bearer <token>; {WHERE}")
    if not any(matches(given.credentials, token) for token in tokens):
        raise Refused(UNAUTHORIZED, f"the bearer token is not the one of this coordinator; {WHERE}")
