"""What every route shares: the token, health, errors, limits, the reference."""

import asyncio
import re
import socket
import time
from dataclasses import fields

import httpx
import pytest

from regroup.coordinator.api import create_app
from regroup.coordinator.persistence import Standby
from regroup.coordinator.serving import CannotListen, listen
from regroup.core.spec import JobSpec
from regroup.core.workers import Telemetry
from regroup.wire.rest import SPEC_WORDS


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer ", "Basic c2VjcmV0", "secret"])
@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/jobs"), ("POST", "/v1/jobs"), ("GET", "/v1/jobs/none/events")]
)
async def test_without_the_token_nothing_below_v1_is_told(api, method, path, header):
    api.headers.pop("Authorization")
    answer = await api.request(method, path, headers={"Authorization": header} if header else {}, content=b"nonsense")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/", "/health", "/ready", "/openapi.json", "/docs"])
async def test_what_tells_no_secret_needs_no_token(api, path):
    api.headers.pop("Authorization")
    assert (await api.get(path)).status_code == 200


async def test_the_documentation_loads_nothing_from_another_host(api):
    page = (await api.get("/docs")).text
    loaded = re.findall(r"""(?:src|href)=["']([^"']+)""", page)
    assert loaded
    for path in loaded:
        assert path.startswith("/")
        assert (await api.get(path)).status_code == 200


async def test_readiness_says_why_not(api, desk):
    desk.ready = "another coordinator leads"
    answer = await api.get("/ready")
    assert answer.status_code == 503
    assert answer.json()["detail"] == "another coordinator leads"
    assert answer.headers["retry-after"] == "1"
    assert (await api.get("/health")).status_code == 200


@pytest.mark.parametrize(
    ("path", "field", "there"),
    [
        ("/v1/events?limt=5", "limt", "there are after, limit, follow"),
        ("/v1/jobs?phase=running", "phase", "there is none"),
        ("/v1/workers?x=1", "x", "there is none"),
    ],
)
async def test_a_parameter_that_a_route_does_not_have_is_refused_by_its_name(api, path, field, there):
    answer = await api.get(path)
    assert answer.status_code == 422
    message = f"is no parameter of this route; {there}"
    assert answer.json()["errors"] == [{"field": field, "message": message}]


async def test_an_unknown_path_and_an_unknown_method_are_problems_too(api):
    for answer, status in ((await api.get("/v1/nothing"), 404), (await api.delete("/v1/jobs"), 405)):
        assert answer.status_code == answer.json()["status"] == status
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("path", "methods"),
    [("/v1/jobs", "GET, POST"), ("/v1/jobs/j-1", "GET"), ("/v1/jobs/j-1/stop", "POST"), ("/", "GET")],
)
async def test_a_wrong_method_is_answered_with_all_that_the_path_knows(api, path, methods):
    assert (await api.delete(path)).headers["allow"] == methods


@pytest.mark.parametrize("path", ["/", "/health", "/v1/jobs", "/v1/cluster", "/v1/events", "/v1/jobs/none"])
async def test_an_answer_ends_its_line_so_that_a_shells_prompt_begins_a_new_one(api, path):
    body = (await api.get(path)).text
    assert body.endswith("}\n")
    assert body.count("\n") == 1


async def test_every_problem_type_can_be_looked_up(api):
    kind = (await api.get("/v1/jobs/none")).json()["type"]
    assert (await api.get(kind)).json()["title"] == "There is no job with this id"
    assert (await api.get("/problems/none")).status_code == 404


async def test_a_fault_of_ours_shows_no_traceback(api, desk):
    desk.cluster = None
    answer = await api.get("/v1/jobs")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "NoneType" not in answer.text
    assert "Traceback" not in answer.text


def test_a_body_over_the_limit_is_refused_by_the_real_server(served):
    headers = {"Authorization": f"Bearer {served.token}"}
    for content in (b" " * (2**20 + 1), (b" " * 2**18 for _ in range(8))):
        answer = httpx.post(f"{served.url}/v1/jobs", content=content, headers=headers, trust_env=False)
        assert answer.status_code == 413
        assert answer.json()["type"] == "/problems/body-too-large"


async def test_workers_are_listed_inspected_and_cleared(api, desk):
    await desk.register("w1")
    await desk.register("w2")
    listed = (await api.get("/v1/workers")).json()["workers"]
    assert [worker["name"] for worker in listed] == ["w1", "w2"]
    worker = (await api.get("/v1/workers/w1")).json()
    assert worker["healthy"] is True
    assert worker["doing"] == "idle"
    assert worker["telemetry"] == {"memory_used": None, "memory_total": None, "utilization": None}
    assert Telemetry() == desk.cluster.sightings["w1"].telemetry
    assert (await api.post("/v1/workers/w1/clear")).json()["reason"] == "cleared by its operator"
    for answer in (await api.get("/v1/workers/none"), await api.post("/v1/workers/none/clear")):
        assert answer.status_code == 404
        assert answer.json()["type"] == "/problems/no-such-worker"


async def test_a_worker_is_drained_and_admitted_again(api, desk):
    await desk.register("w1")
    drained = (await api.post("/v1/workers/w1/drain")).json()
    assert (drained["drained"], drained["leaving"], drained["reason"]) == (True, False, "drained by its operator")
    assert (await api.get("/v1/cluster")).json()["idle"] == 0
    assert (await api.post("/v1/workers/w1/admit")).json()["drained"] is False
    assert (await api.get("/v1/cluster")).json()["idle"] == 1
    for verb in ("drain", "admit"):
        answer = await api.post(f"/v1/workers/none/{verb}")
        assert (answer.status_code, answer.json()["type"]) == (404, "/problems/no-such-worker")


async def test_the_cluster_is_summed_up(api, desk):
    await desk.register("w1")
    await api.post("/v1/jobs", json={"task": "digits", "steps": 5})
    summary = (await api.get("/v1/cluster")).json()
    assert (summary["workers"], summary["healthy"], summary["failed"]) == (1, 1, 0)
    assert summary["jobs"]["preparing"] == 1
    assert summary["trouble"] is None


async def test_the_cluster_says_who_leads_and_who_stands_by(desk):
    async def standbys():
        return [Standby("host b, pid 2, 00, keys k", "http://b:8787")]

    await desk.store.acquire("host a, pid 1, 00, keys k", 3600.0)
    transport = httpx.ASGITransport(create_app(desk, "secret", standbys=standbys))
    headers = {"Authorization": "Bearer secret"}
    async with httpx.AsyncClient(transport=transport, base_url="http://regroup", headers=headers) as api:
        told = (await api.get("/v1/cluster")).json()
        assert told["leader"] == "host a, pid 1, 00, keys k"
        assert told["standbys"] == [{"holder": "host b, pid 2, 00, keys k", "url": "http://b:8787"}]
        desk.ready = "the store is away"
        told = (await api.get("/v1/cluster")).json()
        assert (told["leader"], told["standbys"], told["trouble"]) == (None, [], "the store is away")


async def test_the_reference_describes_every_field_of_a_job(api):
    described = (await api.get("/openapi.json")).json()
    body = described["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["properties"]) == {field.name for field in fields(JobSpec)} == set(SPEC_WORDS)
    assert all("description" in part for part in body["properties"].values())
    assert [one["required"] for one in body["oneOf"]] == [["steps"], ["epochs"]]
    for path, methods in described["paths"].items():
        for operation in methods.values():
            assert operation["summary"]
            assert operation["tags"]
            assert ("401" in operation["responses"]) == (path.startswith("/v1/") or path == "/metrics")


def test_a_port_in_use_is_told_in_one_line():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen) as error:
            listen("127.0.0.1", port)
    advice = "set REGROUP_PORT (`regroup up --port`) to another port, 0: any free one; or set REGROUP_HOST"
    assert str(error.value) == f"cannot listen on 127.0.0.1 port {port}: Address already in use; {advice}"
    with pytest.raises(CannotListen, match=r"no such host\.invalid port 0: [A-Za-z ]+; set REGROUP_HOST"):
        listen("no such host.invalid", 0)


def test_the_server_stops_while_a_client_keeps_its_connection(served):
    with httpx.Client(base_url=served.url, trust_env=False) as client:
        assert client.get("/health").status_code == 200
        begun = time.monotonic()
        served.stop()
        assert time.monotonic() - begun < 2
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", int(served.url.rsplit(":", 1)[1])), timeout=1):
        pass


async def test_several_requests_at_once_each_get_their_own_job(api, desk):
    answers = await asyncio.gather(*(api.post("/v1/jobs", json={"task": "digits", "steps": 1}) for _ in range(10)))
    assert len({answer.json()["id"] for answer in answers}) == len(desk.cluster.jobs) == 10
