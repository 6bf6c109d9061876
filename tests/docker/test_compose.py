"""What must hold of every container of `docker compose up`, by its file: rights, limits, ports, logs, variables."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from regroup.coordinator.metrics import of_cluster, of_coordinator
from regroup.coordinator.settings import Settings
from regroup.core.cluster import Cluster, Policy
from regroup.wire.provision import provision
from regroup.wire.variables import SECRETS_DIR
from regroup.worker.settings import LEAVE_LIMIT, AgentSettings

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
LASTING = {name: each for name, each in SERVICES.items() if name != "secrets"}  # which makes them, and ends
WATCHERS = {name: each for name, each in SERVICES.items() if each.get("profiles") == ["monitoring"]}
WORKERS = {name: each for name, each in SERVICES.items() if "profiles" in each and name not in WATCHERS}
GRAFANA = ROOT / "docker/grafana"
DASHBOARD = json.loads((GRAFANA / "dashboards/regroup.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_no_container_can_write_into_its_image_or_become_more_than_it_is(service):
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "pid", "ipc", "userns_mode"} & service.keys()
    assert service.get("network_mode", "none") == "none"
    assert not any("docker.sock" in str(volume) for volume in service["volumes"])


@pytest.mark.parametrize("service", LASTING.values(), ids=LASTING)
def test_what_ends_is_started_again_has_limits_and_fills_no_disk_with_logs(service):
    assert service["restart"] == "unless-stopped"
    assert service["init"] is True
    assert "memory" in service["deploy"]["resources"]["limits"]
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}


def test_ports_are_open_on_loopback_alone_unless_somebody_says_otherwise():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(published) == 4
    assert all(re.match(r"\$\{REGROUP_\w+:-127\.0\.0\.1\}:", port) for port in published)


def test_nobody_but_the_coordinator_reaches_redis():
    assert COMPOSE["networks"]["store"]["internal"] is True
    assert {name for name, each in SERVICES.items() if "store" in each.get("networks", [])} == {"redis", "coordinator"}


def test_who_watches_reaches_the_coordinator_and_nobody_else():
    assert WATCHERS.keys() == {"prometheus", "grafana"}
    assert all(each["networks"] == ["monitoring"] for each in WATCHERS.values())
    reached = {name for name, each in SERVICES.items() if "monitoring" in each.get("networks", [])}
    assert reached == {"coordinator", *WATCHERS}


@pytest.mark.parametrize("name", ["redis", "prometheus", "grafana"])
def test_a_volume_that_secrets_makes_is_that_users_to_whom_it_belongs(name):
    service = SERVICES[name]
    (volume,) = [each for each in service["volumes"] if isinstance(each, dict)]
    assert (volume["source"], volume["volume"]) == (name, {"nocopy": True})
    assert f"{name}:/secrets/{name}" in SERVICES["secrets"]["volumes"]
    assert f"/secrets/{name}" in (ROOT / "Dockerfile").read_text()
    assert service["user"] == "10001:10001"


def test_images_of_others_are_pinned_and_can_be_other_ones():
    for name in ("redis", "prometheus", "grafana"):
        assert re.fullmatch(rf"\$\{{{name.upper()}_IMAGE:-[a-z/]+:v?\d[\w.-]*\}}", SERVICES[name]["image"]), name


def test_prometheus_asks_the_coordinator_with_the_token_that_secrets_made(tmp_path):
    (asked,) = yaml.safe_load((ROOT / "docker/prometheus.yml").read_text())["scrape_configs"]
    assert asked["static_configs"] == [{"targets": ["coordinator:8787"]}]
    mounts = {each["target"]: each["source"] for each in SERVICES["prometheus"]["volumes"] if isinstance(each, dict)}
    folder, _, file = asked["authorization"]["credentials_file"].rpartition("/")
    provision(tmp_path)
    assert (tmp_path / mounts[folder] / file).is_file()


def test_grafana_has_a_password_of_its_own_and_finds_its_source_and_its_dashboard(tmp_path):
    grafana = SERVICES["grafana"]
    mounts = {each["target"]: each["source"] for each in grafana["volumes"] if isinstance(each, dict)}
    folder, _, file = grafana["environment"]["GF_SECURITY_ADMIN_PASSWORD__FILE"].rpartition("/")
    provision(tmp_path)
    assert (tmp_path / mounts[folder] / file).is_file()
    bound = dict(each.removesuffix(":ro").split(":") for each in grafana["volumes"] if isinstance(each, str))
    there = {target: ROOT / source for source, target in bound.items()}
    assert all(source.is_dir() for source in there.values())
    (source,) = yaml.safe_load((GRAFANA / "datasources/prometheus.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((GRAFANA / "dashboards/provider.yml").read_text())["providers"]
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (there[provider["options"]["path"]] / Path(home).name).is_file()
    assert home.startswith(provider["options"]["path"])
    asked = [each["datasource"]["uid"] for panel in PANELS for each in (panel, *panel["targets"])]
    assert {source["uid"]} == {*asked, *(each["datasource"]["uid"] for each in DASHBOARD["templating"]["list"])}


def test_the_dashboard_asks_for_metrics_that_there_are():
    families = [*of_coordinator("0", leading=True, reachable=True), *of_cluster(Cluster(started=0.0), Policy(), 0.0)]
    suffixes = {"counter": "_total", "info": "_info"}
    served = {family.name + suffixes.get(family.type, "") for family in families}
    asked = [target["expr"] for panel in PANELS for target in panel["targets"]]
    asked += [each["definition"] for each in DASHBOARD["templating"]["list"]]
    named = {name for expression in asked for name in re.findall(r"\bregroup_\w+", expression)}
    assert named - served == set()


def test_every_panel_says_what_it_shows_and_none_lies_on_another():
    assert all(panel["title"] and panel["description"] and panel["targets"] for panel in PANELS)
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def rendered(*words, **environ):
    """The file as Compose puts it together, with these variables and none of this shell's."""
    compose = ["docker", "compose"]
    if not shutil.which("docker") or subprocess.run([*compose, "version"], capture_output=True).returncode:
        pytest.skip("NOT RENDERED: there is no `docker compose` here; only the file as it is written was checked")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("REGROUP_", "COMPOSE_"))}
    command = [*compose, *words, "config", "--format", "json"]
    done = subprocess.run(command, cwd=ROOT, env=clean | environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["services"]


def test_what_is_started_by_default_is_one_worker_for_each_gpu():
    services = rendered()
    assert services.keys() == {"secrets", "redis", "coordinator", "gpu0", "gpu1"}
    for index in ("0", "1"):
        worker = services[f"gpu{index}"]
        (device,) = worker["deploy"]["resources"]["reservations"]["devices"]
        assert (device["driver"], device["device_ids"], device["capabilities"]) == ("nvidia", [index], ["gpu"])
        assert (worker["environment"]["REGROUP_WORKER"], worker["environment"]["REGROUP_DEVICE"]) == (
            f"gpu{index}",
            "cuda",
        )
        assert "TORCH_INDEX" not in worker.get("build", {}).get("args", {}), "the ordinary wheel, which has CUDA"


def test_the_cpu_profile_with_those_who_watch_is_put_together():
    services = rendered(COMPOSE_PROFILES="cpu,monitoring")
    assert services.keys() == {"secrets", "redis", "coordinator", "worker", *WATCHERS}


@pytest.mark.parametrize("profile", ["cpu", "gpu"])
def test_beside_other_machines_the_workers_are_on_this_ones_network(profile):
    files = ["--file", "docker-compose.yml", "--file", "docker/machines.yml"]
    services = rendered(*files, COMPOSE_PROFILES=profile, REGROUP_LINK_BIND="192.0.2.1")
    workers = services.keys() & WORKERS.keys()
    assert workers
    for name in workers:
        assert services[name]["network_mode"] == "host"
        assert "networks" not in services[name]
        assert services[name]["environment"]["REGROUP_COORDINATOR"] == "tcp://192.0.2.1:8788"
        assert "*" not in (services[name]["environment"]["REGROUP_WORKER"] or ""), "on each machine there is one"


def test_the_workers_of_a_machine_share_one_memory_of_which_they_can_all_read_and_write():
    options = COMPOSE["volumes"]["exchange"]["driver_opts"]
    (user,) = re.findall(r"^ARG USER_ID=(\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert (options["type"], options["device"]) == ("tmpfs", "tmpfs")
    assert f"uid={user},gid={user},mode=0700" in options["o"]
    assert {name for name, each in SERVICES.items() if "exchange:/exchange" in each["volumes"]} == WORKERS.keys()


def test_no_secret_stands_in_a_file_that_is_committed():
    for name in ("docker-compose.yml", ".env"):
        text = (ROOT / name).read_text()
        assert not re.search(r"(?i)(password|token|secret)\w*\s*[:=]\s*['\"]?[A-Za-z0-9_-]{12,}", text), name


def test_each_service_waits_until_what_it_needs_serves():
    conditions = {
        name: {other: each["condition"] for other, each in service.get("depends_on", {}).items()}
        for name, service in SERVICES.items()
    }
    assert conditions["redis"] == {"secrets": "service_completed_successfully"}
    assert conditions["prometheus"] == {"secrets": "service_completed_successfully"}
    assert conditions["grafana"] == {"prometheus": "service_healthy"}
    assert conditions["coordinator"] == {"redis": "service_healthy"}
    needed = {"coordinator": "service_healthy", "redis": "service_healthy"}
    assert all(conditions[name] == needed for name in WORKERS)


def test_workers_go_before_what_they_need_to_save_is_made_anew():
    assert all(each["restart"] for name in WORKERS for each in SERVICES[name]["depends_on"].values())


def test_every_variable_is_a_setting_that_there_is():
    for name, service in {name: each for name, each in SERVICES.items() if name != "grafana"}.items():
        known = AgentSettings.model_fields if name in WORKERS else Settings.model_fields
        variables = set(service.get("environment", {})) - {SECRETS_DIR, "PYTHONPATH"}
        assert variables <= {f"REGROUP_{field.upper()}" for field in known}, name


@pytest.mark.parametrize("worker", WORKERS.values(), ids=WORKERS)
def test_a_worker_is_given_the_time_to_hand_over(worker):
    assert float(worker["stop_grace_period"].removesuffix("s")) > LEAVE_LIMIT


def test_by_default_there_is_one_worker_for_each_gpu_and_no_other():
    profiles = (ROOT / ".env").read_text()
    assert "COMPOSE_PROFILES=gpu" in profiles.splitlines()
    gpus = [each for each in WORKERS.values() if each["profiles"] == ["gpu"]]
    devices = [each["deploy"]["resources"]["reservations"]["devices"][0] for each in gpus]
    assert [device["device_ids"] for device in devices] == [["0"], ["1"]]
    assert len({each["environment"]["REGROUP_WORKER"] for each in gpus}) == len(gpus)


def test_every_base_image_can_be_another_one():
    stages = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    named = set(re.findall(r"^FROM \S+ AS (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    assert all(stage.startswith("${") or stage in named for stage in stages)


def test_what_runs_in_an_image_is_no_root_and_is_looked_at():
    text = (ROOT / "Dockerfile").read_text()
    for target in ("coordinator", "worker"):
        stage = text.partition(f" AS {target}\n")[2].partition("\nFROM ")[0]
        assert "HEALTHCHECK" in stage
        assert "USER" not in stage, "it keeps the one of the stage that both come from"
    assert re.search(r"^USER \$\{USER_ID\}:\$\{USER_ID\}$", text, re.MULTILINE)
