"""One HTTP request to the coordinator, and what its answer means.

Owns: httpx, the bearer header, the meaning of a status, and lines of a stream.
Refuses to know: which routes there are.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from regroup.client.address import Address
from regroup.client.errors import NoRegroup, NotRunning, Unreachable, from_problem
from regroup.wire.rest import ProblemView

T = TypeVar("T")

SILENCE = 45.0  # seconds; the coordinator itself waits up to 30 for a worker's records, and comments every 15

_PROBLEM = TypeAdapter(ProblemView)
_STREAMS = ("text/event-stream", "application/x-ndjson")


class Transport:
    """A connection pool to one coordinator. `timeout` is in seconds, for each answer to begin and to go on."""

    def __init__(self, address: Address, timeout: float) -> None:
        headers = {"Authorization": f"Bearer {address.token}"} if address.token else {}
        self.url = address.url
        self._timeout = timeout
        self._http = httpx.Client(
            base_url=address.url,
            headers=headers,
            timeout=timeout,
            trust_env=not address.local,  # a proxy cannot reach this machine's loopback
        )

    def close(self) -> None:
        self._http.close()

    def get(self, shape: TypeAdapter[T], path: str, params: Mapping[str, Any] | None = None) -> T:
        given = {name: value for name, value in (params or {}).items() if value is not None}
        with self._errors():
            response = self._http.get(path, params=given)
        return self._read(shape, response)

    def post(
        self,
        shape: TypeAdapter[T],
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """`body` is sent as it is, also what is no JSON (NaN): the coordinator's answer names the field.

        Raises TypeError, which names the field, for what cannot be written at all, such as a set.
        """
        if odd := _unwritable(body):
            raise TypeError(odd)
        content = None if body is None else json.dumps(body).encode()
        with self._errors():
            given = {"Content-Type": "application/json"} | dict(headers or {})
            response = self._http.post(path, content=content, headers=given)
        return self._read(shape, response)

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str]) -> Iterator[Iterator[str]]:
        """The lines of an answer, while it goes on; read them by `understood`, inside the block.

        Raises Unreachable after SILENCE without a byte, and NoRegroup for lines that cannot be understood.
        """
        timeout = httpx.Timeout(self._timeout, read=SILENCE)
        with (
            self._errors(),
            self._http.stream("GET", path, headers=headers, timeout=timeout) as response,
        ):
            if response.is_error:
                response.read()
                self._refuse(response)
            if response.headers.get("content-type", "").partition(";")[0] not in _STREAMS:
                raise self._foreign(response)
            try:
                yield _lines(response)
            except (ValidationError, UnicodeDecodeError):  # of whoever makes sense of the lines
                raise self._foreign(response) from None

    def _read(self, shape: TypeAdapter[T], response: httpx.Response) -> T:
        if response.is_error:
            self._refuse(response)
        try:
            return understood(shape, response.content)
        except ValidationError:
            raise self._foreign(response) from None

    def _foreign(self, response: httpx.Response) -> NoRegroup:
        return NoRegroup(f"{response.url} answered something that no coordinator of this version says")

    def _refuse(self, response: httpx.Response) -> None:
        try:
            problem = understood(_PROBLEM, response.content)
        except ValidationError:
            message = f"{response.url} answered {response.status_code} and not as a coordinator does"
            raise NoRegroup(message) from None
        raise from_problem(problem)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.ConnectError:
            advice = "if it is being started again, ask again; else `regroup up` starts one, and --url names another"
            raise NotRunning(f"no coordinator answers at {self.url}; {advice}") from None
        except httpx.TimeoutException:
            raise Unreachable(f"the coordinator at {self.url} did not answer in time") from None
        except httpx.TransportError as error:
            raise Unreachable(f"the connection to the coordinator at {self.url} broke: {error}") from None


def _unwritable(value: Any, path: str = "") -> str | None:
    """Which field of a body cannot be written as JSON, and what it is."""
    inner: Iterable[tuple[Any, Any]]
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list | tuple):
        inner = enumerate(value)
    elif value is None or isinstance(value, str | int | float):
        return None
    else:
        return f"{path}: a {type(value).__name__} cannot be sent; give text, numbers, lists and dicts of them"
    found = (_unwritable(each, f"{path}.{name}" if path else str(name)) for name, each in inner)
    return next(filter(None, found), None)


def understood(shape: TypeAdapter[T], content: str | bytes) -> T:
    """JSON in this shape, without the fields that a newer coordinator may have added. Raises ValidationError."""
    return shape.validate_json(content, extra="ignore")


def _lines(response: httpx.Response) -> Iterator[str]:
    """Split at line feeds alone; what Python calls a line is more than that."""
    rest = b""
    for piece in response.iter_bytes():
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.decode()
    if rest:
        yield rest.decode()
