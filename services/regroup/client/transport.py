"""One HTTP request to the coordinator that leads, and what its answer means.

Owns: httpx, the bearer header, who of several is asked, the meaning of a status, and lines of a stream.
Refuses to know: which routes there are.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from regroup.client.address import Address, is_loopback
from regroup.client.errors import (
    NoRegroup,
    NotLeading,
    NotRunning,
    RegroupError,
    Unavailable,
    Unreachable,
    from_problem,
)
from regroup.wire.rest import ProblemView

T = TypeVar("T")

SILENCE = 45.0  # seconds; the coordinator itself waits up to 30 for a worker's records, and comments every 15

CONNECT = 2.0  # seconds to connect to one of several coordinators: a machine that is gone says nothing
TURN = 0.2  # seconds between two rounds of asking while none leads

_PROBLEM = TypeAdapter(ProblemView)
_STREAMS = ("text/event-stream", "application/x-ndjson")


class Transport:
    """Connections to the coordinators of one cluster, of which one leads.

    `find` gives where they are; it is asked again when none of them serves. `timeout` is in seconds, for each answer
    to begin and to go on.
    """

    def __init__(self, find: Callable[[], Address], timeout: float) -> None:
        self._find, self._timeout = find, timeout
        self._open(find())

    def _open(self, address: Address) -> None:
        headers = {"Authorization": f"Bearer {address.token}"} if address.token else {}
        several = len(address.urls) > 1
        self._address = address
        self._asked = 0  # which of them is asked next: the one that answered last
        self._http = [
            httpx.Client(
                base_url=url,
                headers=headers,
                timeout=httpx.Timeout(self._timeout, connect=min(self._timeout, CONNECT)) if several else self._timeout,
                trust_env=not is_loopback(url),  # a proxy cannot reach this machine's loopback
            )
            for url in address.urls
        ]

    @property
    def url(self) -> str:
        return self._address.urls[self._asked]

    def close(self) -> None:
        for http in self._http:
            http.close()

    def get(self, shape: TypeAdapter[T], path: str, params: Mapping[str, Any] | None = None) -> T:
        given = {name: value for name, value in (params or {}).items() if value is not None}
        return self._read(shape, self._answer("GET", path, params=given))

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
        given = {"Content-Type": "application/json"} | dict(headers or {})
        return self._read(shape, self._answer("POST", path, content=content, headers=given))

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str]) -> Iterator[Iterator[str]]:
        """The lines of an answer, while it goes on; read them by `understood`, inside the block.

        Raises Unreachable after SILENCE without a byte, and NoRegroup for lines that cannot be understood.
        """
        timeout = httpx.Timeout(self._timeout, read=SILENCE)
        response = self._answer("GET", path, stream=True, headers=headers, timeout=timeout)
        with closing(response), self._errors():
            if response.headers.get("content-type", "").partition(";")[0] not in _STREAMS:
                raise self._foreign(response)
            try:
                yield _lines(response)
            except (ValidationError, UnicodeDecodeError):  # of whoever makes sense of the lines
                raise self._foreign(response) from None

    def _answer(self, method: str, path: str, **given: Any) -> httpx.Response:
        """What the one that leads says. They are asked in turn, again and again while one of them stands by.

        Whoever did nothing is left for the next. Whose answer was lost may have done what was asked: only a question
        is then put to another, and all else is for the caller to repeat.
        """
        deadline = time.monotonic() + self._timeout
        while True:
            refusals: list[Unreachable | Unavailable] = []
            for _ in self._http:
                try:
                    return self._ask(method, path, **given)
                except (Unreachable, Unavailable) as refusal:
                    refusals.append(refusal)
                    self._asked = (self._asked + 1) % len(self._http)
                    if method != "GET" and not did_nothing(refusal):
                        raise
            if self._found_elsewhere():
                continue
            another_may_follow = any(isinstance(refusal, NotLeading) for refusal in refusals)
            if not another_may_follow or time.monotonic() > deadline:
                raise self._told(refusals)
            time.sleep(TURN)

    def _ask(self, method: str, path: str, stream: bool = False, **given: Any) -> httpx.Response:
        http = self._http[self._asked]
        with self._errors():
            response = http.send(http.build_request(method, path, **given), stream=stream)
            if response.is_error:
                with closing(response):
                    response.read()
                self._refuse(response)
            return response

    def _found_elsewhere(self) -> bool:
        """Whether the coordinator is now said to be at another address; then that one is asked from now on."""
        try:
            found = self._find()
        except RegroupError:
            return False
        if found.urls == self._address.urls:
            return False
        self.close()
        self._open(found)
        return True

    def _told(self, refusals: list[Unreachable | Unavailable]) -> Unreachable | Unavailable:
        """The one that says most: that of a leader in trouble, of one that stands by, of one that may be there."""
        if len(refusals) > 1 and all(isinstance(refusal, NotRunning) for refusal in refusals):
            return NotRunning(f"no coordinator answers at any of {', '.join(self._address.urls)}")
        weight = {NotRunning: 0, Unreachable: 1, NotLeading: 2}
        return max(refusals, key=lambda refusal: weight.get(type(refusal), 3))

    def _read(self, shape: TypeAdapter[T], response: httpx.Response) -> T:
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
        except (httpx.ConnectError, httpx.ConnectTimeout):
            advice = "if it is being started again, ask again; else `regroup up` starts one, and --url names another"
            raise NotRunning(f"no coordinator answers at {self.url}; {advice}") from None
        except httpx.TimeoutException:
            raise Unreachable(f"the coordinator at {self.url} did not answer in time") from None
        except httpx.TransportError as error:
            raise Unreachable(f"the connection to the coordinator at {self.url} broke: {error}") from None


def did_nothing(refusal: Unreachable | Unavailable) -> bool:
    """Whether what was asked was surely not done, and will not be."""
    if isinstance(refusal, Unavailable):
        return refusal.problem.type != "/problems/unconfirmed"
    return isinstance(refusal, NotRunning)


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
