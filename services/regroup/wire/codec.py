"""The only encoding: JSON in an envelope {"v": 1, "type": "Halted", "body": {...}}, for messages and stored values.

Owns: the envelope, its version, and the refusal of everything that is not exactly one known value.
Refuses to know: sockets, keys, Redis, and what a message means.
Evolution: a new field of a message has a default, and a field that this side does not know is ignored; only a job
spec refuses unknown fields. What an older side cannot read or would misread raises the protocol
(`core.messages.protocol`), which both sides compare when they meet; the envelope stays.
Does not guarantee: that values inside `Any` (a task's options, its result) come back as they were: a tuple comes back
as a list, and keys as strings. NaN and infinities do come back, written as the constants that Python's json writes.
"""

from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, cast, get_args

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model
from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from regroup.core.messages.events import Report
from regroup.core.messages.orders import Order

VERSION = 1

T = TypeVar("T")


class Undecodable(ValueError):
    """These bytes are not what was asked for; the message says why, in one short line."""


class Unencodable(ValueError):
    """This value holds something that JSON cannot carry, such as a tensor inside a task's result."""


def encode(message: Report | Order) -> bytes:
    """The bytes of a message. Raises Unencodable."""
    return encode_value(message)


def decode_report(data: bytes) -> Report:
    """Raises Undecodable."""
    return cast(Report, _decode(data, Report))


def decode_order(data: bytes) -> Order:
    """Raises Undecodable."""
    return cast(Order, _decode(data, Order))


def encode_value(value: object) -> bytes:
    """The bytes of any of the core's frozen dataclasses. Raises Unencodable."""
    envelope = {"v": VERSION, "type": type(value).__name__, "body": value}
    try:
        return to_json(envelope, inf_nan_mode="constants")
    except PydanticSerializationError:
        pass  # text with lone surrogates (an undecodable file name) is worth sending; anything else fails again below
    try:
        return to_json(_readable(to_jsonable_python(envelope, inf_nan_mode="constants")), inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError) as error:
        raise Unencodable(f"{type(value).__name__}: {_short(str(error))}") from error


def decode_value(cls: type[T], data: bytes) -> T:
    """A value of exactly this class. Raises Undecodable."""
    return cast(T, _decode(data, cls))


def _decode(data: bytes, kind: Any) -> object:
    try:
        return cast(Any, _envelope(kind).validate_json(data, strict=True)).body
    except ValidationError as error:
        raise Undecodable(_reason(data, kind, error)) from error


@cache
def _envelope(kind: Any) -> TypeAdapter[Any]:
    """The adapter of one class, or of a union of them told apart by `type`. Built at the first use, once."""
    envelopes: Any = reduce(or_, [_enveloped(cls) for cls in _classes(kind)])
    return TypeAdapter(Annotated[envelopes, Field(discriminator="type")])


def _enveloped(cls: type) -> type[BaseModel]:
    name = cls.__name__
    fields: dict[str, Any] = {"v": (Literal[VERSION], ...), "type": (Literal[name], ...), "body": (cls, ...)}
    return create_model(f"{name}Envelope", **fields)


def _classes(kind: Any) -> tuple[type, ...]:
    return get_args(kind) if isinstance(kind, UnionType) else (kind,)


def _reason(data: bytes, kind: Any, error: ValidationError) -> str:
    """Why these bytes were refused. Parses them a second time: refusals are rare, and their reason is for people."""
    try:
        envelope = from_json(data)
    except ValueError as broken:
        return f"not JSON: {_short(str(broken))}"
    if not isinstance(envelope, dict) or not {"v", "type", "body"} <= envelope.keys():
        return 'no envelope: an object with "v", "type" and "body" was expected'
    version, name = envelope["v"], envelope["type"]
    if version != VERSION:
        return f"version {_short(repr(version))} is not spoken here, only version {VERSION}"
    known = [cls.__name__ for cls in _classes(kind)]
    if name not in known:
        return f"unknown type {_short(repr(name))}; " + (
            f"expected {known[0]}" if len(known) == 1 else "not one of ours"
        )
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"] if part not in (name, "body"))
    return _short(f"{name}: {where + ': ' if where else ''}{first['msg']}")


def _readable(value: Any) -> Any:
    """The same JSON value without lone surrogates."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_readable(key): _readable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_readable(item) for item in value]
    return value


def _short(text: str, limit: int = 200) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."
