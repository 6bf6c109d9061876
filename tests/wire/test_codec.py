"""Whatever is said arrives as it was said; whatever else arrives is refused, with a reason and nothing worse."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from hashlib import sha256
from math import inf, isnan, nan
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from regroup.core import jobs, workers
from regroup.core.jobs import Formation, Job, Member, Seat, StepPoint, Version
from regroup.core.messages.agent_reports import Heartbeat
from regroup.core.messages.events import Report
from regroup.core.messages.orders import Form, Halt, Order, Prepare
from regroup.core.messages.protocol import PROTOCOL
from regroup.core.messages.trainer_reports import GroupBroke, StateSaved
from regroup.core.messages.trainer_reports import StepsCommitted as Committed
from regroup.core.spec import JobSpec
from regroup.core.workers import Worker
from regroup.wire import codec
from regroup.wire.codec import Undecodable, Unencodable, decode_order, decode_report, decode_value, encode, encode_value

# What is said under each protocol number. Where the test of it fails, a message was changed: raise the number if a side
# that does not know of the change would do something wrong (`core.messages.protocol`). Then write down what it is now.
SAID = {1: "58d588a1bf741eec"}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


def any_mapping(kind: Any) -> st.SearchStrategy[Any]:
    item = get_args(kind)[1]
    return st.dictionaries(texts, values if item is Any else st.from_type(item), max_size=3)


st.register_type_strategy(float, st.floats(allow_nan=False))
st.register_type_strategy(str, texts)
st.register_type_strategy(Mapping, any_mapping)


def any_of(cls: type) -> st.SearchStrategy[Any]:
    """Every field is drawn, also those that have a default."""
    return st.builds(cls, **{item.name: st.from_type(item.type) for item in fields(cls)})  # type: ignore[arg-type]


for _module in (jobs, workers):
    for _cls in vars(_module).values():
        if isinstance(_cls, type) and is_dataclass(_cls):
            st.register_type_strategy(_cls, any_of(_cls))
reports = st.one_of([any_of(cls) for cls in get_args(Report)])
orders = st.one_of([any_of(cls) for cls in get_args(Order)])


@given(reports)
def test_every_report_comes_back_as_it_was(report: Report) -> None:
    assert decode_report(encode(report)) == report


@given(orders)
def test_every_order_comes_back_as_it_was(order: Order) -> None:
    assert decode_order(encode(order)) == order


@given(any_of(Job) | any_of(Worker))
def test_every_stored_value_comes_back_as_it_was(value: Job | Worker) -> None:
    assert decode_value(type(value), encode_value(value)) == value


def test_a_loss_that_is_not_finite_travels() -> None:
    losses = (nan, inf, -inf)
    points = tuple(StepPoint(step, loss, 1.0, 8, 0.1, 0.05, {"accuracy": loss}) for step, loss in enumerate(losses))
    report = decode_report(encode(Committed(job="j", incarnation="i", generation=1, step=3, points=points)))
    assert isinstance(report, Committed)
    assert isnan(report.points[0].loss or 0.0)
    assert isnan(report.points[0].metrics["accuracy"])
    assert [point.loss for point in report.points[1:]] == [inf, -inf]


def test_nested_values_come_back_as_the_same_classes() -> None:
    seats = (Seat(Member("a", "1"), Version(2, 7)), Seat(Member("b", "2"), None))
    form = Form("j", Formation(3, seats, 0, Version(2, 7), (0, 1, 0, 1), "127.0.0.1:1/x"), 100)
    order = decode_order(encode(form))
    assert order == form
    assert isinstance(order, Form)
    assert isinstance(order.formation.seats, tuple)
    assert isinstance(order.formation.base, Version)


@given(st.binary(max_size=200))
def test_random_bytes_are_undecodable(data: bytes) -> None:
    for decode in (decode_report, decode_order):
        with pytest.raises(Undecodable):
            decode(data)


@given(reports, st.data())
@settings(max_examples=200)
def test_a_truncated_message_is_undecodable(report: Report, data: st.DataObject) -> None:
    whole = encode(report)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(Undecodable):
        decode_report(whole[:cut])


@given(reports, st.data())
@settings(max_examples=300)
def test_a_mutated_message_is_decoded_or_undecodable_and_nothing_else(report: Report, data: st.DataObject) -> None:
    mutated = bytearray(encode(report))
    for _ in range(data.draw(st.integers(1, 8))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    try:
        report = decode_report(bytes(mutated))
    except Undecodable as refused:
        assert 0 < len(str(refused)) < 400  # noqa: PT017
    assert type(report) in get_args(Report)


@given(values)
def test_any_json_value_without_an_envelope_is_undecodable(value: Any) -> None:
    with pytest.raises(Undecodable):
        decode_report(json.dumps(value).encode())


def test_a_deeply_nested_or_huge_value_is_undecodable() -> None:
    for body in (b"[" * 100_000, b'{"v":1,"type":"Halt","body":' + b"[" * 100_000, b'{"v":' + b"9" * 10_000 + b"}"):
        with pytest.raises(Undecodable):
            decode_order(body)


def test_another_version_is_refused_and_both_versions_are_named() -> None:
    newer = encode(Halt("j", 1)).replace(b'"v":1', b'"v":2')
    with pytest.raises(Undecodable, match="version 2 is not spoken here, only version 1"):
        decode_order(newer)


def test_an_unknown_type_is_named_but_not_at_length() -> None:
    with pytest.raises(Undecodable, match="unknown type 'Explode'"):
        decode_order(b'{"v":1,"type":"Explode","body":{}}')
    with pytest.raises(Undecodable) as caught:
        decode_order(json.dumps({"v": 1, "type": "x" * 100_000, "body": {}}).encode())
    assert len(str(caught.value)) < 300


def test_an_order_is_no_report() -> None:
    with pytest.raises(Undecodable, match="unknown type 'Halt'"):
        decode_report(encode(Halt("j", 1)))


def test_a_wrong_field_is_named() -> None:
    with pytest.raises(Undecodable, match="Halt: generation: Input should be a valid integer"):
        decode_order(b'{"v":1,"type":"Halt","body":{"job":"j","generation":"7"}}')


def test_a_field_from_the_future_is_ignored_and_a_missing_one_takes_its_default() -> None:
    order = decode_order(b'{"v":1,"type":"Halt","body":{"job":"j","generation":7,"mood":"calm"},"extra":1}')
    assert order == Halt("j", 7, boundary=False)


def test_a_job_spec_refuses_a_field_that_it_does_not_know() -> None:
    sent = encode(Prepare("j", JobSpec(task="digits", steps=1))).replace(b'"task":', b'"colour":"red","task":')
    with pytest.raises(Undecodable, match=r"Prepare: spec\.colour"):
        decode_order(sent)


def test_text_with_lone_surrogates_is_sent_readable() -> None:
    report = decode_report(encode(GroupBroke(job="j", incarnation="i", generation=1, reason="file \udcff.txt")))
    assert isinstance(report, GroupBroke)
    assert report.reason == "file ?.txt"


def test_a_value_that_json_cannot_carry_is_unencodable() -> None:
    @dataclass(frozen=True)
    class Tensor:
        data: object

    with pytest.raises(Unencodable, match="Heartbeat"):
        encode(Heartbeat(boot="b", sequence=object()))  # type: ignore[arg-type]
    with pytest.raises(Unencodable, match="Tensor"):
        encode_value(Tensor(data=object()))


def test_adapters_are_built_once() -> None:
    decode_order(encode(Halt("j", 1)))
    before = codec._envelope.cache_info().misses
    decode_order(encode(Halt("j", 2)))
    assert codec._envelope.cache_info().misses == before


def test_every_message_is_a_frozen_dataclass_with_a_name_of_its_own() -> None:
    classes = [*get_args(Report), *get_args(Order)]
    assert all(is_dataclass(cls) and cls.__dataclass_params__.frozen for cls in classes)  # type: ignore[attr-defined]
    assert len({cls.__name__ for cls in classes}) == len(classes)
    assert StateSaved in classes


def shape_of(kind: Any) -> Any:
    """What a message looks like, without what is said about it for people."""

    def bare(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: bare(value) for key, value in part.items() if key not in ("description", "title")}
        return [bare(each) for each in part] if isinstance(part, list) else part

    return bare(TypeAdapter(kind).json_schema())


def test_no_message_changes_under_a_protocol_number_without_a_thought() -> None:
    shapes = json.dumps([shape_of(Report), shape_of(Order)], sort_keys=True)
    assert {PROTOCOL: sha256(shapes.encode()).hexdigest()[:16]} == {PROTOCOL: SAID.get(PROTOCOL)}
