"""GET /metrics of the application: who may read it, and that Prometheus understands what it reads."""

import httpx
import pytest
from prometheus_client import REGISTRY
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from regroup.coordinator.standing_by import create_standby_app
from regroup.wire.token import metrics_token

TEXT = "text/plain;version=0.0.4"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
NAME = 'a "name" \\ of\ntwo lines, ünï'


def figures(text):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
async def standby():
    transport = httpx.ASGITransport(create_standby_app("secret", lambda: "host a", lambda: False))
    headers = {"Authorization": "Bearer secret"}
    async with httpx.AsyncClient(transport=transport, base_url="http://regroup", headers=headers) as client:
        yield client


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer ", "Basic c2VjcmV0", "secret"])
async def test_without_a_token_no_figure_is_told(api, standby, header):
    for client in (api, standby):
        client.headers.pop("Authorization")
        answer = await client.get("/metrics", headers={"Authorization": header} if header else {})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert "regroup_" not in answer.text


async def test_the_token_for_metrics_reads_them_and_opens_nothing_else(api, standby):
    for client in (api, standby):
        client.headers["Authorization"] = f"Bearer {metrics_token('secret')}"
        assert (await client.get("/metrics")).status_code == 200
        for method, path in (("GET", "/v1/jobs"), ("POST", "/v1/jobs"), ("GET", "/v1/cluster")):
            assert (await client.request(method, path)).status_code == 401


async def test_the_figures_are_those_of_the_other_routes(api, desk):
    await desk.register("w1")
    job = (await api.post("/v1/jobs", json={"task": "digits", "steps": 5, "name": NAME, "max_workers": 3})).json()
    answer = await api.get("/metrics", headers={"Accept": TEXT})
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4; charset=utf-8")
    told = figures(answer.text)
    cluster = (await api.get("/v1/cluster")).json()
    assert told["regroup_leading",] == told["regroup_store_reachable",] == 1
    assert told["regroup_build_info", cluster["version"]] == 1
    assert told["regroup_job_info", job["id"], NAME, "digits"] == 1
    assert {phase: told["regroup_jobs", phase] for phase in cluster["jobs"]} == cluster["jobs"]
    assert told["regroup_workers", "lent"] == 1
    assert told["regroup_workers_wanted",] == 3
    assert told["process_resident_memory_bytes",] > 1e6


async def test_each_answer_is_of_its_own_moment(api, desk):
    job = (await api.post("/v1/jobs", json={"task": "digits", "steps": 5})).json()["id"]
    before = figures((await api.get("/metrics")).text)
    await api.post(f"/v1/jobs/{job}/stop")
    desk.ready = "the store is away"
    after = figures((await api.get("/metrics")).text)
    assert (before["regroup_workers_wanted",], after["regroup_workers_wanted",]) == (1, 0)
    assert ("regroup_job_step", job) in before.keys() - after.keys()
    assert (before["regroup_store_reachable",], after["regroup_store_reachable",]) == (1, 0)


async def test_who_asks_for_openmetrics_gets_it(api, standby):
    await api.post("/v1/jobs", json={"task": "digits", "steps": 5, "name": NAME})
    for client in (api, standby):
        answer = await client.get("/metrics", headers={"Accept": f"{OPENMETRICS},{TEXT};q=0.5"})
        assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        families = {family.name for family in openmetrics_parser.text_string_to_metric_families(answer.text)}
        assert {"regroup_build", "regroup_leading"} <= families


async def test_a_standby_tells_of_itself_alone(standby):
    told = figures((await standby.get("/metrics")).text)
    ours = {name: figure for name, figure in told.items() if name[0].startswith("regroup_") and len(name) == 1}
    assert ours == {("regroup_leading",): 0, ("regroup_store_reachable",): 0}
    assert ("regroup_workers_wanted",) not in told, "an autoscaler must not take it for no wish"


async def test_a_parameter_is_refused_and_nothing_is_kept_in_the_registry_of_the_process(api):
    assert (await api.get("/metrics?name=x")).status_code == 422
    await api.get("/metrics")
    assert not [family.name for family in REGISTRY.collect() if family.name.startswith("regroup")]
