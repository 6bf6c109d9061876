"""`docker compose up`, for real: trained on by curl, and what a user's machine does to containers.

Each test ends with the audit: every sample of the committed steps was trained exactly once.
"""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from regroup.wire.join import join_token, read_join_token
from regroup.wire.keys import worker_keys

from .conftest import ROOT, Composed, run

pytestmark = [pytest.mark.cluster, pytest.mark.docker, pytest.mark.timeout(900)]


def pid_of(container: str) -> int:
    """Of the container's first process, on this machine."""
    return int(run("docker", "inspect", "--format", "{{.State.Pid}}", container))


def curls(cluster: Composed, page: str) -> list[str]:
    """The calls that a page shows, to this cluster's port."""
    shown = re.findall(r"^curl .*$", (ROOT / page).read_text(), re.MULTILINE)
    return [call.replace("http://127.0.0.1:8787", cluster.client.url) for call in shown]


def called(cluster: Composed, call: str) -> str:
    """What it says. For its token, the README's own words ask the container."""
    (asks,) = re.findall(r"^auth=.*docker compose exec.*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    script = f"set -euo pipefail\n{asks.replace('compose', f'compose --project-name {cluster.project}')}\n{call}"
    return run("bash", "-c", script)


def test_the_readmes_three_calls_of_curl_train_a_model_that_survives_a_kill(cluster: Composed) -> None:
    submit, jobs, events = curls(cluster, "README.md")
    job = json.loads(called(cluster, submit))["id"]
    cluster.trains(job)
    os.kill(pid_of(cluster.containers("worker")[0]), signal.SIGKILL)
    assert job in [one["id"] for one in json.loads(called(cluster, jobs))["jobs"]]
    ended = cluster.client.wait(job, timeout=600)
    assert (ended.phase, ended.step) == ("completed", 3000)
    assert f'"job":"{job}"' in called(cluster, f"timeout 10 {events} || [ $? = 124 ]").replace(" ", "")
    assert "each exactly once" in cluster.compose("exec", "-T", "coordinator", "regroup", "audit", job)


def test_dockers_page_shows_the_readmes_first_call(cluster: Composed) -> None:
    assert curls(cluster, "docs/docker.md") == curls(cluster, "README.md")[:1]


def test_a_worker_whose_container_dies_is_missed_at_once_and_comes_back(cluster: Composed) -> None:
    job = cluster.submitted()
    os.kill(pid_of(cluster.containers("worker")[0]), signal.SIGKILL)
    cluster.until(lambda: len(cluster.client.job(job).members) == 1, "the other one goes on")
    cluster.trains(job, members=2)
    cluster.stopped(job)


def test_a_container_that_is_paused_is_given_up_and_taken_in_again(cluster: Composed) -> None:
    job = cluster.client.submit(task="digits", steps=1_000_000, max_workers=2, global_batch=64, step_timeout=10.0).id
    cluster.trains(job)
    container = cluster.containers("worker")[0]
    run("docker", "pause", container)
    try:
        cluster.trains(job, members=1)
    finally:
        run("docker", "unpause", container)
    cluster.trains(job, members=2)
    cluster.stopped(job)


def test_a_worker_that_is_cut_off_the_network_is_left_out_until_it_is_back(cluster: Composed) -> None:
    job = cluster.client.submit(task="digits", steps=1_000_000, max_workers=2, global_batch=64, step_timeout=10.0).id
    cluster.trains(job)
    container, network = cluster.containers("worker")[0], f"{cluster.project}_cluster"
    run("docker", "network", "disconnect", network, container)
    try:
        cluster.trains(job, members=1)
    finally:
        run("docker", "network", "connect", network, container)
    cluster.trains(job, members=2)
    cluster.stopped(job)


@pytest.mark.parametrize("services", [["coordinator"], ["redis"], ["coordinator", "redis"]], ids="-".join)
def test_without_a_control_plane_the_training_goes_on(cluster: Composed, services: list[str]) -> None:
    job = cluster.submitted()
    generation = cluster.client.job(job).generation
    cluster.compose("restart", "--no-deps", *services)
    cluster.until(cluster.serves, "REST answers again, and the store, too")
    assert cluster.trains(job).generation == generation, "nobody regrouped for that"
    cluster.stopped(job)


def test_workers_are_restarted_one_by_one_and_no_step_is_lost(cluster: Composed) -> None:
    job = cluster.submitted()
    for container in cluster.containers("worker"):
        before = cluster.client.job(job).step
        run("docker", "restart", "--time", "40", container)
        assert cluster.client.job(job).step >= before
        cluster.trains(job, members=2)
    kinds = {event.kind for event in cluster.client.events(job)}
    assert not kinds & {"exited", "evicted", "rolled_back"}
    assert cluster.stopped(job).restarts == 0


def test_what_stops_in_good_order_ends_in_seconds_and_its_job_goes_on_at_the_next_start(cluster: Composed) -> None:
    job = cluster.submitted()
    cluster.compose("stop", "worker")
    codes = run("docker", "inspect", "--format", "{{.State.ExitCode}}", *cluster.containers("worker")).split()
    assert codes == ["0", "0"]
    saved = cluster.client.job(job)
    assert saved.checkpoint is not None
    assert saved.step == saved.checkpoint.version.step
    cluster.compose("up", "--detach", "--wait")
    cluster.stopped(job)


def test_who_has_no_join_token_is_not_let_in(cluster: Composed) -> None:
    words = ["docker", "run", "--rm", "--network", f"{cluster.project}_cluster", "--env"]
    words += ["REGROUP_COORDINATOR=tcp://coordinator:8788", "regroup-worker:cpu"]
    stranger = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert stranger.returncode == 1
    assert stranger.stderr.count("\n") == 1
    assert "or set REGROUP_JOIN to its join token" in stranger.stderr
    assert len(cluster.client.workers()) == 2


@pytest.mark.parametrize(
    ("service", "settings", "says"),
    [
        ("coordinator", {"REDIS_PASSWORD": "wrong"}, "no use of Redis at redis:6379 (.*): set REGROUP_REDIS_PASSWORD"),
        ("coordinator", {"REDIS_URL": "redis://nowhere:6379", "STORE_LIMIT": "0"}, "no use of Redis at nowhere:6379"),
        ("coordinator", {"DATA_DIR": "/etc/here"}, "cannot make the data directory /etc/here .*Read-only file system"),
        ("coordinator", {"LEADER_LEASE": "long"}, "REGROUP_LEADER_LEASE: "),
        ("coordinator", {}, "another coordinator leads this cluster .*; with --standby it waits"),
        ("worker", {"DEVICE": "cuda"}, "REGROUP_DEVICE: must be cpu: training on cuda is not there yet; besides, "),
        ("worker", {"JOIN": "regroup"}, "REGROUP_JOIN: is no join token"),
        ("worker", {"DATA_HOST": "203.0.113.1"}, "203.0.113.1 is no address of this machine"),
        ("worker", {"DATA_DIR": "/etc/here"}, "cannot make the data directory /etc/here .*Read-only file system"),
    ],
    ids=lambda part: "-".join(part) if isinstance(part, dict) else None,
)
def test_what_cannot_start_says_so_in_one_line(
    cluster: Composed, service: str, settings: dict[str, str], says: str
) -> None:
    given = [word for name, value in settings.items() for word in ("--env", f"REGROUP_{name}={value}")]
    words = ["docker", "compose", "--project-name", cluster.project, "run", "--rm", "--no-deps", "-T", *given, service]
    done = subprocess.run(words, cwd=ROOT, env=os.environ | {"COMPOSE_PROFILES": "cpu"}, capture_output=True, text=True)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("regroup-")]
    assert len(lines) == 1
    assert re.match(f"regroup-{'agent' if service == 'worker' else service}: {says}", lines[0])


def test_the_workers_of_this_machine_share_memory(cluster: Composed) -> None:
    one, other = cluster.containers("worker")
    run("docker", "exec", one, "sh", "-c", "echo given > /exchange/here")
    assert run("docker", "exec", other, "cat", "/exchange/here") == "given"
    assert run("docker", "exec", other, "stat", "--file-system", "--format", "%T", "/exchange") == "tmpfs"
    run("docker", "exec", other, "rm", "/exchange/here")


@pytest.mark.parametrize("service", ["coordinator", "worker"])
def test_nothing_can_be_built_or_installed_in_a_container(cluster: Composed, service: str) -> None:
    container = cluster.containers(service)[0]
    for tool in ("pip", "gcc", "make"):
        assert run("docker", "exec", container, "sh", "-c", f"command -v {tool} || echo none") == "none"
    for python in ("python3", "/usr/bin/python3", "/usr/local/bin/python3"):
        words = f"! command -v {python} > /dev/null || ! {python} -m pip --version 2> /dev/null"
        run("docker", "exec", container, "sh", "-c", words)
    assert run("docker", "exec", container, "id", "-u") == "10001"
    run("docker", "exec", container, "sh", "-c", "! touch /opt/regroup/new 2> /dev/null")


def test_a_second_machine_joins_with_the_pages_command_and_the_join_token(cluster: Composed, tmp_path: Path) -> None:
    """It is this machine once more: a container on its network, to which the link is an address like any other."""
    (shown,) = re.findall(r"^docker run .*?(?<!\\)$", (ROOT / "docs/docker.md").read_text(), re.MULTILINE | re.DOTALL)
    link = cluster.compose("port", "coordinator", "8788")
    call = shown.replace("192.0.2.1:8788", link).replace("--detach", "--detach --env REGROUP_WORKER=elsewhere")
    token = cluster.compose("exec", "-T", "coordinator", "regroup", "join-token")
    container = run("bash", "-c", call, REGROUP_JOIN=token)
    try:
        cluster.until(lambda: "elsewhere" in {each.name for each in cluster.client.workers() if each.healthy}, "joins")
        run("docker", "stop", container)
        assert run("docker", "inspect", "--format", "{{.State.ExitCode}}", container) == "0"
        cluster.until(lambda: cluster.client.cluster().idle == 2, "it has left")
    finally:
        run("docker", "rm", "--force", "--volumes", container)
    stranger = join_token(read_join_token(token).server, worker_keys(tmp_path).secret)
    wrong = subprocess.run(
        ["bash", "-c", call.replace("--detach", "--rm").replace("--restart unless-stopped", "")],
        env=os.environ | {"REGROUP_JOIN": stranger},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert wrong.returncode == 1
    assert "turned away by the coordinator: its key is not that of this cluster's workers" in wrong.stderr
    run("docker", "volume", "rm", "regroup-worker")
    assert "elsewhere" not in {each.name for each in cluster.client.workers() if each.healthy}


@pytest.mark.parametrize(
    "anew",
    [
        ["up", "--detach", "--wait", "--force-recreate", "--timeout", "40"],
        ["up", "--detach", "--wait", "--force-recreate", "--no-deps", "--timeout", "40", "coordinator"],
        ["restart", "coordinator", "redis"],
    ],
    ids=["all", "the coordinator", "restarted"],
)
def test_workers_save_before_a_control_plane_that_is_made_anew_goes_and_go_on_by_their_names(
    cluster: Composed, anew: list[str]
) -> None:
    job = cluster.submitted()
    names, before = {worker.name for worker in cluster.client.workers()}, cluster.client.job(job).step
    cluster.compose(*anew)
    cluster.until(cluster.serves, "it serves again")
    cluster.trains(job)
    assert not [event for event in cluster.client.events(job) if event.kind == "rolled_back"]
    assert cluster.stopped(job).step >= before
    assert {worker.name for worker in cluster.client.workers()} == names
    assert names >= {"worker-0", "worker-1"}


def test_down_saves_what_is_under_way_and_up_goes_on_with_it(cluster: Composed) -> None:
    job = cluster.submitted()
    cluster.compose("down", "--timeout", "40")
    assert cluster.containers("coordinator") == []
    cluster.compose("up", "--detach", "--wait")
    cluster.until(cluster.serves, "it serves again")
    went_on = cluster.client.job(job)
    assert went_on.restarts == 0
    assert went_on.step > 0, "from the state that was saved, not from the seed"
    cluster.stopped(job)
