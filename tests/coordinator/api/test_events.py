"""The timeline over REST, listed and followed."""

import json
import time

import httpx
import pytest

from regroup.core.messages.commands import StopJob

SPEC = {"task": "digits", "steps": 10}


async def test_the_timeline_is_listed_in_pages_oldest_first(api):
    jobs = [(await api.post("/v1/jobs", json=SPEC)).json()["id"] for _ in range(3)]
    first = (await api.get("/v1/events?limit=2")).json()["events"]
    rest = (await api.get("/v1/events", params={"after": first[-1]["id"]})).json()["events"]
    assert [event["job"] for event in first + rest] == jobs
    assert first[0]["kind"] == "submitted"
    assert first[0]["reason"]
    assert first[0]["at"] > 1e9


async def test_a_job_lists_its_own_events(api):
    await api.post("/v1/jobs", json=SPEC)
    job = (await api.post("/v1/jobs", json=SPEC)).json()["id"]
    events = (await api.get(f"/v1/jobs/{job}/events")).json()["events"]
    assert {event["job"] for event in events} == {job}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("after=x", "after"),
        ("after=", "after"),
        ("after=1", "after"),
        ("after=99999999999999999999-0", "after"),
        ("follow=perhaps", "follow"),
    ],
)
async def test_a_wrong_query_is_refused_naming_the_parameter(api, query, field):
    answer = await api.get(f"/v1/events?{query}")
    assert answer.status_code == 422
    assert [each["field"] for each in answer.json()["errors"]] == [field]


async def test_a_wrong_last_event_id_is_refused_naming_the_header(api):
    answer = await api.get("/v1/events", headers={"Last-Event-ID": "x", "Accept": "text/event-stream"})
    assert answer.status_code == 422
    assert [each["field"] for each in answer.json()["errors"]] == ["last-event-id"]


class Stream:
    """A followed timeline, read one server-sent event at a time."""

    def __init__(self, served, path="/v1/events", **headers):
        self._client = httpx.Client(base_url=served.url, trust_env=False, timeout=10)
        headers = {"Authorization": f"Bearer {served.token}", "Accept": "text/event-stream"} | headers
        self.response = self._client.send(self._client.build_request("GET", path, headers=headers), stream=True)
        self._lines = self.response.iter_lines()

    def next(self):
        """The fields of the next block; None at the end of the stream."""
        block = {}
        for line in self._lines:
            if not line:
                return block
            name, _, value = line.partition(":")
            block[name] = value.strip()
        return None

    def __enter__(self):
        assert self.response.headers["content-type"].startswith("text/event-stream")
        assert self.next() == {"retry": "1000"}
        return self

    def __exit__(self, *_):
        self.response.close()
        self._client.close()


def submit(served):
    headers = {"Authorization": f"Bearer {served.token}"}
    return httpx.post(f"{served.url}/v1/jobs", json=SPEC, headers=headers, trust_env=False).json()["id"]


def test_a_followed_timeline_tells_what_was_and_what_comes(served):
    first = submit(served)
    with Stream(served) as stream:
        assert json.loads(stream.next()["data"])["job"] == first
        second = submit(served)
        while "data" not in (block := stream.next()):
            pass
        assert json.loads(block["data"])["job"] == second
        assert block["event"] == "submitted"
        assert block["id"] == json.loads(block["data"])["id"]


def test_a_timeline_can_be_followed_by_its_address_alone(served):
    job = submit(served)
    with Stream(served, "/v1/events?follow=true", Accept="*/*") as stream:
        assert json.loads(stream.next()["data"])["job"] == job


def test_a_followed_timeline_resumes_after_the_last_event(served):
    jobs = [submit(served) for _ in range(3)]
    with Stream(served) as stream:
        last = stream.next()["id"]
    with Stream(served, **{"Last-Event-ID": last}) as stream:
        assert [json.loads(stream.next()["data"])["job"] for _ in range(2)] == jobs[1:]


def test_a_silent_stream_carries_comments(served):
    with Stream(served) as stream:
        assert stream.next() == {"": "still here"}


def test_the_stream_of_a_job_ends_with_the_job(served):
    job = submit(served)
    with Stream(served, f"/v1/jobs/{job}/events") as stream:
        assert stream.next()["event"] == "submitted"
        served.do(served.desk.command(StopJob(job)))
        while "event" not in (block := stream.next()):
            pass
        assert block["event"] == "stopped"
        assert stream.next()["event"] == "end"
        assert stream.next() is None


def test_open_streams_end_cleanly_and_at_once_when_the_server_stops(served):
    with Stream(served) as one, Stream(served) as other:
        begun = time.monotonic()
        served.stop()
        for stream in (one, other):
            while (block := stream.next()) is not None:
                assert "data" not in block
        assert time.monotonic() - begun < 2
