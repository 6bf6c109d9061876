"""Jobs over REST: submitting, reading and stopping them."""

import asyncio
import json
from dataclasses import replace

import pytest

from regroup.coordinator.persistence import Unconfirmed
from regroup.core.cluster import Cluster
from regroup.core.jobs import Checkpoint, JobPhase, StepPoint, Version

SPEC = {"task": "digits", "steps": 10}


async def test_a_submitted_job_is_answered_with_its_place_and_can_be_read_there(api, desk):
    answer = await api.post("/v1/jobs", json=SPEC | {"name": "mine", "options": {"lr": 0.01}})
    assert answer.status_code == 201
    job = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{job['id']}"
    assert job["id"].startswith("j-")
    assert len(job["id"]) == 12
    read = (await api.get(answer.headers["location"])).json()
    assert (read["phase"], read["name"], read["steps"]) == ("queued", "mine", 10)
    assert read["spec"]["options"] == {"lr": 0.01}
    assert read["submitted"] > 1e9
    assert list(desk.cluster.jobs) == [job["id"]]


async def test_jobs_are_listed_in_the_order_of_their_submission(api):
    made = [(await api.post("/v1/jobs", json=SPEC)).json()["id"] for _ in range(3)]
    assert [job["id"] for job in (await api.get("/v1/jobs")).json()["jobs"]] == made


async def test_a_whole_number_will_do_for_a_float(api):
    assert (await api.post("/v1/jobs", json=SPEC | {"step_timeout": 5})).status_code == 201


async def test_a_request_that_is_sent_again_under_its_key_is_the_same_job(api, desk):
    sent = [await api.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "k1"}) for _ in range(2)]
    assert [answer.status_code for answer in sent] == [201, 200]
    assert sent[0].json() == sent[1].json()
    assert sent[0].headers["location"] == sent[1].headers["location"]
    other = await api.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "k2"})
    assert other.status_code == 201
    assert list(desk.cluster.jobs) == [sent[0].json()["id"], other.json()["id"]]


async def test_a_key_outlives_the_coordinator_and_the_job_and_needs_no_store(api, desk):
    first = await api.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "k1"})
    await api.post(first.headers["location"] + "/stop")
    desk.cluster = Cluster(started=desk.cluster.started, jobs=(await desk.store.load()).jobs)
    desk.ready = "the store does not answer"
    again = await api.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "k1"})
    assert (again.status_code, again.json()["id"], again.json()["phase"]) == (200, first.json()["id"], "stopped")


async def test_another_job_under_a_used_key_is_refused(api, desk):
    first = await api.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "k1"})
    other = await api.post("/v1/jobs", json=SPEC | {"seed": 7}, headers={"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["type"]) == (409, "/problems/key-taken")
    assert first.json()["id"] in other.json()["detail"]
    assert next(iter(desk.cluster.jobs.values())).spec.seed == 0


async def test_a_request_that_is_sent_twice_at_once_is_one_job(api, desk, monkeypatch):
    command = desk.command

    async def slow(given):
        await asyncio.sleep(0)  # so that each finds that there is no such job yet
        await command(given)

    monkeypatch.setattr(desk, "command", slow)
    sent = [api.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "k1"}) for _ in range(5)]
    answers = await asyncio.gather(*sent)
    assert sorted(answer.status_code for answer in answers) == [200] * 4 + [201]
    assert len(await desk.store.events()) == len(desk.cluster.jobs) == 1


@pytest.mark.parametrize("key", ["", "with blank", "x" * 201, "\u00e4"])
async def test_a_key_that_is_none_is_refused_naming_the_header(api, desk, key):
    answer = await api.post("/v1/jobs", json=SPEC, headers=[(b"Idempotency-Key", key.encode())])
    assert answer.status_code == 422
    assert [each["field"] for each in answer.json()["errors"]] == ["Idempotency-Key"]
    assert not desk.cluster.jobs


async def test_a_command_that_may_have_been_taken_says_so(api, desk, monkeypatch):
    async def unconfirmed(command):
        raise Unconfirmed("it may have been taken: no answer")

    monkeypatch.setattr(desk, "command", unconfirmed)
    answer = await api.post("/v1/jobs", json=SPEC)
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/unconfirmed")
    assert answer.json()["detail"] == "it may have been taken: no answer"
    assert answer.headers["retry-after"] == "1"


BAD = {
    "a string for a number": (SPEC | {"global_batch": "8"}, "global_batch", "whole number"),
    "a float for a whole number": (SPEC | {"global_batch": 8.0}, "global_batch", "whole number"),
    "a boolean for a number": (SPEC | {"min_workers": True}, "min_workers", "whole number"),
    "a number for a string": (SPEC | {"name": 7}, "name", "string"),
    "a list for options": (SPEC | {"options": []}, "options", "object"),
    "no task": ({"steps": 10}, "task", "required"),
    "half a field's name": (SPEC | {"batch": 8}, "batch", "did you mean global_batch or micro_batch?"),
    "an unknown field": (SPEC | {"globalbatch": 8}, "globalbatch", "did you mean global_batch"),
    "two lengths": (SPEC | {"epochs": 1}, "steps", "exactly one"),
    "no length": ({"task": "digits"}, "steps", "exactly one"),
    "min above max": (SPEC | {"min_workers": 3, "max_workers": 2}, "max_workers", "min_workers"),
    "shards that do not divide": (SPEC | {"global_batch": 10, "shards": 3}, "shards", "divide"),
    "a negative seed": (SPEC | {"seed": -1}, "seed", "between"),
    "a zero batch": (SPEC | {"global_batch": 0}, "global_batch", "at least 1"),
    "a number beyond 64 bits": (SPEC | {"steps": 2**64}, "steps", "64 bits"),
    "a task that is a path": (SPEC | {"task": "../x"}, "task", "module:Class"),
}


@pytest.mark.parametrize("case", BAD)
async def test_a_wrong_spec_is_refused_naming_the_field(api, desk, case):
    body, field, words = BAD[case]
    answer = await api.post("/v1/jobs", json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == 422
    assert problem["type"] == "/problems/invalid-request"
    assert [each["field"] for each in problem["errors"]] == [field]
    assert words in problem["errors"][0]["message"]
    assert field in problem["detail"]
    assert not desk.cluster.jobs


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_a_number_that_is_not_finite_is_refused_naming_the_field(api, word):
    for body, field in (
        ('{"task": "digits", "steps": 1, "step_timeout": %s}', "step_timeout"),
        ('{"task": "digits", "steps": 1, "options": {"lr": [0, %s]}}', "options.lr.1"),
    ):
        answer = await api.post("/v1/jobs", content=body % word)
        assert answer.status_code == 422
        assert answer.json()["errors"] == [{"field": field, "message": "must be a finite number"}]


async def test_all_that_is_wrong_is_said_at_once(api):
    answer = await api.post("/v1/jobs", json={"steps": "x", "nonsense": 1})
    assert {each["field"] for each in answer.json()["errors"]} == {"task", "steps", "nonsense"}


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe\x00", b"[" * 100_000, b'{"task": ' + b"9" * 5000 + b"}", b"{'task': 'digits'}"],
    ids=["empty", "cut off", "no UTF-8", "nested beyond reading", "an endless number", "python's quotes"],
)
async def test_a_body_that_is_no_json_is_refused_naming_the_body(api, body):
    answer = await api.post("/v1/jobs", content=body)
    assert answer.status_code == 400
    assert [each["field"] for each in answer.json()["errors"]] == ["body"]


@pytest.mark.parametrize("body", [[], 7, "x", None])
async def test_json_that_is_no_object_is_refused(api, body):
    answer = await api.post("/v1/jobs", content=json.dumps(body))
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"field": "body", "message": "must be a JSON object"}]


async def test_text_that_no_store_could_keep_is_refused_naming_the_field(api):
    answer = await api.post("/v1/jobs", content=rb'{"task": "digits", "steps": 1, "name": "\ud800"}')
    assert answer.json()["errors"] == [{"field": "name", "message": "must be valid Unicode text"}]


async def test_options_nested_without_sense_are_refused(api):
    deep = '{"task": "digits", "steps": 1, "options": ' + '{"a":' * 100 + "1" + "}" * 101
    answer = await api.post("/v1/jobs", content=deep)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["message"] == "is nested too deeply"


async def test_stopping_a_job_is_accepted_and_stopping_it_again_names_its_state(api):
    job = (await api.post("/v1/jobs", json=SPEC)).json()["id"]
    stopped = await api.post(f"/v1/jobs/{job}/stop")
    assert (stopped.status_code, stopped.json()["phase"]) == (202, "stopped")
    again = await api.post(f"/v1/jobs/{job}/stop")
    assert again.status_code == 409
    assert again.json()["phase"] == "stopped"
    assert "stopped" in again.json()["detail"]


async def test_a_job_may_be_stopped_at_once(api):
    job = (await api.post("/v1/jobs", json=SPEC)).json()["id"]
    assert (await api.post(f"/v1/jobs/{job}/stop?now=maybe")).status_code == 422
    stopped = await api.post(f"/v1/jobs/{job}/stop?now=true")
    assert (stopped.status_code, stopped.json()["phase"]) == (202, "stopped")


async def test_a_job_is_paused_and_resumed(api):
    job = (await api.post("/v1/jobs", json=SPEC)).json()["id"]
    paused = await api.post(f"/v1/jobs/{job}/pause")
    assert (paused.status_code, paused.json()["phase"]) == (202, "paused")
    assert not paused.json()["ended"]
    resumed = await api.post(f"/v1/jobs/{job}/resume")
    assert (resumed.status_code, resumed.json()["phase"]) == (202, "queued")


async def test_what_cannot_be_held_is_a_conflict_that_says_what_to_do(api):
    job = (await api.post("/v1/jobs", json=SPEC)).json()["id"]
    refused = await api.post(f"/v1/jobs/{job}/pause?hold=true")
    assert refused.status_code == 409
    assert (refused.json()["type"], refused.json()["phase"]) == ("/problems/conflict", "queued")
    assert "pause it without hold" in refused.json()["detail"]
    assert (await api.post(f"/v1/jobs/{job}/pause?hold=maybe")).status_code == 422


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_a_job_that_ended_neither_pauses_nor_goes_on(api, verb):
    job = (await api.post("/v1/jobs", json=SPEC)).json()["id"]
    await api.post(f"/v1/jobs/{job}/stop")
    refused = await api.post(f"/v1/jobs/{job}/{verb}")
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/job-ended")
    assert (await api.post(f"/v1/jobs/j-nothing/{verb}")).status_code == 404


@pytest.mark.parametrize("path", ["", "/points", "/records", "/events", "/events?follow=true"])
async def test_an_unknown_job_is_not_found(api, path):
    answer = await api.get(f"/v1/jobs/j-nothing{path}")
    assert answer.status_code == 404
    assert answer.json()["type"] == "/problems/no-such-job"
    assert "j-nothing" in answer.json()["detail"]


async def test_stopping_an_unknown_job_is_not_found(api):
    assert (await api.post("/v1/jobs/j-nothing/stop")).status_code == 404


async def test_a_command_while_the_store_is_away_is_unavailable_and_reading_goes_on(api, desk):
    desk.ready = "the store does not answer"
    answer = await api.post("/v1/jobs", json=SPEC)
    assert answer.status_code == 503
    assert answer.json()["detail"] == "the store does not answer"
    assert (await api.get("/v1/jobs")).status_code == 200


async def test_the_loss_history_is_read_in_pages(api, desk):
    job = (await api.post("/v1/jobs", json=SPEC)).json()["id"]
    points = [StepPoint(step, 1.0 / (step + 1), 64.0, 64, 0.1, 0.01) for step in range(5)]
    points[3] = replace(points[3], loss=float("nan"), metrics={"accuracy": float("inf")})
    await desk.store.append_points(1, job, points)
    first = (await api.get(f"/v1/jobs/{job}/points?limit=3")).json()["points"]
    assert [point["step"] for point in first] == [0, 1, 2]
    rest = (await api.get(f"/v1/jobs/{job}/points?after=2")).json()["points"]
    assert [point["loss"] for point in rest] == [None, 0.2]
    assert rest[0]["metrics"] == {"accuracy": None}


async def test_a_job_shows_its_last_finite_loss_and_a_list_shows_none(api, desk):
    job = (await api.post("/v1/jobs", json=SPEC)).json()["id"]
    desk.cluster = replace(desk.cluster, jobs={job: replace(desk.cluster.jobs[job], step=2)})
    losses = {0: 0.5, 1: 0.25, 2: 0.125}  # what the third step measured is not committed by all
    await desk.store.append_points(1, job, [StepPoint(at, loss, 1.0, 1, 0.1, 0.01) for at, loss in losses.items()])
    assert (await api.get(f"/v1/jobs/{job}")).json()["loss"] == 0.25
    assert (await api.get("/v1/jobs")).json()["jobs"][0]["loss"] is None


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=many", "limit"),
        ("limit=100000", "limit"),
        ("after=-5", "after"),
        ("after=x", "after"),
    ],
)
async def test_a_wrong_page_of_points_is_refused_naming_the_parameter(api, query, field):
    job = (await api.post("/v1/jobs", json=SPEC)).json()["id"]
    answer = await api.get(f"/v1/jobs/{job}/points?{query}")
    assert answer.status_code == 422
    assert [each["field"] for each in answer.json()["errors"]] == [field]


async def test_the_workers_records_come_as_json_lines(api, desk):
    job = (await api.post("/v1/jobs", json=SPEC)).json()["id"]
    desk.pieces = [("a.jsonl", '{"step": 1}\n'), ("b.jsonl", "line\u2028separator")]
    answer = await api.get(f"/v1/jobs/{job}/records")
    assert answer.headers["content-type"] == "application/x-ndjson"
    pieces = [json.loads(line) for line in answer.text.splitlines()]
    assert [(piece["file"], piece["text"]) for piece in pieces] == desk.pieces


async def test_a_result_with_a_number_that_json_has_no_word_for_is_shown_with_null(api, desk):
    job = (await api.post("/v1/jobs", json=SPEC)).json()["id"]
    ended = replace(
        desk.cluster.jobs[job], phase=JobPhase.COMPLETED, result={"loss": float("nan"), "text": ["a", float("inf")]}
    )
    desk.cluster = replace(desk.cluster, jobs={job: ended})
    answer = await api.get(f"/v1/jobs/{job}")
    assert answer.status_code == 200
    assert answer.json()["result"] == {"loss": None, "text": ["a", None]}


@pytest.fixture
async def keeper(api, desk):
    """A job that keeps the checkpoint of step 4."""
    id = (await api.post("/v1/jobs", json=SPEC)).json()["id"]
    kept = Checkpoint(Version(1, 4), f"/c/{id}/s4", "sum", 1)
    desk.cluster = replace(desk.cluster, jobs={id: replace(desk.cluster.jobs[id], checkpoint=kept)})
    return id


async def test_a_job_that_begins_from_a_checkpoint_shows_where_and_is_one_under_its_key(api, desk, keeper):
    asked = SPEC | {"begin_from": {"job": keeper}}
    sent = [await api.post("/v1/jobs", json=asked, headers={"Idempotency-Key": "k1"}) for _ in range(2)]
    assert [answer.status_code for answer in sent] == [201, 200]
    job = sent[0].json()
    assert (job["step"], job["beginning"]) == (4, {"job": keeper, "step": 4, "path": f"/c/{keeper}/s4"})
    listed = (await api.get("/v1/cluster")).json()
    assert (listed["updates"], listed["samples"]) == (0, 0)


async def test_a_job_that_cannot_begin_there_is_refused_field_by_field(api, desk, keeper):
    answer = await api.post("/v1/jobs", json=SPEC | {"seed": 9, "begin_from": {"job": keeper, "step": 4}})
    assert answer.status_code == 409
    told = answer.json()
    assert (told["type"], [each["field"] for each in told["errors"]]) == ("/problems/cannot-begin", ["seed"])
    answer = await api.post("/v1/jobs", json=SPEC | {"begin_from": {"job": "j-none"}})
    assert answer.json()["errors"] == [{"field": "begin_from.job", "message": "there is no job j-none"}]
    answer = await api.post("/v1/jobs", json=SPEC | {"begin_from": f"{keeper}@4"})
    like = 'such as {"job": "j-k3v7p2mxda", "step": 200}'
    assert answer.json()["errors"] == [{"field": "begin_from", "message": f"must be a JSON object, {like}"}]
    answer = await api.post("/v1/jobs", json=SPEC | {"begin_from": {"job": keeper, "stp": 4}})
    said = "is not a field of begin_from; did you mean step?"
    assert answer.json()["errors"] == [{"field": "begin_from.stp", "message": said}]
    assert list(desk.cluster.jobs) == [keeper]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"begin_from": "j-1"}, "begin_from"),
        ({"begin_from": {}}, "begin_from.job"),
        ({"begin_from": {"job": "j-1", "step": "4"}}, "begin_from.step"),
        ({"begin_from": {"job": "j-1", "at": 4}}, "begin_from.at"),
    ],
)
async def test_a_malformed_beginning_is_named(api, given, field):
    answer = await api.post("/v1/jobs", json=SPEC | given)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
